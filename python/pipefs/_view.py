"""The base of EpochView and RandomView: the epoch, and the processes that read it."""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from multiprocessing.context import get_spawning_popen
from multiprocessing.sharedctypes import RawValue
from typing import Any, Dict, Iterator, Optional, Sequence, Tuple

from ._mount import Mount
from ._program import Error, whole


class Shared(ctypes.Structure):
    """Memory that a training shares with the workers of its DataLoaders."""

    # begin: how many samples of the order were consumed where the next pass begins, and steps: in how many steps of the
    # training; origin and past: the same of the pass that is read. uncounted: batches were read by workers, or by number.
    # given: the items of this epoch that the training and each worker returned. begun: the number of workers when each
    # of them used begin.
    _fields_ = [*((name, ctypes.c_uint64) for name in ("epoch", "begin", "steps", "origin", "past", "uncounted", "warned")),
                ("given", 1025 * ctypes.c_uint64), ("begun", 1024 * ctypes.c_uint64)]


class View:
    """A Dataset whose items depend on the epoch."""

    def __init__(self, m: Mount, seed: int) -> None:
        if not isinstance(m, Mount):
            raise Error(f"{type(self).__name__} got {m!r} as its mount: give it what pipefs.mount returns")
        self.mount, self.seed = m, whole("seed", seed)
        self._own: Any = RawValue(Shared)
        self._theirs, self._pid = self._own, os.getpid()
        self._group = group()  # of this process, or of the one that pickled the view
        self._next = 0  # the batch of the pass that this process returns next
        self._chosen = False  # set_epoch was called, and nothing was read since

    def __getstate__(self) -> "Dict[str, Any]":
        theirs = self._shared if get_spawning_popen() else bytes(self._shared)  # memory can only be given to a new process
        return {**self.__dict__, "_own": None, "_theirs": theirs, "_group": group() or self._group}

    def __setstate__(self, state: "Dict[str, Any]") -> None:
        self.__dict__.update(state)
        self._own, self._pid = RawValue(Shared), os.getpid()
        ctypes.memmove(ctypes.byref(self._own), bytes(self._theirs), ctypes.sizeof(Shared))
        self._theirs = self._own if isinstance(self._theirs, bytes) else self._theirs

    @property
    def _shared(self) -> Any:
        # Who unpickled the view is a worker of the process that pickled it, or a training of its own, with workers that it forks.
        return self._theirs if worker() is not None and self._pid == os.getpid() else self._own

    @property
    def epoch(self) -> int:
        """The epoch that is read, 0 at first."""
        return int(self._shared.epoch)

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch that this process and the workers of its DataLoaders read, from the next item or pass on."""
        self._detach()
        if whole("epoch", epoch) != self.epoch:
            self._go(whole("epoch", epoch))
        self._chosen = True

    def _detach(self) -> None:
        if self._pid != os.getpid() and worker() is None:  # a rank that was forked: ranks do not wait for each other
            self.__setstate__({"_theirs": bytes(self._own)})

    def _go(self, epoch: int, begin: int = 0, steps: int = 0) -> None:
        shared = self._shared
        self._next, shared.uncounted, shared.epoch = 0, 0, epoch
        shared.begin, shared.steps = shared.origin, shared.past = begin, steps
        shared.given[:], shared.begun[:] = [0] * len(shared.given), [0] * len(shared.begun)

    def _count(self, size: float, items: int = 1) -> None:
        """Counts items that are returned, of size in an epoch. It warns once if an epoch was returned twice."""
        shared, info = self._shared, worker()
        i, processes = (0, 1) if info is None else (info.id + 1, info.num_workers + 1)
        shared.given[i] += items
        if not shared.warned and sum(shared.given[:processes]) >= 2 * size:
            shared.warned = 1
            warnings.warn(f"epoch {shared.epoch} of seed {self.seed} was read twice, with the same crops: call set_epoch with another number before each pass", stacklevel=4)

    def _check_skip(self, skip: bool) -> bool:
        if skip and self.mount.stats().get("on_error") != "black":
            raise Error('skip=True leaves out samples that cannot be made: it needs pipefs.mount(..., on_error="black")')
        return skip

    def _warn_of_parts(self, classes: "Sequence[str]", way: str) -> None:
        kinds = {c.lower().rstrip("0123456789"): c for c in classes}
        parts = [kinds[part] for part in "train training images val valid validation test testing annotations labels masks".split() if part in kinds]
        if len(parts) > 1 or parts == list(classes) != []:
            warnings.warn(f"the classes are {list(classes)[:10]}, which look like parts of a dataset: take one of them, {way.format(parts[0])}", stacklevel=4)


def worker() -> Any:
    """The description of the DataLoader's worker that this process is; None if it is none."""
    data = sys.modules.get("torch.utils.data")
    return None if data is None else data.get_worker_info()


def parts(data: Any) -> "Iterator[Any]":
    """The datasets with epochs of which a Dataset is made: below Subset, ConcatDataset and the like."""
    inner = getattr(data, "datasets", None)
    if isinstance(inner, (list, tuple)):
        for one in inner:
            yield from parts(one)
    elif hasattr(data, "set_epoch"):
        yield data
    elif hasattr(data, "dataset"):
        yield from parts(data.dataset)


def group() -> "Optional[Tuple[int, int]]":
    """Rank and world in torch.distributed; None if it is not initialized."""
    dist: Any = sys.modules.get("torch.distributed")
    return (dist.get_rank(), dist.get_world_size()) if dist is not None and dist.is_available() and dist.is_initialized() else None
