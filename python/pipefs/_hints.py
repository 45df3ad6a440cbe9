"""What is said to the daemon of a mount about files that are going to be read."""

from __future__ import annotations

import array
import fcntl
import json
import os
import sys
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence

from ._program import Error

# A message is an ioctl on a directory of the mount: _IOWR('p', 0xa1, MESSAGE). Whoever can read
# there can send it, also in a container and as another user, where the socket cannot be reached.
_COMMAND = 3 << 30 | ord("p") << 8 | 0xA1
_MOST = (1 << 14) - 1


class Place(NamedTuple):
    """Where a file is in a mount."""

    mountpoint: bytes
    path: bytes  # below the root of the mount


_Known = Optional[Place]
_directories: "Dict[bytes, _Known]" = {}


def place(path: bytes) -> "Optional[Place]":
    """Where a file is in a mount; None where it is in none."""
    directory, name = os.path.split(path)
    if directory not in _directories:
        if len(_directories) >= 1 << 16:
            _directories.clear()
        _directories[directory] = _locate(os.path.abspath(directory))
    found = _directories[directory]
    return found and Place(found.mountpoint, os.path.join(found.path, name))


def _locate(directory: bytes) -> "Optional[Place]":
    found = mounts()
    # As it is written first: a link of the mount, such as current, may be moved.
    for way in (directory, os.path.realpath(directory)) if found else ():
        inside = [m for m in found if (way + b"/").startswith(m + b"/")]
        if inside:
            nearest = max(inside, key=len)
            return Place(nearest, os.path.join(found[nearest], way[len(nearest):].lstrip(b"/")))
    return None


def mounts() -> "Dict[bytes, bytes]":
    """The mounts of pipefs: the directory of each, and which directory of the mount is there."""
    found: "Dict[bytes, bytes]" = {}
    with open("/proc/self/mountinfo", "rb") as f:
        for line in f:
            fields = line.split(b" ")
            at = _unescaped(fields[4])
            if fields[fields.index(b"-") + 1] == b"fuse.pipefs":
                found[at] = _unescaped(fields[3]).lstrip(b"/")
            else:
                found.pop(at, None)  # something else is mounted over it
    return found


def _unescaped(field: bytes) -> bytes:
    return field.decode("unicode_escape").encode("latin-1") if b"\\" in field else field


# The stream of this process: forked ones have their own.
_stream = (0, "")


def _name() -> str:
    global _stream
    if _stream[0] != os.getpid():
        _stream = (os.getpid(), f"{os.getpid()}-{os.urandom(6).hex()}")
    return _stream[1]


def send(paths: "Iterable[bytes]", replace: bool) -> None:
    """Announces files, in as few messages as they fit in. Those that are in no mount are left out."""
    waiting: "Dict[bytes, List[bytes]]" = {}
    sizes: "Dict[bytes, int]" = {}
    replaced = set()
    head = _header(replace=replace)
    for path in paths:
        at = place(path)
        if at is None:
            continue
        held = waiting.setdefault(at.mountpoint, [])
        if sizes.get(at.mountpoint, 0) + len(at.path) + 1 + len(head) > _MOST and held:
            _flush(at.mountpoint, held, replace and at.mountpoint not in replaced)
            replaced.add(at.mountpoint)
            held.clear()
            sizes[at.mountpoint] = 0
        held.append(at.path + b"\0")
        sizes[at.mountpoint] = sizes.get(at.mountpoint, 0) + len(held[-1])
    for mountpoint, held in waiting.items():
        _flush(mountpoint, held, replace and mountpoint not in replaced)


def _flush(mountpoint: bytes, held: "List[bytes]", replace: bool) -> None:
    _tell(mountpoint, _header(replace=replace), b"".join(held))


def send_order(at: Place, directory: bytes, own: bool, digest: str, order: "Sequence[int]") -> None:
    """Announces places in the list of a directory of the view at a place."""
    head = _header(replace=True, view=os.fsdecode(at.path), dir=os.fsdecode(directory), own=own, digest=digest)
    most = (_MOST - len(head)) // 4
    for begin in range(0, len(order), most):
        places = array.array("I", order[begin:begin + most])
        if sys.byteorder == "big":
            places.byteswap()
        try:
            _tell(at.mountpoint, head, places.tobytes())
        except OSError as e:
            raise Error(f"announcing the order of {os.fsdecode(at.path)}: {e}") from e
        head = head.replace(b'"replace":true', b'"replace":false')


def _header(**fields: object) -> bytes:
    return json.dumps({"v": 1, "stream": _name(), **fields}, separators=(",", ":")).encode() + b"\n"


def _tell(mountpoint: bytes, head: bytes, rest: bytes) -> None:
    message = bytearray(head + rest)
    fd = os.open(mountpoint, os.O_RDONLY | os.O_DIRECTORY)
    try:
        refused = fcntl.ioctl(fd, _COMMAND | len(message) << 16, message, True)
    finally:
        os.close(fd)
    if refused:
        raise OSError(os.fsdecode(bytes(message).split(b"\0", 1)[0]))
