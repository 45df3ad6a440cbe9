#!/usr/bin/env python3
"""Judge the JPEG views of a mount with every reader that is here.

usage: check_readers.py DATASET MNT

Each reader opens every scan, and every scan made sequential, without a word, and
finds at scan10 the pixels that it finds in the dataset. Sequential files are
jpegtran's, pixel views and smaller pictures djpeg's. Prints each difference and exits 1 if there
is one; prints counts otherwise.
"""
import os
import subprocess
import sys
import tempfile
import warnings

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
from PIL import Image

dataset, mnt = sys.argv[1:]
problems = []
checked = 0


def check(ok, *what):
    global checked
    checked += 1
    if not ok:
        problems.append(" ".join(map(str, what)))


def program(*command):
    """What a program writes. It may say nothing: libjpeg's warnings are words."""
    done = subprocess.run(command, capture_output=True)
    if done.returncode or done.stderr:
        raise ValueError(f"status {done.returncode}: {done.stderr.decode(errors='replace')}")
    return done.stdout


def djpeg(path, *options):
    kind, size, _, data = program("djpeg", *options, path).split(b"\n", 3)
    width, height = map(int, size.split())
    channels = {b"P5": 1, b"P6": 3}[kind]
    return np.broadcast_to(np.frombuffer(data, np.uint8).reshape(height, width, channels), (height, width, 3))


def pillow(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


READERS = {"Pillow": pillow, "djpeg": djpeg}
missing = []
try:
    import torchvision.io

    READERS["torchvision"] = lambda path: torchvision.io.read_image(path).permute(1, 2, 0).numpy()
except ImportError as error:
    missing.append(f"torchvision ({error})")
try:
    import cv2

    READERS["OpenCV"] = lambda path: cv2.imread(path, cv2.IMREAD_COLOR)[:, :, ::-1]
except ImportError as error:
    missing.append(f"OpenCV ({error})")
try:
    import tensorflow

    READERS["TensorFlow"] = lambda path: tensorflow.io.decode_jpeg(tensorflow.io.read_file(path), channels=3).numpy()
    tensorflow.constant(0)  # its greetings come with the first operation
except ImportError as error:
    missing.append(f"TensorFlow ({error})")

# Libraries warn through Python, or on the descriptor of standard error.
warnings.simplefilter("error")
sys.stderr = os.fdopen(os.dup(2), "w")
words = tempfile.TemporaryFile()
os.dup2(words.fileno(), 2)


def look(name, path):
    """A reader's pixels of a file; None if it does not read it."""
    before = os.fstat(words.fileno()).st_size
    try:
        pixels = READERS[name](path)
    except Exception as error:  # whatever a reader raises is the finding
        check(False, name, path, repr(error))
        return None
    after = os.fstat(words.fileno()).st_size
    check(before == after, name, path, "warns:", os.pread(words.fileno(), 300, before))
    check(pixels is not None, name, path, "is not read")
    return pixels


def content(path):
    with open(path, "rb") as f:
        return f.read()


# Readers whose previews differ from Pillow's smooth incomplete files in another way.
differ = {name: [0] * 10 for name in READERS if name not in ("Pillow", "djpeg")}
files = 0
for directory, _, names in os.walk(dataset, followlinks=True):
    for name in sorted(names):
        if not name.endswith(".jpg"):
            continue
        files += 1
        ink = "cmyk" in name or "ycck" in name
        source = os.path.join(directory, name)
        relative = os.path.relpath(source, dataset)
        want = {reader: look(reader, source) for reader in READERS}
        for k in range(1, 11):
            views = f"scan{k}", f"scan{k}-baseline" if k < 10 else "baseline"
            scan, sequential = (os.path.join(mnt, view, relative) for view in views)
            check(content(sequential) == program("jpegtran", "-copy", "all", "-optimize", scan), sequential, "is not jpegtran's")
            pixels = pillow(os.path.join(mnt, f"scan{k}-bmp" if k < 10 else "bmp", relative))
            check(ink or np.array_equal(pixels, look("djpeg", scan)), scan, "as BMP has other pixels than djpeg's")
            for path in (scan, sequential):
                got = {reader: look(reader, path) for reader in READERS}
                for reader, expected in want.items():
                    if expected is None or got[reader] is None:
                        continue
                    check(got[reader].shape == expected.shape, reader, path, got[reader].shape, "want", expected.shape)
                    check(k < 10 or np.array_equal(got[reader], expected), reader, path, "pixels differ")
                    # torchvision leaves grey as it is
                    if path == scan and reader in differ and got["Pillow"] is not None and not ink and expected.shape[2] == 3:
                        differ[reader][k - 1] += not np.array_equal(got[reader], got["Pillow"])
        for view, scale in {"half": 2, "quarter": 4, "eighth": 8}.items():
            path = os.path.join(mnt, view + "-bmp", relative)
            got, expected = pillow(path), djpeg(source, "-scale", f"1/{scale}")
            # djpeg rounds otherwise when it makes RGB of CMYK
            check(got.shape == expected.shape and np.abs(got.astype(int) - expected).max() <= ink, path, "is not djpeg's")

for problem in problems[:40]:
    print(problem)
print(f"{files} files, {checked} checks, {len(problems)} problems")
for reader, counts in differ.items():
    print(f"{reader}: files with other pixels than Pillow's at scan1 to scan10: {counts}")
print("readers:", *READERS)
for reader in missing:
    print("not here:", reader)
sys.exit(bool(problems) or checked == 0)
