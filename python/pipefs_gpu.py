"""Decodes L3 pictures on an NVIDIA GPU, within the process that trains.

The files go to the GPU as they are, and come out as a batch of tensors there: no pixel
is ever in the memory of the host. All that is needed is this file and those beside it,
the program for the GPU (`l3.ptx`, see find_ptx), and PyTorch or CuPy.

    import torch, pipefs_gpu

    data = pipefs_gpu.BytesDataset("/mnt/l3/train")         # a directory per class
    loader = torch.utils.data.DataLoader(data, batch_size=256, shuffle=True, num_workers=4,
                                         collate_fn=pipefs_gpu.collate, pin_memory=True)
    decoder = pipefs_gpu.Decoder()
    for images, labels in decoder.batches(loader, layout="CHW", dtype=torch.float16,
                                          mean=(.485, .456, .406), std=(.229, .224, .225)):
        loss = criterion(model(images), labels.cuda(non_blocking=True))

Workers only read bytes, since a process that was forked cannot use CUDA; `batches` has
one batch decoded while the one before it is trained on. Without a loader,
`decoder.decode(["a.l3", "b.l3"])` returns the pictures of a list of files.

Shapes: (H, W, C) or (C, H, W), grey pictures too. Pictures of one shape and type become
one tensor (N, H, W, C) or (N, C, H, W); otherwise there is a list of tensors, all parts
of one piece of memory. Nothing is converted: grey stays one channel, alpha the last one.

Types: what `dtype` asks for, by itself or by its name.

    None      as stored: uint8, and for 16 bits uint16 or, in a PyTorch without it, int32
    uint8     only pictures of 8 bits
    uint16    only pictures of 16 bits; CuPy, and PyTorch from 2.3 on
    int32     any picture, its samples unchanged; takes a temporary copy on the GPU
    float32   float32(float32(sample) * scale) + bias, for any picture
    float16   the same, rounded once more

with scale = 1 / (maximum * std) and bias = -mean / std, computed in double precision and
rounded to float32 once; the maximum is 255, or 65535 for 16 bits. `mean` (default 0) and
`std` (default 1) are numbers, or one for each channel, alpha included.

Errors: PictureError names a picture and says what is wrong with it; it never costs the
other pictures of the batch, see `errors` of Decoder.decode. DeviceError is about the GPU.
"""

from __future__ import annotations

import ctypes
import gzip
import os
import struct
import threading
from typing import NamedTuple

import pipefs_gpu_abi as abi
from pipefs_gpu_cuda import Driver, open_framework, SIZES
from pipefs_gpu_files import (
    BatchError, bytes_of, BytesDataset, collate, Damaged, DeviceError, Error, File, Files, LimitError, log,
    pack, PictureError, span_of, Truncated, Unreadable, Unsupported,
)
from pipefs_gpu_l3 import check_factors, factors_of, make_tables, MAX_PIXELS, parse, Picture, Target

__all__ = ["BatchError", "BytesDataset", "Damaged", "Decoder", "DeviceError", "Error", "File", "Files", "LimitError",
           "MAX_PIXELS", "Pending", "Picture", "PictureError", "Truncated", "Unreadable", "Unsupported", "collate",
           "find_ptx", "pack", "parse"]

_MAX_STRIDE = (1 << 31) - 1  # bytes from row to row, and from pixel to pixel

# Where pictures begin in memory that they share with others of another shape.
_APART = 256


def _open(library, device, priority):
    """The framework and the driver; tests put others in their place."""
    framework = open_framework(library, device, priority)
    return framework, Driver(framework.index)


def find_ptx(ptx=None, names=(), major=0):
    """Returns the program for the GPU, as bytes.

    ptx is a path or the bytes themselves. Otherwise, in this order: the file that the
    variable PIPEFS_PTX names; l3.ptx beside this file; the one of pipefs' source tree;
    .pipefs/gpu/l3.ptx of the mount that one of the files `names` lies in. For GPUs whose
    compute capability is 9.0 or higher, that is major is 9, l3.90.ptx beside them is better.
    """
    if isinstance(ptx, (bytes, bytearray)):
        return bytes(ptx)
    for path in [ptx, os.environ.get("PIPEFS_PTX")]:
        if path:
            return _read_ptx(path)
    here = os.path.dirname(os.path.abspath(__file__))
    kernel = os.path.join(here, "..", "l3gpu", "kernel")
    mounts = [os.path.join(m, ".pipefs", "gpu") for m in sorted(set(map(_mount_of, names[:1])))]
    tried = []
    for place, usual, better in [(here, "l3.ptx", "l3.90.ptx"), (kernel, "l3.75.ptx.gz", "l3.90.ptx.gz"), *((m, "l3.ptx", "l3.90.ptx") for m in mounts)]:
        tried += [os.path.join(place, name) for name in ([better] if major >= 9 else []) + [usual]]
    for path in tried:
        try:
            return _read_ptx(path)
        except OSError:
            continue
    raise DeviceError(f"no program for the GPU: there is neither {', nor '.join(map(os.path.normpath, tried))}; set PIPEFS_PTX to l3.ptx")


