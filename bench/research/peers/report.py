"""The table of what was measured, from results.json alone."""
import math
import random
import statistics

HEADER = ["loader", "resized by", "first epoch, images/s", "× control (95 %)", "CPU ms/image",
          "later epoch, images/s", "× control (95 %)", "CPU ms/image", "start, s", "prepared in, s", "MB on disk"]


def bootstrap(values, draws=2000):
    """The median with its interval: 95 of 100 medians of samples drawn from values."""
    if not values:
        return math.nan, math.nan, math.nan
    drawn = random.Random(len(values))
    medians = sorted(statistics.median(drawn.choices(values, k=len(values))) for _ in range(draws))
    return statistics.median(values), medians[draws // 40], medians[draws - 1 - draws // 40]


def ratios(row, control, epoch, kind):
    """By how much a row is quicker than its control in the same rounds."""
    other = {p["round"]: rate(p[epoch]) for p in control["passes"][kind]}
    return [rate(p[epoch]) / other[p["round"]] for p in row["passes"][kind] if p["round"] in other]


def rate(epoch):
    return epoch["images"] / epoch["seconds"]


def table(results, kind, notes):
    """Rows of cells for one kind of batches, the header first. New notes are added to notes."""
    rows = [HEADER]
    measured = results["rows"]
    for id, row in measured.items():
        passes = row["passes"][kind]
        if not passes:
            continue
        marks = []
        for note in ([] if row["same"] else ["other pixels than the dataset's are cropped"]) + ([row["note"]] if row["note"] else []):
            if note not in notes:
                notes.append(note)
            marks.append(str(notes.index(note) + 1))
        cells = [row["name"] + (f" [{','.join(marks)}]" if marks else ""), row["resize"]]
        for epoch in ("first", "later"):
            cells.append(f"{statistics.median(rate(p[epoch]) for p in passes):,.0f}")
            control = measured.get(row["control"])
            cells.append("1" if row["control"] == id else interval(ratios(row, control, epoch, kind)) if control else "–")
            loader, daemon = ([1000 * p[epoch][k] / p[epoch]["images"] for p in passes] for k in ("cpu", "daemon_cpu"))
            cells.append(f"{statistics.median(map(sum, zip(loader, daemon))):.2f}"
                         + (f" ({statistics.median(daemon):.2f})" if row["mounted"] else ""))
        cells.append(f'{statistics.median(p["first"]["start"] for p in passes):.1f}')
        prepared = row.get("prepare")
        cells.append(f'{prepared["seconds"]:.1f}' if prepared else "–")
        cells.append(f'{(prepared["bytes"] if prepared else results["dataset"]["disk_bytes"]) / 1e6:,.1f}')
        rows.append(cells)
    return rows


def interval(values):
    if not values:
        return "–"
    middle, low, high = bootstrap(values)
    if len(values) == 1:
        return f"{middle:.2f}"
    return f"{middle:.2f} ({low:.2f} – {high:.2f})"


def render(results, form):
    """All that a person is told; form is text or markdown."""
    data, machine, options = results["dataset"], results["machine"], results["options"]
    lines = [
        f'{data["images"]:,} pictures ({data["jpeg"]:,} JPEG, {data["png"]:,} PNG), {data["bytes"] / 1e6:,.1f} MB, '
        f'{data["classes"]:,} classes; {options["workers"]} workers, batches of {options["batch"]}, '
        f'{results["rounds_done"]} of {options["rounds"]} rounds.',
        f'{machine["cpu"]}, {machine["cores"]} cores, {machine["memory_gb"]:.0f} GB, Linux {machine["kernel"]}, '
        f'{machine["filesystem"]}; Python {machine["python"]}; pipefs {results["commit"]}.',
        f'The first epoch is read from {results["cold"]}, the later one is epoch {options["epochs"]}.'
        + (f' Limits: {", ".join(options["limits"])}.' if options["limits"] else ""),
        'Rates and CPU time are of an epoch after its first batch; the start is the time to the first batch of the first epoch. '
        'CPU is that of the loader, its workers and, in parentheses what is its share, the file system\'s daemon: as many ms for an '
        'image as there are cores needed for 1,000 images/s.']
    notes = []
    for kind in options["kinds"]:
        lines += ["", f"Batches of {kind}:", "", *drawn(table(results, kind, notes), form)]
    lines.append("")
    item = "- " if form == "markdown" else ""
    lines += [f"{item}[{i}] {note}" for i, note in enumerate(notes, 1)]
    told = {}
    for row in results["rows"].values():
        for name, version in row.get("versions", {}).items():
            told.setdefault(name, set()).add(version)
    lines += ["", "Versions: " + ", ".join(f"{name} {' and '.join(sorted(v))}" for name, v in sorted(told.items(), key=lambda t: t[0].lower()))]
    sizes = [f'{name} {i["bytes"] / 1e6:,.0f} MB' for name, i in sorted(results["installed"].items()) if i]
    if sizes:
        lines.append("Installed: " + ", ".join(sizes))
    for name, reason in results["not_installed"].items():
        lines.append(f"{item}Not installed: {name}: {reason}")
    for name, row in results["rows"].items():
        if row.get("error"):
            lines.append(f'{item}Failed: {row["name"]}: {row["error"]}')
    return "\n".join(lines)


def drawn(rows, form):
    if form == "markdown":
        return ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0]), *("| " + " | ".join(row) + " |" for row in rows[1:])]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join([*(c.ljust(w) for c, w in zip(row[:2], widths)), *(c.rjust(w) for c, w in zip(row[2:], widths[2:]))]) for row in rows]
