"""Times torchvision on Pillow beside pipefs, one core, A B A B: bench_recipes.py PICTURES-DIR [ROUNDS]

The first table has one operation on 224×224 pixels each, the second one whole augmentations of
photographs. Run it in the directory of the project. Times are of the CPU, the medians of the rounds,
in µs: torchvision, pipefs, and how many times as fast that is.
"""

import glob
import io
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from PIL import Image
from torchvision import transforms as T
from torchvision.transforms import functional as F
from torchvision.transforms.autoaugment import _apply_op

torch.set_num_threads(1)
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
paths = sorted(glob.glob(os.path.join(sys.argv[1], "*.JPEG")))[:32]
files = [open(p, "rb").read() for p in paths]
whole = [Image.open(io.BytesIO(f)).convert("RGB") for f in files]
small = [F.center_crop(F.resize(im, 256), 224) for im in whole]
bilinear = T.InterpolationMode.BILINEAR


def op(name, by):
    return lambda im: _apply_op(im, name, by, bilinear, None)


operations = {
    "brightness": op("Brightness", 0.4), "contrast": op("Contrast", 0.4), "saturation": op("Color", 0.4), "sharpness": op("Sharpness", 0.4),
    "hue": lambda im: F.adjust_hue(im, 0.1), "grey": lambda im: F.rgb_to_grayscale(im, 3), "posterize": op("Posterize", 4),
    "solarize": op("Solarize", 128), "invert": op("Invert", 0), "autocontrast": op("AutoContrast", 0), "equalize": op("Equalize", 0),
    "shearx": op("ShearX", 0.3), "sheary": op("ShearY", 0.3), "translatex": op("TranslateX", 20), "translatey": op("TranslateY", 20),
    "rotate": op("Rotate", 30.0), "blur23": lambda im: F.gaussian_blur(im, 23, [1.0, 1.0]),
}
crop = [T.RandomResizedCrop(224), T.RandomHorizontalFlip()]
simclr = [T.RandomApply([T.ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8), T.RandomGrayscale(0.2), T.RandomApply([T.GaussianBlur(23)], p=0.5)]
recipes = {
    "rrc224-hflip-npy": [],
    "rrc224-hflip-trivialaugment-npy": [T.TrivialAugmentWide(interpolation=bilinear)],
    "rrc224-hflip-randaug2_9-npy": [T.RandAugment(2, 9, interpolation=bilinear)],
    "rrc224-hflip-autoaugment-npy": [T.AutoAugment(interpolation=bilinear)],
    "rrc224-hflip-colorjitter40_40_40_10-npy": [T.ColorJitter(0.4, 0.4, 0.4, 0.1)],
    "rrc224-hflip-colorjitter80_80_80_20p80-randgrey20-blur23p50-npy": simclr,
}


def timed(f, items):
    start = time.process_time()
    for item in items:
        f(item)
    return (time.process_time() - start) / len(items) * 1e6


def torchvision():
    found = {name: timed(f, small) for name, f in operations.items()}
    for spec, more in recipes.items():
        f = T.Compose([*crop, *more, T.PILToTensor()])
        found[spec + "/pixels"] = timed(f, 4 * whole)
        found[spec + "/jpeg"] = timed(lambda b, f=f: f(Image.open(io.BytesIO(b)).convert("RGB")), 4 * files)
    return found


def pipefs(programs):
    found = {}
    for program, directory, pattern, n in programs:
        done = subprocess.run([program, "-test.run", "^$", "-test.bench", pattern, "-test.benchtime", n, "-test.cpu", "1"],
                              cwd=directory, check=True, capture_output=True, text=True)
        for name, ns in re.findall(r"^Benchmark\w+/(\S+)\s.*?([\d.]+) cpu-ns/op", done.stdout, re.M):
            found[name] = float(ns) / 1000
    return found


with tempfile.TemporaryDirectory() as built:
    programs = []
    for directory, pattern, n in (("transcode/raster", "Kernels", "64x"), ("transcode/codecs", "Recipes", "128x")):
        program = os.path.join(built, os.path.basename(directory) + ".test")
        subprocess.run(["go", "test", "-c", "-o", program, "./" + directory], check=True)
        programs.append((program, directory, pattern, n))
    theirs, ours = [], []
    for _ in range(rounds):
        theirs.append(torchvision())
        ours.append(pipefs(programs))
for name in theirs[0]:
    a, b = (statistics.median(r[name] for r in side) for side in (theirs, ours))
    print(f"{name:75} {a:9.0f} {b:9.0f} {a / b:6.2f}")
