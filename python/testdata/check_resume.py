"""Judges ResumableSampler: ranks, batches and workers that change in the middle of an epoch: check_resume.py DATASET"""

import os
import random
import sys

import torch
from torch.utils.data import ConcatDataset, DataLoader, Subset
from torchvision.datasets import ImageFolder

import pipefs

dataset, view = sys.argv[1], "rrc32-hflip-npy"


def raises(what, do):
    try:
        do()
    except pipefs.Error as e:
        assert all(w in str(e) for w in what.split(" … ")), e
    else:
        raise AssertionError(f"no error that says {what}")


def history(chance, off):
    """A training that is killed and goes on; how often each item came, how many were padded and left out, and the kills."""
    data = list(range(1 + chance.randrange(60)))
    seed, epoch, times, state, kills = chance.randrange(5), chance.randrange(5), [0] * len(data), None, 0
    while True:
        world, batch, drop = 1 + chance.randrange(6), 1 + chance.randrange(7), chance.randrange(4) == 0
        most = chance.randrange(6) if kills < 4 else 99
        for rank in range(world):
            sampler = pipefs.ResumableSampler(data, batch, seed, rank, world, drop=drop)
            sampler.set_epoch(epoch)
            if state:
                sampler.load_state_dict(state)
                sampler.set_epoch(epoch)
            past, length = sampler.steps, len(sampler)
            drawn = list(sampler)  # ahead of the training, all of it
            assert length == len(sampler) == past * batch + len(drawn)
            steps = min(most, -(-len(drawn) // batch))
            for item in drawn[:steps * batch]:
                times[item] += 1
            after = sampler.state_dict(steps=past + steps)
        if steps * batch >= len(drawn):
            return times, max(0, sampler._origin[0] + len(drawn) * world - len(times)), sampler.left_out, kills, world
        state, kills = after, kills + 1
        state["samples"] += off * world * batch
        off = 0


for seed in range(1000):
    times, padded, left, kills, world = history(random.Random(seed), 0)
    assert padded < world and times.count(0) == left and sum(times) == len(times) - left + padded, (seed, times)
    if kills:
        try:
            times, padded, left, _, world = history(random.Random(seed), -1)
        except pipefs.Error:
            continue
        assert not (padded < world and times.count(0) == left and sum(times) == len(times) - left + padded), seed

golden = [1, 8, 6, 5, 9, 2, 4, 7, 0, 3]  # must never change: trainings go on where they were
assert list(pipefs.ResumableSampler(range(10), 2, seed=7)) == golden
assert list(pipefs.ResumableSampler(range(5), 2, shuffle=False)) == [0, 1, 2, 3, 4]
other = pipefs.ResumableSampler(range(10), 2, seed=7)
other.set_epoch(1)
assert list(other) == list(other) != golden

with pipefs.mount(dataset) as m:
    folder = ImageFolder(m.path("original"))

    def load(data, **kw):
        sampler = pipefs.ResumableSampler(data, 4, 7, **kw)
        return sampler, DataLoader(data, batch_size=4, sampler=sampler, num_workers=2, persistent_workers=True)

    def sums(loader, most=99):
        found = []
        for x, _ in loader:
            found += x.sum((1, 2, 3)).tolist()
            if len(found) >= most:
                break
        return found

    # Workers draw ahead; the epoch is the view's as well, whatever it is wrapped in.
    data = pipefs.RandomView(m, view, folder, seed=7)
    for wrapped in (data, Subset(data, range(20)), ConcatDataset([data, data])):
        sampler, loader = load(wrapped)
        sampler.set_epoch(3)
        assert data.epoch == 3
        whole = sums(loader)
        assert len(whole) == len(wrapped) == len(sampler)
        begun = iter(loader)
        first = sum((next(begun)[0].sum((1, 2, 3)).tolist() for _ in range(2)), [])
        state = sampler.state_dict(steps=2)
        del begun
        data.set_epoch(0)
        sampler, loader = load(wrapped)
        sampler.load_state_dict(state)
        assert data.epoch == 3 and sampler.steps == 2 and len(loader) == -(-len(wrapped) // 4)
        assert first + sums(loader) == whole == sums(loader) and sampler.steps == 0
        # As two ranks, in other batches
        rest = []
        for rank in range(2):
            sampler = pipefs.ResumableSampler(wrapped, 3, 7, rank, 2, drop=True)
            sampler.load_state_dict(state)
            rest += sums(DataLoader(wrapped, batch_size=3, sampler=sampler))
        assert sorted(first + rest) == sorted(whole[:len(first + rest)]) and sampler.left_out == len(wrapped) - len(first + rest)

    class Own:
        """A Dataset of a user: with set_epoch, as is the custom, and nothing else of a view."""

        dataset, told = data, 0
        __len__, __getitem__ = (lambda self: len(data)), (lambda self, i: data[i])

        def set_epoch(self, epoch):
            self.told = epoch

    own = Own()
    pipefs.ResumableSampler(own, 4, 7).set_epoch(5)
    assert own.told == 5

    sampler, _ = load(data)
    state = sampler.state_dict(steps=0)
    raises("state_dict(steps=n)", sampler.state_dict)
    raises("steps is 99", lambda: sampler.state_dict(steps=99))
    raises("steps is 'a'", lambda: sampler.state_dict(steps="a"))
    raises("epoch of the state is None", lambda: sampler.load_state_dict({}))
    raises("consumed 999 samples", lambda: sampler.load_state_dict({**state, "samples": 999}))
    for wrong, words in (
        (pipefs.ResumableSampler(data, 4, seed=8), "seed 7, and this ResumableSampler has 8"),
        (pipefs.ResumableSampler(data, 4, 7, shuffle=False), "shuffle"),
        (pipefs.ResumableSampler(pipefs.RandomView(m, view, folder, seed=8), 4, 7), "view"),
        (pipefs.ResumableSampler(pipefs.RandomView(m, "rrc48-hflip-npy", folder, seed=7), 4, 7), "view"),
        (pipefs.ResumableSampler(pipefs.RandomView(m, view, folder.samples[:-1] + folder.samples[:1], seed=7), 4, 7), "list_sha256"),
        (pipefs.ResumableSampler(Subset(data, range(4)), 4, 7), "length"),
    ):
        raises(words + " … call set_epoch(4)", lambda w=wrong: w.load_state_dict({**state, "epoch": 3}))
    assert pipefs.ResumableSampler(folder, 4, 7)._same["list_sha256"] == pipefs.ResumableSampler(ImageFolder(dataset), 4, 7)._same["list_sha256"]
    raises("has its own order", lambda: pipefs.ResumableSampler(pipefs.EpochView(m, view), 4))
    raises("rank 2 of 2", lambda: pipefs.ResumableSampler(folder, 4, 0, 2, 2))
    raises("batch is 0", lambda: pipefs.ResumableSampler(folder, 0))
    raises("both rank and world", lambda: pipefs.ResumableSampler(folder, 4, rank=1))
    raises("has none", lambda: pipefs.ResumableSampler(iter([]), 4))
    del loader  # its workers hold the mount
