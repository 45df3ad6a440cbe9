"""Batches of samples that a process chooses: it asks the daemon for them, and reads them as one file."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from typing import TYPE_CHECKING, Any, List, Sequence

from ._arrays import Buffers, array_of

if TYPE_CHECKING:
    import numpy

# A message is an ioctl on a file of the thread's own in the mount, which need not be made: _IOWR('p', 0xa2, MESSAGE).
_COMMAND = 3 << 30 | ord("p") << 8 | 0xA2
_MOST = (1 << 14) - 1
_LEAST = 1 << 10  # room for a reply


class Never(Exception):
    """The samples of a view cannot be in one file."""


class _Own(threading.local):
    """What a thread has of its own: the name of its file, and memory."""

    def __init__(self) -> None:
        self.pid, self.buffers = 0, Buffers()

    def name(self) -> str:
        if self.pid != os.getpid():  # forked
            self.pid, self._name, self.buffers = os.getpid(), f"batches-{os.getpid()}-{os.urandom(9).hex()}", Buffers()
        return self._name


_own = _Own()


def read(mountpoint: str, view: str, paths: "Sequence[bytes]") -> "List[numpy.ndarray[Any, Any]]":
    """The first of these samples of a view, as many as fit into one file: one array each."""
    names: "List[bytes]" = []
    size = 0
    for path in paths:
        size += len(path) + 1
        if size > _MOST - _LEAST and names:
            break
        names.append(path + b"\0")
    head = json.dumps({"v": 1, "view": view, "paths": len(names)}, separators=(",", ":")).encode() + b"\n"
    message = bytearray(max(_LEAST, min(_MOST, len(head) + size)))
    text = head + b"".join(names)
    if len(text) > _MOST:
        raise OSError("a path is too long")
    message[:len(text)] = text
    file = os.path.join(mountpoint, ".pipefs", _own.name())
    try:
        f = os.open(file, os.O_RDONLY | os.O_DIRECT)
        try:
            fcntl.ioctl(f, _COMMAND | len(message) << 16, message, True)
            told = json.loads(bytes(message).split(b"\0", 1)[0])
            if told.get("never"):
                raise Never(told["error"])
            if "error" in told:
                raise OSError(told["error"])
            data, got = _own.buffers.take(told["bytes"]), 0
            while got < len(data):
                n = os.preadv(f, [data.data[got:]], got)
                if n == 0:
                    raise OSError("the file of the batch ends early")
                got += n
        finally:
            os.close(f)
    except OSError:
        _own.pid = 0  # a daemon that took over from another one knows no such file: take another name
        raise
    return list(array_of(data, file))
