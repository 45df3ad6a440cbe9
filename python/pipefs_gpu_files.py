"""Files on their way to the GPU, and the errors of pipefs_gpu."""

from __future__ import annotations

import ctypes
import itertools
import logging
import os
import stat
from typing import NamedTuple

import pipefs_gpu_abi as abi

log = logging.getLogger("pipefs_gpu")


class Error(Exception):
    """What all errors of this module are."""


class DeviceError(Error):
    """There is no GPU, no driver, no program for it, or a call of the driver failed."""


class LimitError(Error):
    """A batch takes more than max_bytes."""


class PictureError(Error):
    """A picture that was not decoded: `name` says which one, `what` says why."""

    def __init__(self, name, what):
        super().__init__(name, what)
        self.name, self.what = name, what

    def __str__(self):
        return f"{self.name}: {self.what}"


class Damaged(PictureError):
    """The bytes are not an L3 picture, or they were changed."""


class Truncated(PictureError):
    """The picture is shorter than it has to be."""


class Unsupported(PictureError):
    """The picture is over a limit, or not what the caller asked for."""


class Unreadable(PictureError):
    """The file could not be read; __cause__ is the OSError."""


class BatchError(Error):
    """Some pictures of a batch were not decoded.

    `errors` maps their indices to PictureErrors, and `pictures` is the list of all
    tensors of the batch, with None for those.
    """

    def __init__(self, errors, pictures):
        super().__init__(errors, pictures)
        self.errors, self.pictures = errors, pictures

    def __str__(self):
        shown = "; ".join(str(e) for e in itertools.islice(self.errors.values(), 5))
        more = f"; and {len(self.errors) - 5} more" if len(self.errors) > 5 else ""
        return f"{len(self.errors)} of {len(self.pictures)} pictures were not decoded: {shown}{more}"


class File(NamedTuple):
    """The bytes of a file and its name, or the OSError of reading it."""

    name: str
    data: object

    @classmethod
    def read(cls, path):
        """Reads a file; where that fails the error is kept for the decoder to report."""
        try:
            with open(path, "rb", buffering=0) as f:
                return cls(os.fspath(path), f.readall())
        except OSError as e:
            return cls(os.fspath(path), e)


class Files:
    """A batch of files in one piece of memory, laid out as the GPU wants them.

    `data` is a uint8 tensor of PyTorch on the CPU, or without PyTorch a bytearray;
    `places` has (offset, length) of each file in it; `names` are for messages, and
    `errors` maps the indices of files that could not be read to PictureErrors.
    """

    __slots__ = ("names", "places", "data", "errors")

    def __init__(self, names, places, data, errors):
        self.names, self.places, self.data, self.errors = names, places, data, errors

    def __len__(self):
        return len(self.names)

    def pin_memory(self):
        """Is called by a DataLoader with pin_memory=True: the copy that the GPU reads."""
        if not hasattr(self.data, "pin_memory"):
            return self
        return Files(self.names, self.places, self.data.pin_memory(), self.errors)


def span_of(n):
    """How many bytes a file of n bytes takes in Files: zeros follow it."""
    return (n + abi.PADDING + abi.ALIGNMENT - 1) & -abi.ALIGNMENT


def bytes_of(memory):
    """The bytes of a CPU tensor, an array or a buffer, to be read and written."""
    if hasattr(memory, "data_ptr"):
        n = memory.numel()
        return memoryview((ctypes.c_ubyte * n).from_address(memory.data_ptr())).cast("B") if n else memoryview(b"")
    return memoryview(memory).cast("B")


def _host_memory(n):
    """n bytes of ordinary memory: a tensor, so that workers hand it over without a copy."""
    try:
        import torch
    except ImportError:
        return bytearray(n)
    return torch.empty(n, dtype=torch.uint8)


