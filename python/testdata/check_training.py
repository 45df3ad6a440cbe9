"""Judges EpochView and RandomView in trainings: ranks, workers, states, and what is forgotten: check_training.py DATASET

With torchdata it tries StatefulDataLoader as well, and says so.
"""

import gc
import os
import socket
import sys
import tempfile
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

import pipefs

dataset, view = sys.argv[1], "rrc32-hflip-npy"


def raises(what, do):
    try:
        do()
    except pipefs.Error as e:
        assert all(w in str(e) for w in what.split(" … ")), e
    except Exception as e:  # of a worker: torch makes a text of it
        assert "pipefs" in str(e) and what in str(e), repr(e)
    else:
        raise AssertionError(f"no error that says {what}")


def sums(loader):
    """The sums of the pixels of batches, which tell them apart."""
    return [x.sum().item() for x, _ in loader]


def warned(do):
    """What warnings say of epochs and classes."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        do()
    return [str(w.message) for w in found if "epoch" in str(w.message) or "classes" in str(w.message)]


def rank_of_training(rank, world, data, told, results, port, folder):
    """A rank, whose view was made before there were ranks. As in Lightning, RANK is not set."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(world))
    raises("RANK is not set and WORLD_SIZE is 2", lambda: len(data))
    dist.init_process_group("gloo", rank=rank, world_size=world)
    try:
        raises("as rank 0 of 1, and this process is rank", lambda: iter(told))
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            fixed = pipefs.EpochView(data.mount, data.view, batch=4, rank=0, world=world)  # of each rank
            assert len(fixed) and fixed.rank == 0
        assert ["rank=0 was given" in str(w.message) for w in found] == [True] * rank, [str(w) for w in found]
        got = sums(data)
        assert (data.rank, data.world, len(data)) == (rank, world, len(got))
        for how in ("fork", "spawn"):
            loader = DataLoader(data, batch_size=None, num_workers=2, multiprocessing_context=how, persistent_workers=True)
            for epoch in (0, 1, 0):
                data.set_epoch(epoch)
                assert (sums(loader) == got) == (epoch == 0), (how, epoch)
        dist.barrier()
        # Ranks share no position and no epoch.
        data.load_state_dict(data.state_dict(steps=1 + rank))
        folder.set_epoch(rank)
        dist.barrier()
        assert sums(data) == got[1 + rank:] and folder.epoch == rank
        results.put((rank, got))
    finally:
        dist.destroy_process_group()


