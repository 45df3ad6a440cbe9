"""mount, and what it returns."""

from __future__ import annotations

import contextlib
import errno
import glob
import multiprocessing
import os
import time
from types import TracebackType
from typing import Any, Optional, Sequence, Type, Union

from . import _hints
from ._program import Error, ask, hold, log, path_of

_Path = Union[str, "os.PathLike[str]"]
_Value = Union[None, bool, int, float, _Path]
Option = Union[_Value, Sequence[_Value]]

# A mount that nobody closes ends with the process, not when a variable is forgotten.
_open: "set[Mount]" = set()

_PATIENCE = 5  # seconds in which a daemon ends; after 2 it takes a busy mount away


def mount(dataset: _Path, at: Optional[_Path] = None, *, cache: Union[None, int, str] = None, **options: Option) -> Mount:
    """Mounts a dataset or a store, or joins the mount of it that is there.

    All processes of a user on a machine that mount the same dataset with the same options
    share one mount and one daemon. The mount ends when the last of them has closed it or
    has ended, however it ended. It belongs to forked processes as well.

    dataset is a path, in which ~ stands for the home directory, or a URL such as "s3://bucket/imagenet.store".
    at is the directory to mount on. Without it, a directory of the user's own is chosen.
    The mount goes on if its daemon dies, and reads wait until there is another one; supervise=False
    leaves that out. cache is "page" or "daemon", or the memory for samples that the daemon may use, as bytes
    or such as "16GB". Every other option of `pipefs mount` is an argument with underscores:
    fidelity=5, no_background=True, masks=["**/labels/*.png"]; None leaves one out.

    Raises Error with what the program says.
    """
    arguments = _arguments(cache, {"supervise": True, **options}) + ["--", _source(dataset)]
    if at is not None:
        arguments.append(_absolute(path_of("at", at)))
    return Mount(arguments)


def _source(dataset: _Path) -> str:
    name = path_of("the dataset", dataset)
    return name if "://" in name else _absolute(name)


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


def _arguments(cache: Union[None, int, str], options: "dict[str, Option]") -> "list[str]":
    """The options as the program takes them."""
    if cache in (None, "page", "daemon"):
        options = {"cache": cache, **options}
    elif "cache_bytes" in options:
        raise Error(f"cache={cache!r} and cache_bytes={options['cache_bytes']!r} say the same; leave out one of them")
    else:
        options = {"cache": "daemon", "cache_bytes": f"{cache}B" if isinstance(cache, int) else cache, **options}
    arguments = []
    for name, value in options.items():
        values = [value] if value is None or isinstance(value, (bool, int, float, str, os.PathLike)) else value
        for v in values:
            if isinstance(v, bool):
                v = "true" if v else "false"
            if v is not None:
                arguments.append(f"--{name.replace('_', '-')}={os.fspath(v) if isinstance(v, os.PathLike) else v}")
    return arguments


