"""A rank of torchrun, which mounts as all ranks do: rank.py DATASET."""

import sys

import pipefs
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets, transforms

dist.init_process_group("gloo")
with pipefs.mount(sys.argv[1]) as m:
    data = datasets.ImageFolder(m.path("resize64-crop64-bmp"), transforms.ToTensor())
    seen = torch.zeros(1)
    for x, y in DataLoader(data, batch_size=4, sampler=DistributedSampler(data), num_workers=1):
        seen += len(x)
    dist.all_reduce(seen)
    daemons = [None] * dist.get_world_size()
    dist.all_gather_object(daemons, (m.stats()["pid"], m.mountpoint))
    if dist.get_rank() == 0:
        print(f"{len(daemons)} ranks read {int(seen)} of {len(data)} pictures by {len(set(daemons))} daemon")