def main():
    with pipefs.mount(dataset) as m:
        make = lambda **kw: pipefs.EpochView(m, **{"view": view, "seed": 7, "batch": 4, "rank": 0, "world": 1, **kw})  # noqa: E731

        # Ranks of mp.spawn, of one view
        data, told = pipefs.EpochView(m, view, 7, 4), pipefs.EpochView(m, view, 7, 4)
        folder = pipefs.RandomView(m, view, ImageFolder(m.path("original")), seed=7)
        assert len(told) == len(make())
        results = mp.get_context("spawn").SimpleQueue()
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        mp.spawn(rank_of_training, (2, data, told, results, port, folder), nprocs=2)
        found = dict(results.get() for _ in range(2))
        assert [found[rank] for rank in (0, 1)] == [sums(make(rank=rank, world=2)) for rank in (0, 1)]

        # A rank that was forked chooses for itself, and its workers read what it has chosen.
        data = make()
        rank = os.fork()
        if rank == 0:
            data.set_epoch(1)
            os._exit(sums(DataLoader(data, batch_size=None, num_workers=2)) != sums(data))
        assert os.waitpid(rank, 0)[1] == 0 and data.epoch == 0

        # The environment, and what is said beside it
        os.environ["WORLD_SIZE"] = "2"
        raises("RANK is not set … or give rank= and world=", lambda: len(pipefs.EpochView(m, view)))
        assert make(rank=1, world=3).world == 3
        os.environ["RANK"] = "x"
        raises("RANK is x", lambda: iter(pipefs.EpochView(m, view)))
        os.environ["RANK"] = "1"
        data = pipefs.EpochView(m, view)
        assert (data.rank, data.world) == (1, 2) and len(data)
        del os.environ["RANK"], os.environ["WORLD_SIZE"]
        raises("as rank 1 of 2, and this process is rank 0 of 1", lambda: len(data))

        # A state goes on in the epoch of which it is, and in no other.
        data = make()
        whole = sums(data)
        state = data.state_dict(steps=2)
        for other in ({"seed": 8}, {"window": 64}, {"view": "rrc48-hflip-npy"}, {"directory": "class00"}):
            (name, value), = other.items()
            raises(f"{name} {state[name]!r}, and this EpochView has {value!r} … set_epoch(1)", lambda o=other: make(**o).load_state_dict(state))
        raises("list_sha256 'x'", lambda: data.load_state_dict({**state, "list_sha256": "x"}))
        raises("consumed 99 samples", lambda: data.load_state_dict({**state, "samples": 99}))
        raises("counts batches … set_epoch(1)", lambda: data.load_state_dict({**data._settings(0), "world": 1, "batch_size": 4, "epoch": 0, "batch": 2}))
        raises("steps is 99", lambda: data.state_dict(steps=99))
        raises("epoch of the state is None", lambda: data.load_state_dict({"batch": 1}))
        raises("epoch of the state is None", lambda: data.load_state_dict(None))
        data.set_epoch(1)
        raises("call set_epoch(0) first", lambda: data.load_state_dict(state))
        data.load_state_dict({**state, "samples": 37})  # that epoch is complete
        assert data.epoch == 1 and data.state_dict()["samples"] == 0

        elsewhere(m, make)

        # Passes after a state, by workers of all kinds
        for workers, how, persistent in ((0, None, False), (2, "fork", False), (2, "spawn", True), (3, "fork", True)):
            data = make()
            loader = DataLoader(data, batch_size=None, num_workers=workers, multiprocessing_context=how, persistent_workers=persistent)
            data.load_state_dict(state)
            passes = [sums(loader) for _ in range(3)]
            assert passes == [whole[2:], whole, whole], (workers, how, [len(p) for p in passes])
            assert sums(data) == whole
            data.load_state_dict(state)
            begun = iter(loader)
            next(begun)
            if workers:
                raises("state_dict(steps=n)", data.state_dict)
            again = make()
            again.load_state_dict(data.state_dict(steps=3) if workers else data.state_dict())
            assert sums(again) == whole[3:]
            del begun
        data.set_epoch(1)
        data[0]
        raises("data[k]", data.state_dict)

        # set_epoch was forgotten, or nothing is drawn.
        data = make()
        assert warned(lambda: sums(data)) == [] == warned(lambda: next(iter(data)))
        found = warned(lambda: [sums(data) for _ in range(3)])
        assert len(found) == 1 and "epoch 0 of seed 7 was read twice" in found[0], found
        resized = make(view="resize32-crop32-npy")
        assert warned(lambda: [sums(resized) for _ in range(3)]) == []
        found = warned(lambda: [data.set_epoch(n) or sums(data) for n in range(1, 4)])
        assert found == [], found
        items = pipefs.RandomView(m, view, ImageFolder(m.path("original")), seed=7)
        found = warned(lambda: [items.set_epoch(n) or sums(items) for n in range(3)])
        assert found == [], found
        found = warned(lambda: [sums(items) for _ in range(3)])
        assert len(found) == 1 and "epoch 2" in found[0], found
        for random in (make(), pipefs.RandomView(m, view, ImageFolder(m.path("original")), seed=7)):
            loader = DataLoader(random, batch_size=None if isinstance(random, pipefs.EpochView) else 4, num_workers=2)
            with tempfile.TemporaryFile("w+") as said:
                before = os.dup(2)
                os.dup2(said.fileno(), 2)
                try:
                    for _ in range(4):
                        sums(loader)
                finally:
                    os.dup2(before, 2)
                    os.close(before)
                said.seek(0)
                text = said.read()
            assert text.count("was read twice") == 1, text

        # Reasons, in place of errors of Python
        for wrong, words in (
            (lambda: pipefs.EpochView(m.mountpoint, view), "as its mount"),
            (lambda: pipefs.RandomView(None, view, []), "as its mount"),
            (lambda: pipefs.EpochView(m, None), "the view is None"),
            (lambda: make(directory="nowhere"), 'the directory "nowhere" of the dataset'),
            (lambda: make(directory="nowhere.csv"), 'nowhere.csv: no such file'),
            (lambda: make(batch=0), "want 1 to"),
            (lambda: make(seed=-1), "seed is -1"),
            (lambda: make(seed="a"), "seed is 'a'"),
            (lambda: make(rank=2, world=2), "rank 2 of 2"),
            (lambda: data.set_epoch(-1), "epoch is -1"),
            (lambda: items.set_epoch("1"), "epoch is '1'"),
            (lambda: pipefs.RandomView(m, view, ["a.jpg"]), "(path, target)"),
            (lambda: pipefs.RandomView(m, view, 5), "(path, target)"),
            (lambda: pipefs.RandomView(m, 5, []), "the view is 5"),
            (lambda: pipefs.RandomView(m, view, [("nowhere.jpg", 0)])[0], "No such file"),
            (lambda: m.path("original", "nowhere"), "No such file"),
            (lambda: m.path("original", 5), "a name in a view is 5"),
            (lambda: pipefs.mount(None), "the dataset is None"),
            (lambda: m.fidelity("5"), "'5' is not"),
        ):
            raises(words, wrong)
        assert m.path("original", "class00") == m.path("original") + "/class00"
        stateful(make, whole)
        gc.collect()  # workers hold the mount

    raises("is closed", lambda: sums(data))
    raises("is closed", lambda: items[0])

    # A dataset of parts, and one whose batch cannot be made
    with tempfile.TemporaryDirectory() as parts:
        for part in ("train", "val"):
            os.symlink(dataset, os.path.join(parts, part))
        with open(os.path.join(dataset, "class00", "broken.jpg"), "wb") as f:
            f.write(b"\xff\xd8\xff\xe0 broken")
        with pipefs.mount(parts) as m:
            found = warned(lambda: pipefs.EpochView(m, view))
            assert len(found) == 1 and "['train', 'val']" in found[0] and "directory='train'" in found[0], found
            found = warned(lambda: pipefs.RandomView(m, view, ImageFolder(m.path("original"))))
            assert len(found) == 1 and "m.path('original', 'train')" in found[0], found
            assert warned(lambda: pipefs.EpochView(m, view, directory="train")) == []
            train = ImageFolder(m.path("original", "train"))
            assert train.classes == folder.classes, train.classes
            found = warned(lambda: pipefs.RandomView(m, view, train))
            assert found == [], found
            raises("class00/broken.jpg … on_error=", lambda: sums(pipefs.EpochView(m, view, directory="train", seed=1)))
            data = pipefs.RandomView(m, view, [("train/class00/broken.jpg", 0)])
            raises("cannot be read: truncated: jpeg", lambda: data[0])


