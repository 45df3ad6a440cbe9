#!/usr/bin/env python3
"""Compare L3 with other lossless codecs: sizes, and CPU time on one core.

Every way (a codec with its settings) encodes and decodes the same pictures. A round
is, for each way in a random order, a pass of Pillow decoding the PNG files and a pass
of the way. What the ways use is the CPU time of their process, all threads included.
L3 is measured by the program that --ours names, see doc.go, and all others here.

Pixels are decoded to memory that is there already, where a library allows that. A way
that gives back other pixels than went in ends the comparison.
"""
import argparse
import gc
import hashlib
import io
import json
import math
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time

import imagecodecs
import numpy as np
from PIL import Image, features

try:
    import pywuffs
    import pywuffs.aux
except ImportError:
    pywuffs = None
try:
    import fpng_py
except ImportError:
    fpng_py = None

BASE = "PNG, Pillow"  # what others are compared with
SLOW = 3.0  # seconds: passes of encoding that take longer are measured once
LONG = 0.05  # seconds that passes are repeated for


class Set:
    """Pictures: as PNG files, as arrays, and room for the largest of them."""

    def __init__(self, name, paths, work, optipng_cache):
        self.name, self.paths, self.skipped = name, [], 0
        self.files, self.arrays, self.ppms = [], [], []
        for path in paths:
            file = read(path)
            image = Image.open(io.BytesIO(file))
            if file[24:26] != b"\x08\x02" or "transparency" in image.info:  # IHDR: 8 bits, RGB
                self.skipped += 1
                continue
            array = np.array(image)
            ppm = os.path.join(work, f"{name}-{len(self.ppms)}.ppm")
            with open(ppm, "wb") as f:
                f.write(b"P6\n%d %d\n255\n" % (array.shape[1], array.shape[0]) + array.tobytes())
            self.paths.append(path)
            self.files.append(file)
            self.arrays.append(array)
            self.ppms.append(ppm)
        if not self.paths:
            sys.exit(f"bench-l3: {name}: no PNG files of 8-bit RGB")
        self.raw = sum(a.nbytes for a in self.arrays)
        self.room = {a.shape: np.empty_like(a) for a in self.arrays}
        self.optimised = self.optipng(optipng_cache)

    def optipng(self, cache):
        """The files that optipng makes, kept from one comparison to the next; None without it."""
        if not have("optipng"):
            return None
        os.makedirs(cache, exist_ok=True)
        files = []
        for path, file in zip(self.paths, self.files):
            made = os.path.join(cache, hashlib.sha256(file).hexdigest()[:32] + ".png")
            if not os.path.exists(made):
                partial = made + f".{os.getpid()}"
                subprocess.run(["optipng", "-quiet", "-o4", "-out", partial, path], check=True)
                os.rename(partial, made)
            files.append(read(made))
        return files


class Way:
    """One way of one set. encode(array) gives a file, decode(file, room) pixels."""

    def __init__(self, name, pictures, decode, encode=None, files=None):
        self.name, self.pictures, self.decode, self.encode = name, pictures, decode, encode
        self.encodes = encode is not None
        self.files = files
        if files is None:
            self.encoding(1)
        self.bytes = sum(len(f) for f in self.files)
        for file, array in zip(self.files, pictures.arrays):
            got = decode(file, self.room(array))
            if isinstance(got, Image.Image):
                got = np.asarray(got)
            elif isinstance(got, (bytes, bytearray)):
                got = np.frombuffer(got, np.uint8).reshape(array.shape)
            if not np.array_equal(got, array):
                sys.exit(f"bench-l3: {name}: other pixels came back ({pictures.name})")

    def room(self, array):
        room = self.pictures.room[array.shape]
        room[...] = 0
        return room

    def decoding(self, passes):
        rooms = [self.pictures.room[a.shape] for a in self.pictures.arrays]
        gc.collect()
        before = time.process_time()
        for _ in range(passes):
            for file, room in zip(self.files, rooms):
                self.decode(file, room)
        return time.process_time() - before

    def encoding(self, passes):
        gc.collect()
        before = time.process_time()
        for _ in range(passes):
            self.files = [self.encode(a) for a in self.pictures.arrays]
        return time.process_time() - before


