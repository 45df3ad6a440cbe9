"""docs/generated/loaders.md: its tables are what check.py found, its code is that of use_NAME.py."""
import ast
import dataclasses
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "../../../../docs/generated/loaders.md")

# Views with the pixels of the dataset, and others.
SAME = ("original", "scan10", "baseline", "bmp", "bmp-own", "ppm", "ppm-own", "png", "png-own", "npy", "l3", "mix")
OTHER = ("scan5", "half-bmp", "resize256-bmp", "resize256-bmp-own", "resize256-jpeg90", "resize256-jpeg90-own")
# Kinds of files, and what the notes call them. Photographs have to fare as usual files do.
KINDS = {
    "usual": "", "grey": "grey PNG", "palette": "palette PNG", "alpha": "PNG with alpha", "16bit": "16-bit PNG",
    "cmyk": "CMYK JPEG", "misnamed": "PNG named `.jpg`", "trailing": "JPEG with bytes after its end",
    "oriented": "JPEG with an EXIF orientation", "photographs": "",
}
NEAR = 32  # of 255: what two decoders may make of one file


@dataclasses.dataclass
class Outcome:
    """What a row made of one kind of files: samples that it found, of how many; what it found
    besides; wrong labels; its error; and the largest difference of pixels from plain files, and
    from the nearer of plain files and decoded ones."""
    found: int
    of: int
    odd: int
    wrong: int
    error: str
    plain: float
    best: float

    def cell(self):
        if self.error:
            return "✗"
        if self.odd or self.found < self.of:
            return f"**{self.found - self.odd} of {self.of}**"
        if self.wrong:
            return f"**labels: {self.of - self.wrong} of {self.of}**"
        if self.plain == 0:
            return "="
        if self.best == 0 and self.plain <= NEAR:
            return "P"
        return f"±{max(1, round(self.best))}" if self.best <= NEAR else "**≠**"

    def fine(self):
        return not self.cell().startswith(("✗", "**"))

    def readable(self):
        return self.found > 0 and not self.error

    def words(self):
        if self.error:
            return "an error: `" + reason(self.error) + "`"
        if self.found < self.of or self.wrong:
            return ("samples" if self.found < self.of else "labels") + " are lost, without any error"
        return "other pixels, without any error"


