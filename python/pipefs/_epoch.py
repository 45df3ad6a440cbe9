"""Epoch views: batches that the daemon has shuffled, drawn and collated."""

from __future__ import annotations

import collections
import errno
import json
import multiprocessing
import os
import sys
import threading
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ._mount import Mount
from ._program import Error
from ._random import array_of

if TYPE_CHECKING:
    import numpy

Batch = Tuple[Any, Any]


class _Epoch(NamedTuple):
    """What index.json tells."""

    batches: int
    samples: int
    classes: List[str]
    digest: str


class EpochView:
    """The batches of one rank, epoch by epoch, as an iterable Dataset.

    view has files of one shape, such as rrc224-hflip-npy or resize256-crop224-npy. An item is
    (pixels, labels): uint8 of shape (batch, height, width, channels) and int64, as tensors where
    the process has imported torch, else as numpy arrays. The tensors lie in pinned memory where
    torch has a GPU. They are the caller's as long as he keeps them.

    Iterate over it as it is: threads of this process read some batches ahead. It may be given
    to a DataLoader with batch_size=None, too; its workers share the batches. data[k] is batch k
    of the epoch.

    rank and world are those of torch.distributed where it is initialized, or else of torchrun's
    environment. Nothing else may split the data again. drop leaves out what does not come out
    even, among ranks and in the last batch. directory is one of the dataset, such as "train", or a list of
    samples: a CSV file of the dataset, or the name of one that was mounted with list="lists/rare.csv".

    window, for slow disks, makes the order quasi-random: so many samples are shuffled together.

    seed, epoch, rank, world, batch and window say what a batch holds: set_epoch chooses the epoch.
    """

    def __new__(cls, *_: Any, **__: Any) -> EpochView:
        # DataLoader asks for the class. Where torch is not imported yet it takes batch after batch
        # by number, which is the same but for the threads.
        data = sys.modules.get("torch.utils.data")
        if data is not None and not issubclass(cls, data.IterableDataset):
            cls = type(cls.__name__, (cls, data.IterableDataset), {"__doc__": cls.__doc__, "__module__": cls.__module__})
        return object.__new__(cls)

    def __init__(self, m: Mount, view: str, seed: int = 0, batch: int = 64, rank: Optional[int] = None,
                 world: Optional[int] = None, *, drop: bool = False, directory: str = "", window: int = 0, ahead: int = 3) -> None:
        self.mount, self.view, self.seed, self.batch, self.drop, self.directory, self.ahead = m, view, seed, batch, drop, directory, ahead
        self.window = window
        if (rank is None) != (world is None):
            raise Error("say both rank and world, or neither")
        self.rank, self.world = (rank, world) if rank is not None and world is not None else _place()
        # Which epoch, and from which batch on the next time: shared with the workers of a DataLoader.
        self._epoch = multiprocessing.RawValue("Q", 0)
        self._begin = multiprocessing.RawValue("Q", 0)
        self._given = 0  # batches of the epoch, by this process
        self._known: "Dict[int, _Epoch]" = {}
        m.path(view)  # says what is wrong with it
        self._index()
    def __reduce__(self) -> "Tuple[Any, ...]":
        return EpochView.__new__, (EpochView,), {**self.__dict__, "_epoch": self.epoch, "_begin": self._begin.value}

    def __setstate__(self, state: "Dict[str, Any]") -> None:
        self.__dict__.update(state)
        self._epoch = multiprocessing.RawValue("Q", state["_epoch"])
        self._begin = multiprocessing.RawValue("Q", state["_begin"])

    @property
    def root(self) -> str:
        """The directory of the files of the epoch."""
        return self._root(self.epoch)

    def _root(self, epoch: int) -> str:
        batch = f"{self.batch}drop" if self.drop else str(self.batch)
        batch += f"-window{self.window}" if self.window else ""
        parts = (self.seed, epoch, self.world, self.rank, batch, self.view)
        return os.path.join(self.mount.mountpoint, ".epoch", *map(str, parts), *filter(None, [self.directory]))

    def _index(self) -> _Epoch:
        """What the epoch holds."""
        epoch = self.epoch
        found = self._known.get(epoch)
        if found is not None:
            return found
        root = self._root(epoch)
        try:
            with open(os.path.join(root, "index.json"), encoding="utf-8") as f:
                told = json.load(f)
        except FileNotFoundError as e:
            raise Error(f"there is no {root}: the log of the mount, {self.mount.stats()['log']}, says why") from e
        except OSError as e:
            if e.errno != errno.EINVAL:
                raise
            raise Error(f"{self.directory} cannot be used as a list: the log of the mount, {self.mount.stats()['log']}, names the line") from e
        if told["shape"] is None:
            raise Error(f"the files of {self.view} are not arrays of one shape: take one such as rrc224-npy, or read the lists in {root}")
        if not told["batches"]:
            raise Error(f"{root} has no batches: there are {told['samples']} samples, and {told['samples_of_rank']} of them for this rank")
        if told["dataset_changed"]:
            warnings.warn(f"the dataset has changed since epoch {epoch} of seed {self.seed} was begun, which goes on with its {told['samples']} samples", stacklevel=3)
        self._known = {epoch: _Epoch(told["batches"], told["samples"], told["classes"], told["list_sha256"])}
        return self._known[epoch]

    @property
    def classes(self) -> "List[str]":
        """The names of the classes, which the labels number."""
        return self._index().classes

    @property
    def epoch(self) -> int:
        """The epoch that is read, 0 at first."""
        return int(self._epoch.value)

    def set_epoch(self, epoch: int) -> None:
        """Makes all processes that share this Dataset read another epoch from its beginning, the next time they begin."""
        if epoch != self.epoch:
            self._epoch.value, self._begin.value, self._given = epoch, 0, 0

    def state_dict(self) -> "Dict[str, Any]":
        """Where the training is: the epoch, and the next batch of it. After the last one the epoch has no more.

        What the workers of a DataLoader have given is not counted here: the training does, and sets "batch".
        """
        return {"seed": self.seed, "epoch": self.epoch, "batch": self._given, "list": self._index().digest}

    def load_state_dict(self, state: "Dict[str, Any]") -> None:
        """Goes on where a training was, the next time. It raises Error where its seed or its samples were others."""
        if state["seed"] != self.seed:
            raise Error(f"the training had the seed {state['seed']}, and this is {self.seed}")
        self._epoch.value, self._begin.value, self._given = state["epoch"], state["batch"], state["batch"]
        if state.get("list", self._index().digest) != self._index().digest:
            raise Error(f"the dataset has other samples than it had: {self._root(self.epoch)} is not the epoch that was begun")

    def __len__(self) -> int:
        return self._index().batches

    def __getitem__(self, k: int) -> Batch:
        if not 0 <= k < len(self):
            raise IndexError(k)
        return self._read(self._root(self.epoch), k, _Buffers())

    def __iter__(self) -> "Iterator[Batch]":
        root, batches, begin = self.root, len(self), int(self._begin.value)
        data = sys.modules.get("torch.utils.data")
        worker = data.get_worker_info() if data is not None else None
        if worker is not None:
            # DataLoader takes a batch of each worker in turn.
            return self._batches(root, range(begin + worker.id, batches, worker.num_workers))
        self._begin.value, self._given = 0, begin
        return self._batches(root, range(begin, batches))

    def _batches(self, root: str, numbers: range) -> "Iterator[Batch]":
        buffers = _Buffers()
        reading: "Deque[Future[Batch]]" = collections.deque()
        readers = ThreadPoolExecutor(2, thread_name_prefix="pipefs")
        try:
            for k in numbers:
                reading.append(readers.submit(self._read, root, k, buffers))
                if len(reading) > self.ahead:
                    yield self._next(reading)
            while reading:
                yield self._next(reading)
        finally:
            readers.shutdown(wait=False, cancel_futures=True)

    def _next(self, reading: "Deque[Future[Batch]]") -> Batch:
        batch = reading.popleft().result()
        self._given += 1  # before it is given: who saves where he is has trained on it
        return batch

    def _read(self, root: str, k: int, buffers: _Buffers) -> Batch:
        path = os.path.join(root, f"{k:06d}")
        torch = sys.modules.get("torch")
        pinned: "List[Any]" = []

        def take(size: int) -> "numpy.ndarray[Any, Any]":
            memory = _pinned(torch, size)
            if memory is None:
                return buffers.take(size)
            pinned.append(memory)
            array: "numpy.ndarray[Any, Any]" = memory.numpy()
            return array

        try:
            pixels = _read_direct(path + ".npy", take)
            labels = _read_direct(path + ".labels.npy", None)
        except OSError as e:
            if e.errno not in (errno.EIO, errno.EPERM):
                raise
            raise Error(f"{path}.npy cannot be made: the log of the mount, {self.mount.stats()['log']}, names the sample. "
                        "With --on-error black it would be black") from e
        if torch is None:
            return pixels, labels
        x = torch.from_numpy(pixels)
        for memory in pinned:
            # As part of torch's own memory: so torch waits for copies to the GPU before it uses it again.
            x = memory[-pixels.nbytes:].view(x.dtype).reshape(x.shape)
        return x, torch.from_numpy(labels)


