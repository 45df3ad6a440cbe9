"""The connection of pipefs_gpu_shared to a mount, and the mount's memory on the GPU."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket

import pipefs_gpu_cuda
from pipefs_gpu_files import DeviceError

_VERSION = 1
MAX_REPLY = 4 << 20  # bytes of a line


class Unavailable(DeviceError):
    """The mount decodes nothing for this process; the message says why."""


def socket_of(mount):
    """The path of the socket of a mount."""
    if os.environ.get("PIPEFS_GPU_SOCKET"):
        return os.environ["PIPEFS_GPU_SOCKET"]
    path = os.path.join(mount, ".pipefs", "gpu", "socket")
    try:
        with open(path, encoding="utf-8") as f:
            return f.read().strip()
    except OSError as e:
        raise Unavailable(f"{path}: {e.strerror}; mount with --gpu-share N to share the decoder") from e


class Connection:
    """Requests, and their replies in the same order. The caller holds a lock."""

    def __init__(self, path, timeout):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        self.asked = self.answered = 0
        self.kept = {}  # replies that nobody asked for as yet, by number
        self.broken = None
        try:
            self.socket.connect(path)
        except OSError as e:
            self.socket.close()
            raise Unavailable(f"{path}: {e.strerror or e}; is there a mount with --gpu-share, and in containers its socket?") from e
        self.lines = self.socket.makefile("rb")

    def ask(self, op, **fields):
        """Sends a request, and returns the number of its reply."""
        if self.broken:
            raise self.broken
        try:
            self.socket.sendall(json.dumps({"v": _VERSION, "op": op, **fields}).encode() + b"\n")
        except OSError as e:
            # The mount may have said why it cut the connection.
            with contextlib.suppress(OSError):
                while self.answered < self.asked:
                    self._read()
            self._end(str(e))
        self.asked += 1
        return self.asked

    def reply(self, number):
        """Waits for a reply; those that come before it are kept."""
        while number not in self.kept:
            if self.broken:
                raise self.broken
            try:
                self._read()
            except (OSError, ValueError) as e:
                self._end(str(e))
        return self.kept.pop(number)

    def _read(self):
        """Takes in the next reply."""
        line = self.lines.readline(MAX_REPLY)
        if not line.endswith(b"\n"):
            raise OSError("it closed the connection" if len(line) < MAX_REPLY else "its reply is too long")
        reply = json.loads(line)
        if reply.get("fatal"):
            self._end(reply["error"])
        self.answered += 1
        self.kept[self.answered] = reply

    def _end(self, why):
        self.broken = self.broken or Unavailable(f"the mount decodes nothing for this process: {why}")
        self.close()
        raise self.broken from None

    def close(self):
        for what in (self.lines, self.socket):
            with contextlib.suppress(OSError):
                what.close()


class _Handle(ctypes.Structure):
    """CUipcMemHandle."""

    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


_LAZY_PEER_ACCESS = 1  # the only flag there is, and it has to be given


class Driver(pipefs_gpu_cuda.Driver):
    """What else is needed of the driver."""

    @classmethod
    def index_of(cls, uuid):
        """The number that CUDA has in this process for a GPU; None if it is not visible here."""
        self = cls.__new__(cls)
        self.cuda = cls._open(pipefs_gpu_cuda.SONAMES)
        self._call("cuInit", ctypes.c_uint(0))
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        return next((i for i in range(count.value) if self.uuid(i) == uuid), None)

    def uuid(self, index):
        device, b = ctypes.c_int(), (ctypes.c_ubyte * 16)()
        self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(index))
        self._call("cuDeviceGetUuid_v2", b, device)
        h = bytes(b).hex()
        return f"GPU-{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"

    def open_memory(self, handle):
        """The address that another process's memory has here."""
        if len(handle) != 64:
            raise DeviceError(f"a handle of {len(handle)} bytes")
        address = ctypes.c_uint64()
        try:
            self._in_context("cuIpcOpenMemHandle_v2", ctypes.byref(address), _Handle((ctypes.c_ubyte * 64)(*handle)), ctypes.c_uint(_LAZY_PEER_ACCESS))
        except DeviceError as e:
            raise Unavailable(f"the mount's memory on the GPU cannot be opened: {e}; in containers it takes --ipc=host, and one --pid for both") from e
        return address.value

    def close_memory(self, address):
        self._in_context("cuIpcCloseMemHandle", ctypes.c_uint64(address))
