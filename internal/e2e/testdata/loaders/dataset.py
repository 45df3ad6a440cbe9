#!/usr/bin/env python3
"""Make the dataset of the loaders' table.

usage: dataset.py DIR [PHOTOGRAPH...]

DIR/KIND/images/CLASS/NAME are pictures of different sizes, and DIR/KIND/labels/CLASS/STEM.txt
holds the box of each. The kind "usual" has what most datasets are made of; the others have one
sort of file each, at which loaders part. Where photographs are given, they are added, as a kind of their
own, and nothing else is made.
"""
import os
import shutil
import sys

import numpy as np
from PIL import Image

CLASSES = ("cat", "dog", "owl")


def picture(seed):
    """Colours that change slowly, with a little noise: no two pictures are alike."""
    r = np.random.default_rng(seed)
    width, height = 90 + 37 * (seed % 7), 300 - 29 * (seed % 5)
    coarse = Image.fromarray(r.integers(0, 256, (6, 8, 3), dtype=np.uint8)).resize((width, height), Image.BICUBIC)
    return Image.fromarray((np.asarray(coarse) * 0.9 + r.integers(0, 25, (height, width, 3))).astype(np.uint8))


def deep(image):
    return Image.fromarray(np.asarray(image.convert("L"), dtype=np.uint16) * 257)


def clear(image):
    image = image.convert("RGBA")
    image.putalpha(image.getchannel("G"))
    return image


SIDEWAYS = Image.Exif()
SIDEWAYS[0x0112] = 6  # the picture of a camera that was held upright


# Kind, name, what to save, options of Pillow's save.
FILES = (
    ("usual", "ycc444.jpg", lambda i: i, {"subsampling": 0, "quality": 92}),
    ("usual", "ycc420.JPEG", lambda i: i, {"subsampling": 2, "quality": 85}),
    ("usual", "grey.jpeg", lambda i: i.convert("L"), {"quality": 90}),
    ("usual", "progressive.jpg", lambda i: i, {"progressive": True, "subsampling": 2}),
    ("usual", "rgb.png", lambda i: i, {}),
    ("usual", "twin.jpg", lambda i: i, {"subsampling": 0}),
    ("usual", "twin.png", lambda i: i, {}),
    ("grey", "grey.png", lambda i: i.convert("L"), {}),
    ("palette", "palette.png", lambda i: i.quantize(200), {}),
    ("alpha", "rgba.png", clear, {}),
    ("cmyk", "cmyk.jpg", lambda i: i.convert("CMYK"), {"quality": 92}),
    ("misnamed", "png.jpg", lambda i: i, {"format": "PNG"}),
    ("trailing", "trailing.jpg", lambda i: i, {}),
    ("16bit", "deep.png", deep, {}),
    ("oriented", "oriented.jpg", lambda i: i, {"exif": SIDEWAYS}),
)


def main(top, *photographs):
    for c, name in enumerate(CLASSES):
        for photograph in photographs[c::len(CLASSES)]:
            shutil.copy(photograph, place(top, "photographs", name, os.path.basename(photograph)))
        for n, (kind, file, make, options) in enumerate(() if photographs else FILES):
            path = place(top, kind, name, file)
            make(picture(100 * c + n)).save(path, **options)
            if kind == "trailing":
                with open(path, "ab") as f:
                    f.write(b"what a camera wrote after the end")


def place(top, kind, name, file):
    """The path of a picture, whose directory and box are made."""
    for sub in "images", "labels":
        os.makedirs(os.path.join(top, kind, sub, name), exist_ok=True)
    with open(os.path.join(top, kind, "labels", name, os.path.splitext(file)[0] + ".txt"), "w", encoding="ascii") as box:
        box.write(f"{CLASSES.index(name)} 0.5 0.5 0.5 0.5\n")
    return os.path.join(top, kind, "images", name, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
