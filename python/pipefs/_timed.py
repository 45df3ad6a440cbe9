"""How long a training waits for its loader, measured where it waits."""

from __future__ import annotations

import fcntl
import json
import os
import time
from typing import Generic, Iterable, Iterator, Optional, TypeVar

from . import _hints
from ._program import Error

_COMMAND = 3 << 30 | ord("p") << 8 | 0xA3
_INTERVAL = 1.0  # seconds between two messages

T = TypeVar("T")


class timed(Generic[T]):
    """A loader whose waits are told to the mount: `for x, y in pipefs.timed(loader)`.

    `pipefs stats` and `pipefs top` then know whether the training waits for its input, and need not infer it. mnt is
    a path in the mount; it may be left out if there is one mount of pipefs.
    """

    def __init__(self, loader: "Iterable[T]", mnt: "Optional[os.PathLike[str] | str]" = None) -> None:
        self.loader = loader
        mounts = _hints.mounts()
        if mnt is not None:
            at = os.fsencode(os.path.realpath(mnt))
            mounts = {m: below for m, below in mounts.items() if (at + b"/").startswith(m + b"/")}
        if not mounts or mnt is None and len(mounts) > 1:
            raise Error(f"timed: {len(mounts)} mounts of pipefs are meant: name one, timed(loader, '/mnt/imagenet')")
        self._mountpoint = max(mounts, key=len)

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def __iter__(self) -> "Iterator[T]":
        waited = worked = steps = 0
        told = began = time.monotonic_ns()
        batches = iter(self.loader)
        try:
            for batch in batches:
                now = time.monotonic_ns()
                waited += now - began
                yield batch
                began = time.monotonic_ns()
                worked += began - now
                steps += 1
                if began - told >= _INTERVAL * 1e9:
                    self._tell(waited, worked, steps)
                    waited = worked = steps = 0
                    told = began
        finally:
            if steps:
                self._tell(waited, worked, steps)

    def _tell(self, waited: int, worked: int, steps: int) -> None:
        message = bytearray(json.dumps({"v": 1, "waited_ns": waited, "worked_ns": worked, "steps": steps}).encode())
        try:
            fd = os.open(self._mountpoint, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.ioctl(fd, _COMMAND | len(message) << 16, message, True)
            finally:
                os.close(fd)
        except OSError:
            pass  # a training does not end because nobody counts
