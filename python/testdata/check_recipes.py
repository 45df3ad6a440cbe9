"""Judges the random steps on values, with torchvision on Pillow as the oracle: check_recipes.py DATASET"""

import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image
from torchvision.datasets import ImageFolder
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as F

import pipefs

dataset = sys.argv[1]
views = [
    "rrc224-hflip-trivialaugment-npy",
    "rrc224-hflip-randaug2_9-npy",
    "rrc96-hflip-autoaugment-erase50-npy",
    "rrc96scale20to100-colorjitter40_40_20_10p80-randgrey20-blur9p50-solarize128p20-hflip-chw-npy",
]


def operated(im, o):
    """What torchvision makes of a picture, given what was drawn."""
    shear = {"shearx": [1, 0], "sheary": [0, 1]}.get(o.op)
    if shear:
        angles = [np.degrees(np.arctan(o.by)).item() * k for k in shear]
        return F.affine(im, 0.0, [0, 0], 1.0, angles, InterpolationMode.BILINEAR, center=[0, 0])
    if o.op.startswith("translate"):
        by = [int(o.by), 0] if o.op == "translatex" else [0, int(o.by)]
        return F.affine(im, 0.0, by, 1.0, [0.0, 0.0], InterpolationMode.BILINEAR)
    if o.op == "erase":
        im = im.copy()
        im.paste((124, 116, 104), (o.box[0], o.box[1], o.box[0] + o.box[2], o.box[1] + o.box[3]))
        return im
    return {
        "identity": lambda: im,
        "rotate": lambda: F.rotate(im, o.by, InterpolationMode.BILINEAR),
        "brightness": lambda: F.adjust_brightness(im, o.by),
        "contrast": lambda: F.adjust_contrast(im, o.by),
        "saturation": lambda: F.adjust_saturation(im, o.by),
        "sharpness": lambda: F.adjust_sharpness(im, o.by),
        "hue": lambda: F.adjust_hue(im, o.by),
        "posterize": lambda: F.posterize(im, int(o.by)),
        "solarize": lambda: F.solarize(im, o.by),
        "autocontrast": lambda: F.autocontrast(im),
        "equalize": lambda: F.equalize(im),
        "invert": lambda: F.invert(im),
        "grey": lambda: F.rgb_to_grayscale(im, 3),
        "blur": lambda: F.gaussian_blur(im, int(o.step[4:].split("p")[0]), [o.by, o.by]),
    }[o.op]()


with pipefs.mount(dataset, images=["*"]) as m:
    folder = ImageFolder(m.path("original"))
    drawn = set()
    for view in views:
        data = pipefs.RandomView(m, view, folder, seed=7)
        before = {}
        for epoch in (0, 1, 2, 0):
            data.set_epoch(epoch)
            differ = 0
            for i, (path, _) in enumerate(folder.samples):
                array = data[i][0]
                again = before.setdefault((epoch, i), array)
                assert np.array_equal(again, array), "another read of the same draw"
                differ += not np.array_equal(before[0, i], array)
                if again is not array:
                    continue
                draw = pipefs.draw(data.path(i))
                with Image.open(path) as picture:
                    want = picture.convert("RGB")
                x, y, w, h = draw.moves[0].box
                side = array.shape[1]
                want = F.resized_crop(want, y, x, h, w, [side, side])
                # Where the views mirror last, that exchanges with all before it.
                if draw.moves[1].flip:
                    want = F.hflip(want)
                most = 0
                for o in draw.ops:
                    want, most = operated(want, o), max(most, o.op == "blur")
                    drawn.add(o.op)
                want = np.asarray(want)
                if "-chw-" in view:
                    want = want.transpose(2, 0, 1)
                assert array.shape == want.shape, path
                assert np.abs(array.astype(int) - want).max() <= most, (draw, path)
            assert differ > 0.8 * len(folder) if epoch else differ == 0, (view, epoch, differ)
    assert len(drawn) >= 12, sorted(drawn)
    data.set_epoch(0)
    told = subprocess.run(["pipefs", "explain", data.path(0)], check=True, capture_output=True, text=True).stdout
    assert "colorjitter40_40_20_10p80: " in told and "; drawn: " in told, told

    # Nothing tells where points are after shears and rotations.
    data = pipefs.RandomView(m, "rrc96-randaug5_20-npy", folder)
    moved = 0
    for i in range(len(folder)):
        draw = pipefs.draw(data.path(i))
        try:
            draw.boxes([(0, 0, 10, 10)])
        except pipefs.Error as e:
            assert "randaug5_20" in str(e) and draw.sample in str(e), e
            moved += 1
    assert moved > 0

# A mask whose picture nobody knows is drawn by itself, if that is wanted; what has alpha is refused, until it is made RGB.
with tempfile.TemporaryDirectory() as odd:
    os.makedirs(os.path.join(odd, "a"))
    shutil.copy(next(p for p, _ in ImageFolder(dataset).samples if p.lower().endswith((".jpg", ".jpeg"))), os.path.join(odd, "a", "1.jpg"))
    Image.new("L", (100, 80), 3).save(os.path.join(odd, "a", "2.png"))
    Image.effect_noise((100, 80), 90).convert("RGBA").save(os.path.join(odd, "a", "3.png"))
    with pipefs.mount(odd, masks=["2.png"], force_random=True) as m:
        assert pipefs.RandomView(m, "rrc32-trivialaugment-npy", [("a/2.png", 0)])[0][0].shape == (32, 32)
        try:
            pipefs.RandomView(m, "rrc32-colorjitter40_40_40_10-npy", [("a/3.png", 0)])[0]
        except pipefs.Error as e:
            assert "read rgb-rrc32-colorjitter40_40_40_10-npy" in str(e).lower(), e
        else:
            raise AssertionError("RGBA")
        got = pipefs.RandomView(m, "rgb-rrc32-colorjitter40_40_40_10-npy", [("a/3.png", 0)])[0][0]
        assert got.shape == (32, 32, 3)
