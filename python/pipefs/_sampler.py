"""ResumableSampler: a position in an epoch that goes on with any number of ranks."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Tuple

from ._epoch import EpochView
from ._program import Error, whole
from ._random import RandomView
from ._view import View, group, parts

if TYPE_CHECKING:
    import numpy


class ResumableSampler:
    """A sampler for DataLoader whose state is how many samples of the epoch all ranks have consumed.

    data is a RandomView, or any other map-style Dataset. Each rank gets each world-th sample of a random order, which
    depends on seed, epoch and the number of samples only. A training that was stopped goes on with another number of
    ranks or another batch, and reads each sample once:

        sampler = pipefs.ResumableSampler(data, batch=64, seed=7)
        loader = DataLoader(data, batch_size=64, sampler=sampler, num_workers=4)
        for step, (x, y) in enumerate(loader, sampler.steps + 1):
            ...
            state = sampler.state_dict(steps=step)

    batch is the batch_size of the DataLoader. steps are the batches of this epoch on which each rank has trained, those
    before the state that was loaded counted. A DataLoader draws samples long before it returns them, so that nothing
    but the training knows this number.

    Without drop, the order goes on from its start where it cannot be divided evenly among the ranks: world - 1 samples
    at most come twice. With drop the samples that make no batch for each rank are left out.

    set_epoch is that of the view, too. rank and world are those of torch.distributed if they are not given.
    """

    def __init__(self, data: Any, batch: int, seed: int = 0, rank: Optional[int] = None, world: Optional[int] = None, *, drop: bool = False, shuffle: bool = True) -> None:
        if isinstance(data, EpochView):
            raise Error("an EpochView has its own order: call its state_dict and load_state_dict")
        if (rank is None) != (world is None):
            raise Error("say both rank and world, or neither")
        if not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
            raise Error(f"a sampler is for a Dataset with a length and items, and {type(data).__name__} has none")
        self.data, self.batch, self.seed, self.drop, self.shuffle = data, whole("batch", batch), whole("seed", seed), drop, shuffle
        if self.batch == 0:
            raise Error("batch is 0: want the batch_size of the DataLoader")
        self._given = None if rank is None or world is None else (whole("rank", rank), whole("world", world))
        if self._given and self._given[0] >= self._given[1]:
            raise Error(f"rank {self._given[0]} of {self._given[1]}: ranks count from 0")
        self._views = list(parts(data))
        self.epoch = getattr(self._views[0], "epoch", 0) if self._views else 0  # a Dataset of the user may have set_epoch alone
        self._begin = self._origin = (0, 0)  # samples and steps before the next pass, and before the one that is read
        self._same = {"seed": self.seed, "shuffle": shuffle, "length": len(data), "view": _named(self._views), "list_sha256": _digest(data)}

    @property
    def _place(self) -> "Tuple[int, int]":
        return self._given or group() or (0, 1)

    @property
    def steps(self) -> int:
        """The steps of the epoch before the pass that is read, or before the next one if none is."""
        return self._origin[1]

    @property
    def left_out(self) -> int:
        """How many samples no rank gets, with drop."""
        return max(len(self.data) - self._origin[0] - self._share(self._origin[0]) * self._place[1], 0)

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch, of the view as well. Another epoch begins at its beginning."""
        if whole("epoch", epoch) != self.epoch:
            self._begin = self._origin = (0, 0)
        self.epoch = epoch
        for view in self._views:
            view.set_epoch(epoch)

    def state_dict(self, steps: "Optional[int]" = None) -> "Dict[str, Any]":
        """The position of a training that has made so many steps in this epoch."""
        if steps is None:
            raise Error("call state_dict(steps=n) with the number of batches of this epoch on which the training has trained: a DataLoader has drawn "
                        "more samples than that. StatefulDataLoader of torchdata does not say it: take DataLoader")
        (samples, past), most = self._origin, -(-self._share(self._origin[0]) // self.batch)
        if not 0 <= whole("steps", steps) - past <= most:
            raise Error(f"steps is {steps}: this pass began after {past} steps of the epoch, and has {most}")
        samples = min(len(self.data), samples + (steps - past) * self.batch * self._place[1])
        return {**self._same, "epoch": self.epoch, "steps": steps, "samples": samples}

    def load_state_dict(self, state: "Mapping[str, Any]") -> None:
        """Goes on at a state in the next pass, in its epoch. It raises Error for a state of another seed, view or list of samples."""
        state = state if isinstance(state, Mapping) else {}
        epoch, samples, steps = (whole(f"{name} of the state", state.get(name)) for name in ("epoch", "samples", "steps"))
        for name, here in self._same.items():
            if name not in state or state[name] != here:
                raise Error(f"the state has {name} {state.get(name)!r}, and this ResumableSampler has {here!r}: within an epoch this cannot change. "
                            f"Make it with the value of the state, or call set_epoch({epoch + 1}) in place of load_state_dict")
        if samples > len(self.data):
            raise Error(f"the state has consumed {samples} samples, and there are {len(self.data)}")
        self.set_epoch(epoch)
        self._begin = self._origin = (samples, steps)

    def _share(self, begin: int) -> int:
        """How many samples this rank gets of those after begin."""
        left, world = len(self.data) - begin, self._place[1]
        return left // world // self.batch * self.batch if self.drop else -(-left // world)

    def __len__(self) -> int:
        # Those before the state counted, so that the length of a DataLoader is the number of steps of the epoch.
        return self._origin[1] * self.batch + self._share(self._origin[0])

    def __iter__(self) -> "Iterator[int]":
        # DataLoader may ask for an iterator twice, and uses one: the pass begins with its first item.
        self._origin, self._begin = self._begin, (0, 0)
        rank, world = self._place
        begin, order = self._origin[0], self._order()
        places = range(begin + rank, begin + rank + self._share(begin) * world, world)
        for place in places:
            yield int(order[place % len(order)])

    def _order(self) -> "numpy.ndarray[Any, Any]":
        import numpy

        if not self.shuffle:
            return numpy.arange(len(self.data))
        # NumPy promises these numbers to all versions, and not those of its permutations.
        keys = numpy.random.PCG64(numpy.random.SeedSequence(self.seed, spawn_key=(self.epoch,))).random_raw(len(self.data))
        return numpy.argsort(keys, kind="stable")


def _named(views: "List[Any]") -> "List[Any]":
    """What the views draw."""
    return [[list(v.views), v.seed] for v in (getattr(v, "dataset", v) for v in views) if isinstance(v, RandomView)]


def _digest(data: Any) -> "Optional[str]":
    """The digest of the list of samples, None of a dataset that has none."""
    samples = getattr(data, "samples", None)
    if not isinstance(samples, (list, tuple)):
        return None
    root = "" if isinstance(data, View) else os.path.join(os.fspath(getattr(data, "root", "")), "")
    paths = [os.fsdecode(s[0] if isinstance(s, tuple) else s) for s in samples]
    text = "\n".join(path[len(root):] if path.startswith(root) else path for path in paths)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
