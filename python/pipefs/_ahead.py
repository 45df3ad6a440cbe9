"""Ahead: a Dataset that announces which files it is going to read."""

from __future__ import annotations

import bisect
import hashlib
import os
import sys
import warnings
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

from . import _hints
from ._epoch import EpochView
from ._program import Error, log
from ._random import RandomView
from ._view import parts

if TYPE_CHECKING:
    _Path = Union[str, bytes, "os.PathLike[str]"]
    _Paths = Union[Callable[[int], Any], Sequence[Any]]


class Ahead:
    """A Dataset that tells the daemon of a mount which files it is going to read.

    Each file costs a round trip where the dataset is far away, and a worker that reads one
    file after the other waits for each of them. This Dataset gets a batch's indices before it
    reads the batch (DataLoader of torch 2.0 and newer calls __getitems__), and sends the paths in
    one message. The daemon loads them side by side, in their order. What is read stays the same.

    dataset is an ImageFolder or DatasetFolder, another Dataset with a list samples of paths or
    of (path, target), a RandomView, a Subset or ConcatDataset of such, or a list of paths. For
    others, paths says which files an item reads: a list, or a function of the index that returns
    a path or several. All else is that of dataset.

    Files that are in no mount are read as without it; the logger pipefs says so once.
    """

    def __init__(self, dataset: Any, paths: "Optional[_Paths]" = None) -> None:
        if isinstance(dataset, EpochView):
            raise Error("an EpochView needs no hints: the daemon knows its order")
        self.dataset = dataset
        self._paths = paths
        self._sampled = False  # batches announces them
        self._digests: "Any" = None
        self._on = True
        for view in parts(dataset):
            if isinstance(view, RandomView):
                view._batches = False  # what is announced is made file by file
        if len(self):
            first = self.paths(0)
            self._on = any(_hints.place(path) is not None for path in first)
            if not self._on:
                log.warning("nothing is announced by Ahead: %s is in no mount of pipefs", os.fsdecode(first[0]) if first else "an item without a file")

    def __len__(self) -> int:
        return len(self.dataset)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "dataset" not in self.__dict__:  # while it is unpickled
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __getitem__(self, index: int) -> Any:
        if self._on and not self._sampled:
            _warn_of_old_torch()
        return self.dataset[index]

    def __getitems__(self, indices: "Sequence[int]") -> "List[Any]":
        """The items of a batch, announced before they are read."""
        if not self._sampled:
            self.announce(indices, replace=True)
        several = getattr(self.dataset, "__getitems__", None)
        if callable(several):
            items: "List[Any]" = several(indices)
            return items
        return [self.dataset[i] for i in indices]

    def paths(self, index: int) -> "List[bytes]":
        """The files that an item reads."""
        found = _paths_of(self.dataset, index) if self._paths is None else _item(self._paths, index)
        several = found if isinstance(found, (list, tuple)) else [found]
        return [os.fsencode(path) for path in several]

    def announce(self, indices: "Iterable[int]", replace: bool = False) -> None:
        """Tells the daemon which items are read next, in this order.

        With replace, what this process has announced before has been read, or will not be.
        """
        if not self._on:
            return
        try:
            _hints.send((path for i in indices for path in self.paths(i)), replace)
        except OSError as e:
            self._on = False
            log.warning("nothing is announced by Ahead: %s", e)

    def batches(self, sampler: "Iterable[Sequence[int]]") -> "_Batches":
        """A batch sampler that announces the batches of another one as soon as they are drawn.

        A DataLoader draws them prefetch_factor * num_workers ahead. It works with every torch.
        """
        self._sampled = True
        return _Batches(self, sampler)

    def announce_order(self, order: "Sequence[int]") -> None:
        """Announces an epoch at once: the indices of all items in the order in which they are read.

        The items are those that ImageFolder lists in a view, or a RandomView of them. The daemon
        compares the list with its own one, and Error says why it refuses.
        """
        if not self._on:
            return
        if self._paths is not None:
            raise Error("announce_order is for the list of an ImageFolder: without paths=")
        view, directory, own, digest = self._list()
        at = _hints.place(os.fsencode(view))
        if at is None:
            raise Error(f"{view} is in no mount of pipefs")
        self._sampled = True
        _hints.send_order(at, os.fsencode(directory), own, digest, order)

    def _list(self) -> "Tuple[str, str, bool, str]":
        """The directory of the view, that of the dataset in it, whether the names are those of the dataset, and their digest."""
        data = self.dataset
        if isinstance(data, RandomView):
            if len(data.views) != 1:
                raise Error("announce_order is for items of one file each")
            names = [path for path, _ in data.samples]
            root, directory, own = data.root, _parent(names), True
        else:
            root, own = os.path.abspath(data.root), False
            names = [os.path.abspath(path)[len(root) + 1:] for path, _ in data.samples]
            inside = _hints.place(os.fsencode(root))
            parts = os.fsdecode(inside.path).split("/") if inside is not None else []
            depth = 4 if parts[:1] == [".draw"] else 1  # of the view
            directory = "/".join(parts[depth:])
            root = root[:len(root) - len(directory)].rstrip("/")
        if self._digests is None:
            self._digests = hashlib.sha256("".join(name + "\n" for name in names).encode("utf-8", "surrogateescape")).hexdigest()
        return root, directory, own, self._digests


