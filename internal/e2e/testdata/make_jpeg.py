#!/usr/bin/env python3
"""Write JPEG files of every kind that loaders meet.

usage: make_jpeg.py DIR
"""
import io
import os
import subprocess
import sys

import numpy as np
from PIL import Image

root = os.path.join(sys.argv[1], "kinds")
os.makedirs(root)
rng = np.random.default_rng(7)


def picture(w, h, channels):
    y, x = np.mgrid[0:h, 0:w]
    waves = [127 + 100 * np.sin(x / (9 + 2 * c) + y / (11 + c)) for c in range(channels)]
    return np.clip(np.stack(waves, -1) + rng.normal(0, 12, (h, w, channels)), 0, 255).astype(np.uint8)


def write(name, data):
    with open(os.path.join(root, name + ".jpg"), "wb") as f:
        f.write(data)


def pillow(image, **options):
    out = io.BytesIO()
    image.save(out, **{"format": "JPEG", "quality": 88, **options})
    return out.getvalue()


def cjpeg(pixels, *options):
    head = b"P6\n%d %d\n255\n" % (pixels.shape[1], pixels.shape[0])
    return subprocess.run(["cjpeg", *options], input=head + pixels.tobytes(), stdout=subprocess.PIPE, check=True).stdout


for w, h in [(1, 1), (9, 7), (16, 16), (33, 17), (161, 121)]:
    size = f"{w}x{h}"
    rgb = Image.fromarray(picture(w, h, 3), "RGB")
    for sampling, digits in enumerate(["444", "422", "420"]):
        for progressive in [False, True]:
            write(f"{size}_{digits}{'_progressive' * progressive}", pillow(rgb, subsampling=sampling, progressive=progressive))
    write(f"{size}_grey", pillow(rgb.convert("L")))
    write(f"{size}_grey_progressive", pillow(rgb.convert("L"), progressive=True))
    cmyk = Image.fromarray(picture(w, h, 4), "CMYK")
    for progressive in [False, True]:
        data = pillow(cmyk, progressive=progressive)
        write(f"{size}_cmyk{'_progressive' * progressive}", data)
        transform = data.index(b"Adobe") + 11
        write(f"{size}_ycck{'_progressive' * progressive}", data[:transform] + b"\x02" + data[transform + 1 :])
    write(f"{size}_restart", cjpeg(np.asarray(rgb), "-restart", "1B", "-sample", "2x2"))
    write(f"{size}_restart_progressive", cjpeg(np.asarray(rgb), "-restart", "1", "-sample", "2x2", "-progressive"))
    write(f"{size}_440", cjpeg(np.asarray(rgb), "-sample", "1x2"))
    write(f"{size}_rgb", cjpeg(np.asarray(rgb), "-rgb"))

photo = Image.fromarray(picture(161, 121, 3), "RGB")
plain = pillow(photo)
write("optimised", pillow(photo, optimize=True))
write("quality_100", pillow(photo, quality=100, subsampling=0))
write("quality_3", pillow(photo, quality=3))
write("icc", pillow(photo, icc_profile=bytes(rng.integers(0, 256, 150_000, dtype=np.uint8))))  # three segments
write("comment", plain[:2] + b"\xff\xfe\x00\x0e" + b"not a marker" + plain[2:])

# A thumbnail holds SOI, SOS and EOI of its own. Orientation 1: OpenCV turns others.
thumbnail = pillow(photo.resize((40, 30)), progressive=True)
directory = (
    b"II*\0\x08\0\0\0"
    + b"\x01\0" + b"\x12\x01\x03\0\x01\0\0\0\x01\0\0\0" + b"\x1a\0\0\0"
    + b"\x02\0" + b"\x01\x02\x04\0\x01\0\0\0\x38\0\0\0" + b"\x02\x02\x04\0\x01\0\0\0" + len(thumbnail).to_bytes(4, "little") + b"\0\0\0\0"
)
write("exif_thumbnail", pillow(photo, exif=b"Exif\0\0" + directory + thumbnail))
write("exif_thumbnail_progressive", pillow(photo, exif=b"Exif\0\0" + directory + thumbnail, progressive=True))

# What follows EOI: a camera's second picture, another file, zeros.
write("mpo", pillow(photo, format="MPO", save_all=True, append_images=[photo.resize((80, 60))]))
write("trailing_jpeg", plain + thumbnail)
write("trailing_zeros", plain + bytes(1000))
write("fill_bytes", plain[:2] + b"\xff\xff" + plain[2:])
print(len(os.listdir(root)), "files")
