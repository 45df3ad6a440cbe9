#!/usr/bin/env python3
"""Draw small pictures of every kind that loaders meet, into a new directory.

usage: make.py DIR

It needs Pillow, NumPy and cjpeg. Pillow's and cjpeg's bytes change with their versions:
testdata/pictures keeps what was drawn once.
"""
import io
import os
import subprocess
import sys

import numpy as np
from PIL import Image

root = sys.argv[1]
os.makedirs(root)
rng = np.random.default_rng(7)


def write(name, data):
    with open(os.path.join(root, name), "wb") as f:
        f.write(data)


def save(name, image, **options):
    """What was written is what counts: it has to read back as it was."""
    path = os.path.join(root, name)
    image.save(path, **options)
    if options.get("lossless", True) and not name.endswith(".gif"):
        with Image.open(path) as back:
            assert np.array_equal(np.asarray(back), np.asarray(image)), name


def noise(*shape, high=256, dtype=np.uint8):
    return rng.integers(0, high, shape).astype(dtype)


def picture(w, h, channels):
    y, x = np.mgrid[0:h, 0:w]
    waves = [127 + 100 * np.sin(x / (9 + 2 * c) + y / (11 + c)) for c in range(channels)]
    return np.clip(np.stack(waves, -1) + rng.normal(0, 12, (h, w, channels)), 0, 255).astype(np.uint8)


def jpeg(image, **options):
    out = io.BytesIO()
    image.save(out, **{"format": "JPEG", "quality": 85, **options})
    return out.getvalue()


def cjpeg(image, *options):
    pixels = np.asarray(image)
    head = b"P6\n%d %d\n255\n" % (pixels.shape[1], pixels.shape[0])
    return subprocess.run(["cjpeg", *options], input=head + pixels.tobytes(), stdout=subprocess.PIPE, check=True).stdout


# JPEG: how pixels are coded. 161 by 121 is more than a block and no multiple of one.
for w, h in [(1, 1), (9, 7), (33, 17), (161, 121)]:
    rgb, cmyk = Image.fromarray(picture(w, h, 3)), Image.fromarray(picture(w, h, 4), "CMYK")
    size = f"{w}x{h}"
    write(f"{size}.jpg", jpeg(rgb, subsampling="4:2:0"))
    write(f"{size}_422_progressive.jpg", jpeg(rgb, subsampling="4:2:2", progressive=True))
    if w > 9:
        write(f"{size}_444.jpg", jpeg(rgb, subsampling="4:4:4"))
    if w != 33:
        continue
    write(f"{size}_440.jpg", cjpeg(rgb, "-sample", "1x2"))
    write(f"{size}_restart_progressive.jpg", cjpeg(rgb, "-restart", "1", "-sample", "2x2", "-progressive"))
    write(f"{size}_grey_progressive.jpg", jpeg(rgb.convert("L"), progressive=True))
    for progressive in [False, True]:
        data = jpeg(cmyk, progressive=progressive)
        write(f"{size}_cmyk{'_progressive' * progressive}.jpg", data)
        transform = data.index(b"Adobe") + 11
        write(f"{size}_ycck{'_progressive' * progressive}.jpg", data[:transform] + b"\x02" + data[transform + 1 :])

# JPEG: what else is in a file.
photo = Image.fromarray(picture(56, 40, 3))
plain = jpeg(photo)
write("optimised.jpg", jpeg(photo, optimize=True))
write("icc.jpg", jpeg(photo, icc_profile=bytes(3000)))
write("comment.jpg", plain[:2] + b"\xff\xfe\x00\x0e" + b"not a marker" + plain[2:])
# A thumbnail holds SOI, SOS and EOI of its own. Orientation 6: turned by a quarter.
thumbnail = jpeg(photo.resize((20, 15)), progressive=True)
directory = (
    b"II*\0\x08\0\0\0"
    + b"\x01\0" + b"\x12\x01\x03\0\x01\0\0\0\x06\0\0\0" + b"\x1a\0\0\0"
    + b"\x02\0" + b"\x01\x02\x04\0\x01\0\0\0\x38\0\0\0" + b"\x02\x02\x04\0\x01\0\0\0" + len(thumbnail).to_bytes(4, "little") + b"\0\0\0\0"
)
write("thumbnail.jpg", jpeg(photo, exif=b"Exif\0\0" + directory + thumbnail))
write("mpo.jpg", jpeg(photo, format="MPO", save_all=True, append_images=[photo.resize((30, 20))]))
write("trailing_jpeg.jpg", plain + thumbnail)
write("trailing_zeros.jpg", plain + bytes(1000))
write("fill_bytes.jpg", plain[:2] + b"\xff\xff" + plain[2:])
write("really_a_jpeg.png", plain)

# The modes of other formats, and masks.
labels = Image.fromarray(noise(33, 47, high=19), "P")
labels.putpalette([v for i in range(256) for v in (i * 7 % 256, i * 13 % 256, i * 29 % 256)])
two = Image.fromarray(noise(9, 11, high=2), "P")
two.putpalette([0, 0, 0, 255, 255, 255])
rgb, rgba = Image.fromarray(picture(47, 33, 3)), Image.fromarray(picture(47, 33, 4))
grey, bits = Image.fromarray(picture(47, 33, 1)[:, :, 0]), Image.fromarray(noise(33, 47, high=2).astype(bool))
deep = Image.fromarray(noise(33, 47, high=65536, dtype=np.uint16))
save("labels.png", labels)
save("labels_clear.png", labels, transparency=3)
save("labels_two.png", two)
save("grey.png", grey)
save("grey_alpha.png", Image.fromarray(picture(47, 33, 2), "LA"))
save("bits.png", bits)
save("deep.png", deep)
save("rgb.png", rgb)
save("rgba.png", rgba)
save("one.png", Image.fromarray(noise(1, 1, 3)))
for name, image in {"rgb": rgb, "grey": grey, "labels": labels, "bits": bits}.items():
    save(name + ".bmp", image)
    save(name + ".tiff", image, compression="tiff_lzw")
save("deep.tiff", deep)
save("rgb.ppm", rgb)
save("grey.pgm", grey)
save("bits.pbm", bits)
save("rgb.webp", rgb, lossless=False)
save("rgba.webp", rgba, lossless=True, exact=True)
save("labels.gif", labels)
