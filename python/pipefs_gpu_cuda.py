"""NVIDIA's driver, and what is needed of PyTorch and CuPy."""

from __future__ import annotations

import ctypes
import math

import pipefs_gpu_abi as abi
from pipefs_gpu_files import DeviceError

try:
    import numpy as _np
except ImportError:  # everything works without it, tables of version 1 more slowly
    _np = None

# Bytes of an element.
SIZES = {"uint8": 1, "uint16": 2, "int32": 4, "float32": 4, "float16": 2}


# -------------------------------------------------------------------------------- driver

SONAMES = ("libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1")


class Driver:
    """Loads and launches kernels in the primary context of a GPU: the one of PyTorch and CuPy."""

    def __init__(self, index, names=SONAMES):
        self.cuda = self._open(names)
        self._call("cuInit", ctypes.c_uint(0))
        device, self.context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(index))
        # Never released: the framework needs it as long as the process lives.
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        major = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(major), ctypes.c_int(75), device)  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
        self.major = major.value

    @staticmethod
    def _open(names):
        first = None
        for name in names:
            try:
                return ctypes.CDLL(name)
            except OSError as e:
                first = first or e
        raise DeviceError(f"no NVIDIA driver: {first}. Install one; in a container, start it with --gpus or its like")

    def _call(self, name, *arguments):
        try:
            function = getattr(self.cuda, name)
        except AttributeError:
            raise DeviceError(f"the NVIDIA driver has no {name}: it is older than CUDA 11") from None
        code = function(*arguments)
        if code:
            raise DeviceError(f"{name}: {self._describe(code)}")

    def _describe(self, code):
        words = []
        for ask in ("cuGetErrorName", "cuGetErrorString"):
            text = ctypes.c_char_p()
            if getattr(self.cuda, ask)(ctypes.c_int(code), ctypes.byref(text)) == 0 and text.value:
                words.append(text.value.decode(errors="replace"))
        return ": ".join(words) or f"error {code}"

    def _in_context(self, name, *arguments):
        # The thread may have another context, or none as yet.
        self._call("cuCtxPushCurrent_v2", self.context)
        try:
            self._call(name, *arguments)
        finally:
            self._call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def load(self, ptx):
        """Compiles a program; the driver keeps the result in ~/.nv/ComputeCache."""
        module, said = ctypes.c_void_p(), ctypes.create_string_buffer(8192)
        options = (ctypes.c_int * 2)(5, 6)  # CU_JIT_ERROR_LOG_BUFFER and its size
        values = (ctypes.c_void_p * 2)(ctypes.addressof(said), len(said) - 1)
        try:
            self._in_context("cuModuleLoadDataEx", ctypes.byref(module), ctypes.create_string_buffer(ptx), ctypes.c_uint(2), options, values)
        except DeviceError as e:
            text = " ".join(said.value.decode(errors="replace").split())
            raise DeviceError(f"loading the program for the GPU, which takes a driver for CUDA 12.2 or newer: {e}{': ' if text else ''}{text}") from None
        return module

    def function(self, module, name):
        """Finds an entry of a program."""
        f = ctypes.c_void_p()
        self._in_context("cuModuleGetFunction", ctypes.byref(f), module, name.encode())
        return f

    def launch(self, function, blocks, parameters, stream):
        """Queues a kernel on a stream, given its handle; parameters are ctypes numbers."""
        pointers = (ctypes.c_void_p * len(parameters))(*(ctypes.addressof(p) for p in parameters))
        u = ctypes.c_uint
        self._in_context("cuLaunchKernel", function, u(blocks), u(1), u(1), u(abi.THREADS), u(1), u(1), u(0),
                         ctypes.c_void_p(stream), pointers, None)


# ----------------------------------------------------------------------------- frameworks
#
# A framework is asked for memory, streams and events, so that all memory belongs to its
# own allocator. Its arrays on the GPU are those of the caller; memory of the host is an
# array of bytes for bytes_of. Work that is queued on a stream may read both later.


