#!/usr/bin/env python3
"""Read one epoch of a directory the way a PyTorch training does, unmodified.

torchvision's ImageFolder (DatasetFolder with numpy.load for .npy files) and a
DataLoader with the standard ImageNet augmentation. Prints one line of JSON:
images, files, bytes, seconds, images_per_s, cpu_s.
"""
import argparse
import json
import os
import resource
import time


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("directory")
    ap.add_argument("--workers", type=int, default=2)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--seed", type=int, default=0)
    args = ap.parse_args()

    import numpy as np
    import torch
    from torchvision import datasets, transforms

    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    augment = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()]
    if has_npy(args.directory):
        dataset = datasets.DatasetFolder(
            args.directory, np.load, extensions=(".npy",),
            transform=transforms.Compose([transforms.ToTensor(), *augment]))
    else:
        dataset = datasets.ImageFolder(
            args.directory, transforms.Compose([*augment, transforms.ToTensor()]))
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=args.batch, shuffle=True, num_workers=args.workers)

    imported = cpu_seconds()  # loading PyTorch is no part of the epoch
    start = time.monotonic()
    images = 0
    for batch, _ in loader:
        assert batch.shape[1:] == (3, 224, 224), batch.shape
        images += len(batch)
    seconds = time.monotonic() - start
    del loader
    print(json.dumps({
        "images": images,
        "files": len(dataset.samples),
        "bytes": sum(os.stat(path).st_size for path, _ in dataset.samples),
        "seconds": round(seconds, 3),
        "images_per_s": round(images / seconds, 1),
        "cpu_s": round(cpu_seconds() - imported, 3),
    }))


def cpu_seconds():
    """Of this process and of its workers that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def has_npy(directory):
    return any(name.endswith(".npy") for _, _, names in os.walk(directory) for name in names)


if __name__ == "__main__":
    main()
