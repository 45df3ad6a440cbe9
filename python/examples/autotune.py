#!/usr/bin/env python3
"""Trains a small network on photographs three times: with all scans of their JPEG files, with
five of ten, and with pipefs.autotune. Prints fidelity, loss, and the bytes that were read.

    autotune.py DATASET [--disk 10MB/s] [--epochs 24] [--json FILE]

DATASET has a directory for each class, or files of ImageNet whose names begin with a WordNet
id, such as n01440764_tench.JPEG; then the classes are animals and all else. One file of five is
kept for the test. The dataset is packed, so that a low fidelity reads few bytes, and mounted on
a disk that is slowed down. A training on 400 photographs takes a minute or two on two cores.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import pipefs
import torch
from PIL import Image
from pipefs.autotune import Autotune
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms as T

BATCH = 16
NORMAL = [T.ToTensor(), T.Normalize([0.46] * 3, [0.24] * 3)]
PLAIN = T.Compose([T.Resize(128), T.CenterCrop(112), *NORMAL])
AUGMENT = T.Compose([T.Resize(128), T.CenterCrop(112), T.RandomHorizontalFlip(), *NORMAL])
FIRST_THING = "n02666196"  # of ImageNet's classes by WordNet id: before it are the animals


class Pictures(Dataset):
    """Opens each file by its path whenever it is asked for, as ImageFolder does; so it sees that
    MNT/current has moved. A sample is a tensor, a label, and the bytes of the file."""

    def __init__(self, root, samples, transform):
        self.root, self.samples, self.transform = root, samples, transform

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        name, label = self.samples[i]
        with open(os.path.join(self.root, name), "rb") as f:
            return self.transform(Image.open(f).convert("RGB")), label, os.fstat(f.fileno()).st_size


def labelled(root):
    """Names of files, relative to root, and their labels; and how many classes there are."""
    classes = sorted(e.name for e in os.scandir(root) if e.is_dir())
    if classes:
        names = [(os.path.join(c, n), i) for i, c in enumerate(classes) for n in sorted(os.listdir(os.path.join(root, c)))]
    else:
        classes = ["animal", "thing"]
        names = [(n, int(n[:9] >= FIRST_THING)) for n in sorted(os.listdir(root)) if n[:1] == "n" and n[1:9].isdigit()]
    names = [(n, label) for n, label in names if n.lower().endswith((".jpg", ".jpeg"))]
    if len(names) < 5 * BATCH:
        raise SystemExit(f"{root} has {len(names)} JPEG files in directories, or with names that begin with a WordNet id; it takes {5 * BATCH}")
    order = torch.randperm(len(names), generator=torch.Generator().manual_seed(0)).tolist()
    return [names[i] for i in order], len(classes)


def network(classes):
    torch.manual_seed(0)
    layers, channels = [], 3
    for width in (16, 32, 48, 64, 96):
        layers += [nn.Conv2d(channels, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y, _ in loader)
    return right / len(loader.dataset)


def train(m, name, samples, classes, epochs):
    """Trains once; name is a view or `autotune`. Returns what happened, epoch by epoch."""
    held = len(samples) // 5
    test, samples = samples[:held], samples[held:]
    model, read = network(classes), 0

    def loss(model, batch):
        nonlocal read
        x, y, size = batch
        read += size.sum().item()
        return nn.functional.cross_entropy(model(x), y)

    tune = name == "autotune"
    root = m.path("current" if tune else name)
    loader = DataLoader(Pictures(root, samples, AUGMENT), BATCH, shuffle=True, drop_last=True, num_workers=2)
    optimiser = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, epochs=epochs, steps_per_epoch=len(loader))
    tuner = tune and Autotune(m, model, lambda root: Pictures(root, samples, PLAIN), loss, first=2 * len(loader),
                              every=4 * len(loader), batch_size=BATCH, workers=2)
    rows, measurements, start = [], [], time.monotonic()
    for epoch in range(1, epochs + 1):
        model.train()
        total, view = 0.0, os.path.basename(os.path.realpath(root))
        for batch in loader:
            optimiser.zero_grad()
            value = loss(model, batch)
            value.backward()
            optimiser.step()
            schedule.step()
            total += value.item() / len(loader)
            before = read
            found = tuner and tuner.step()
            if found:
                measurements.append({"epoch": epoch, "similarity": found.similarity, "scans": found.scans, "problem": found.problem, "bytes": read - before})
        rows.append({"epoch": epoch, "seconds": time.monotonic() - start, "bytes": read, "view": view, "loss": total})
        print(f"{name:9} {epoch:5} {rows[-1]['seconds']:8.1f} {read / 1e6:8.1f} {view:>8} {total:8.3f}", flush=True)
    right = accuracy(model, DataLoader(Pictures(m.path("scan10"), test, PLAIN), BATCH, num_workers=2))
    return {"name": name, "epochs": rows, "measurements": measurements, "accuracy": right, "test": held}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("dataset", metavar="DATASET")
    ap.add_argument("--disk", default="10MB/s", metavar="RATE", help="how fast the disk is made")
    ap.add_argument("--epochs", type=int, default=24)
    ap.add_argument("--json", metavar="FILE", help="write what happened there, too")
    args = ap.parse_args()
    torch.set_num_threads(1)  # the workers decode on the other cores
    samples, classes = labelled(args.dataset)
    with tempfile.TemporaryDirectory() as d:
        store = os.path.join(d, "store")
        subprocess.run([sys.executable, "-m", "pipefs", "pack", args.dataset, store], check=True)
        # Nothing is kept in memory: as if the dataset were larger than that.
        with pipefs.mount(store, cache=0, limit_read=args.disk) as m:
            print("             epoch  seconds  MB read fidelity     loss")
            runs = [train(m, name, samples, classes, args.epochs) for name in ("scan10", "scan5", "autotune")]
    for run in runs:
        last = run["epochs"][-1]
        print(f"{run['name']:9} {last['bytes'] / 1e6:7.1f} MB in {last['seconds']:5.1f} s, loss {last['loss']:.3f}, "
              f"{run['accuracy']:.0%} of {run['test']} others right")
    for h in runs[-1]["measurements"]:
        told = ", ".join(f"scan{k} {v:.2f}" for k, v in h["similarity"].items())
        print(f"after epoch {h['epoch']}: scan{h['scans']}, by {told or h['problem']}")
    if args.json:
        with open(args.json, "w") as f:
            json.dump(runs, f)


if __name__ == "__main__":
    main()
