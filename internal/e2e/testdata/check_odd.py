#!/usr/bin/env python3
"""Judge that no view harms what it cannot represent.

usage: check_odd.py DATASET MNT VIEW...

For every file the view shows either the file's own bytes or a
file whose array and mode NumPy and Pillow find equal to the source's. Lossy and
geometric views must show masks byte for byte, or as the same array, or refuse them.
"""
import errno
import os
import sys

import numpy as np
from PIL import Image, ImageOps

dataset, mnt, *views = sys.argv[1:]
problems, same, equal, changed = [], 0, 0, 0
PICTURES = {"RGB", "RGBA"}


def array(path):
    with open(path, "rb") as f:
        if f.read(6) == b"\x93NUMPY":
            return np.load(path), "npy"
    with Image.open(path) as image:
        return np.asarray(image), image.mode


for directory, _, names in os.walk(dataset, followlinks=False):
    relative = os.path.relpath(directory, dataset)
    for name in names:
        source = os.path.join(directory, name)
        want = open(source, "rb").read()
        for view in views:
            shown = os.path.join(mnt, view, relative, name)
            try:
                got = open(shown, "rb").read()
            except PermissionError as e:
                if e.errno != errno.EPERM or "crop" not in view:
                    raise
                same += 1  # a view of one size refuses what may be a mask
                continue
            if got == want:
                same += 1
                continue
            if name.endswith((".l3", "16_png.png")):
                continue  # Pillow does not read it, or not all of it
            if not name.lower().endswith((".jpg", ".jpeg", ".png", ".bmp", ".tiff", ".webp", ".gif", ".ppm", ".pgm", ".pbm")):
                problems.append(f"{shown}: no picture, and changed")
                continue
            with Image.open(source) as image:
                mode, jpeg = image.mode, image.format in ("JPEG", "MPO")
                if "upright" in view:
                    image = ImageOps.exif_transpose(image)
                expected = np.asarray(image.convert("RGB") if jpeg else image)
            pixels, shown_mode = array(shown)
            lossy = any(word in view for word in ("scan", "resize", "crop", "jpeg", "grey"))
            if lossy and (jpeg or mode in PICTURES or name.startswith("grey_")):  # many levels, and smooth
                changed += 1
                continue
            # modes that mean the same values: Pillow reads a 16-bit PGM as 32-bit I
            if not np.array_equal(pixels, expected) or (shown_mode not in ("npy", "I") and shown_mode != ("RGB" if jpeg else mode)):
                problems.append(f"{shown}: {mode} {expected.shape} became {shown_mode} {pixels.shape} with other values")
            equal += 1

for problem in problems[:40]:
    print(problem)
print(f"{same} unchanged, {equal} equal, {changed} changed pictures, {len(problems)} problems")
sys.exit(bool(problems) or not (same and equal))