def _parent(names: "Sequence[str]") -> str:
    """The directory in which the classes of samples are."""
    classes = {os.path.dirname(name) for name in names}
    if len(classes) == 1:
        return os.path.dirname(classes.pop())
    return os.path.commonpath(classes) if classes and all(classes) else ""


def _item(of: Any, index: int) -> Any:
    found = of(index) if callable(of) else of[index]
    # (path, target), as in lists of samples
    if isinstance(found, tuple) and len(found) == 2 and not isinstance(found[1], (str, bytes, os.PathLike)):
        return found[0]
    return found


def _paths_of(data: Any, index: int) -> Any:
    """The path of an item, or several."""
    if isinstance(data, Ahead):
        return data.paths(index)
    if isinstance(data, RandomView):
        return [data.path(index, n) for n in range(len(data.views))]
    if hasattr(data, "indices") and hasattr(data, "dataset"):  # Subset
        return _paths_of(data.dataset, data.indices[index])
    if hasattr(data, "cumulative_sizes") and hasattr(data, "datasets"):  # ConcatDataset
        index += len(data) if index < 0 else 0
        k = bisect.bisect_right(data.cumulative_sizes, index)
        return _paths_of(data.datasets[k], index - (data.cumulative_sizes[k - 1] if k else 0))
    samples = data if isinstance(data, (list, tuple)) else getattr(data, "samples", None)
    if samples is None:
        raise Error(f"which files does an item of {type(data).__name__} read? Say it by Ahead(dataset, paths=...): a list, or a function of the index")
    return _item(samples, index)


class _Batches:
    """A batch sampler that announces what another one draws."""

    def __init__(self, data: Ahead, sampler: "Iterable[Sequence[int]]") -> None:
        self._data, self._sampler = data, sampler

    def __len__(self) -> int:
        return len(self._sampler)  # type: ignore[arg-type]

    def __iter__(self) -> "Iterator[Sequence[int]]":
        replace = True
        for batch in self._sampler:
            self._data.announce(batch, replace)
            replace = False
            yield batch

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_sampler" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._sampler, name)


_warned = False


def _warn_of_old_torch() -> None:
    """Says once that DataLoader does not tell what a batch holds."""
    global _warned
    torch = sys.modules.get("torch")
    if _warned or torch is None:
        return
    _warned = True
    if int(torch.__version__.split(".")[0]) < 2:
        warnings.warn(f"torch {torch.__version__} does not tell a Dataset which batch comes, which torch 2.0 does: nothing is announced. "
                      "Take DataLoader(data, batch_sampler=data.batches(sampler))", stacklevel=3)
