"""Judges the batches of RandomView: what a DataLoader gets is what each item is alone: check_batches.py DATASET"""

import os
import sys

import numpy as np
import torch
from torch.utils.data import ConcatDataset, DataLoader, Subset
from torchvision.datasets import ImageFolder

import pipefs

dataset, view = sys.argv[1], "rrc32-hflip-npy"


def raises(do, *words):
    try:
        do()
    except Exception as e:  # of a worker: torch makes a text of it
        assert "pipefs" in f"{type(e)}{e}" and all(w in str(e) for w in words), repr(e)
    else:
        raise AssertionError(f"no error that says {words}")


def as_list(batch):
    return [(bytes(x), y) for x, y in batch]


class Labelled(pipefs.RandomView):
    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x, y, index


class Cut(torch.utils.data.Dataset):
    """A dataset of a user around a view, which knows nothing of batches."""

    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        x, y = self.data[index]
        return x[:16], y


def made(m):
    return sum(c["value"] for c in m.stats()["counters"] if (c["group"], c["name"]) == ("epochs", "batches made"))


def batched(m, batches, do):
    """What do returns, for which the daemon makes so many batches."""
    before = made(m)
    found = do()
    assert made(m) - before == batches, (made(m) - before, batches)
    return found


def main():
    with pipefs.mount(dataset) as m:
        folder = ImageFolder(m.path("original"))
        data = pipefs.RandomView(m, view, folder, seed=7)
        data.set_epoch(3)
        n = len(data)
        alone = [(bytes(x), y) for x, y in (data[i] for i in range(n))]
        assert made(m) == 0

        items = batched(m, 1, lambda: data.__getitems__([5, 0, 5, -1, np.int64(3)]))
        assert isinstance(items, list) and as_list(items) == [alone[i] for i in (5, 0, 5, -1, 3)]
        assert items[0][0].shape == (32, 32, 3) and items[0][0].dtype == np.uint8 and items[0][0].flags.writeable
        items[0][0][:] = 0  # an item is the caller's own
        assert bytes(items[2][0]) == alone[5][0]
        kept = data.__getitems__(range(8))
        data.__getitems__(range(8, 16))
        assert as_list(kept) == alone[:8]
        assert as_list(batched(m, 0, lambda: data.__getitems__([2]))) == [alone[2]] and data.__getitems__([]) == []

        # Loaders of all kinds
        for kw in ({}, {"num_workers": 2}, {"num_workers": 2, "multiprocessing_context": "spawn"}, {"num_workers": 2, "persistent_workers": True},
                   {"num_workers": 1, "pin_memory": True}, {"num_workers": 0, "drop_last": True}):
            order = torch.randperm(n).tolist()
            loader = DataLoader(data, batch_size=4, sampler=order, **kw)
            for epoch in (3, 4, 3):
                data.set_epoch(epoch)
                got = batched(m, len(loader), lambda: [(bytes(x.numpy()), int(y)) for xs, ys in loader for x, y in zip(xs, ys)])
                assert (got == [alone[i] for i in order][:len(got)]) == (epoch == 3), kw
        loader = DataLoader(data, batch_size=4, num_workers=2, collate_fn=as_list)
        assert sum(batched(m, len(loader), lambda: list(loader)), []) == alone
        halved = pipefs.RandomView(m, view, folder, seed=7, transform=lambda x: torch.from_numpy(x[::2].copy()))
        halved.set_epoch(3)
        got = batched(m, 1, lambda: halved.__getitems__(range(4)))
        assert all(torch.is_tensor(x) and torch.equal(x, halved[i][0]) and y == alone[i][1] for i, (x, y) in enumerate(got))

        # Datasets of it. Old versions of Subset do not ask for batches.
        some = Subset(data, range(2, 10))
        asks = 2 if hasattr(Subset, "__getitems__") else 0
        both = ConcatDataset([data, data])
        assert batched(m, asks, lambda: [bytes(x.numpy()) for xs, _ in DataLoader(some, batch_size=4) for x in xs]) == [x for x, _ in alone[2:10]]
        assert batched(m, 0, lambda: [bytes(x.numpy()) for xs, _ in DataLoader(both, batch_size=4) for x in xs]) == 2 * [x for x, _ in alone]
        assert batched(m, 0, lambda: next(iter(DataLoader(Cut(data), batch_size=4)))[0].shape) == (4, 16, 32, 3)
        own = Labelled(m, view, folder, seed=7)
        own.set_epoch(3)
        assert [i for *_, i in batched(m, 0, lambda: own.__getitems__(range(4)))] == [0, 1, 2, 3]
        several = pipefs.RandomView(m, [view, view], folder, seed=7)
        several.set_epoch(3)
        got = batched(m, 0, lambda: several.__getitems__(range(4)))
        assert [bytes(x[0]) for x, _ in got] == [x for x, _ in alone[:4]]

        # Views whose pictures have sizes of their own
        flipped = pipefs.RandomView(m, "hflip-npy", folder, seed=7)
        got = batched(m, 0, lambda: flipped.__getitems__(range(4)))
        assert [x.shape for x, _ in got] == [flipped[i][0].shape for i in range(4)] and not flipped._batches

        # More than a message or a file holds
        for large in ("rrc1000-npy", view):
            data_of = pipefs.RandomView(m, large, folder, seed=7)
            many = [i % n for i in range(2000 if large == view else 50)]
            before = made(m)
            got = data_of.__getitems__(many)
            assert made(m) - before > 1 and len(got) == len(many), (large, made(m) - before, len(got))
            assert all(bytes(got[k][0]) == bytes(data_of[many[k]][0]) and got[k][1] == folder.samples[many[k]][1] for k in range(0, len(many), len(many) // 10))

        # Forked, beside threads of the parent
        child = os.fork()
        if child == 0:
            os._exit(as_list(data.__getitems__(range(8))) != alone[:8])
        assert as_list(data.__getitems__(range(8, 16))) == alone[8:16]
        assert os.waitpid(child, 0)[1] == 0
        del loader

    # Each bad sample of a batch is named, and batches after it go on; black is for epoch views.
    bad = [os.path.relpath(folder.samples[i][0], folder.root) for i in (1, 6)]
    for name in bad:
        with open(os.path.join(dataset, name), "wb") as f:
            f.write(b"\xff\xd8\xff\xe0 broken")
    with pipefs.mount(dataset, on_error="black") as m:
        data = pipefs.RandomView(m, view, ImageFolder(m.path("original")), seed=7)
        data.set_epoch(3)
        raises(lambda: data.__getitems__(range(8)), "2 of the 8 samples", *[os.path.splitext(b)[0] for b in bad])
        raises(lambda: data.__getitems__(range(4)), os.path.splitext(bad[0])[0])
        assert as_list(data.__getitems__(range(8, 16))) == alone[8:16]
        for workers in (0, 2):
            loader = iter(DataLoader(data, batch_size=8, num_workers=workers))
            raises(lambda: next(loader), *bad[0].split(".")[:1], *bad[1].split(".")[:1])
            assert [bytes(x.numpy()) for x in next(loader)[0]] == [x for x, _ in alone[8:16]]
            del loader


if __name__ == "__main__":
    main()
