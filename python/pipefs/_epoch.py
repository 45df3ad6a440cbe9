"""Epoch views: batches that the daemon has shuffled, drawn and collated."""

from __future__ import annotations

import collections
import errno
import json
import math
import os
import sys
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Deque, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ._arrays import Buffers, labels_of, read_npy
from ._mount import Mount
from ._program import Error, path_of, whole
from ._view import View, group, worker

if TYPE_CHECKING:
    import numpy

Batch = Tuple[Any, ...]


class EpochView(View):
    """The batches of one rank, epoch by epoch, as an iterable Dataset.

    view has files of one shape, such as rrc224-hflip-npy or resize256-crop224-npy. An item is
    (pixels, labels): uint8 of shape (batch, height, width, channels) and int64, as tensors where
    the process has imported torch, else as numpy arrays. The tensors lie in pinned memory where
    torch has a GPU. They are the caller's as long as he keeps them.

    Iterate over it as it is: threads of this process read some batches ahead. It may be given
    to a DataLoader with batch_size=None, too; its workers share the batches. data[k] is batch k
    of the epoch.

    rank and world are those of torch.distributed if it is initialized, and of torchrun's environment
    otherwise. They are looked up when the view is read or given to a worker, so that it may be made before.
    Nothing else may split the data again. drop leaves out the incomplete last batch, and the samples that
    cannot be divided evenly among the ranks. directory is one of the dataset, such as "train", or a list of
    samples: a CSV file of the dataset, or the name of one that was mounted with list="lists/rare.csv".

    window, for slow disks, makes the order quasi-random: so many samples are shuffled together.

    skip leaves out samples that cannot be made, so that their batches are smaller. It needs a mount
    with on_error="black".

    masks makes an item (pixels, masks, labels). It needs a mount with pair="images/**.jpg=masks/**.png".

    columns are names of columns of Parquet files: an item then ends with a dict of lists, one value for each sample.

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
                 world: Optional[int] = None, *, drop: bool = False, directory: str = "", window: int = 0, ahead: int = 3, skip: bool = False, masks: bool = False,
                 columns: Sequence[str] = ()) -> None:
        super().__init__(m, seed)
        self.skip, self.masks, self.columns = self._check_skip(skip), masks, (columns,) if isinstance(columns, str) else tuple(columns)
        self.view, self.batch, self.drop, self.directory = path_of("the view", view), whole("batch", batch), drop, path_of("directory", directory).strip("/")
        self.window, self.ahead = whole("window", window), whole("ahead", ahead)
        if (rank is None) != (world is None):
            raise Error("say both rank and world, or neither")
        self._given = None if rank is None else (whole("rank", rank), whole("world", world))
        self._told = False  # that rank= is not that of torch.distributed
        self._used: "Optional[Tuple[int, int]]" = None  # rank and world of what was told and read so far
        self._resume: "Optional[Tuple[int, int, int]]" = None  # where the pass of this worker began, and its next batch
        self._known: "Dict[str, Dict[str, Any]]" = {}  # index.json, by directory
        name = os.path.basename(m.path(view))  # raises Error for what is no view
        self._random = os.path.isdir(os.path.join(m.mountpoint, ".draw", str(self.seed), "0", name))
        self._warn_of_parts(self.classes, "directory={!r}")

    def __reduce__(self) -> "Tuple[Any, ...]":
        return EpochView.__new__, (EpochView,), self.__getstate__()

    def _place(self) -> "Tuple[int, int]":
        """Rank and world of this process. They have to stay what they are."""
        rank, world = (os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE"))
        now = self._given or group() or self._group or (None if rank or world not in ("", "1") else (0, 1))
        if now is None and not (rank.isdecimal() and world.isdecimal()):
            raise Error(f"in the environment RANK is {rank or 'not set'} and WORLD_SIZE is {world or 'not set'}: set both, initialize torch.distributed, or give rank= and world=")
        now = now or (int(rank), int(world))
        self._used = self._used or now
        if now != self._used:
            raise Error("this EpochView was used as rank {} of {}, and this process is rank {} of {}: use it after torch.distributed is initialized, "
                        "or give it rank= and world=".format(*self._used, *now))
        theirs = group()
        if self._given and theirs and theirs[1] == self._given[1] != 1 and theirs != self._given and not self._told:
            self._told = True
            warnings.warn("rank={} was given, and torch.distributed says rank {} of {}: another process may read the same batches".format(self._given[0], *theirs), stacklevel=3)
        return now

    @property
    def rank(self) -> int:
        """The rank whose batches are read."""
        return self._place()[0]

    @property
    def world(self) -> int:
        """The number of ranks."""
        return self._place()[1]

    @property
    def root(self) -> str:
        """The directory of the files of the epoch."""
        return self._root(self.epoch, self._place(), self._shared.origin)

    def _root(self, epoch: int, at: "Tuple[int, int]", origin: int = 0) -> str:
        batch = f"{self.batch}drop" if self.drop else str(self.batch)
        batch += f"-window{self.window}" if self.window else ""
        batch += f"-from{origin}" if origin else ""
        parts = (self.seed, epoch, at[1], at[0], batch, self.view)
        return os.path.join(self.mount.mountpoint, ".epoch", *map(str, parts), *filter(None, [self.directory]))

    def _index(self, root: str) -> "Dict[str, Any]":
        """The contents of an epoch."""
        if root in self._known:
            return self._known[root]
        try:
            with open(os.path.join(root, "index.json"), encoding="utf-8") as f:
                told = json.load(f)
        except OSError as e:
            raise self.mount.failed(root, e) from e
        if told["shape"] is None:
            raise Error(f"the files of {self.view} are not arrays of one shape: take one such as rrc224-npy, or read the lists in {root}")
        if not told["batches"] and not told["from"]:
            raise Error(f"{root} has no batches: there are {told['samples']} samples, and {told['samples_of_rank']} of them for this rank")
        if self.masks and not told["masks_shape"]:
            if not self.mount.stats().get("pairs"):
                raise Error("masks=True needs a mount that knows the masks: pipefs.mount(..., pair='images/**.jpg=masks/**.png')")
            try:
                os.stat(os.path.join(root, "000000.masks.npy"))
            except OSError as e:
                raise self.mount.failed(os.path.join(root, "000000.masks.npy"), e, "no --pair is about these samples" if e.errno == errno.ENOENT else "") from e
        if told["dataset_changed"]:
            warnings.warn(f"the dataset has changed since epoch {told['epoch']} of seed {self.seed} was begun, which goes on with its {told['samples']} samples", stacklevel=3)
        self._known = {**dict(list(self._known.items())[-3:]), root: told}
        return self._known[root]

    @property
    def classes(self) -> "List[str]":
        """The names of the classes, which the labels number."""
        return list(self._index(self._root(self.epoch, self._given or (0, 1)))["classes"])  # the same for all ranks

    def _settings(self, epoch: int) -> "Dict[str, Any]":
        """The part of a state that has to be the same where an epoch goes on."""
        info, index = worker(), self._index(self._root(epoch, self._place()))
        same = {"seed": self.seed, "window": self.window, "view": self.view, "directory": self.directory, "list_sha256": index["list_sha256"]}
        if info is None:
            return {**same, "worker": None}
        # Each worker reads each n-th batch of the pass.
        return {**same, "worker": [info.id, info.num_workers], "world": self.world, "batch_size": self.batch, "drop": self.drop}

    def state_dict(self, steps: "Optional[int]" = None) -> "Dict[str, Any]":
        """The position of the training: the epoch, and how many samples of its order all ranks have consumed.

        Any number of ranks goes on there, with batches of any size. Workers of a DataLoader read ahead of the
        training. With them, steps is the number of batches of this epoch on which each rank has trained, those
        before a state was loaded counted. StatefulDataLoader of torchdata counts them itself.
        """
        info, shared, settings = worker(), self._shared, self._settings(self.epoch)
        if info is not None:
            return {**settings, "epoch": self.epoch, "samples": shared.origin, "steps": shared.past, "batch": self._next}
        if steps is None and shared.uncounted:
            raise Error("workers of a DataLoader, which read ahead, or data[k] have read this epoch: call state_dict(steps=n) with the number of "
                        "batches of this epoch on which the training has trained, or use StatefulDataLoader of torchdata")
        index = self._index(self.root)
        steps = shared.past + self._next if steps is None else whole("steps", steps)
        if not 0 <= steps - shared.past <= index["batches"]:
            raise Error(f"steps is {steps}: this pass began after {shared.past} steps of the epoch, and has {index['batches']}")
        return {**settings, "epoch": self.epoch, "steps": steps,
                "samples": min(index["samples"], shared.origin + (steps - shared.past) * self.batch * self.world)}

    def load_state_dict(self, state: "Mapping[str, Any]") -> None:
        """Goes on at the position of a state, in the next pass. It raises Error for a state of another seed, view, list of samples and so on."""
        state = state if isinstance(state, Mapping) else {}
        epoch = whole("epoch of the state", state.get("epoch"))
        if "batch" in state and "samples" not in state:
            raise Error(f"the state is of another version of pipefs, and counts batches in place of samples: call set_epoch({epoch + 1}) in place of load_state_dict")
        samples, steps = whole("samples of the state", state.get("samples")), whole("steps of the state", state.get("steps"))
        for name, here in self._settings(epoch).items():
            if name not in state or state[name] != here:
                raise Error(f"the state has {name} {state.get(name)!r}, and this EpochView has {here!r}: within an epoch this cannot change. "
                            f"Make the EpochView with the value of the state, or call set_epoch({epoch + 1}) in place of load_state_dict")
        info, whole_epoch = worker(), self._index(self._root(epoch, self._place()))
        if samples > whole_epoch["samples"]:
            raise Error(f"the state has consumed {samples} samples, and epoch {epoch} has {whole_epoch['samples']}")
        batch, batches = whole("batch of the state", state.get("batch", 0)), self._index(self._root(epoch, self._place(), samples))["batches"]
        self._detach()
        chosen = epoch != self.epoch and (info or self._chosen)
        if chosen and batch < batches:
            raise Error(f"the state is in the middle of epoch {epoch}, and this EpochView is at epoch {self.epoch}: call set_epoch({epoch}) first")
        if info:
            self._resume = None if chosen else (samples, steps, batch)
        elif not chosen:  # else that epoch is complete, and another one was chosen
            self._go(epoch, samples, steps)

    def __len__(self) -> int:
        return int(self._shared.past + self._index(self.root)["batches"])

    def __getitem__(self, k: int) -> Batch:
        if not 0 <= k < len(self):
            raise IndexError(k)
        past = self._shared.past
        if k < past:
            raise Error(f"batch {k} was read before the state that was loaded, which has {past} steps: iterate over the EpochView, or begin at data[{past}]")
        self._shared.uncounted = 1
        self._count(len(self) if self._random else math.inf)
        return self._read(self.root, k - past, Buffers())

    def __iter__(self) -> "Iterator[Batch]":
        self._detach()
        shared, info, step = self._shared, worker(), 1
        if info is None:
            self._next = 0
            shared.origin, shared.past = (0, 0) if any(shared.begun) else (shared.begin, shared.steps)
            shared.begin, shared.steps, shared.uncounted, self._chosen = 0, 0, 0, False
        else:
            # DataLoader takes a batch of each worker in turn. Only the first pass begins at begin: later ones
            # find the mark of this worker, or of the workers of another DataLoader.
            step, shared.uncounted, mark = info.num_workers, 1, shared.begun[info.id]
            begin = (shared.begin, shared.steps) if not mark and set(shared.begun) <= {0, step} else (0, 0)
            (shared.origin, shared.past, self._next), self._resume = self._resume or (*begin, info.id), None
            shared.begun[info.id] = mark or step
        root = self.root
        return self._batches(root, range(self._next, self._index(root)["batches"], step))

    def _batches(self, root: str, numbers: range) -> "Iterator[Batch]":
        buffers, size = Buffers(), len(self) if self._random else math.inf
        reading: "Deque[Future[Batch]]" = collections.deque()
        readers = ThreadPoolExecutor(2, thread_name_prefix="pipefs")
        try:
            for k in numbers:
                reading.append(readers.submit(self._read, root, k, buffers))
                if len(reading) > self.ahead:
                    yield self._give(reading, numbers.step, size)
            while reading:
                yield self._give(reading, numbers.step, size)
        finally:
            readers.shutdown(wait=False, cancel_futures=True)

    def _give(self, reading: "Deque[Future[Batch]]", step: int, size: float) -> Batch:
        batch = reading.popleft().result()
        self._next += step  # before it is returned: the caller of state_dict has trained on it
        self._count(size)
        return batch

    def _read(self, root: str, k: int, buffers: Buffers) -> Batch:
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

        def read(suffix: str, memory: Any = None) -> "numpy.ndarray[Any, Any]":
            try:
                return read_npy(path + suffix, memory)
            except OSError as e:
                raise self.mount.failed(path + suffix, e, 'pipefs.mount(..., on_error="replace") puts another sample with the same label in its place' if e.errno == errno.EIO else "") from e

        def column(name: str) -> "List[Any]":
            try:
                with open(f"{path}.{name}.jsonl", encoding="utf-8") as f:
                    return [json.loads(line) for line in f]
            except OSError as e:
                raise self.mount.failed(f"{path}.{name}.jsonl", e, f"the dataset has no Parquet column {name!r}" if e.errno == errno.ENOENT else "") from e

        # Masks first: a batch is made as a whole, and goes once its pixels were read.
        arrays = [labels_of(read(".masks.npy", Buffers().take))] if self.masks else []
        pixels = read(".npy", take)
        arrays.append(read(".labels.npy"))
        columns = [{name: column(name) for name in self.columns}] if self.columns else []
        made = read(".made.npy") if self.skip else None
        if made is not None and not made.all():
            pixels, arrays, pinned = pixels[made], [a[made] for a in arrays], []
            columns = [{name: [v for v, is_made in zip(values, made) if is_made] for name, values in of.items()} for of in columns]
        if torch is None:
            return (pixels, *arrays, *columns)
        x = torch.from_numpy(pixels)
        for memory in pinned:
            # As part of torch's own memory: so torch waits for copies to the GPU before it uses it again.
            x = memory[-pixels.nbytes:].view(x.dtype).reshape(x.shape)
        return (x, *map(torch.from_numpy, arrays), *columns)


def _pinned(torch: Any, size: int) -> Any:
    """Memory from which copies to the GPU are fast, as a tensor of bytes; None where there is no GPU."""
    if torch is None or not torch.cuda.is_available():
        return None
    return torch.empty(size, dtype=torch.uint8, pin_memory=True)