def reason(error):
    """The line of an error that says what is wrong."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    for mark in ("Unknown image", "Unsupported", "No images found", "Found no", "Found 0", "cannot identify", "No valid images", "is uint16", "Error on"):
        for line in lines:
            if mark in line:
                return re.sub(r"^.*?(?=" + mark + ")", "", line).split(" in ")[0].rstrip(".")[:90]
    return lines[0][:90]


class Table:
    def __init__(self):
        self.outcomes, self.versions = {}, {}

    def add(self, row, view, kind, outcome):
        self.outcomes[row, view, kind] = outcome

    def rows(self):
        return list(dict.fromkeys(row for row, _, _ in self.outcomes))

    def cell(self, row, view):
        """What usual files come to, and a star if another kind fares worse."""
        if (row, view, "usual") not in self.outcomes:
            return ""
        usual = self.outcomes[row, view, "usual"].cell()
        return usual + (" \\*" if self.worse(row, view) else "")

    def worse(self, row, view):
        """Kinds of files that fare worse than usual ones: name and outcome. Where usual files
        cannot be read, there is nothing more to say."""
        usual = self.outcomes[row, view, "usual"]
        if not usual.readable():
            return []
        kinds = [(KINDS[k], o) for (r, v, k), o in self.outcomes.items() if (r, v) == (row, view) and KINDS[k]]
        return [(name, o) for name, o in kinds if not o.fine() and o.cell() != usual.cell()]

    def lines(self, views):
        """A table in Markdown."""
        yield "| loader | " + " | ".join(f"`{v}`" for v in views) + " |"
        yield "|---|" + "---|" * len(views)
        for row in self.rows():
            cells = [self.cell(row, v) for v in views]
            if any(cells):
                yield f"| {row} | " + " | ".join(cells) + " |"

    def notes(self):
        """What the stars mean."""
        views, rows = {}, {}
        for row, view, kind in self.outcomes:
            for name, outcome in self.worse(row, view) if kind == "usual" else ():
                views.setdefault((row, name, outcome.words()), []).append(f"`{view}`")
        for (row, name, words), where in views.items():
            rows.setdefault((name, words, " ".join(where)), []).append(row)
        for (name, words, where), who in rows.items():
            yield f"- {name}: {words}, in {where}. {'; '.join(who)}"

    def photographs(self):
        """Photographs that fare otherwise than usual files of the same view."""
        for (row, view, kind), o in self.outcomes.items():
            usual = self.outcomes[row, view, "usual"].cell()
            lost = usual.startswith("**")  # samples that share a stem: photographs do not
            if kind == "photographs" and o.cell() not in ("=", "P", usual) and not (usual[0] == o.cell()[0] == "±") and not lost:
                yield f"{row}, {view}: {o.cell()} for photographs, {usual} for other files; {o}"

    def text(self):
        versions = ", ".join(f"{k} {v}" for k, v in self.versions.items())
        return {
            "same": "\n".join(self.lines(SAME)), "other": "\n".join(self.lines(OTHER)),
            "notes": "\n".join(self.notes()), "versions": f"Versions: {versions}.",
        }


def code_of(name):
    """The lines of a row, FILE:FUNCTION, as the page shows them: without the docstring."""
    file, function = name.split(":")
    with open(os.path.join(HERE, f"use_{file}.py"), encoding="utf-8") as f:
        source = f.read()
    node = next(n for n in ast.parse(source).body if getattr(n, "name", "") == function)
    lines = source.splitlines()[node.lineno - 1:node.end_lineno]
    del lines[1]
    return "```python\n" + "\n".join(lines) + "\n```"


def filled(page, sections):
    """The page with its sections, <!-- NAME --> … <!-- /NAME -->, and code filled in."""
    def fill(match):
        name = match[1]
        text = code_of(name) if ":" in name else sections.get(name)
        return match[0] if text is None else f"<!-- {name} -->\n{text}\n<!-- /{name} -->"

    return re.sub(r"<!-- ([\w:]+) -->\n.*?<!-- /\1 -->", fill, page, flags=re.S)


def finish(table, update, exact, whole):
    """Compares with the page, or writes it; the exit code. Where versions are not those of the
    page (not exact), a loader may find equal pixels where the page says nearly."""
    problems = list(table.photographs())
    with open(PAGE, encoding="utf-8") as f:
        page = f.read()
    want = filled(page, table.text() if whole else {})
    if update and whole:
        with open(PAGE, "w", encoding="utf-8") as f:
            f.write(want)
    elif want != page:
        problems.append("docs/generated/loaders.md is not what was found" if whole else "the code in docs/generated/loaders.md is not that of use_*.py")
    cells = cells_of(want if update else page)
    for row in table.rows():
        for view in SAME + OTHER:
            cell, before = table.cell(row, view), cells.get((row, view), "")
            if cell != before and (exact or not (cell == "=" and before.startswith("±"))):
                problems.append(f"{row}, {view}: {cell or 'nothing'}, where docs/generated/loaders.md has {before or 'nothing'}")
                problems += [f"  {k}: {o}" for (r, v, k), o in table.outcomes.items() if (r, v) == (row, view) and o.cell() != "="]
    print("\n".join([*table.lines(SAME), "", *table.lines(OTHER), "", *table.notes(), "", *problems]))
    print(f"{len(table.outcomes)} directories were read, {len(problems)} problems")
    return 1 if problems or not table.outcomes else 0


def cells_of(page):
    """The cells of the page's tables, by row and view."""
    cells, views = {}, []
    for line in page.splitlines():
        fields = [f.strip() for f in line.strip().strip("|").split(" | ")] if line.startswith("| ") else []
        if fields[:1] == ["loader"]:
            views = [f.strip("`") for f in fields[1:]]
        elif len(fields) == len(views) + 1:
            cells.update({(fields[0], view): cell for view, cell in zip(views, fields[1:])})
    return cells
