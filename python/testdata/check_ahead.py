"""Judges Ahead: check_ahead.py DATASET NEAR. The dataset is far away, and NEAR is the same one here."""

import os
import random
import subprocess
import sys
import time
import warnings

import numpy as np
import torch
from torch.utils.data import BatchSampler, ConcatDataset, DataLoader, RandomSampler, SequentialSampler, Subset
from torchvision.datasets import DatasetFolder, ImageFolder

import pipefs

dataset, near = sys.argv[1:]
new = int(torch.__version__.split(".")[0]) >= 2


def raw(path):
    with open(path, "rb") as f:
        return torch.frombuffer(bytearray(f.read()), dtype=torch.uint8)


def hints(m):
    return {c["name"]: c["value"] for c in m.stats()["counters"] if c["group"] == "hints"}


def lists(batch):
    return batch


def read(loader):
    """The bytes of all items, in the order in which they are read, and how long that took."""
    began = time.time()
    items = [bytes(x.numpy().tobytes()) for batch in loader for x, _ in batch]
    return items, time.time() - began


def loaders(data, order, batch=16, workers=2, **more):
    """With hints, by whatever this torch has."""
    plain = BatchSampler(order, batch, False)
    sampler = data.batches(plain) if isinstance(data, pipefs.Ahead) and not new else plain
    return DataLoader(data, batch_sampler=sampler, num_workers=workers, collate_fn=lists, **more)


if __name__ == "__main__":
    with pipefs.mount(dataset) as m:
        folder = DatasetFolder(m.path("original"), raw, extensions=(".jpg", ".png"))
        order = list(range(len(folder)))
        random.Random(1).shuffle(order)
        half = len(order) // 2

        # The same bytes, and round trips that overlap: of half of the files with, of the
        # other half without hints.
        want = [bytes(raw(folder.samples[i][0].replace(m.path("original"), near)).numpy().tobytes()) for i in order]
        data = pipefs.Ahead(folder)
        assert len(data) == len(folder) and data.classes == folder.classes
        got, with_hints = read(loaders(data, order[:half]))
        assert got == want[:half]
        told = hints(m)
        assert told["files announced"] == half, told
        assert told["of these, read"] > half // 2, told
        got, without = read(loaders(folder, order[half:]))
        assert got == want[half:]
        assert hints(m)["files announced"] == half
        print(f"{half / with_hints:.0f} files/s with hints, {half / without:.0f} without: {told}")

    with pipefs.mount(dataset, seed=1) as m:
        # A view that is computed, by workers that are spawned.
        folder = DatasetFolder(m.path("resize32-crop32-npy"), np.load, extensions=(".npy",), transform=torch.from_numpy)
        data = pipefs.Ahead(folder)
        few = order[:64]
        got, _ = read(loaders(data, few, multiprocessing_context="spawn"))
        assert hints(m)["of these, read"] > 32, hints(m)
        assert got == [bytes(folder[i][0].numpy().tobytes()) for i in few]

        # Draws, with the order of an epoch sent at once.
        drawn = pipefs.Ahead(pipefs.RandomView(m, "rrc32-hflip-npy", ImageFolder(m.path("original")), seed=3, transform=torch.from_numpy))
        before = hints(m)
        drawn.announce_order(order)
        got, _ = read(DataLoader(drawn, batch_size=16, sampler=order, num_workers=2, collate_fn=lists))
        told = hints(m)
        assert told["files announced"] - before["files announced"] == len(order), told
        assert told["of these, read"] - before["of these, read"] > half, told
        assert got == [bytes(drawn[i][0].numpy().tobytes()) for i in order]
        data.announce_order(order)  # of files that lie in the view under other names
        data.samples.pop()
        try:
            pipefs.Ahead(folder).announce_order(order[:4])
        except pipefs.Error as e:
            assert "is of another list" in str(e), e
        else:
            raise AssertionError("a list that is not that of the mount")

    with pipefs.mount(dataset, seed=2) as m:
        # Subsets, and lists; paths= for what has no samples; a link; a path that is not there.
        folder = ImageFolder(m.path("original"))
        both = ConcatDataset([Subset(folder, [3, 1]), folder])
        assert pipefs.Ahead(both).paths(0) == [os.fsencode(folder.samples[3][0])]
        assert pipefs.Ahead(both).paths(4) == [os.fsencode(folder.samples[2][0])]
        names = [p for p, _ in folder.samples]
        link = os.path.join(os.environ["HOME"], "link")
        os.symlink(m.mountpoint, link)
        linked = [p.replace(m.mountpoint, link).replace("original", "current") for p in names]
        calls = pipefs.Ahead(list(range(len(names))), paths=lambda i: [linked[i], linked[i] + ".missing"])
        assert calls.__getitems__([0, 1]) == [0, 1]
        deadline = time.time() + 60
        while hints(m)["not there, or could not be loaded"] < 2 or hints(m)["loaded ahead"] < 2:
            assert time.time() < deadline, hints(m)
            time.sleep(0.01)
        for wrong in (range(3), object()):
            try:
                pipefs.Ahead(wrong).paths(0)
            except (pipefs.Error, TypeError):
                pass
            else:
                raise AssertionError(wrong)

        # Samplers of torch do not matter.
        data = pipefs.Ahead(folder)
        for sampler in (RandomSampler(data), SequentialSampler(data)):
            assert sum(len(batch) for batch in loaders(data, sampler)) == len(folder)

        # Readers that are killed leave nothing behind that others wait for.
        program = "import pipefs, sys, time; d = pipefs.Ahead(sys.argv[1:]); d.announce(range(len(d))); print('on', flush=True); time.sleep(60)"
        child = subprocess.Popen([sys.executable, "-c", program, *names], stdout=subprocess.PIPE)
        assert child.stdout.readline() == b"on\n"
        child.kill()
        child.wait()
        assert [bytes(raw(p).numpy().tobytes()) for p in names[:20]] == [bytes(raw(p.replace(m.path("original"), near)).numpy().tobytes()) for p in names[:20]]

        # Old releases of torch are told.
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            pipefs.Ahead(folder)[0]
        assert bool(said) == (not new), said

    # Files that are in no mount.
    elsewhere = pipefs.Ahead(ImageFolder(dataset))
    assert len(elsewhere.__getitems__([1, 2])) == 2
