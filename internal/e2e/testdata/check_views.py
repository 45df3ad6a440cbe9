#!/usr/bin/env python3
"""Judge the views of a mount against the dataset, with Pillow and NumPy.

usage: check_views.py DATASET MNT

Prints each difference and exits 1 if there is one; prints counts otherwise.
"""
import mmap
import os
import sys
import warnings

import numpy as np
from PIL import Image

warnings.simplefilter("error")  # a decoder that warns is a decoder that fails
dataset, mnt = sys.argv[1:]
problems = []
checked = 0
PIXELS = ("bmp", "ppm", "npy")


def check(ok, *what):
    global checked
    checked += 1
    if not ok:
        problems.append(" ".join(map(str, what)))


def pixels(path):
    if path.endswith(".npy"):
        array = np.load(path)
        mapped = np.load(path, mmap_mode="r")
        check(np.array_equal(array, mapped), path, "np.load differs with mmap_mode")
        return array
    with Image.open(path) as image:
        return np.asarray(image)


def truth(path):
    with Image.open(path) as image:
        # a JPEG is RGB for every loader that asks for it; nothing else converts
        return np.asarray(image.convert("RGB") if image.format in ("JPEG", "MPO") else image)


def content(path):
    """The file's bytes, if all ways of reading it agree on them."""
    size = os.stat(path).st_size
    with open(path, "rb") as f:
        data = f.read()
        check(len(data) == size, path, "read", len(data), "st_size", size)
        fd = f.fileno()
        middle = size // 3
        check(os.pread(fd, size + 10, middle) == data[middle:], path, "pread differs")
        if size:
            with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as m:
                check(m[:] == data, path, "mmap differs")
    return data


def listed(view):
    found = {}
    for directory, _, names in os.walk(os.path.join(mnt, view)):
        for name in names:
            path = os.path.join(directory, name)
            found[os.stat(path).st_ino] = path
    return found


views = {view: listed(view) for view in ["original", *PIXELS, *(f"scan{k}" for k in range(1, 11))]}
for directory, _, names in os.walk(dataset, followlinks=True):
    for name in sorted(names):
        source = os.path.join(directory, name)
        relative = os.path.relpath(source, dataset)
        want = open(source, "rb").read()
        shown = {}
        for view, inodes in views.items():
            # the dataset's own name resolves in every view, to the listed inode
            own = os.path.join(mnt, view, relative)
            ino = os.stat(own).st_ino
            check(ino in inodes or view in ("original",), own, "is no listed inode")
            shown[view] = inodes.get(ino, own)
        check(content(shown["original"]) == want, relative, "original differs")
        if not name.lower().endswith((".jpg", ".jpeg", ".png")):
            for view in views:
                check(content(shown[view]) == want, view, relative, "differs")
            continue
        expected = truth(source)
        for view in PIXELS:
            content(shown[view])
            got = pixels(shown[view])
            check(got.dtype == expected.dtype and np.array_equal(got, expected), view, relative, "pixels differ",
                  got.shape, got.dtype, expected.shape, expected.dtype)
        sizes = []
        for k in range(1, 11):
            data = content(shown[f"scan{k}"])
            sizes.append(len(data))
            if want[:2] != b"\xff\xd8":
                check(data == want, f"scan{k}", relative, "is no JPEG and was changed")
                continue
            try:
                with Image.open(shown[f"scan{k}"]) as image:
                    got = np.asarray(image.convert("RGB"))
            except Exception as error:  # whatever Pillow raises is the finding
                check(False, f"scan{k}", relative, repr(error))
                continue
            check(got.shape == expected.shape, f"scan{k}", relative, got.shape)
            if k == 10:
                check(np.array_equal(got, expected), "scan10", relative, "pixels differ")
        check(sizes == sorted(sizes), relative, "scan sizes", sizes)

for problem in problems[:40]:
    print(problem)
print(f"{checked} checks, {len(problems)} problems")
sys.exit(bool(problems) or checked == 0)
