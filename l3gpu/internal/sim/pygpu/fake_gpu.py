"""A GPU for tests, whose memory and kernels are in the process that started this one.

Its tensors are those of PyTorch on the CPU, each with memory of the same size there.
Work is queued on streams and done only when somebody waits for it, as late as a GPU may:
what is used or written again too early shows.
"""

import socket
import struct

import pipefs_gpu_abi
import pipefs_gpu_cuda
import pipefs_gpu_files
import torch

ALLOC, FREE, WRITE, READ, FILL, LAUNCH, LOAD = range(1, 8)


class Machine:
    """The connection to the other process."""

    def __init__(self, fd):
        self.socket = socket.socket(fileno=fd)
        self.file = self.socket.makefile("rb")
        self.launches = []  # entry and blocks of all so far

    def ask(self, op, a=0, b=0, payload=b""):
        self.socket.sendall(struct.pack("<BQQQ", op, a, b, len(payload)))
        self.socket.sendall(payload)
        failed, n = struct.unpack("<BQ", self.file.read(9))
        answer = self.file.read(n)
        if failed:
            raise RuntimeError(answer.decode())
        return answer

    def alloc(self, n):
        return struct.unpack("<Q", self.ask(ALLOC, max(n, 1), 256))[0]


class Stream:
    """Work in the order in which it has to be done."""

    def __init__(self):
        self.work = []
        self.finished = 0

    def queue(self, f):
        self.work.append(f)
        return self.finished + len(self.work)

    def run(self, until=None):
        while self.work and (until is None or self.finished < until):
            self.finished += 1
            self.work.pop(0)()


class Framework(pipefs_gpu_cuda.Torch):
    """PyTorch, with another idea of what memory of a GPU is."""

    def __init__(self, machine, without=()):
        self.torch, self.device, self.index = torch, torch.device("cpu"), 0
        self.machine, self.without = machine, without
        self.mirrors = []  # tensor of bytes, its address there
        self.handed_over = 0

    def dtypes(self):
        return {name: d for name, d in super().dtypes().items() if name not in self.without}

    def pinned(self, n):
        return torch.full((n,), 0x5A, dtype=torch.uint8)

    def is_pinned(self, memory):
        return getattr(memory, "fake_pinned", False)

    def stream(self):
        return Stream()

    def handle(self, stream):
        return stream

    def work(self, n, _):
        array = torch.full((n,), 0xEE, dtype=torch.uint8)
        self.mirrors.append((array, self.machine.alloc(n)))
        return array

    def output(self, n, stream):
        array = self.work(n, stream)
        self.machine.ask(FILL, self.address(array), n, b"\xa5")
        return array

    def caller_memory(self, shape, dtype):
        """A tensor as a caller may have it."""
        n = torch.tensor(shape).prod().item() * torch.empty(0, dtype=dtype).element_size()
        return self.output(n, None).view(dtype).view(shape)

    def address(self, array):
        for bytes_, address in self.mirrors:
            at = array.data_ptr() - bytes_.data_ptr()
            if 0 <= at <= len(bytes_) and (at < len(bytes_) or len(bytes_) == 0):
                return address + at
        raise AssertionError("memory of nobody")

    def fetch(self, array):
        """Brings the bytes of all memory that a tensor is a part of."""
        for bytes_, address in self.mirrors:
            if 0 <= array.data_ptr() - bytes_.data_ptr() < len(bytes_):
                bytes_.copy_(torch.frombuffer(bytearray(self.machine.ask(READ, address, len(bytes_))), dtype=torch.uint8))
                return bytes_, address
        return None

    def upload(self, array, memory, n, stream):
        stream.queue(lambda: self.machine.ask(WRITE, self.address(array), 0, bytes(pipefs_gpu_files.bytes_of(memory)[:n])))

    def download(self, memory, array, begin, n, stream):
        def copy():
            pipefs_gpu_files.bytes_of(memory)[:n] = self.machine.ask(READ, self.address(array) + begin, n)

        stream.queue(copy)

    def record(self, stream):
        return stream, stream.queue(lambda: None)

    def done(self, event):
        return event[0].finished >= event[1]

    def wait(self, event):
        event[0].run(event[1])

    def finish(self, stream):
        stream.run()

    def follow_caller(self, array, stream):
        pass

    def hand_over(self, array, event):
        assert self.done(event)
        self.fetch(array)
        self.handed_over += 1

    def widen(self, result, stored, begin, depth, stream):
        def copy():
            n = result.numel() * depth // 8
            try:
                samples = self.machine.ask(READ, self.address(stored) + begin, n)
            except RuntimeError:
                return  # of a picture that was refused
            pipefs_gpu_files.bytes_of(stored)[begin:begin + n] = samples
            bytes_, address = self.fetch(result)
            super(Framework, self).widen(result, stored, begin, depth, None)
            self.machine.ask(WRITE, address, 0, bytes(pipefs_gpu_files.bytes_of(bytes_)))

        stream.queue(copy)

    def release(self):
        """Ends all memory: its tensors must not be used any more."""
        for _, address in self.mirrors:
            self.machine.ask(FREE, address)
        self.mirrors = []


class Driver:
    """Runs the program on that machine."""

    major = 9

    def __init__(self, machine):
        self.machine = machine

    def load(self, ptx):
        self.machine.ask(LOAD, payload=ptx)
        return "the program"

    def function(self, module, name):
        assert module == "the program"
        return name

    def launch(self, function, blocks, parameters, stream):
        pictures, patches, count, statuses = (p.value for p in parameters)
        self.machine.launches.append((function, blocks, count))
        packed = struct.pack("<IIQQIIQ", blocks, pipefs_gpu_abi.THREADS, pictures, patches, count, 0, statuses)
        stream.queue(lambda: self.machine.ask(LAUNCH, payload=function.encode() + b"\0" + packed))
