#!/usr/bin/env python3
"""Weighs the instructions that a GPU would execute: sass.py TOOLS PTX COUNTS.

TOOLS holds NVIDIA's ptxas and nvdisasm, PTX is a build of the program, and COUNTS a file
that TestPhotographs left: the entry, the number of samples, and how often warps executed
each line of the PTX. Every instruction of the GPU counts as often as the line that ptxas
made it of. scripts/sass runs this.
"""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

tools, ptx, counts = map(pathlib.Path, sys.argv[1:4])
architecture = "sm_90"
multiprocessors, gigahertz, warp = 132, 1.7, 32  # of an H100 or H200
# What the units are that have an instruction's opcode; all others compute with integers.
units = {
    "product": "IMAD FFMA FMUL FADD HFMA2 HADD2 HMUL2".split(),
    "memory": "LDG STG LDS STS LDC LD ST ULDC SHFL ATOMG LDL STL REDG ATOM".split(),
    "control": "BRA BSSY BSYNC WARPSYNC NOP EXIT BREAK CALL RET BAR YIELD R2UR S2R S2UR CS2R".split(),
    "conversion": "POPC FLO I2F F2I I2FP MUFU".split(),
}
unit_of = {op: unit for unit, ops in units.items() for op in ops}

head, *rest = counts.read_text().splitlines()
entry, samples = head.split()[0], int(head.split()[1])
executed = {int(line): int(n) for line, n in (row.split() for row in rest)}


def numbered(text):
    """The program with a .loc before each instruction, so that lines can be told."""
    out, inside = [], False
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if bare.startswith((".loc ", ".loc\t", ".file")):
            continue
        inside = inside or line.startswith("{")
        if inside and re.match(r"(@!?%p\d+\s+)?[a-z][a-z0-9_.:]*[\s;].*;|[a-z.]+;", bare):
            out.append(f".loc 1 {number} 0")
        out.append(line)
        inside = inside and not line.startswith("}")
    return "\n".join(out).replace(".address_size 64\n", '.address_size 64\n.file 1 "l3.ptx"\n', 1) + "\n"


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command[0]}: {done.stderr[:3000]}")
    return done


def instructions(listing):
    """Yields the line and the text of each instruction of the entry, labels among them."""
    inside, line = False, 0
    for row in listing.splitlines():
        if m := re.match(r"\s*\.section\s+\.text\.(\w+)", row):
            inside, line = m[1] == entry, 0
        elif not inside:
            continue
        elif m := re.match(r'\s*//## File "[^"]*", line (\d+)', row):
            line = int(m[1])
        elif m := re.match(r"\s*(\.L_x_\d+):", row):
            yield 0, m[1] + ":"
        elif m := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+ )?(.*?);", row):
            yield line, m[1]


with tempfile.TemporaryDirectory() as work:
    source, binary = pathlib.Path(work, "l3.ptx"), pathlib.Path(work, "l3.cubin")
    source.write_text(numbered(ptx.read_text()))
    told = run(tools / "ptxas", f"-arch={architecture}", "-lineinfo", "-v", source, "-o", binary).stderr
    listing = list(instructions(run(tools / "nvdisasm", "-g", "-c", binary).stdout))
if not listing:
    sys.exit(f"{ptx}: there is no entry {entry}")

# A warp whose threads went apart takes another way to the same end; these did not.
apart = {m[1] for _, text in listing if "BRA.DIV" in text and (m := re.search(r"(\.L_x_\d+)", text))}
total, taken = collections.Counter(), True
for line, text in listing:
    if text.endswith(":"):
        taken = taken and text[:-1] not in apart
    elif taken:
        op = text.split()[0].split(".")[0]
        unit = "uniform" if op[0] == "U" and op not in unit_of else unit_of.get(op, "integer")
        total[unit] += warp * executed.get(line, 0) / samples
    elif text.startswith("BRA "):
        taken = True

everything = sum(total.values())
print(f"{ptx.name} {counts.name} {entry}: {everything:.1f} instructions a sample, "
      + ", ".join(f"{unit} {n:.1f}" for unit, n in total.most_common()))
print(f"  at most {multiprocessors * 128 * gigahertz / everything:.0f} GB/s by issue, "
      f"{multiprocessors * 64 * gigahertz / total['integer']:.0f} GB/s by integer units")
for block in told.split("Compiling entry function")[1:]:
    if f"'{entry}'" in block.splitlines()[0]:
        print("  " + " ".join(re.sub(r"ptxas info\s*:|ptxas \.", "", row).strip() for row in block.splitlines()[1:] if "Used" in row or "spill" in row))
