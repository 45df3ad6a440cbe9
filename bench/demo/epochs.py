#!/usr/bin/env python3
"""Read epochs of a dataset and of views of it with PyTorch, in turns, and say which was fastest.

    epochs.py LOADER DATASET MNT PID VIEW…

LOADER is bench/loader/imagefolder.py, which stays one process: to import PyTorch takes longer
than many an epoch. PID is the daemon's process, whose use of the processor is counted.
"""
import json
import os
import subprocess
import sys

LATER = 3  # epochs after the first; bench/demo/run tells how many there are
PLAIN = "(plain files)"
COLUMNS = "{:<15} {:>6} {:>9} {:>9} {:>9} | {:>12} {:>12}"


def main():
    loader, dataset, mnt, pid, *views = sys.argv[1:]
    directories = {PLAIN: dataset, **{view: os.path.join(mnt, view) for view in views}}
    first, later, daemon = {}, {name: [] for name in directories}, {}
    with subprocess.Popen([sys.executable, loader, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as torch:
        print(f"   ({answer(torch)['name']})", flush=True)
        for turn in range(1 + LATER):
            for name, directory in directories.items():
                before = cpu_seconds(pid)
                torch.stdin.write(json.dumps({"dir": directory, "seed": turn}) + "\n")
                torch.stdin.flush()
                row = answer(torch)
                if turn == 0:
                    first[name], daemon[name] = row, cpu_seconds(pid) - before
                else:
                    later[name].append(row)
        torch.stdin.close()
    table(first, later, daemon)
    print()
    print("== " + conclusion(first, later))


def answer(process):
    line = process.stdout.readline()
    row = json.loads(line) if line else {"error": "the loader ended"}
    if "error" in row:
        sys.exit("PyTorch: " + row["error"])
    return row


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def table(first, later, daemon):
    print(COLUMNS.format("", "", "", "first", "later", "loader", "daemon"))
    print(COLUMNS.format("view", "files", "MB/epoch", "images/s", "images/s", "CPU-ms/image", "CPU-ms/image"))
    for name, row in first.items():
        cpu = median([e["cpu_s"] / e["samples"] for e in later[name]])
        print(COLUMNS.format(
            name, row["files"], f"{row['bytes'] / 1e6:.1f}", f"{rate(row):.0f}", f"{median(rates(later[name])):.0f}",
            f"{1000 * cpu:.1f}", f"{1000 * daemon[name] / row['samples']:.1f}"))
    print(f"(later: the median of {LATER} epochs. The daemon's CPU is that of the first epoch, with what it prepares in the background)")


def conclusion(first, later):
    """One sentence that the numbers bear: a view is faster if its slowest epoch beats the
    fastest of the plain files."""
    plain = rates(later[PLAIN])
    best = max((name for name in later if name != PLAIN), key=lambda name: median(rates(later[name])))
    got = rates(later[best])
    if min(got) > max(plain):
        factor = median(got) / median(plain)
        begun = rate(first[best]) / rate(first[PLAIN])
        return (f"{best}/ was the fastest: {factor:.2f} times as many images a second as the plain files from the second epoch on, "
                f"after a first epoch at {begun:.2f} of their rate.")
    return (f"No view was clearly faster than the plain files here: they gave {span(plain)} images a second from the second epoch on, "
            f"and the best view, {best}/, {span(got)}.")


def rate(row):
    return row["samples"] / row["seconds"]


def rates(rows):
    return [rate(row) for row in rows]


def span(values):
    return f"{min(values):.0f} to {max(values):.0f}"


def median(values):
    return sorted(values)[len(values) // 2]


main()
