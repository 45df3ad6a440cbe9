#!/usr/bin/env python3
"""Write a tree of pictures and files that tools stumble over.

usage: make_odd.py DIR
"""
import json
import os
import sys

import numpy as np
from PIL import Image

root = sys.argv[1]
rng = np.random.default_rng(7)


def path(*parts):
    name = os.path.join(root, *parts)
    os.makedirs(os.path.dirname(name), exist_ok=True)
    return name


def noise(*shape, high=256, dtype=np.uint8):
    return rng.integers(0, high, shape).astype(dtype)


labels = Image.fromarray(noise(33, 47, high=19), "P")
labels.putpalette([v for i in range(256) for v in (i * 7 % 256, i * 13 % 256, i * 29 % 256)])
clear = labels.copy()
clear.info["transparency"] = 3
images = {
    "palette.png": labels,
    "palette_clear.png": clear,
    "palette_two.png": Image.fromarray(noise(9, 11, high=2), "P"),
    "grey.png": Image.fromarray(noise(33, 47), "L"),
    "bits.png": Image.fromarray(noise(33, 47, high=2).astype(bool)),
    "deep.png": Image.fromarray(noise(33, 47, high=65536, dtype=np.uint16), "I;16"),
    "alpha.png": Image.fromarray(noise(33, 47, 4), "RGBA"),
    "grey_alpha.png": Image.fromarray(noise(33, 47, 2), "LA"),
    "photo.png": Image.fromarray(noise(33, 47, 3), "RGB"),
    "one.png": Image.fromarray(noise(1, 1, 3), "RGB"),
    "photo.bmp": Image.fromarray(noise(33, 47, 3), "RGB"),
    "grey.bmp": Image.fromarray(noise(33, 47), "L"),
}
images["palette_two.png"].putpalette([0, 0, 0, 255, 255, 255])
for name, image in images.items():
    options = {"transparency": 3} if name == "palette_clear.png" else {}
    image.save(path("masks", name), **options)
    # what was written is what counts: Pillow may have packed it differently
    with Image.open(path("masks", name)) as back:
        assert np.array_equal(np.asarray(back), np.asarray(image)), name

photo = Image.fromarray(noise(40, 56, 3), "RGB")
photo.save(path("same_stem", "a.jpg"))
images["photo.png"].save(path("same_stem", "a.png"))
images["photo.bmp"].save(path("same_stem", "a.bmp"))
photo.save(path("names", "mit Leerzeichen und ünïcödé 图像.jpg"))
photo.save(path("names", "x" * 251 + ".jpg"))
photo.save(path("names", "UPPER.JPG"))
photo.save(path("names", "two.dots.jpeg"))
photo.save(path("names", "-dash.jpg"))
photo.convert("L").save(path("names", "grey.jpg"))
photo.save(path("names", "progressive.jpg"), progressive=True)
photo.save(path("names", "really_a_jpeg.png"), format="JPEG")
json.dump({"a": 1}, open(path("names", "labels.json"), "w"))
open(path("names", "notes.txt"), "w").write("nothing to see\n")
os.makedirs(os.path.join(root, "empty", "emptier"))
os.symlink("../names/UPPER.JPG", path("links", "inside.jpg"))
os.symlink("../masks", path("links", "directory"))
os.symlink("..", path("links", "cycle"))
open(path("broken", "empty.jpg"), "wb").close()
whole = open(path("names", "UPPER.JPG"), "rb").read()
open(path("broken", "half.jpg"), "wb").write(whole[: len(whole) // 2])
open(path("broken", "noise.jpg"), "wb").write(bytes(noise(500)))
open(path("broken", "half.png"), "wb").write(open(path("masks", "photo.png"), "rb").read()[:300])