class Torch:
    """What is needed of PyTorch."""

    def __init__(self, device, priority):
        import torch

        self.torch = torch
        if not torch.cuda.is_available():
            built = torch.version.cuda
            raise DeviceError(f"PyTorch {torch.__version__} has no GPU: " + ("it is one for processors only" if built is None else "there is none, or no driver for it"))
        if isinstance(device, int):
            device = torch.device("cuda", device)
        self.device = torch.device("cuda" if device is None else device)
        if self.device.type != "cuda":
            raise DeviceError(f"{self.device} is no GPU of NVIDIA")
        if self.device.index is None:
            self.device = torch.device("cuda", torch.cuda.current_device())
        self.index, self.priority = self.device.index, priority
        torch.cuda.init()

    def dtypes(self):
        """The types that there are, by name."""
        return {name: getattr(self.torch, name) for name in SIZES if hasattr(self.torch, name)}

    def dtype_of(self, array):
        return array.dtype

    def belongs(self, array):
        """Whether an array is one that can be written to."""
        return isinstance(array, self.torch.Tensor) and array.device == self.device

    def pinned(self, n):
        """n bytes of the host that the GPU reads and writes itself."""
        with self.torch.cuda.device(self.device):
            return self.torch.empty(n, dtype=self.torch.uint8, pin_memory=True)

    def is_pinned(self, memory):
        return isinstance(memory, self.torch.Tensor) and memory.is_pinned()

    def stream(self):
        return self.torch.cuda.Stream(self.device, priority=self.priority)

    def handle(self, stream):
        return stream.cuda_stream

    def work(self, n, stream):
        """n bytes on the GPU for use on a stream alone, where they are in order when given back."""
        with self.torch.cuda.stream(stream):
            return self.torch.empty(n, dtype=self.torch.uint8, device=self.device)

    def output(self, n, stream):
        """n bytes for a result. They belong to the stream until hand_over tells the allocator who else uses them."""
        return self.work(n, stream)

    def upload(self, array, memory, n, stream):
        with self.torch.cuda.stream(stream):
            array[:n].copy_(memory[:n], non_blocking=True)

    def download(self, memory, array, begin, n, stream):
        with self.torch.cuda.stream(stream):
            memory[:n].copy_(array[begin:begin + n], non_blocking=True)

    def record(self, stream):
        """An event behind all that is queued; wait puts the thread to sleep."""
        event = self.torch.cuda.Event(blocking=True)
        event.record(stream)
        return event

    def done(self, event):
        return event.query()

    def wait(self, event):
        event.synchronize()

    def finish(self, stream):
        stream.synchronize()

    def follow_caller(self, array, stream):
        """Has a stream wait for what the caller's own does with an array at the moment."""
        stream.wait_stream(self.torch.cuda.current_stream(self.device))
        array.record_stream(stream)

    def hand_over(self, array, event):
        """Gives a result to the caller's stream of the moment."""
        stream = self.torch.cuda.current_stream(self.device)
        stream.wait_event(event)
        array.record_stream(stream)

    def typed(self, array, begin, dtype, shape):
        """A part of bytes on the GPU as another type."""
        n = math.prod(shape) * SIZES[dtype]
        return array[begin:begin + n].view(self.dtypes()[dtype]).view(shape)

    def address(self, array):
        return array.data_ptr()

    def strides(self, array):
        """Bytes from an element to the next one, in each dimension."""
        return [s * array.element_size() for s in array.stride()]

    def widen(self, result, stored, begin, depth, stream):
        """Copies unsigned samples at begin of an array of bytes to int32."""
        with self.torch.cuda.stream(stream):
            n = result.numel() * depth // 8
            samples = stored[begin:begin + n]
            if depth == 8:
                result.copy_(samples.view(result.shape))
            else:  # as signed ones, since PyTorch has not always uint16
                result.copy_(samples.view(self.torch.int16).view(result.shape)).bitwise_and_(0xFFFF)


class Cupy:
    """What is needed of CuPy."""

    def __init__(self, device, priority):
        import cupy

        self.cupy = cupy
        try:
            self.device = cupy.cuda.Device(device)
            self.index, self.priority = int(self.device.id), priority
            with self.device:
                cupy.empty(1)  # makes the context
        except cupy.cuda.runtime.CUDARuntimeError as e:
            raise DeviceError(f"CuPy {cupy.__version__} has no GPU: {e}") from e

    def dtypes(self):
        return {name: _np.dtype(name) for name in SIZES}

    def dtype_of(self, array):
        return array.dtype

    def belongs(self, array):
        return isinstance(array, self.cupy.ndarray) and int(array.device.id) == self.index

    def pinned(self, n):
        with self.device:
            return _np.frombuffer(self.cupy.cuda.alloc_pinned_memory(max(n, 1)), _np.uint8, n)

    def is_pinned(self, memory):
        return False  # Files have memory of their own here

    def stream(self):
        # Only newer releases know priorities; the lowest is what all have without.
        more = {"priority": self.priority} if self.priority else {}
        with self.device:
            return self.cupy.cuda.Stream(non_blocking=True, **more)

    def handle(self, stream):
        return stream.ptr

    def work(self, n, stream):
        with self.device, stream:
            return self.cupy.empty(n, _np.uint8)

    def output(self, n, stream):
        # CuPy gives freed memory to the stream that it was allocated on, so that it has
        # to be the caller's, for which ours waits.
        with self.device:
            array = self.cupy.empty(n, _np.uint8)
        self.follow_caller(array, stream)
        return array

    def upload(self, array, memory, n, stream):
        self._copy(array.data.ptr, memory.ctypes.data, n, 1, stream)

    def download(self, memory, array, begin, n, stream):
        self._copy(memory.ctypes.data, array.data.ptr + begin, n, 2, stream)

    def _copy(self, to, from_, n, kind, stream):
        with self.device:
            self.cupy.cuda.runtime.memcpyAsync(to, from_, n, kind, stream.ptr)

    def record(self, stream):
        with self.device:
            event = self.cupy.cuda.Event(block=True, disable_timing=True)
            event.record(stream)
        return event

    def done(self, event):
        return event.done

    def wait(self, event):
        event.synchronize()

    def finish(self, stream):
        stream.synchronize()

    def follow_caller(self, _, stream):
        with self.device:
            stream.wait_event(self.record(self.cupy.cuda.get_current_stream()))

    def hand_over(self, _, event):
        with self.device:
            self.cupy.cuda.get_current_stream().wait_event(event)

    def typed(self, array, begin, dtype, shape):
        n = math.prod(shape) * SIZES[dtype]
        return array[begin:begin + n].view(_np.dtype(dtype)).reshape(shape)

    def address(self, array):
        return array.data.ptr

    def strides(self, array):
        return list(array.strides)

    def widen(self, result, stored, begin, depth, stream):
        n = result.size * depth // 8
        with self.device, stream:
            result[...] = stored[begin:begin + n].view(_np.dtype(f"uint{depth}")).reshape(result.shape)


def open_framework(library, device, priority):
    """The framework to take memory from: the one asked for, or the first that is there."""
    if library is None and type(device).__module__.startswith("cupy"):
        library = "cupy"
    for name, make in (("torch", Torch), ("cupy", Cupy)):
        if library not in (None, name):
            continue
        try:
            __import__(name)
        except ImportError:
            if library is not None:
                raise
            continue
        return make(device, priority)
    raise DeviceError(f"library={library!r}: it has to be torch or cupy, and one of them has to be installed")