def _measure(item, index):
    """Returns name, length and content of what a caller gave; a path is its own content."""
    if isinstance(item, File):
        name, content = item
        if isinstance(content, OSError):
            return name, 0, _unreadable(name, content)
    elif isinstance(item, (str, os.PathLike)):
        name = os.fspath(item)
        try:
            status = os.stat(item)
        except OSError as e:
            return name, 0, _unreadable(name, e)
        if not stat.S_ISREG(status.st_mode):  # a pipe would make us wait
            return name, 0, Unreadable(name, "not a file")
        return name, status.st_size, item
    else:
        name, content = f"picture {index}", item
    if isinstance(content, (str, os.PathLike)):
        raise TypeError(f"{name}: File holds the bytes of a file, not its path")
    content = memoryview(content).cast("B")
    return name, len(content), content


def _unreadable(name, error):
    e = Unreadable(name, error.strerror or str(error))
    e.__cause__ = error
    return e


def _fill(name, content, into):
    """Copies a file to its place, and returns None or the error."""
    if isinstance(content, memoryview):
        into[:] = content
        return None
    try:
        with open(content, "rb", buffering=0) as f:
            at = 0
            while at < len(into):
                n = f.readinto(into[at:])
                if not n:
                    return Truncated(name, f"{at} bytes could be read, its size is {len(into)}")
                at += n
    except OSError as e:
        return _unreadable(name, e)
    return None


def pack(items, memory=_host_memory, max_bytes=None):
    """Reads paths, File objects and buffers of bytes into one Files.

    memory(n) returns n bytes. A file of more than max_bytes is not read but reported;
    more than max_bytes in all are a LimitError.
    """
    names, places, contents, errors, end = [], [], [], {}, 0
    for i, item in enumerate(items):
        name, n, content = _measure(item, i)
        if isinstance(content, PictureError):
            errors[i] = content
        elif n > abi.MAX_FILE or max_bytes is not None and n > max_bytes:
            errors[i] = Unsupported(name, f"a file of {n} bytes, the limit is {abi.MAX_FILE if max_bytes is None else min(max_bytes, abi.MAX_FILE)}")
        if i in errors:
            n, content = 0, memoryview(b"")
        names.append(name)
        places.append((end, n))
        contents.append(content)
        end += span_of(n)
    if max_bytes is not None and end > max_bytes:
        raise LimitError(f"the {len(names)} files of a batch have {end} bytes, max_bytes is {max_bytes}")
    data = memory(end)
    view = bytes_of(data)
    for i, (at, n) in enumerate(places):
        error = _fill(names[i], contents[i], view[at:at + n])
        if error is not None:
            errors[i] = error
        view[at + n:at + span_of(n)] = bytes(span_of(n) - n)
    return Files(names, places, data, errors)


class BytesDataset:
    """The files of a tree with one directory a class, as of torchvision's ImageFolder.

    Sample i is (File, number of the class). `samples` has paths and numbers, `classes`
    the names of the classes in their order.
    """

    def __init__(self, root, extensions=(".l3",)):
        root = os.fspath(root)
        with os.scandir(root) as entries:
            self.classes = sorted(e.name for e in entries if e.is_dir() and not e.name.startswith("."))
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}
        self.samples = []
        for name, number in self.class_to_idx.items():
            for where, _, files in sorted(os.walk(os.path.join(root, name), followlinks=True)):
                self.samples += [(os.path.join(where, f), number) for f in sorted(files) if f.lower().endswith(tuple(extensions))]
        if not self.samples:
            raise FileNotFoundError(f"no files with {', '.join(extensions)} in the directories of {root}")

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        path, number = self.samples[index]
        return File.read(path), number


def collate(samples):
    """Makes a batch in a worker: of File objects a Files, of tuples (File, …) a tuple (Files, …).

    What follows the files is batched as PyTorch does it by default.
    """
    if isinstance(samples[0], File):
        return pack(samples)
    from torch.utils.data import default_collate

    files, *rest = zip(*samples)
    return (pack(files), *(default_collate(list(r)) for r in rest))
