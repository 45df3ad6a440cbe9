"""One epoch of an ImageFolder, shuffled: epoch.py ROOT hints|plain decode|bytes WORKERS

Prints the samples, the bytes of their files where they are not decoded, and the seconds from the start of the
workers to the last batch.
"""

import sys
import time

import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler
from torchvision import transforms
from torchvision.datasets import ImageFolder

root, hints, what, workers = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
torch.set_num_threads(1)


def size(path):
    with open(path, "rb") as f:
        return len(f.read())


if what == "bytes":
    data = ImageFolder(root, loader=size)
else:
    data = ImageFolder(root, transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.PILToTensor()]))
sampler = BatchSampler(RandomSampler(data, generator=torch.Generator().manual_seed(7)), 32, False)
if hints == "hints":
    import pipefs

    data = pipefs.Ahead(data)
    sampler = data.batches(sampler)
loader = DataLoader(data, batch_sampler=sampler, num_workers=workers, prefetch_factor=2)
began = time.perf_counter()
samples = total = 0
for x, y in loader:
    samples += len(y)
    if what == "bytes":
        total += int(x.sum())
print(samples, total, time.perf_counter() - began)
