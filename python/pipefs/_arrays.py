"""Arrays in npy files that the daemon makes, and memory for them."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Callable, List, Optional

from ._program import Error

if TYPE_CHECKING:
    import numpy


def read_npy(path: str, take: "Optional[Callable[[int], numpy.ndarray[Any, Any]]]" = None) -> "numpy.ndarray[Any, Any]":
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


def array_of(data: "bytearray | numpy.ndarray[Any, Any]", path: str) -> "numpy.ndarray[Any, Any]":
    """The array in the bytes of an npy file that the daemon wrote, without copying it."""
    import numpy

    if bytes(data[:8]) != b"\x93NUMPY\x01\x00":
        raise Error(f"{path} is no npy file: the view leaves this picture as it is, perhaps because it may be a mask")
    end = 10 + int.from_bytes(bytes(data[8:10]), "little")
    header = bytes(data[10:end]).decode("latin-1")
    # The daemon writes the keys in this order, and nothing else.
    dtype = header.split("'")[3]
    shape = header[header.index("(") + 1:header.index(")")]
    return numpy.frombuffer(data, dtype, offset=end).reshape([int(n) for n in shape.split(",") if n.strip()])


def labels_of(mask: "numpy.ndarray[Any, Any]") -> "numpy.ndarray[Any, Any]":
    """A mask as torch can take it: most of its releases and functions know no integers of 16 bits without a sign."""
    return mask.astype("int32") if mask.dtype == "uint16" else mask


# What getrefcount tells of an object that is in a list and nowhere else. Without a GIL it tells
# no such thing, and nothing is used again.
_PROBE = [bytearray()]
_UNUSED = sys.getrefcount(_PROBE[0]) if getattr(sys, "_is_gil_enabled", lambda: True)() else -1


class Buffers:
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
