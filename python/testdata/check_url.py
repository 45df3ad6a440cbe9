"""Compares RandomView of a URL with that of the dataset there: check_url.py DATASET URL"""

import os
import sys

import numpy as np
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

import pipefs

dataset, url = sys.argv[1:]
views = ["rrc96scale20to100-hflip-npy", "rrc48-npy"]

with pipefs.mount(dataset) as near:
    want = pipefs.RandomView(near, views, ImageFolder(near.path("original")), seed=7)
    want.set_epoch(3)
    for place in (url, "file://" + dataset):
        with pipefs.mount(place) as m:
            folder = ImageFolder(m.path("original"))
            relative = [(os.path.relpath(p, m.path("original")), t) for p, t in folder.samples]
            for samples in (folder, relative) + ((ImageFolder(dataset),) if place != url else ()):
                data = pipefs.RandomView(m, views, samples, seed=7)
                data.set_epoch(3)
                assert len(data) == len(want) == len(folder)
                for k, (pictures, target) in enumerate(DataLoader(data, batch_size=None, num_workers=2)):
                    wanted, label = want[k]
                    assert target == label
                    assert all(np.array_equal(a, b) for a, b in zip(pictures, wanted)), data.path(k)
                    assert pipefs.draw(data.path(k)).moves == pipefs.draw(want.path(k)).moves
            for path in ["/etc/passwd"] + ([ImageFolder(dataset).samples[0][0]] if place == url else []):
                try:
                    pipefs.RandomView(m, views, [(path, 0)])
                except pipefs.Error as e:
                    assert path in str(e) and "is no file of" in str(e), e
                else:
                    raise AssertionError(f"{path} is taken for a file of {place}")