class Ours:
    """A way of the program that measures L3."""

    def __init__(self, program, name, bytes, encodes):
        self.program, self.name, self.bytes, self.encodes = program, name, bytes, encodes

    def decoding(self, passes):
        return self.program.ask(do="decode", way=self.name, passes=passes)["seconds"]

    def encoding(self, passes):
        return self.program.ask(do="encode", way=self.name, passes=passes)["seconds"]


class Program:
    def __init__(self, path):
        self.process = subprocess.Popen([path, "measure"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit("bench-l3: the program that measures L3 has ended")
        return json.loads(line)

    def ways(self, pictures):
        found = self.ask(do="load", ppm=pictures.ppms, png=pictures.paths)["ways"]
        return [Ours(self, **way) for way in found]


def their_ways(pictures):
    """The ways of other codecs, with the one that all are compared with first."""

    def pillow(file, _):
        image = Image.open(io.BytesIO(file))
        image.load()
        # what optipng has made grey or given a palette
        return image if image.mode == "RGB" else image.convert("RGB")

    def pillow_png(array):
        to = io.BytesIO()
        Image.fromarray(array).save(to, "PNG")
        return to.getvalue()

    def libspng(file, room):
        return imagecodecs.spng_decode(file, out=room)

    def wuffs(file, _):
        result = decoder.decode(file)
        if result.error_message:
            sys.exit(f"bench-l3: Wuffs: {result.error_message}")
        return result.pixbuf[..., ::-1]  # a view

    readers = {"Pillow": pillow, "libspng": libspng}
    if pywuffs:
        config = pywuffs.aux.ImageDecoderConfig()
        config.pixel_format = pywuffs.PixelFormat.BGR
        config.enabled_decoders = [pywuffs.ImageDecoderType.PNG]
        decoder = pywuffs.aux.ImageDecoder(config)
        readers["Wuffs"] = wuffs

    ways = []
    for reader, decode in readers.items():
        ways.append(Way(f"PNG, {reader}", pictures, decode, pillow_png if reader == "Pillow" else None, pictures.files))
    if pictures.optimised:
        for reader, decode in readers.items():
            try:
                ways.append(Way(f"PNG by optipng -o4, {reader}", pictures, decode, files=pictures.optimised))
            except (imagecodecs.SpngError, ValueError):
                pass  # what optipng has made grey, libspng gives as grey
    if fpng_py:
        ways.append(Way("PNG by fpng, fpng", pictures, lambda f, _: fpng_py.fpng_decode_from_memory(f, 3)[0],
                        lambda a: fpng_py.fpng_encode_image_to_memory(a.tobytes(), a.shape[1], a.shape[0], 3, 0)))
    c = imagecodecs
    return ways + [
        Way("QOI", pictures, lambda f, room: c.qoi_decode(f, out=room), c.qoi_encode),
        Way("WebP lossless", pictures, lambda f, room: c.webp_decode(f, out=room),
            lambda a: c.webp_encode(a, lossless=True, numthreads=1)),
        Way("JPEG XL lossless, effort 1", pictures, lambda f, room: c.jpegxl_decode(f, numthreads=1, out=room),
            lambda a: c.jpegxl_encode(a, lossless=True, effort=1, numthreads=1)),
        Way("JPEG 2000 lossless", pictures, lambda f, _: c.jpeg2k_decode(f, numthreads=1),
            lambda a: c.jpeg2k_encode(a, level=0, reversible=True, numthreads=1)),
        Way("LZ4", pictures, lambda f, room: c.lz4_decode(f, out=memoryview(room).cast("B")) and room,
            lambda a: c.lz4_encode(a.tobytes())),
        *(Way(f"zstd -{level}", pictures, lambda f, room: c.zstd_decode(f, out=memoryview(room).cast("B")) and room,
              lambda a, level=level: c.zstd_encode(a.tobytes(), level)) for level in (1, 3)),
        Way("raw pixels, copied", pictures, lambda f, room: copy(f, room), lambda a: a.tobytes()),
    ]


def copy(file, room):
    memoryview(room).cast("B")[:] = file
    return room


def compare(pictures, program, rounds, seed):
    """A row for each way."""
    ways = their_ways(pictures) + program.ways(pictures)
    base = next(w for w in ways if w.name == BASE)
    order = random.Random(seed)
    passes = {w: repeats(w.decoding(1)) for w in ways}
    took, speed = {w: [] for w in ways}, {w: [] for w in ways}
    for _ in range(rounds):
        for w in order.sample(ways, len(ways)):
            control = base.decoding(passes[base]) / passes[base]
            took[w].append(w.decoding(passes[w]) / passes[w])
            speed[w].append(control / took[w][-1])
    encoding = {w: [w.encoding(1)] for w in ways if w.encodes}
    fast = {w: repeats(t[0]) for w, t in encoding.items() if t[0] <= SLOW}
    for _ in range(rounds if fast else 0):
        for w in order.sample(list(fast), len(fast)):
            encoding[w].append(w.encoding(fast[w]) / fast[w])
    smaller = min(sum(map(len, files)) for files in (pictures.files, pictures.optimised or pictures.files))
    return [{
        "set": pictures.name, "way": w.name, "bytes": w.bytes,
        "raw": w.bytes / pictures.raw, "png": w.bytes / smaller,
        "decode_seconds": took[w], "decode": pictures.raw / statistics.median(took[w]),
        "speed": statistics.median(speed[w]), "speeds": speed[w],
        # the first pass warms up, unless it is the only one
        "encode": pictures.raw / statistics.median(encoding[w][1:] or encoding[w]) if w in encoding else None,
    } for w in ways]


def repeats(seconds):
    return max(1, min(1000, round(LONG / seconds)))


HEADER = ["codec", "size / raw", "size / smaller PNG", "decode, GB/s", "× Pillow's PNG", "encode, MB/s"]


def cells(row):
    spread = f'{digits(min(row["speeds"]))} – {digits(max(row["speeds"]))}'
    return [row["way"], ratio(row["raw"]), ratio(row["png"]), digits(row["decode"] / 1e9),
            f'{digits(row["speed"])} ({spread})', "–" if row["encode"] is None else digits(row["encode"] / 1e6)]


def digits(value):
    """Three digits that count, and all of those before the point."""
    return f"{value:,.{max(0, min(3, 2 - math.floor(math.log10(value))))}f}"


def ratio(value):
    """Three digits after the point, or two that are not zeros."""
    return f"{value:,.{max(3, 1 - math.floor(math.log10(value)))}f}" if value < 10 else digits(value)


# Table 4 of "L3: Accelerator-Friendly Lossless Image Format for High-Resolution,
# High-Throughput DNN Training" (ECCV 2022): size / raw. RAW is in MiB a picture.
PAPER_SETS = ["Cityscapes", "KITTI", "DIV2K", "FFHQ", "RAISE1K", "random", "black"]
PAPER = {
    "raw, MiB": "5.93 2.24 7.01 63.28 46.02 5.93 5.93",
    "PNG": "0.39 0.62 0.67 0.25 0.57 1.01 0.001",
    "JPEG 2000": "0.38 0.57 0.59 0.28 0.56 1.09 0.005",
    "BMP": "1.00 1.00 1.00 1.00 1.00 1.00 1.00",
    "LZ4": "0.79 0.85 0.83 0.44 0.69 1.01 0.026",
    "WebP": "0.29 0.55 0.49 0.15 0.37 1.00 0.000002",
    "L3, version 1": "0.44 0.64 0.76 0.33 0.63 1.02 0.13",
    "L3, version 2, fast": "– – – – – – –",
    "L3, version 2, dense": "– – – – – – –",
}
PAPER_WAYS = {
    "PNG": BASE, "JPEG 2000": "JPEG 2000 lossless", "BMP": "raw pixels, copied", "LZ4": "LZ4", "WebP": "WebP lossless",
    "L3, version 1": "L3 v1, N = 64", "L3, version 2, fast": "L3 v2 fast", "L3, version 2, dense": "L3 v2 dense",
}


def paper_table(sets, rows):
    """The paper's Table 4 beside the same of what was measured."""
    table = [["size / raw", *(f"{name} (paper)" for name in PAPER_SETS), *(s.name for s in sets)]]
    for name, theirs in PAPER.items():
        if name in PAPER_WAYS:
            ours = [ratio(next(r["raw"] for r in rows if r["set"] == s.name and r["way"] == PAPER_WAYS[name])) for s in sets]
        else:
            ours = [f"{s.raw / len(s.paths) / 2**20:.2f}" for s in sets]
        table.append([name, *theirs.split(), *ours])
    return table


def show(table, markdown):
    if markdown:
        print("| " + " | ".join(table[0]) + " |\n|" + "---|" * len(table[0]))
        for row in table[1:]:
            print("| " + " | ".join(row) + " |")
    else:
        widths = [max(map(len, column)) for column in zip(*table)]
        for row in table:
            print("  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:]))]).rstrip())
    print(flush=True)


def show_go(rows):
    """Go's benchmark format, for benchstat: a line for each round."""
    for row in rows:
        name = row["way"].replace(", ", "/").replace(" = ", "=").replace(" ", "_")
        for seconds, speed in zip(row["decode_seconds"], row["speeds"]):
            print(f'BenchmarkLossless/{row["set"]}/{name} 1 {seconds * 1e9:.0f} cpu-ns/op '
                  f'{row["decode"] * statistics.median(row["decode_seconds"]) / seconds / 1e6:.1f} MB/cpu-s '
                  f'{speed:.3f} ratio {row["bytes"]} file-bytes')


def have(command):
    return any(os.access(os.path.join(d, command), os.X_OK) for d in os.get_exec_path())


def read(path):
    with open(path, "rb") as f:
        return f.read()


def cpu_model():
    try:
        return next(line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def about():
    v = imagecodecs.version(dict)
    names = ("libspng", "qoi", "libwebp", "libjxl", "openjpeg", "lz4", "zstd")
    print(f"{cpu_model()}, {platform.system()} {platform.release()}; load {os.getloadavg()[0]:.1f}")
    print(f"Pillow {Image.__version__} (zlib {features.version('zlib')}), imagecodecs {imagecodecs.__version__}: "
          + ", ".join(f"{n} {v[n]}" for n in names if n in v))
    for module, what in ((pywuffs, "pywuffs: no row of Wuffs"), (fpng_py, "fpng-py: no row of fpng"),
                         (have("optipng") or None, "optipng: PNG files are compared as they are")):
        if module is None:
            print(f"missing: {what}")
    print(flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--ours", required=True, help="the program that measures L3")
    ap.add_argument("--cache", required=True, help="directory for what optipng makes")
    ap.add_argument("--rounds", type=int, default=7)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--format", choices=["text", "markdown", "go", "json"], default="text")
    ap.add_argument("sets", nargs="+", metavar="NAME=DIRECTORY", help="of PNG files")
    args = ap.parse_args()
    if args.format != "json":
        about()
    program, sets, rows = Program(args.ours), [], []
    with tempfile.TemporaryDirectory() as work:
        for arg in args.sets:
            name, directory = arg.split("=", 1)
            paths = sorted(os.path.join(d, f) for d, _, names in os.walk(directory) for f in names if f.lower().endswith(".png"))
            sets.append(Set(name, paths, work, args.cache))
            found = compare(sets[-1], program, args.rounds, args.seed)
            rows += found
            if args.format in ("text", "markdown"):
                s = sets[-1]
                print(f"{name}: {len(s.paths)} pictures, {s.raw / 1e6:.1f} MB of pixels, {sum(map(len, s.files)) / 1e6:.2f} MB of PNG files"
                      + (f"; {s.skipped} others left out" if s.skipped else "") + "\n")
                show([HEADER, *map(cells, found)], args.format == "markdown")
    if args.format == "go":
        show_go(rows)
    elif args.format == "json":
        json.dump(rows, sys.stdout, indent=1)
    else:
        show(paper_table(sets, rows), args.format == "markdown")
    if program.process.poll() is None:
        program.process.stdin.close()
        program.process.wait()


if __name__ == "__main__":
    main()
