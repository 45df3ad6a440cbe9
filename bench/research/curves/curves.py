#!/usr/bin/env python3
"""Trains a small network once, and prints the loss of each epoch as JSON.

curves.py imagefolder|epochs TRAIN: the same network, optimiser, batches and augmentation, either
by torchvision's ImageFolder and transforms or by epoch views. What is drawn, and the order, are
other ones: only a mean over seeds can be compared.
"""
import argparse
import json
import os
import time

import torch
from torch import nn
from torchvision import datasets, transforms

import pipefs

BATCH = 32
MEAN, SPREAD = 120, 60  # of the bytes, about


def network(classes):
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, 2, 2), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 48, 3, 2, 1), nn.BatchNorm2d(48), nn.ReLU(),
        nn.Conv2d(48, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))


def recipe(name):
    """The step of torchvision's recipes that a view has under that name."""
    bilinear = transforms.InterpolationMode.BILINEAR
    if name.startswith("randaug"):
        count, magnitude = map(int, name[len("randaug"):].split("_"))
        return transforms.RandAugment(count, magnitude, interpolation=bilinear)
    return {"trivialaugment": transforms.TrivialAugmentWide, "autoaugment": transforms.AutoAugment}[name](interpolation=bilinear)


class Folder:
    """Epochs by torchvision: ImageFolder and its transforms, a random order by DataLoader."""

    def __init__(self, directory, args):
        flip = [transforms.RandomHorizontalFlip()] if args.flip else []
        own = [recipe(args.recipe)] if args.recipe else []
        steps = [transforms.RandomResizedCrop(args.side), *flip, *own, transforms.PILToTensor()]
        self.data = datasets.ImageFolder(directory, transforms.Compose(steps))
        self.classes = self.data.classes
        self.batches = torch.utils.data.DataLoader(self.data, BATCH, shuffle=True)

    def epoch(self, _):
        return self.batches


class Epochs:
    """Epochs by pipefs: what README and docs/epoch.md tell."""

    def __init__(self, directory, args):
        self.mount = pipefs.mount(directory, no_background=True)
        view = "-".join(filter(None, [f"rrc{args.side}", args.flip and "hflip", args.recipe, "npy"]))
        self.data = pipefs.EpochView(self.mount, view, seed=args.seed, batch=BATCH)
        self.classes = self.data.classes

    def epoch(self, number):
        self.data.set_epoch(number)
        return ((x.permute(0, 3, 1, 2), y) for x, y in self.data)


def values(x):
    return (x.float() - MEAN) / SPREAD


def accuracy(model, directory, args):
    """On pictures that were not trained on, shown in the same way to all."""
    show = transforms.Compose([transforms.Resize(args.side * 8 // 7), transforms.CenterCrop(args.side), transforms.PILToTensor()])
    right = seen = 0
    model.eval()
    with torch.no_grad():
        for x, y in torch.utils.data.DataLoader(datasets.ImageFolder(directory, show), 64):
            right += (model(values(x)).argmax(1) == y).sum().item()
            seen += len(y)
    return right / seen


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("way", choices=["imagefolder", "epochs"])
    ap.add_argument("train", help="directory of classes")
    ap.add_argument("--test", help="directory of classes that are not trained on")
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--epochs", type=int, default=20)
    ap.add_argument("--side", type=int, default=64, help="of the crops, in pixels")
    ap.add_argument("--flip", action="store_true")
    ap.add_argument("--recipe", help="what follows crop and flip: randaug2_9, trivialaugment, autoaugment")
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    data = (Folder if args.way == "imagefolder" else Epochs)(args.train, args)
    torch.manual_seed(args.seed)  # the same weights for both
    model = network(len(data.classes))
    samples = sum(len(files) for _, _, files in os.walk(args.train))
    optimiser = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 6e-3, epochs=args.epochs, steps_per_epoch=-(-samples // BATCH))
    start, losses = time.monotonic(), []
    for epoch in range(args.epochs):
        total = seen = 0
        for x, y in data.epoch(epoch):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(model(values(x)), y)
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.item() * len(y)
            seen += len(y)
        if seen != samples:
            raise SystemExit(f"epoch {epoch} had {seen} samples of {samples}")
        losses.append(total / seen)
    answer = {"loss": losses, "seconds": time.monotonic() - start, "samples": samples, "classes": len(data.classes),
              "torch": torch.__version__, "torchvision": __import__("torchvision").__version__}
    if args.test:
        answer["accuracy"] = accuracy(model, args.test, args)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
