"""Judges EpochView, with torchvision and torch's sampler as the oracles: check_epoch.py DATASET"""

import collections
import csv
import os
import pickle
import sys

import numpy as np
import torch
from torch.utils.data import DataLoader, DistributedSampler
from torchvision.datasets import ImageFolder

import pipefs

dataset, view = sys.argv[1], "rrc64scale20to100-hflip-npy"


def raises(what, do):
    try:
        do()
    except pipefs.Error as e:
        assert what in str(e), e
    else:
        raise AssertionError(f"no error that says {what}")


def same(a, b):
    a, b = list(a), list(b)
    return len(a) == len(b) and all(torch.equal(x, u) and torch.equal(y, v) for (x, y), (u, v) in zip(a, b))


with pipefs.mount(dataset) as m:
    folder = ImageFolder(m.path("original"))
    target = {os.path.relpath(path, m.path("original")): t for path, t in folder.samples}
    orders = set()
    for seed in range(3):
        for world in (1, 2, 8):
            ranks = [pipefs.EpochView(m, view, seed, 5, rank, world) for rank in range(world)]
            for epoch in range(3):
                times, places = collections.Counter(), []
                for rank, data in enumerate(ranks):
                    data.set_epoch(epoch)
                    sampler = DistributedSampler(folder, world, rank)
                    assert data.classes == folder.classes and len(data) == -(-len(sampler) // 5)
                    seen = 0
                    for k, (x, y) in enumerate(data):
                        assert x.dtype == torch.uint8 and x.shape == (len(y), 64, 64, 3) and y.dtype == torch.int64
                        with open(os.path.join(data.root, f"{k:06d}.paths.txt")) as f:
                            paths = f.read().splitlines()
                        for path, pixels, label in zip(paths, x, y):
                            alone = np.load(os.path.join(m.mountpoint, ".draw", str(seed), str(epoch), view, os.path.splitext(path)[0] + ".npy"))
                            assert np.array_equal(pixels.numpy(), alone) and label == target[path], path
                        times.update(paths)
                        places += paths
                        seen += len(y)
                    assert seen == len(sampler)
                # As often as DistributedSampler gives it
                want = collections.Counter(i for rank in range(world) for i in DistributedSampler(folder, world, rank))
                assert sorted(times.values()) == sorted(want.values()) and len(times) == len(folder)
                orders.add(tuple(places))
    assert len(orders) == 27

    # Stopped and continued, here and in another process, and by number
    data = pipefs.EpochView(m, view, 7, 5, 0, 1)
    whole = list(data)
    assert data.state_dict()["steps"] == len(whole) == len(data) and data.state_dict()["samples"] == len(folder)
    assert same(data, whole), "read twice"
    begun = iter(data)
    first = [next(begun) for _ in range(2)]
    state = data.state_dict()
    begun.close()
    other = pickle.loads(pickle.dumps(pipefs.EpochView(m, view, 7, 5, 0, 1)))
    other.load_state_dict(state)
    other.set_epoch(0)
    assert (state["steps"], state["samples"]) == (2, 10) and same(first + list(other), whole)
    assert same(other, whole), "what is continued begins anew the next time"
    assert same([data[k] for k in range(len(data))], whole)

    # What somebody keeps is not written to.
    kept = [(x, x.clone()) for x, y in data]
    assert all(torch.equal(x, y) for x, y in kept)

    # Memory of torch's own, as where there is a GPU
    pinned, pipefs._epoch._pinned = pipefs._epoch._pinned, lambda torch, size: torch.empty(size, dtype=torch.uint8)
    assert same(data, whole)
    pipefs._epoch._pinned = pinned

    # DataLoader, with persistent workers that see set_epoch
    for workers in (0, 1, 3):
        loader = DataLoader(data, batch_size=None, num_workers=workers, persistent_workers=workers > 0)
        assert len(loader) == len(data)
        for epoch in (0, 1, 0):
            data.set_epoch(epoch)
            assert same(loader, whole) == (epoch == 0)
    data.load_state_dict(state)
    assert same(DataLoader(data, batch_size=None, num_workers=2), whole[2:])
    data.set_epoch(1)
    data.set_epoch(0)

    dropped = pipefs.EpochView(m, view, 7, 5, 0, 1, drop=True)
    assert same(dropped, whole[:-1]) and len(whole[-1][1]) < 5
    assert len(list(pipefs.EpochView(m, view, 7, 2, 0, 1, directory="class00").classes)) == 0
    windowed = pipefs.EpochView(m, view, 7, 5, 0, 1, drop=True, window=100)
    assert "/5drop-window100/" in windowed.root and len(list(windowed)) == len(dropped)
    raises("want a window of 64", lambda: pipefs.EpochView(m, view, 7, 5, 0, 1, window=1))

    # A list in the dataset, with weights that were drawn from; see docs/epoch.md
    paths = sorted(target)
    weights = np.arange(len(paths)) / np.arange(len(paths)).sum()
    drawn = np.random.default_rng(7).choice(paths, 100, p=weights)
    with open(os.path.join(dataset, "drawn.csv"), "w", newline="") as f:
        csv.writer(f).writerows([["path"], *([path] for path in drawn)])
    listed = pipefs.EpochView(m, view, 7, 30, 0, 1, directory="drawn.csv")
    assert listed.classes == folder.classes and len(listed) == 4
    given = collections.Counter()
    for k, (x, y) in enumerate(listed):
        with open(os.path.join(listed.root, f"{k:06d}.paths.txt")) as f:
            batch = f.read().splitlines()
        assert y.tolist() == [target[path] for path in batch]
        given.update(batch)
    assert given == collections.Counter(drawn.tolist())
    with open(os.path.join(dataset, "bad.csv"), "w") as f:
        f.write("path\nclass00/lost.jpg\n")
    raises("bad.csv, line 2: there is no class00/lost.jpg", lambda: pipefs.EpochView(m, view, directory="bad.csv"))
    with open(m.stats()["log"]) as f:
        assert "bad.csv, line 2: there is no class00/lost.jpg" in f.read()

    raises("both", lambda: pipefs.EpochView(m, view, rank=1))
    raises("one shape", lambda: pipefs.EpochView(m, "npy"))
    raises("did you mean", lambda: pipefs.EpochView(m, "rcc64-npy"))
    raises("no batches", lambda: pipefs.EpochView(m, view, batch=1000, drop=True))

    broken = os.path.join(dataset, sorted(target)[3])
    with open(broken, "wb") as f:
        f.write(b"\xff\xd8\xff\xe0 broken")
    raises("cannot be read: batch", lambda: list(pipefs.EpochView(m, view, 9, 5)))

# Columns of Parquet files come with the batches.
with pipefs.mount(os.path.join(os.path.dirname(__file__), "../../cmd/pipefs/testdata/pictures.parquet")) as m:
    read = list(pipefs.EpochView(m, "rrc8-npy", 7, 10, 0, 1, directory="pictures", columns=["label"]))
    assert len(read) == 4 and all(y.tolist() == columns["label"] for _, y, columns in read)
    raises("no Parquet column 'caption'", lambda: list(pipefs.EpochView(m, "rrc8-npy", 7, 10, 0, 1, directory="pictures", columns="caption")))
