"""Judges RandomView and draw, with torchvision as the oracle: check_random.py DATASET"""

import os
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, DistributedSampler
from torchvision import transforms
from torchvision.datasets import ImageFolder
from torchvision.transforms import functional as TF

import pipefs

dataset, view = sys.argv[1], "rrc96scale20to100-hflip-npy"


def items(data, workers, sampler=None):
    """What one epoch gives, by sample: each as its bytes and target."""
    loader = DataLoader(data, batch_size=1, num_workers=workers, sampler=sampler, shuffle=sampler is None)
    return [(bytes(x.numpy().tobytes()), int(y)) for x, y in loader]


with pipefs.mount(dataset) as m:
    folder = ImageFolder(m.path("original"))
    data = pipefs.RandomView(m, view, folder, seed=7)
    assert len(data) == len(folder) and data.classes == folder.classes

    # The pixels are torchvision's, given the draw, and so are the boxes.
    flips = 0
    for epoch in range(4):
        data.set_epoch(epoch)
        for i, (path, target) in enumerate(folder.samples):
            array, got = data[i]
            assert got == target and array.shape == (96, 96, 3) and array.dtype == np.uint8
            drawn = pipefs.draw(data.path(i))
            assert (drawn.seed, drawn.epoch, drawn.view) == (7, epoch, view) and path.endswith(drawn.sample)
            with Image.open(path) as picture:
                picture = picture.convert("RGB")
            assert drawn.size == picture.size
            x, y, w, h = drawn.moves[0].box
            want = TF.resized_crop(picture, y, x, h, w, [96, 96])
            flips += drawn.moves[1].flip
            if drawn.moves[1].flip:
                want = TF.hflip(want)
            assert np.array_equal(array, np.asarray(want)), path
            # A white square on black moves where its box moves.
            box = (w // 4 + x, h // 4 + y, w // 2 + x, h // 2 + y)
            square = Image.new("L", picture.size)
            square.paste(255, [round(v) for v in box])
            moved = TF.resized_crop(square, y, x, h, w, [96, 96])
            moved = TF.hflip(moved) if drawn.moves[1].flip else moved
            (_, (x0, y0, x1, y1)), = drawn.boxes([box])
            assert max(abs(a - b) for a, b in zip((x0, y0, x1, y1), Image.fromarray(np.asarray(moved) > 127).getbbox())) < 2
    assert 0 < flips < 4 * len(folder)
    assert drawn.boxes([(-50, -50, -10, -10)]) == []

    # The same for every worker and rank, also for persistent workers that see set_epoch.
    data.set_epoch(0)
    want = sorted(items(data, 0))
    assert sorted(items(data, 2)) == want
    halves = [items(data, 1, DistributedSampler(data, 2, rank, shuffle=True, seed=1)) for rank in range(2)]
    assert sorted(set(halves[0] + halves[1])) == sorted(set(want))
    persistent = DataLoader(data, batch_size=4, num_workers=2, persistent_workers=True)
    epochs = []
    for epoch in (0, 1, 0):
        data.set_epoch(epoch)
        epochs.append(torch.cat([x for x, _ in persistent]).numpy().tobytes())
    assert epochs[0] == epochs[2] != epochs[1]

    # Lists, files of the dataset itself, and transform.
    relative = [(os.path.relpath(p, m.path("original")), t) for p, t in folder.samples]
    of_list = pipefs.RandomView(m, view, relative, seed=7, transform=transforms.ToTensor())
    assert torch.equal(of_list[0][0], transforms.ToTensor()(data[0][0]))
    assert pipefs.RandomView(m, view, ImageFolder(dataset), seed=7).path(0) == data.path(0)

    # Several pictures of a sample: each a draw of its own, the first one that of a single view.
    # What a view draws does not depend on the others.
    views = [view, view, "rrc48scale5to40-hflip-npy", view]
    crops = pipefs.RandomView(m, views, folder, seed=7, transform=[None, transforms.ToTensor(), None, None])
    data.set_epoch(1)
    crops.set_epoch(1)
    for i in range(len(folder)):
        pictures, got = crops[i]
        assert got == folder.samples[i][1] and len(pictures) == 4
        assert np.array_equal(pictures[0], data[i][0])
        assert torch.is_tensor(pictures[1]) and pictures[2].shape == (48, 48, 3)
        told = [pipefs.draw(crops.path(i, n)) for n in range(4)]
        assert [(d.epoch, d.repeat, d.view) for d in told] == [(1, n, v) for n, v in enumerate(views)]
        assert len({d.moves[0].box for d in told}) == 4
        with Image.open(folder.samples[i][0]) as picture:
            picture = picture.convert("RGB")
        for n in (2, 3):
            x, y, w, h = told[n].moves[0].box
            want = TF.resized_crop(picture, y, x, h, w, list(pictures[n].shape[:2]))
            assert np.array_equal(pictures[n], np.asarray(TF.hflip(want) if told[n].moves[1].flip else want))
    batches = [x for x, _ in DataLoader(crops, batch_size=4, num_workers=2)]
    assert [tuple(x.shape) for x in batches[0]] == [(4, 96, 96, 3), (4, 3, 96, 96), (4, 48, 48, 3), (4, 96, 96, 3)]
    other = pipefs.RandomView(m, ["rrc64-npy", view], folder, seed=7)
    other.set_epoch(1)
    assert pipefs.draw(other.path(0, 1)).moves == pipefs.draw(crops.path(0, 1)).moves

    for wrong, words in {"rrc96-hflip-ppm": "end with npy", "resize96-npy": "draws nothing", "rcc96-npy": "did you mean rrc96"}.items():
        try:
            pipefs.RandomView(m, wrong, folder)
        except pipefs.Error as e:
            assert words in str(e), e
        else:
            raise AssertionError(wrong)
    try:
        pipefs.RandomView(m, view, [("/etc/passwd", 0)])
    except pipefs.Error as e:
        assert "/etc/passwd is no file of" in str(e), e
    else:
        raise AssertionError("a file of another tree")
    try:
        pipefs.draw(folder.samples[0][0])
    except pipefs.Error as e:
        assert "no picture of a random view" in str(e), e
    else:
        raise AssertionError("a draw of original/")

# Pictures with boxes beside them are refused, until somebody says that the boxes are moved.
with tempfile.TemporaryDirectory() as boxes:
    shutil.copy(next(p for p, _ in ImageFolder(dataset).samples if p.endswith(".jpg")), os.path.join(boxes, "1.jpg"))
    with open(os.path.join(boxes, "1.txt"), "w", encoding="utf-8") as f:
        f.write("0 0.5 0.5 0.25 0.25\n")
    with pipefs.mount(boxes) as m:
        try:
            pipefs.RandomView(m, view, [("1.jpg", 0)])[0]
        except pipefs.Error as e:
            assert "1.jpg cannot be read: " in str(e) and "1.txt" in str(e) and "force_random=True" in str(e), e
        else:
            raise AssertionError("boxes do not fit what is drawn")
    with pipefs.mount(boxes, force_random=True) as m:
        data = pipefs.RandomView(m, view, [("1.jpg", 0)])
        assert data[0][0].shape == (96, 96, 3) and pipefs.draw(data.path(0)).sample == "1.jpg"

# A URL of a dataset is as good as its path.
url = pathlib.Path(dataset).resolve().as_uri()
with pipefs.mount(url) as m:
    assert m.stats()["source"] == url
    assert len(ImageFolder(m.path("original"))) == len(folder)
