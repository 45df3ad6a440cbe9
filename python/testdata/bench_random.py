"""What random crops cost through ImageFolder, RandomView one by one and in batches, and EpochView: bench_random.py DATASET [ROUNDS]

Prints images a second and ms of CPU an image, of the training, its two workers and the daemon, and medians.
"""

import os
import resource
import statistics
import sys
import time

import torch
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder

import pipefs

BATCH, PASSES = 64, 3


class Each(torch.utils.data.Dataset):
    """A dataset that is read item by item."""

    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        return self.data[i]


def daemon(mountpoint):
    """Seconds of CPU of the processes that serve the mount."""
    ticks = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                ours = os.fsencode(mountpoint) in f.read()
            if ours:
                with open(f"/proc/{pid}/stat") as f:
                    ticks += sum(map(int, f.read().rpartition(") ")[2].split()[11:13]))
        except OSError:
            pass
    return ticks / os.sysconf("SC_CLK_TCK")


def used():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def measure(m, data, next_epoch):
    """Images a second and ms of CPU an image of some epochs; workers are started for each, as usual."""
    items = 0
    took, cpu = -time.monotonic(), -used() - daemon(m.mountpoint)
    for _ in range(PASSES):
        next_epoch()
        whole = isinstance(data, pipefs.EpochView)
        for x, _ in data if whole else DataLoader(data, batch_size=BATCH, shuffle=True, num_workers=2):
            items += len(x)
            assert x.dtype == torch.uint8
    return items / (took + time.monotonic()), 1000 * (cpu + used() + daemon(m.mountpoint)) / items


def main():
    dataset, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    torch.set_num_threads(1)
    with pipefs.mount(dataset, no_background=True, store_max=0) as m:
        plain = ImageFolder(dataset, transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.PILToTensor()]))
        view = pipefs.RandomView(m, "rrc224-hflip-npy", plain, seed=7)
        epochs = pipefs.EpochView(m, "rrc224-hflip-npy", seed=7, batch=BATCH, rank=0, world=1)
        ways = {"ImageFolder": plain, "RandomView, one by one": Each(view), "RandomView": view, "EpochView": epochs}
        epoch, found = 0, {name: [] for name in ways}

        def following():
            nonlocal epoch
            epoch += 1
            view.set_epoch(epoch)
            epochs.set_epoch(epoch)

        for r in range(rounds):
            for name, data in ways.items():
                found[name].append(measure(m, data, following))
                print(f"{r} {name:24} {found[name][-1][0]:7.0f} images/s {found[name][-1][1]:6.2f} ms, load {os.getloadavg()[0]:.1f}", flush=True)
        for name, all_of in found.items():
            ratio = statistics.median(a[0] / b[0] for a, b in zip(all_of, found["ImageFolder"]))
            print(f"{name:24} {statistics.median(a[0] for a in all_of):7.0f} images/s {statistics.median(a[1] for a in all_of):6.2f} ms, {ratio:.2f} times ImageFolder")


if __name__ == "__main__":
    main()
