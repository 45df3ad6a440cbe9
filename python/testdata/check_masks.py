"""Judges masks that follow their pictures, with torchvision on Pillow as the oracle: check_masks.py"""

import glob
import logging
import os
import subprocess
import tempfile

import numpy as np
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as F

import pipefs

NEAREST = InterpolationMode.NEAREST
VIEWS = [
    "rrc64-hflip-trivialaugment-npy",
    "rrc48scale20to100-randaug3_25-erase90-hflip-npy",
    "pad9-randcrop96-colorjitter40_40_40_10-hflip-npy",
    "resize80-randcrop64-autoaugment-solarize128-npy",
]
random = np.random.default_rng(1)
told_of_modes = []
logging.getLogger("pipefs").addFilter(lambda record: "several modes" not in record.getMessage() or told_of_modes.append(record))


def write(root, name, mode, width=120, height=90):
    picture = os.path.join(root, "images", name + ".jpg")
    mask = os.path.join(root, "masks", name + "_mask.png")
    for path in (picture, mask):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    Image.fromarray(random.integers(0, 256, (height // 6, width // 6, 3), np.uint8)).resize((width, height)).save(picture)
    values = random.integers(1, 60000 if mode == "I;16" else 200, (height // 5 + 1, width // 5 + 1)).repeat(5, 0).repeat(5, 1)[:height, :width]
    image = Image.fromarray(values.astype(np.uint16 if mode == "I;16" else np.uint8))
    if mode == "P":
        image.putpalette(random.integers(0, 256, 768, np.uint8).tobytes())
    image.save(mask)


def followed(mask, draw):
    """What torchvision makes of a mask, given what was drawn for its picture."""
    for m in draw.moves:
        x, y, w, h = m.box
        if m.step.startswith("pad"):
            mask = F.pad(mask, -x)
        elif m.step.startswith("randcrop"):
            mask = F.crop(mask, y, x, h, w)
        elif m.step.startswith("hflip"):
            continue
        else:
            mask = F.resized_crop(mask, y, x, h, w, m.size[::-1], NEAREST)
    flips = [m.flip for m in draw.moves if m.step == "hflip"]
    late = draw.view.endswith("hflip-npy")
    if any(flips) and not late:
        mask = F.hflip(mask)
    for o in draw.ops:
        angle = np.degrees(np.arctan(o.by)).item()
        if o.op in ("shearx", "sheary"):
            mask = F.affine(mask, 0.0, [0, 0], 1.0, [angle, 0.0] if o.op == "shearx" else [0.0, angle], NEAREST, center=[0, 0])
        elif o.op.startswith("translate"):
            mask = F.affine(mask, 0.0, [int(o.by), 0] if o.op == "translatex" else [0, int(o.by)], 1.0, [0.0, 0.0], NEAREST)
        elif o.op == "rotate":
            mask = F.rotate(mask, o.by, NEAREST)
    return np.asarray(F.hflip(mask) if any(flips) and late else mask)


def refused(words, f):
    try:
        f()
    except (pipefs.Error, OSError) as e:
        assert words in str(e), (words, e)
    else:
        raise AssertionError(words)


for mode, pair in (("P", "images/**.jpg=masks/**_mask.png"), ("L", "images/**/*.jpg=masks/**/*_mask.png"), ("I;16", "/images/*/*.jpg=masks/*/*_mask.png")):
    with tempfile.TemporaryDirectory() as root:
        names = [f"{c}/{i}" for c in "ab" for i in range(6)]
        for i, name in enumerate(names):
            write(root, name, mode, 120 + 7 * i, 90)
        samples = [(f"images/{name}.jpg", name) for name in names]
        with pipefs.mount(root, pair=pair, seed=5) as m:
            moved = set()
            for view in VIEWS:
                data = pipefs.RandomView(m, view, samples, seed=7, masks=True)
                assert not told_of_modes, told_of_modes
                batches = pipefs.EpochView(m, view, seed=7, batch=5, directory="images", masks=True)
                for epoch in (0, 3):
                    data.set_epoch(epoch)
                    batches.set_epoch(epoch)
                    items = dict()
                    for i, (picture, mask, name) in enumerate(data.__getitems__(range(len(samples)))):
                        draw = pipefs.draw(data.path(i))
                        moved |= {o.op for o in draw.ops}
                        source = Image.open(os.path.join(root, "masks", name + "_mask.png"))
                        if mode == "I;16":  # moved as Pillow moves I
                            source = Image.fromarray(np.asarray(source).astype(np.int32))
                        want = followed(source, draw)
                        assert mask.dtype == ("int32" if mode == "I;16" else "uint8") and np.array_equal(mask, want), (view, draw)
                        alone = np.load(os.path.join(data.root, "masks", name + "_mask.png"))
                        assert np.array_equal(alone, mask) and np.array_equal(data[i][1], mask)
                        assert pipefs.draw(os.path.join(data.root, "masks", name + "_mask.png")).moves == draw.moves
                        items[samples[i][0]] = (picture, mask)
                    seen = []
                    for k, (x, masks, y) in enumerate(batches):
                        with open(os.path.join(batches.root, f"{k:06d}.paths.txt")) as f:
                            paths = f.read().splitlines()
                        assert len(x) == len(masks) == len(y) == len(paths)
                        for path, picture, mask, label in zip(paths, x, masks, y):
                            assert np.array_equal(picture, items[path][0]) and np.array_equal(mask, items[path][1]), path
                            assert label == (path[7] == "b")
                        seen += paths
                    assert sorted(seen) == sorted(items)
            assert {"rotate", "shearx", "translatey", "brightness"} <= moved, moved

            # Without an epoch in the path, a mask has the draw of the last open of its picture.
            plain = m.path(VIEWS[0])
            of = "images/a/1.jpg", "masks/a/1_mask.png"
            draws = [[np.load(os.path.join(m.mountpoint, ".draw", "5", str(epoch), VIEWS[0], path)) for path in of] for epoch in range(9)]
            last = set()
            for _ in range(3):
                got = [np.load(os.path.join(plain, path)) for path in of]
                same = [epoch for epoch in range(9) if all(map(np.array_equal, draws[epoch], got))]
                assert len(same) == 1, same
                last |= set(same)
            assert len(last) == 3, last
            refused("Input/output error", lambda: np.load(os.path.join(plain, "masks/a/2_mask.png")))
            told = subprocess.run(["pipefs", "explain", os.path.join(data.root, "masks/a/1_mask.png")], check=True, capture_output=True, text=True).stdout
            assert "its picture, images/a/1.jpg" in told and "nearest neighbour" in told, told

            # Where nothing is drawn, too.
            x, masks, _ = pipefs.EpochView(m, "resize64-crop48-npy", batch=12, directory="images", masks=True)[0]
            assert x.shape == (12, 48, 48, 3) and masks.shape == (12, 48, 48)
            refused("there are 0 samples", lambda: pipefs.EpochView(m, "rrc32-npy", directory="masks", masks=True)[0])

with tempfile.TemporaryDirectory() as root:
    for i in range(12):
        write(root, f"{i:02d}", "L")
    pair = "images/*.jpg=masks/*_mask.png"
    Image.new("L", (90, 120)).save(os.path.join(root, "masks/03_mask.png"))  # of another size
    os.truncate(os.path.join(root, "masks/05_mask.png"), 60)
    os.truncate(os.path.join(root, "images/07.jpg"), 400)
    bad = {"images/03.jpg", "images/05.jpg", "images/07.jpg"}
    view, samples = "rrc64-hflip-npy", [(f"images/{i:02d}.jpg", i) for i in range(12)]

    def read(m, **options):
        data = pipefs.EpochView(m, view, seed=7, batch=12, directory="images", masks=True, **options)
        batch = data[0]
        with open(os.path.join(data.root, "000000.paths.txt")) as f:
            return (*batch, f.read().splitlines())

    with pipefs.mount(root, pair=pair) as m:
        refused("90×120 pixels before rrc64", lambda: pipefs.RandomView(m, view, [("images/03.jpg", 0)], masks=True)[0])
        refused("sample images/0", lambda: read(m))
    with pipefs.mount(root, pair=pair, on_error="black", on_error_limit="60%") as m:
        x, masks, _, paths = read(m)
        for path, picture, mask in zip(paths, x, masks):
            assert picture.any() == mask.any() == (path not in bad), path
        x, masks, y, _ = read(m, skip=True)
        assert len(x) == len(masks) == len(y) == 9 and all(mask.any() for mask in masks)
        assert len(pipefs.RandomView(m, view, samples, skip=True, masks=True).__getitems__(range(12))) == 9
    with pipefs.mount(root, pair=pair, on_error="replace", on_error_limit="60%") as m:
        x, masks, _, paths = read(m)
        assert len(paths) == 12 and len(set(paths)) <= 9 and not bad & set(paths)
        good = pipefs.RandomView(m, view, samples, seed=7, masks=True)
        for path, picture, mask in zip(paths, x, masks):
            item = good[int(path[7:9])]
            assert np.array_equal(picture, item[0]) and np.array_equal(mask, item[1]), path
        # A file by itself has nobody who would take another mask.
        for i in (5, 7):
            refused("together with its mask", lambda: good[i])
    refused("masks=True needs a mount", lambda: [pipefs.EpochView(m, view, directory="images", masks=True)[0] for m in [pipefs.mount(root, force_random=True)]])
    os.remove(os.path.join(root, "masks/08_mask.png"))
    with open(os.path.join(root, "some.csv"), "w") as f:
        f.write("path\n" + "".join(f"images/{i:02d}.jpg\n" for i in (1, 8, 9)))
    with pipefs.mount(root, pair=pair) as m:
        refused("1 of 12 samples have no mask, such as images/08.jpg: there is no masks/08_mask.png", lambda: read(m))
        refused("1 of 3 samples have no mask", lambda: pipefs.EpochView(m, view, batch=3, directory="some.csv", masks=True)[0])
    for path in glob.glob(os.path.join(root, "masks/*")):
        os.remove(path)
    refused("12 pictures have no mask, such as images/00.jpg", lambda: pipefs.mount(root, pair=pair))
    refused("matches no picture", lambda: pipefs.mount(root, pair="image/*.jpg=masks/*.png"))
    refused("the same wildcards", lambda: pipefs.mount(root, pair="images/**.jpg=masks/*.png"))