def _place() -> "Tuple[int, int]":
    """The rank of this process, and how many there are."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def _pinned(torch: Any, size: int) -> Any:
    """Memory from which copies to the GPU are fast, as a tensor of bytes; None where there is no GPU."""
    if torch is None or not torch.cuda.is_available():
        return None
    return torch.empty(size, dtype=torch.uint8, pin_memory=True)


# What getrefcount tells of an object that is in a list and nowhere else. Without a GIL it tells
# no such thing, and nothing is used again.
_PROBE = [bytearray()]
_UNUSED = sys.getrefcount(_PROBE[0]) if getattr(sys, "_is_gil_enabled", lambda: True)() else -1


class _Buffers:
    """Memory for batches, used again when nobody has what was in it: touching new memory costs as much as reading."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: "List[numpy.ndarray[Any, Any]]" = []

    def take(self, size: int) -> "numpy.ndarray[Any, Any]":
        import numpy

        with self._lock:
            for i in range(len(self._all)):
                if self._all[i].size == size and sys.getrefcount(self._all[i]) == _UNUSED:
                    return self._all[i]
            self._all = [b for b in self._all if b.size == size]
            self._all.append(numpy.empty(size, numpy.uint8))
            return self._all[-1]


def _read_direct(path: str, take: "Optional[Callable[[int], numpy.ndarray[Any, Any]]]") -> "numpy.ndarray[Any, Any]":
    """Reads an npy file. With take, which gives memory for it, past the page cache: it is read once."""
    f = os.open(path, os.O_RDONLY | (os.O_DIRECT if take else 0))
    try:
        size = os.fstat(f).st_size
        data: Any = take(size) if take else bytearray(size)
        view, got = memoryview(data), 0
        while got < len(view):
            n = os.readv(f, [view[got:]])
            if n == 0:
                raise Error(f"{path} has {len(view)} bytes, of which {got} were read")
            got += n
    finally:
        os.close(f)
    return array_of(data, path)