class Mount:
    """A mount that this process holds; see mount. It is closed at the end of a with statement.

    A pickled copy, as a spawned worker gets one, holds the same mount for its process.
    """

    def __init__(self, arguments: "list[str]") -> None:
        self._arguments = arguments
        self._held = hold(arguments)
        self._descriptors = [self._held.descriptor]  # none when it is closed
        self._pid = os.getpid()
        _open.add(self)

    @property
    def mountpoint(self) -> str:
        """The directory of the mount."""
        return self._held.mountpoint

    @property
    def closed(self) -> bool:
        """Whether close was called, in this process."""
        return not self._descriptors

    def path(self, view: str, *below: _Path) -> str:
        """The directory of a view, such as "scan5", or of one of the links "current", "auto" and "mix".

        With further names it is the path of a directory or file in the view: m.path("scan5", "train").
        Raises Error if there is no such view, or nothing of that name in it. Warns of samples that the view
        leaves as they are because they may be masks, and names the view that takes them for pictures.
        """
        names = [path_of("a name in a view", b).strip("/") for b in below]
        told = self._ask(op="view", view=path_of("the view", view))
        if told.get("note"):
            log.warning("%s", told["note"])
        path = os.path.join(self.mountpoint, told["view"], *names)
        try:
            if names:
                os.stat(path)
        except OSError as e:
            raise self.failed(path, e) from e
        return path

    def failed(self, path: str, e: OSError, advice: str = "") -> Exception:
        """The exception for a path of the mount that could not be read: Error with the reason, if the daemon knows it."""
        if not self.closed and e.errno not in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.EIO, errno.EPERM, errno.EUCLEAN):
            return e  # it is not about the path
        try:
            why = self._ask(op="why", path=os.path.relpath(path, self.mountpoint)).get("cause")
        except Error as gone:
            why = str(gone)
        return Error(f"{path} cannot be read: {why or e.strerror}" + (advice and f" ({advice})"))

    def stats(self) -> "dict[str, Any]":
        """What the daemon has counted so far, as `pipefs stats --json` prints it."""
        stats: "dict[str, Any]" = self._ask(op="stats")["stats"]
        return stats

    def fidelity(self, scans: Optional[int] = None) -> str:
        """Moves the link "current" to that many scans, 1 to 10, for all who share the mount.

        Returns the view that it leads to, such as "scan5". Without scans it only tells.
        """
        if scans is None:
            current: str = self._ask(op="fidelity")["current"]
        elif not isinstance(scans, int) or not 1 <= scans <= 10:
            raise Error(f"fidelity {scans!r} is not a number from 1 to 10")
        else:
            current = self._ask(op="fidelity", scans=int(scans))["current"]
        return current

    def close(self) -> None:
        """Lets go of the mount. If no other process holds it, it is gone when this returns.

        In a forked process that is the process's own share.
        """
        try:
            descriptor = self._descriptors.pop()  # two threads may close at once
        except IndexError:
            return
        _open.discard(self)
        before, socket, begun = self._holders(), f"socket:[{os.fstat(descriptor).st_ino}]", time.monotonic()
        os.close(descriptor)
        while self._pid == os.getpid() and os.fsencode(self.mountpoint) in _hints.mounts():
            holders, waited = self._holders(), time.monotonic() - begun
            if 0 < holders < before:
                return  # other processes mounted it, too
            if waited > _PATIENCE or holders and waited > 0.5:
                forked = set()
                for fd in glob.iglob("/proc/[0-9]*/fd/*"):
                    with contextlib.suppress(OSError):  # of another user, or closed meanwhile
                        forked |= {fd.split("/")[2]} if os.readlink(fd) == socket else set()
                forked -= {str(p.pid) for p in multiprocessing.active_children() if p.daemon}  # workers end with this process
                if forked or not holders:
                    log.warning("the mount %s stays: %s", self.mountpoint, f"processes forked from this one hold it: {', '.join(sorted(forked))}" if forked
                                else f"its daemon has not ended in {_PATIENCE} s; pipefs umount {self.mountpoint}")
                return
            time.sleep(0.01)

    def _holders(self) -> int:
        try:
            return int(ask(self._held.socket, self.mountpoint, op="stats")["stats"].get("holders") or 0)
        except Error:
            return 0  # the mount is ending

    def _ask(self, **request: Any) -> "dict[str, Any]":
        if self.closed:
            raise Error(f"the mount {self.mountpoint} is closed in this process")
        return ask(self._held.socket, self.mountpoint, **request)

    def __enter__(self) -> Mount:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<pipefs.Mount {self.mountpoint}{', closed' if self.closed else ''}>"

    def __getstate__(self) -> "tuple[list[str], str]":
        if self.closed:
            raise Error(f"the mount {self.mountpoint} is closed and cannot be pickled")
        return self._arguments, self.mountpoint

    def __setstate__(self, state: "tuple[list[str], str]") -> None:
        arguments, mountpoint = state
        Mount.__init__(self, arguments)
        if self.mountpoint != mountpoint:  # paths below it would lead nowhere
            self.close()
            raise Error(f"{mountpoint} cannot be shared with this process, which would mount at {self.mountpoint}: "
                        "the dataset was replaced, or the process runs with another environment or in another container")
