#!/usr/bin/env python3
"""Train a small convolutional network on pictures that are read through a mount.

accuracy: train at each scan with several seeds; test accuracy on full pictures and on
those of the same scan. gradient: the cosine between the gradients at each scan and
those of full pictures, epoch by epoch. rate: images/s of one epoch of training.
Each prints one line of JSON.
"""
import argparse
import json
import os
import sys
import time
import types

import numpy as np
import torch
from PIL import Image
from pipefs import autotune
from torch import nn

CROP = 128


def net(classes):
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, 2, 2), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 48, 3, 2, 1), nn.BatchNorm2d(48), nn.ReLU(),
        nn.Conv2d(48, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))


def files(directory):
    """Paths and labels: directories are classes."""
    found = []
    for label, name in enumerate(sorted(os.listdir(directory))):
        inside = os.path.join(directory, name)
        found += [(os.path.join(inside, f), label) for f in sorted(os.listdir(inside))]
    return found


def picture(path):
    with open(path, "rb") as f:
        return np.asarray(Image.open(f).convert("RGB"))


def load(directory):
    """All pictures in memory, as bytes."""
    found = files(directory)
    x = np.stack([picture(path) for path, _ in found]).transpose(0, 3, 1, 2)
    return torch.from_numpy(np.ascontiguousarray(x)), torch.tensor([label for _, label in found])


def crop(x, y0, x0):
    return (x[..., y0:y0 + CROP, x0:x0 + CROP].float() - 120) / 60


def middle(x):
    at = (x.shape[-1] - CROP) // 2
    return crop(x, at, at)


def step(model, optimiser, x, y):
    optimiser.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimiser.step()


def train(x, y, classes, epochs, batch, seed, each=None):
    """Random crops; no flip, which would turn what leans left to what leans right."""
    torch.manual_seed(seed)
    model = net(classes)
    optimiser = torch.optim.Adam(model.parameters(), 2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 6e-3, epochs=epochs, steps_per_epoch=-(-len(y) // batch))
    room = x.shape[-1] - CROP + 1
    if each:
        each(0, model)
    for epoch in range(epochs):
        model.train()
        for at in torch.randperm(len(y)).split(batch):
            y0, x0 = torch.randint(room, (2,)).tolist()
            step(model, optimiser, crop(x[at], y0, x0), y[at])
            schedule.step()
        if each:
            each(epoch + 1, model)
    return model


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        right = sum((model(middle(a)).argmax(1) == b).sum().item() for a, b in zip(x.split(64), y.split(64)))
    return right / len(y)


def run_accuracy(args):
    classes = len(os.listdir(os.path.join(args.mount, "original", "train")))
    full = load(os.path.join(args.mount, "original", "test"))
    rows = []
    for scan in args.scans:
        view = os.path.join(args.mount, f"scan{scan}")
        x, y = load(os.path.join(view, "train"))
        own = load(os.path.join(view, "test"))
        for seed in range(args.seeds):
            start = time.monotonic()
            model = train(x, y, classes, args.epochs, args.batch, seed)
            rows.append({"scan": scan, "seed": seed, "full": accuracy(model, *full), "own": accuracy(model, *own),
                         "train": accuracy(model, x, y), "seconds": time.monotonic() - start})
            print(f"scan {scan}, seed {seed}: {rows[-1]['full']:.3f}", file=sys.stderr, flush=True)
    print(json.dumps({"rows": rows, "classes": classes, "train": len(y), "test": len(full[1])}))


def run_gradient(args):
    views = {view: load(os.path.join(args.mount, view, "train")) for view in ["original", *(f"scan{k}" for k in args.scans)]}
    x, y = views["original"]
    mount = types.SimpleNamespace(path=lambda view: view, fidelity=lambda scans: None)  # nothing is read from MNT/current
    tuner = None

    def each(epoch, model):
        nonlocal tuner
        tuner = tuner or autotune.Autotune(
            mount, model, lambda view: torch.utils.data.TensorDataset(*views[view]),
            lambda model, batch: nn.functional.cross_entropy(model(middle(batch[0])), batch[1]),
            every=1, scans=args.scans, against="original")
        model.eval()  # what batch normalisation has learnt stays as it is
        problem = tuner.step().problem
        if problem:
            sys.exit(problem)

    train(x, y, int(y.max()) + 1, args.epochs, args.batch, 0, each)
    print(json.dumps({"rows": [{"epoch": i, "similarity": found.similarity} for i, found in enumerate(tuner.history)]}))


class Pictures(torch.utils.data.Dataset):
    """Photographs from a list: a crop out of the middle of each half of the picture."""

    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        x = torch.from_numpy(picture(self.paths[i]).copy()).permute(2, 0, 1)
        return crop(x, (x.shape[1] - CROP) // 2, (x.shape[2] - CROP) // 2), i % 8


def run_rate(args):
    """Images/s over an epoch, the first batch not counted: it waits for the workers."""
    if args.files:
        with open(args.files) as f:
            paths = f.read().splitlines()
    torch.set_num_threads(1)
    model = net(8)
    optimiser = torch.optim.SGD(model.parameters(), 1e-3)
    if args.memory:
        x, y = torch.randn(args.batch, 3, CROP, CROP), torch.arange(args.batch) % 8
        step(model, optimiser, x, y)
        start = time.monotonic()
        for _ in range(args.memory):
            step(model, optimiser, x, y)
        print(json.dumps({"rate": args.memory * args.batch / (time.monotonic() - start)}))
        return
    loader = torch.utils.data.DataLoader(Pictures(paths), batch_size=args.batch, num_workers=args.workers)
    seen = start = 0
    for x, y in loader:
        step(model, optimiser, x, y)
        if start:
            seen += len(y)
        else:
            start = time.monotonic()
    if not seen:
        sys.exit(f"{len(paths)} files are not enough for two batches of {args.batch}")
    print(json.dumps({"rate": seen / (time.monotonic() - start), "images": seen}))


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("what", choices=["accuracy", "gradient", "rate"])
    ap.add_argument("--mount", help="with views of the labelled set")
    ap.add_argument("--files", help="rate: a list of files")
    ap.add_argument("--memory", type=int, default=0, help="rate: so many batches from memory instead")
    ap.add_argument("--scans", type=int, nargs="+", default=[1, 2, 5, 10])
    ap.add_argument("--seeds", type=int, default=3)
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--workers", type=int, default=2)
    args = ap.parse_args()
    {"accuracy": run_accuracy, "gradient": run_gradient, "rate": run_rate}[args.what](args)


if __name__ == "__main__":
    main()