def _read_ptx(path):
    with (gzip.open if os.fspath(path).endswith(".gz") else open)(path, "rb") as f:
        return f.read()


def _mount_of(path):
    """The root of the mount that a file lies in; a program is taken from nowhere else."""
    at = os.path.realpath(path)
    while not os.path.ismount(at):
        at = os.path.dirname(at)
    return at


class _Slot:
    """The host's memory for one batch and the stream it is decoded on."""

    def __init__(self, framework):
        self.framework = framework
        self.stream = framework.stream()
        self.memory = {}
        self.pending = None

    def room(self, what, n):
        """n bytes or more of pinned memory, which may still have the last batch in it."""
        had = self.memory.get(what)
        if had is None or len(had) < n:
            self.memory[what] = None  # before there is more
            self.memory[what] = self.framework.pinned(max(4096, n + n // 4))
        return self.memory[what]

    def free(self):
        """Waits until the last batch is decoded."""
        pending = self.pending
        if pending is not None:
            pending._finish()


class Pending:
    """A batch that is being decoded, see Decoder.submit."""

    def __init__(self, framework, names, errors, policy):
        self._framework, self._policy, self._errors = framework, policy, errors
        self._names, self._lock = names, threading.Lock()
        self._pictures = {}  # those on their way: index to Picture
        self._parts = {}  # index to tensor
        self._batch = self._memory = self._event = self._statuses = self._kept = self._slot = None

    def done(self):
        """Whether result would not have to wait."""
        return self._statuses is None or self._framework.done(self._event)

    def result(self):
        """Waits for the batch; what Decoder.decode returns or raises.

        The tensors are for use on the stream that is current now.
        """
        self._finish()
        if self._memory is not None:
            self._framework.hand_over(self._memory, self._event)
        if not self._errors and self._batch is not None:
            return self._batch
        pictures = [None if i in self._errors else self._parts[i] for i in range(len(self._names))]
        if not self._errors:
            return pictures
        errors = dict(sorted(self._errors.items()))
        if self._policy == "raise":
            raise BatchError(errors, pictures)
        for e in errors.values():
            log.warning("%s", e)
        return pictures

    def _finish(self):
        """Waits for the GPU, and reads the statuses before their memory is used again."""
        with self._lock:
            if self._statuses is None:
                return
            self._framework.wait(self._event)
            words = struct.unpack_from(f"<{len(self._pictures)}I", bytes_of(self._statuses))
            for (i, p), word in zip(self._pictures.items(), words):
                if word != abi.GOOD:
                    self._errors[i] = p.refusal(word)
            # The slot kept the batch, which its caller may give up before it is done.
            self._slot.pending = self._statuses = self._kept = self._slot = None


class _Request(NamedTuple):
    """What decode was asked for."""

    out: object
    layout: str
    dtype: object  # a name, or None
    mean: object
    std: object
    size: object


class Decoder:
    """Decodes batches of L3 files on one GPU; one for a process is enough.

    device     an index, a device of PyTorch or of CuPy; None is the current one
    ptx        the program for the GPU: a path or bytes; None: see find_ptx
    priority   "low" or "high", that of its streams. Low is that of default streams, there
               is none lower: to have training go first, train on a stream of high priority
    max_bytes  the most memory that one batch may take on the GPU, all told
    max_pixels pictures with more are refused
    verify     compare the checksums of all patches: see parse. Without it those of
               headers up to 1 KiB are compared, and what the GPU's program refuses is an
               error; pipefs' own store verifies whatever it reads
    library    "torch" or "cupy"; None: PyTorch if it is installed, else CuPy
    slots      how many batches may be under way at once; each has a stream of its own,
               so that files come while others are decoded

    Methods may be called by several threads. CUDA does not survive a fork: make it in the
    process that uses it.
    """

    def __init__(self, device=None, ptx=None, priority="low", max_bytes=8 << 30, *, max_pixels=MAX_PIXELS, verify=False, library=None, slots=2):
        if priority not in ("low", "high"):
            raise ValueError(f"priority {priority!r}: it has to be low or high")
        if slots < 1:
            raise ValueError(f"{slots} slots")
        self._framework, self._driver = _open(library, device, 0 if priority == "low" else -1)
        self._ptx, self._module, self._functions = ptx, None, {}
        self.max_bytes, self.max_pixels, self.verify = max_bytes, max_pixels, verify
        self._slots = [_Slot(self._framework) for _ in range(slots)]
        self._next, self._lock, self._pid = 0, threading.Lock(), os.getpid()

    def decode(self, files, *, out=None, layout="HWC", dtype=None, mean=None, std=None, size=None, errors="raise"):
        """Decodes a batch.

        files   a list of paths, buffers of bytes, and File objects; or the Files of
                collate, which in pinned memory are not copied on the host
        out     a tensor (N, H, W, C) or (N, C, H, W) on the GPU to write to, of any
                strides. Decoding then waits for what the current stream does so far
        layout  "HWC" or "CHW"
        dtype, mean, std
                see the top of this module
        size    (H, W) that all pictures have to have, so that others are errors; nothing
                is resized here, a view like resize256-crop224-l3 does that
        errors  "raise": a BatchError when any picture is not decoded, which has the
                others. "none": a list with None for each, and a warning in the log

        Returns one tensor if all pictures have one shape and type, else a list. Waits
        until the GPU is done; submit and batches do not.
        """
        return self.submit(files, out=out, layout=layout, dtype=dtype, mean=mean, std=std, size=size, errors=errors).result()

    def submit(self, files, *, out=None, layout="HWC", dtype=None, mean=None, std=None, size=None, errors="raise"):
        """Begins to decode a batch as decode does, and returns a Pending at once.

        It waits only if all slots are in use.
        """
        if errors not in ("raise", "none"):
            raise ValueError(f"errors {errors!r}: raise or none")
        request = self._request(out, layout, dtype, mean, std, size)
        if os.getpid() != self._pid:
            raise DeviceError("this Decoder is of the process that was forked: only read bytes in workers")
        with self._lock:
            slot = self._slots[self._next]
            self._next = (self._next + 1) % len(self._slots)
            slot.free()
            try:
                return self._submit(slot, files, request, errors)
            except BaseException:
                self._framework.finish(slot.stream)  # it may be reading the slot's memory
                raise

    def batches(self, loader, **options):
        """Decodes what a DataLoader with collate yields, one batch ahead; options are those of decode.

        Yields a tuple: what decode returns, and the other members of the loader's
        batches as they are. Loaders of Files alone give what decode returns.
        """
        before = None
        for batch in loader:
            alone = isinstance(batch, Files)
            files, rest = (batch, ()) if alone else (batch[0], tuple(batch[1:]))
            now = self.submit(files, **options), rest, alone
            if before is not None:
                yield self._yielded(*before)
            before = now
        if before is not None:
            yield self._yielded(*before)

    @staticmethod
    def _yielded(pending, rest, alone):
        result = pending.result()
        return result if alone else (result, *rest)

    def _request(self, out, layout, dtype, mean, std, size):
        if layout not in ("HWC", "CHW"):
            raise ValueError(f"layout {layout!r}: HWC or CHW")
        if out is not None:
            if not self._framework.belongs(out) or len(out.shape) != 4:
                raise ValueError("out has to be a tensor of four dimensions on the decoder's GPU")
            strides = self._framework.strides(out)
            if any(s == 0 and n > 1 for s, n in zip(strides, out.shape)):
                raise ValueError("out has elements that share memory")
            if max(map(abs, strides[1:3] if layout == "HWC" else strides[2:])) > _MAX_STRIDE:
                raise ValueError(f"out has rows or pixels more than {_MAX_STRIDE} bytes apart")
            dtype = self._framework.dtype_of(out) if dtype is None else dtype
        name = self._dtype_name(dtype)
        if out is not None and name != self._dtype_name(self._framework.dtype_of(out)):
            raise ValueError(f"out is {out.dtype}, dtype is {name}")
        if (mean is not None or std is not None) and name not in abi.OUTPUTS:
            raise ValueError("mean and std are for float32 and float16")
        mean, std = 0.0 if mean is None else mean, 1.0 if std is None else std
        check_factors(mean, std)
        return _Request(out, layout, name, mean, std, None if size is None else tuple(size))

    def _dtype_name(self, dtype):
        if dtype is None:
            return None
        for name, d in self._framework.dtypes().items():
            if dtype == name if isinstance(dtype, str) else dtype == d:
                return name
        raise ValueError(f"dtype {dtype}: there are {', '.join(self._framework.dtypes())}")

    def _submit(self, slot, files, request, policy):
        if not isinstance(files, Files):
            files = pack(files, lambda n: slot.room("files", n), self.max_bytes)
        elif not self._framework.is_pinned(files.data):
            # Copied, so that the GPU can read it while this process goes on.
            n = sum(span_of(length) for _, length in files.places)
            if n > self.max_bytes:
                raise LimitError(f"the {len(files)} files of a batch have {n} bytes, max_bytes is {self.max_bytes}")
            data = slot.room("files", n)
            bytes_of(data)[:n] = bytes_of(files.data)[:n]
            files = Files(files.names, files.places, data, files.errors)
        pending = Pending(self._framework, files.names, dict(files.errors), policy)
        self._parse(pending, files, request)
        if pending._pictures:
            self._queue(slot, pending, files, request)
            slot.pending, pending._slot = pending, slot
        return pending

    def _parse(self, pending, files, request):
        """Reads all headers; pictures that will not be decoded become errors."""
        view = bytes_of(files.data)
        for i, (at, n) in enumerate(files.places):
            if i in pending._errors:
                continue
            try:
                p = parse(view[at:at + n], files.names[i], self.max_pixels, self.verify)
                self._check_request(p, request, len(files))
                pending._pictures[i] = p
            except PictureError as e:
                pending._errors[i] = e

    def _check_request(self, p, request, n):
        """Refuses a picture that is not what the caller asked for."""
        if request.size is not None and request.size != (p.height, p.width):
            raise Unsupported(p.name, f"{p.height}×{p.width} pixels (H×W), size is {request.size[0]}×{request.size[1]}")
        if request.dtype in ("uint8", "uint16") and request.dtype != f"uint{p.depth}":
            raise Unsupported(p.name, f"samples of {p.depth} bits, dtype is {request.dtype}: float32, float16 and int32 take both")
        if request.out is not None and tuple(request.out.shape) != (n, *self._shape(p, request)):
            raise Unsupported(p.name, f"its shape is {self._shape(p, request)}, out has {tuple(request.out.shape)} for {n} pictures")
        if request.dtype in abi.OUTPUTS:
            factors_of(p, request.mean, request.std)
        row = p.width * p.channels * SIZES[self._type(p, request)]
        if row * p.height > self.max_bytes:
            raise Unsupported(p.name, f"{p.width}×{p.height} pixels take {row * p.height} bytes, max_bytes is {self.max_bytes}")
        if row > _MAX_STRIDE:
            raise Unsupported(p.name, f"rows of {p.width} pixels, on a GPU")

    def _type(self, p, request):
        """The name of the type that a picture becomes."""
        if request.dtype is not None:
            return request.dtype
        stored = f"uint{p.depth}"
        return stored if stored in self._framework.dtypes() else "int32"

    @staticmethod
    def _shape(p, request):
        return (p.height, p.width, p.channels) if request.layout == "HWC" else (p.channels, p.height, p.width)

    def _queue(self, slot, pending, files, request):
        """Allocates memory on the GPU and queues all work of a batch."""
        f, stream, pictures = self._framework, slot.stream, list(pending._pictures.values())
        functions = self._load({p.entry for p in pictures}, files.names)
        n_files = sum(span_of(length) for _, length in files.places)
        n_scratch = sum(sum(p.scratch) for p in pictures if p.scratch)
        n_records, n_patches = abi.PICTURE.size * len(pictures), abi.PATCH_LEN * sum(p.patches for p in pictures)
        n_tables = n_records + n_patches + 4 * len(pictures)
        places, n_output = self._places(pictures, request)
        stored, n_stored = self._stored(pictures, request)
        total = n_files + n_scratch + n_tables + n_output + n_stored
        if total > self.max_bytes:
            worst = max(pictures, key=lambda p: p.width * p.height)
            raise LimitError(f"a batch of {len(pictures)} pictures takes {total} bytes, max_bytes is {self.max_bytes}; the largest is {worst.name}, {worst.width}×{worst.height} pixels")

        if request.out is not None:
            f.follow_caller(request.out, stream)
            pending._memory = pending._batch = request.out
        else:
            pending._memory = f.output(n_output, stream)
        self._views(pending, places, request)
        source, tables = f.work(n_files, stream), f.work(n_tables, stream)
        scratch, temporary = f.work(n_scratch, stream), f.work(n_stored, stream)
        targets = [self._target(p, part, request, temporary, at) for p, part, at in zip(pictures, pending._parts.values(), stored)]
        sources = [f.address(source) + files.places[i][0] for i in pending._pictures]
        records, patches, launches = make_tables(pictures, sources, targets, f.address(scratch))

        host = slot.room("tables", n_tables)
        bytes_of(host)[:n_tables] = records + patches + b"\xff" * (4 * len(pictures))
        f.upload(source, files.data, n_files, stream)
        f.upload(tables, host, n_tables, stream)
        at = f.address(tables)
        for launch in launches:
            u64 = ctypes.c_uint64
            self._driver.launch(functions[launch.entry], launch.blocks, (
                u64(at), u64(at + n_records + abi.PATCH_LEN * launch.first), ctypes.c_uint32(launch.count), u64(at + n_records + n_patches)), f.handle(stream))
        for p, part, begin in zip(pictures, pending._parts.values(), stored):
            if begin is not None:
                f.widen(part, temporary, begin, p.depth, stream)
        pending._statuses = slot.room("statuses", 4 * len(pictures))
        f.download(pending._statuses, tables, n_records + n_patches, 4 * len(pictures), stream)
        pending._event = f.record(stream)
        pending._kept = files  # pinned memory that the GPU may be reading still

    def _load(self, entries, names):
        if self._module is None:
            self._module = self._driver.load(find_ptx(self._ptx, names, self._driver.major))
        for entry in entries:
            if entry not in self._functions:
                self._functions[entry] = self._driver.function(self._module, entry)
        return self._functions

    def _places(self, pictures, request):
        """Where each picture begins in the memory of the batch, and how much that takes."""
        if request.out is not None:
            return [0] * len(pictures), 0
        kinds = {(self._type(p, request), self._shape(p, request)) for p in pictures}
        apart = 1 if len(kinds) == 1 else _APART
        places, end = [], 0
        for p in pictures:
            places.append(end)
            end += (p.width * p.height * p.channels * SIZES[self._type(p, request)] + apart - 1) // apart * apart
        return places, end

    def _stored(self, pictures, request):
        """The same for samples that wait to be made int32; None is for all others."""
        places, end = [], 0
        for p in pictures:
            if self._type(p, request) != "int32":
                places.append(None)
                continue
            places.append(end)
            end += (p.width * p.height * p.channels * p.depth // 8 + _APART - 1) // _APART * _APART
        return places, end

    def _views(self, pending, places, request):
        """Makes the tensors of the batch, parts of its memory."""
        if request.out is not None:
            pending._parts = {i: request.out[i] for i in pending._pictures}
            return
        f, pictures = self._framework, pending._pictures
        kinds = {(self._type(p, request), self._shape(p, request)) for p in pictures.values()}
        if len(kinds) == 1:
            (dtype, shape), = kinds
            batch = f.typed(pending._memory, 0, dtype, (len(pictures), *shape))
            pending._batch = batch if len(pictures) == len(pending._names) else None
            pending._parts = {i: batch[k] for k, i in enumerate(pictures)}
            return
        pending._parts = {i: f.typed(pending._memory, at, self._type(p, request), self._shape(p, request)) for (i, p), at in zip(pictures.items(), places)}

    def _target(self, p, part, request, temporary, stored):
        """Where the kernel writes a picture."""
        f = self._framework
        if stored is None:
            address, strides = f.address(part), f.strides(part)
        else:
            shape, strides, step = self._shape(p, request), [0, 0, 0], p.depth // 8
            address = f.address(temporary) + stored
            for i in (2, 1, 0):
                strides[i] = step
                step *= shape[i]
        row, pixel, channel = strides if request.layout == "HWC" else (strides[1], strides[2], strides[0])
        output = abi.OUTPUTS.get(request.dtype, 0)
        return Target(address, row, pixel, channel, output, factors_of(p, request.mean, request.std) if output else (0.0,) * 8)
