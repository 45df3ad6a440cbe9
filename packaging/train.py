#!/usr/bin/env python3
"""A training as small as it can be: ImageFolder, any number of ranks, on the CPU. It knows
nothing of pipefs; its argument is a view of a mount, or the dataset itself."""

import os
import sys

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets, models, transforms

# torchrun says which rank this is; so does srun, in its own words.
rank = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", 0)))
ranks = int(os.environ.get("WORLD_SIZE", os.environ.get("SLURM_NTASKS", 1)))
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29500")
dist.init_process_group("gloo", rank=rank, world_size=ranks)
torch.manual_seed(1)

data = datasets.ImageFolder(sys.argv[1], transforms.Compose([transforms.CenterCrop(224), transforms.ToTensor()]))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=8, sampler=sampler, num_workers=1)
model = torch.nn.parallel.DistributedDataParallel(models.squeezenet1_1(num_classes=len(data.classes)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for epoch in range(2):
    sampler.set_epoch(epoch)
    total = torch.zeros(1)
    for pictures, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(pictures), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() / len(loader)
    dist.all_reduce(total)
    if rank == 0:
        print(f"epoch {epoch}: {len(data)} pictures, {ranks} ranks, mean loss {total.item() / ranks:.3f}", flush=True)
dist.destroy_process_group()
