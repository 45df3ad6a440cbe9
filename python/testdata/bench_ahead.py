"""How fast files are read that are far away, with hints and without: bench_ahead.py DATASET"""

import random
import sys
import time

import numpy as np
import torch
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import DatasetFolder, ImageFolder

import pipefs

dataset = sys.argv[1]
new = int(torch.__version__.split(".")[0]) >= 2


class Parts:
    """A batch sampler: first some batches that start the workers, and then the others."""

    def __init__(self, order, batch, first):
        self.part, self.parts, self.batch = 0, [order[:first], order[first:]], batch

    def __len__(self):
        return (len(self.parts[self.part]) + self.batch - 1) // self.batch

    def __iter__(self):
        part = self.parts[self.part]
        return iter([part[i:i + self.batch] for i in range(0, len(part), self.batch)])


def raw(path):
    with open(path, "rb") as f:
        return len(f.read())


def rate(make, how, batch):
    """Files a second, of a mount that was not read from."""
    with pipefs.mount(dataset, store_max=0, no_background=True, seed=random.randrange(1 << 30), immutable=True) as m:
        data = make(m)
        order = list(range(len(data)))
        random.Random(1).shuffle(order)
        parts = sampler = Parts(order, batch, 2 * batch)
        if how != "none":
            data = pipefs.Ahead(data)
            if how == "batches" or how == "items" and not new:
                sampler = data.batches(sampler)
        loader = DataLoader(data, batch_sampler=sampler, num_workers=2, persistent_workers=True, collate_fn=len)
        assert sum(loader) == 2 * batch
        parts.part = 1
        if how == "order":
            data.announce_order(order[2 * batch:])
        began = time.time()
        n = sum(loader)
        took = time.time() - began
        said = {c["name"]: c["value"] for c in m.stats()["counters"] if c["group"] == "hints"}
        return n / took, said


kinds = {
    "original/, bytes": lambda m: DatasetFolder(m.path("original"), raw, extensions=(".jpg", ".jpeg")),
    "original/, ImageFolder with crop": lambda m: ImageFolder(m.path("original"), transforms.Compose([transforms.RandomResizedCrop(224), transforms.PILToTensor()])),
    "rrc224-hflip-npy, RandomView": lambda m: pipefs.RandomView(m, "rrc224-hflip-npy", ImageFolder(m.path("original")), seed=7),
    "resize256-crop224-npy": lambda m: DatasetFolder(m.path("resize256-crop224-npy"), np.load, extensions=(".npy",)),
}
if __name__ == "__main__":
    print(f"torch {torch.__version__}; files a second, medians of 3")
    for batch, names in ((64, list(kinds)), (16, list(kinds)[:1])):
        for name in names:
            make, line = kinds[name], []
            for how in ("none", "items", "batches", "order"):
                rates = sorted((rate(make, how, batch) for _ in range(3)), key=lambda r: r[0])
                line.append(f"{how} {rates[1][0]:.0f}")
                print(how, rates[1][1], file=sys.stderr) if "-v" in sys.argv else None
            print(f"batches of {batch}, {name}: {', '.join(line)}", flush=True)