def elsewhere(m, make):
    """Every sample once, where a training goes on with other ranks and batches; see TestHistories of package epoch."""
    def paths(data, workers=0, most=None):
        """The samples of the pass, the steps that it makes, and the state behind them."""
        found, n = [], 0
        for _ in DataLoader(data, batch_size=None, num_workers=workers) if workers else data:
            with open(os.path.join(data.root, f"{n:06d}.paths.txt")) as f:
                found.append(f.read().splitlines())
            n += 1
            if n == most:
                break
        return found, data.state_dict(steps=data._shared.past + n)

    (alone, _), total = paths(make()), 37
    alone = [path for batch in alone for path in batch]
    for workers in (0, 2):
        seen, state = [], None
        for world, batch, most in ((2, 4, 2), (3, 3, 1), (1, 5, 1), (4, 2, None)):
            states, padded = [], 0
            for rank in range(world):
                data = make(rank=rank, world=world, batch=batch)
                if state:
                    data.load_state_dict(state)
                past = data._shared.past
                found, after = paths(data, workers, most)
                assert len(data) == past + (len(found) if most is None else data._index(data.root)["batches"])
                states.append(after)
                cut = data._index(data.root)["padded_of_rank"] if most is None else 0
                padded += cut
                seen += sum(found, [])[:-cut or None]
            state = states[0]
            assert all(s == state for s in states), states
        assert sorted(seen) == sorted(alone) and len(seen) == total and padded == 1, (len(seen), padded)
        assert state["samples"] == total and state["steps"] == 5
    # Dropping, and the number that is left out
    data = make(batch=8, drop=True)
    data.load_state_dict({**make().state_dict(), "samples": 12, "steps": 3})
    assert [len(y) for _, y in data] == [8, 8, 8] and data._index(data.root)["dropped"] == 1
    data.load_state_dict(data.state_dict())
    assert list(data) == [] and len(data) == 6
    # By number
    data = make()
    data.load_state_dict({**data.state_dict(), "samples": 8, "steps": 2})
    raises("data[2]", lambda: data[0])
    assert torch.equal(data[2][0], make()[2][0])


def stateful(make, whole):
    """StatefulDataLoader, which asks each worker for its state."""
    try:
        from torchdata.stateful_dataloader import StatefulDataLoader
    except ImportError:
        print("there is no torchdata: StatefulDataLoader was not tried")
        return
    for workers, persistent in ((0, False), (2, False), (2, True), (3, True)):
        load = lambda data: StatefulDataLoader(data, batch_size=None, num_workers=workers, persistent_workers=persistent)  # noqa: E731
        for stop in (0, 1, 3, len(whole)):
            data = make()
            loader = load(data)
            begun = iter(loader)
            first = [next(begun)[0].sum().item() for _ in range(stop)]
            state = loader.state_dict()
            del begun, loader
            data = make()
            loader = load(data)
            loader.load_state_dict(state)
            assert first + sums(loader) == whole, (workers, stop)
            assert sums(loader) == whole
        # A loader whose epoch is complete goes on with the epoch that set_epoch chooses.
        loader = load(make())
        assert sums(loader) == whole
        state = loader.state_dict()
        data = make()
        loader = load(data)
        data.set_epoch(1)
        loader.load_state_dict(state)
        after = make()
        after.set_epoch(1)
        assert sums(loader) == sums(after)
        # Another view
        loader = load(make(view="rrc48-hflip-npy"))
        loader.load_state_dict(state)
        raises("and this EpochView has 'rrc48-hflip-npy'", lambda: sums(loader))
    print("StatefulDataLoader was tried")


if __name__ == "__main__":
    main()
