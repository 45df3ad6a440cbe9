"""PyTorch with CUDA and CuPy, as far as pipefs_gpu calls them, on memory of this process.

They show that the calls fit together. What really happens on a GPU they do not know.
"""

import contextlib
import ctypes
import struct
import types

import numpy as np
import pipefs_gpu_abi
import torch

calls = []  # of what is about streams and lifetimes


class Device:
    """A device as `with` statements take it."""

    id = 0

    def __init__(self, *_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Event:
    def __init__(self, **options):
        assert options in ({"blocking": True}, {"block": True, "disable_timing": True})
        self.done = True

    def record(self, stream):
        calls.append(("record", stream.name))

    def query(self):
        return True

    def synchronize(self):
        calls.append("wait")


class Stream(Device):
    cuda_stream = ptr = 0x77

    def __init__(self, device=None, priority=0, non_blocking=True, name="ours"):
        self.priority, self.name = priority, name
        assert non_blocking

    def wait_event(self, event):
        calls.append((self.name, "waits"))

    def wait_stream(self, other):
        calls.append((self.name, "waits for", other.name))

    def synchronize(self):
        calls.append("finish")


CALLERS = Stream(name="the caller's")


class Tensor(torch.Tensor):
    """One that says it is on a GPU."""

    device = torch.device("cuda", 0)

    def record_stream(self, stream):
        calls.append(("recorded for", stream.name))

    def is_pinned(self):
        return False


def fake_torch():
    """What `import torch` gives."""
    def empty(n, dtype, device=None, pin_memory=False):
        assert pin_memory != (device is not None)
        return torch.full((n,), 0xEE, dtype=dtype).as_subclass(Tensor)

    module = types.SimpleNamespace(**{name: getattr(torch, name) for name in ("uint8", "int16", "int32", "float32", "float16", "device", "Tensor", "__version__")})
    module.version, module.empty = types.SimpleNamespace(cuda="12.2"), empty
    module.cuda = types.SimpleNamespace(is_available=lambda: True, init=lambda: None, current_device=lambda: 0, Stream=Stream, Event=Event,
                                        stream=contextlib.nullcontext, device=Device, current_stream=lambda _: CALLERS)
    return module


class Array(np.ndarray):
    """An array of CuPy: with an address and a device."""

    @property
    def data(self):
        return types.SimpleNamespace(ptr=self.ctypes.data)

    device = Device()


def fake_cupy():
    """What `import cupy` gives."""
    runtime = types.SimpleNamespace(memcpyAsync=lambda to, from_, n, kind, stream: ctypes.memmove(to, from_, n), CUDARuntimeError=OSError)
    cuda = types.SimpleNamespace(Device=Device, Stream=Stream, Event=Event, runtime=runtime, get_current_stream=lambda: CALLERS,
                                 alloc_pinned_memory=lambda n: (ctypes.c_ubyte * n)())
    return types.SimpleNamespace(cuda=cuda, ndarray=Array, __version__="13", empty=lambda n, dtype=float: np.full(n, 0xEE, dtype).view(Array))


class Driver:
    """Its kernels fill pictures with the number of channels, all of them at their places."""

    major = 9

    def __init__(self, index):
        assert index == 0

    def load(self, ptx):
        assert ptx.rstrip(b"\0")

    def function(self, module, name):
        return name

    def launch(self, name, blocks, parameters, stream):
        assert stream == Stream.ptr and blocks >= 1
        pictures, patches, count, statuses = (p.value for p in parameters)
        seen = {struct.unpack("<I", ctypes.string_at(patches + 32 * i, 4))[0] for i in range(count)}
        for i in seen:
            source, to, row, pixel, channel, width, height, _, _, channels, depth, output, *_ = pipefs_gpu_abi.PICTURE.unpack(ctypes.string_at(pictures + 96 * i, 96))
            assert ctypes.string_at(source, 3) == b"LLL" and ctypes.string_at(statuses + 4 * i, 4) == b"\xff" * 4
            sample = {0: (channels + 256 * (depth == 16)).to_bytes(depth // 8, "little"), 1: struct.pack("<f", channels), 2: struct.pack("<e", channels)}[output]
            for y in range(height):
                for x in range(width):
                    for c in range(channels):
                        ctypes.memmove(to + y * row + x * pixel + c * channel, sample, len(sample))
