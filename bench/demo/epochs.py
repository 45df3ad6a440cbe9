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
COLUMNS = "{:<22} {:>6} {:>9} {:>9} {:>9} | {:>12} {:>12}"

# Views whose arrays a training takes as they are, and what torchvision does to plain files
# for the same.
READY = {
    "rrc224-hflip-npy": ("the same augmentation", [("RandomResizedCrop", {"size": 224}), ("RandomHorizontalFlip", {})]),
    "resize256-crop224-npy": ("the same Resize and CenterCrop", [("Resize", {"size": 256}), ("CenterCrop", {"size": 224})]),
}


def main():
    loader, dataset, mnt, pid, *views = sys.argv[1:]
    usual = {PLAIN: dataset, **{view: os.path.join(mnt, view) for view in views}}
    jobs = {name: lambda _, directory=directory: {"dir": directory} for name, directory in usual.items()}
    for view, (_, transforms) in READY.items():
        jobs[beside(view)], jobs[view] = ready(dataset, mnt, view, transforms)
    rows = {name: [] for name in jobs}
    with subprocess.Popen([sys.executable, loader, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as torch:
        print(f"   ({answer(torch)['name']})", flush=True)
        for turn in range(1 + LATER):
            for name, job in jobs.items():
                before = cpu_seconds(pid)
                torch.stdin.write(json.dumps({**job(turn), "seed": turn}) + "\n")
                torch.stdin.flush()
                rows[name].append({**answer(torch), "daemon_s": cpu_seconds(pid) - before})
        torch.stdin.close()
    table({name: rows[name] for name in usual}, lambda epochs: epochs[0]["daemon_s"])
    print(f"(later: the median of {LATER} epochs. The daemon's CPU is that of the first epoch, with what it prepares in the background)")
    print()
    print("== " + conclusion({name: rows[name] for name in usual}))
    print()
    print("== for three changed lines: arrays that the training takes as they are, beside plain files with the same transforms, all uint8")
    table({name: epochs for name, epochs in rows.items() if name not in usual}, lambda epochs: median([e["daemon_s"] for e in epochs[1:]]))
    print("(rrc224-hflip-npy is drawn anew in each epoch, and read file by file. The daemon's CPU is that of later epochs)")
    print()
    for view, (same, _) in READY.items():
        print(f"== {view}: {compared(rows[view], rows[beside(view)])} plain files with {same}")


def beside(view):
    """The name of the row of plain files beside a view."""
    return "(plain, " + ("train)" if "rrc" in view else "val)")


def ready(dataset, mnt, view, transforms):
    """The jobs of plain files and of a view for the same arrays. A random view has another
    directory in each epoch."""
    files = sorted(os.path.relpath(os.path.join(where, name), dataset)
                   for where, _, names in os.walk(dataset) for name in names if name.endswith((".jpg", ".png")))
    work = {"transforms": [{"name": name, "args": args} for name, args in transforms]}
    epoch = os.path.join(mnt, ".draw", "0", "{}", view) if "rrc" in view else os.path.join(mnt, view)
    return (lambda _: {"dir": dataset, "files": files, "work": work},
            lambda turn: {"dir": epoch.format(turn), "files": files, "work": {"transforms": []}})


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


def table(rows, daemon):
    print(COLUMNS.format("", "", "", "first", "later", "loader", "daemon"))
    print(COLUMNS.format("view", "files", "MB/epoch", "images/s", "images/s", "CPU-ms/image", "CPU-ms/image"))
    for name, epochs in rows.items():
        first, later = epochs[0], epochs[1:]
        cpu = median([e["cpu_seconds"] / e["samples"] for e in later])
        print(COLUMNS.format(
            name, first["files"], f"{first['bytes'] / 1e6:.1f}", f"{rate(first):.0f}", f"{median(rates(later)):.0f}",
            f"{1000 * cpu:.1f}", f"{1000 * daemon(epochs) / first['samples']:.1f}"))


def conclusion(rows):
    """One sentence that the numbers bear: a view is faster if its slowest epoch beats the
    fastest of the plain files."""
    plain = rates(rows[PLAIN][1:])
    best = max((name for name in rows if name != PLAIN), key=lambda name: median(rates(rows[name][1:])))
    got = rates(rows[best][1:])
    if min(got) > max(plain):
        factor = median(got) / median(plain)
        begun = rate(rows[best][0]) / rate(rows[PLAIN][0])
        return (f"{best}/ was the fastest: {factor:.2f} times as many images a second as the plain files from the second epoch on, "
                f"after a first epoch at {begun:.2f} of their rate.")
    return (f"No view was clearly faster than the plain files here: they gave {span(plain)} images a second from the second epoch on, "
            f"and the best view, {best}/, {span(got)}.")


def compared(view, plain):
    """How a view compares with plain files, from the second epoch on, as far as the numbers
    bear it."""
    got, base = rates(view[1:]), rates(plain[1:])
    if min(got) > max(base) or max(got) < min(base):
        return f"{median(got) / median(base):.2f} times as many images a second from the second epoch on as"
    return f"{span(got)} images a second from the second epoch on, not clearly different from {span(base)} of"


def rate(row):
    return row["samples"] / row["seconds"]


def rates(rows):
    return [rate(row) for row in rows]


def span(values):
    return f"{min(values):.0f} to {max(values):.0f}"


def median(values):
    return sorted(values)[len(values) // 2]


main()
