"""An epoch of torchvision's ImageFolder through a mount: train.py DATASET."""

import sys

import pipefs
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms

with pipefs.mount(sys.argv[1], cache="64MB") as m:
    data = datasets.ImageFolder(m.path("resize64-crop64-bmp"), transforms.ToTensor())
    model = models.resnet18(num_classes=len(data.classes))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in DataLoader(data, batch_size=16, shuffle=True, num_workers=2):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    print(f"trained on {len(data)} pictures of {len(data.classes)} classes")
