"""The program: where it is, and how it is asked to share a mount."""

from __future__ import annotations

import array
import json
import logging
import os
import shutil
import socket
import subprocess
from importlib import metadata
from operator import index
from typing import Any, NamedTuple, Optional, Sequence

log = logging.getLogger("pipefs")

try:
    __version__ = metadata.version("pipefs")
except metadata.PackageNotFoundError:  # a source tree
    __version__ = "0+unknown"


class Error(Exception):
    """What went wrong, in the words of the program or of a mount's daemon.

    code is the exit code of the program, as `pipefs --help` explains it; None where it did
    not run.
    """

    def __init__(self, message: str, code: Optional[int] = None) -> None:
        super().__init__(message)
        self.code = code


def whole(name: str, value: Any) -> int:
    """value, which has to be a whole number."""
    if not hasattr(value, "__index__") or not 0 <= index(value) < 1 << 64:
        raise Error(f"{name} is {value!r}: want a whole number, 0 or more")
    return index(value)


def path_of(name: str, value: Any) -> str:
    """value, which has to be a path or a name."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise Error(f"{name} is {value!r}: want a path or a name")
    return os.fsdecode(value)


def program() -> str:
    """The path of the program pipefs: the one in this package, else the one in PATH."""
    inside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "pipefs")
    if os.access(inside, os.X_OK):
        return inside
    found = shutil.which("pipefs")
    if found is None:
        raise Error(f"there is no program pipefs, neither as {inside} nor in PATH; install the wheel for this platform")
    return found


class Held(NamedTuple):
    """A shared mount that this process holds."""

    mountpoint: str
    socket: str  # path of the daemon's control socket
    descriptor: int  # of the connection that holds the mount


def hold(arguments: Sequence[str]) -> Held:
    """Has the program join or make a shared mount, and takes the connection that holds it."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            fd = theirs.fileno()
            command = [program(), "mount", "--shared", f"--holder={fd}", *arguments]
            try:
                done = subprocess.run(command, pass_fds=[fd], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, encoding="utf-8", errors="replace")
            except (OSError, ValueError) as e:
                raise Error(f"running {command[0]}: {e}") from e
        said = [line[len("pipefs: "):] if line.startswith("pipefs: ") else line for line in done.stderr.splitlines()]
        if done.returncode != 0:
            raise Error("\n".join(said) or f"{command[0]} ended with code {done.returncode}", done.returncode)
        for line in said:
            log.log(logging.WARNING if line.startswith("note: ") else logging.INFO, "%s", line)
        # socket.recv_fds leaves its flags out.
        reply, rights, _, _ = ours.recvmsg(1 << 16, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for _, _, data in rights:
        descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    if len(descriptors) != 1:
        raise Error(f"{command[0]} handed over {len(descriptors)} descriptors instead of one")
    told = json.loads(reply)
    return Held(told["mount"], told["socket"], descriptors[0])


def ask(path: str, mountpoint: str, /, **request: Any) -> "dict[str, Any]":
    """Asks the daemon behind a control socket, and returns its reply."""
    try:
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(10)
            s.connect(path)
            s.sendall(json.dumps({"v": 1, **request}).encode() + b"\n")
            with s.makefile("rb") as f:
                line = f.readline()
        reply: "dict[str, Any]" = json.loads(line)
    except (FileNotFoundError, ConnectionRefusedError) as e:
        raise Error(f"the daemon of {mountpoint} is gone; mount again") from e
    except (OSError, ValueError) as e:
        raise Error(f"the daemon of {mountpoint} gave no answer: {e}") from e
    if reply.get("error"):
        raise Error(reply["error"])
    return reply
