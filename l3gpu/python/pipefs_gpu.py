"""Decodes L3 pictures on an NVIDIA GPU, within the process that trains.

The files go to the GPU as they are, and come out as a batch of tensors there: no pixel
is ever in the memory of the host. All that is needed is this file, the program for the
GPU (`l3.ptx`, see find_ptx) and PyTorch or CuPy.

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
import functools
import gzip
import itertools
import logging
import math
import os
import stat
import struct
import threading
from typing import NamedTuple

try:
    import numpy as _np
except ImportError:  # everything works without it, tables of version 1 more slowly
    _np = None

__all__ = ["BatchError", "BytesDataset", "Damaged", "Decoder", "DeviceError", "Error", "File", "Files", "LimitError",
           "MAX_PIXELS", "Pending", "Picture", "PictureError", "Truncated", "Unreadable", "Unsupported", "collate",
           "find_ptx", "pack", "parse"]

log = logging.getLogger("pipefs_gpu")

# The most pixels of a picture that are decoded, unless the caller says otherwise: as
# everywhere in pipefs.
MAX_PIXELS = 200 << 20

# What the kernels want, see l3gpu/kernel/doc.go.
_ALIGNMENT = 16  # of files and tables
_PADDING = 16  # zeros behind each file
_THREADS = 64  # of a block
_WARPS = 2  # of a block; each decodes a patch
_MAX_FILE = (1 << 32) - (1 << 16)
_MAX_PATCH = 1 << 28  # bytes
_MAX_PATCHES = 1 << 20  # of a picture, so that its tables stay small; 2^27 for the kernels
_MAX_PATCH_WIDTH = 1 << 16  # of version 2
_MAX_STRIDE = (1 << 31) - 1  # bytes from row to row, and from pixel to pixel
_NARROW = 256  # wider patches of version 2 need scratch rows
_BAND = 32  # rows
_PICTURE = struct.Struct("<QQqqqIIIIBBBBI8f")
_PATCH_LEN = 32
_GOOD = 0xFFFFFFFF
_ENTRIES = ("l3v1_1", "l3v1_3", "l3v2_1", "l3v2_2", "l3v2_3", "l3v2_4", "l3v2_1w", "l3v2_2w", "l3v2_3w", "l3v2_4w")

# Where pictures begin in memory that they share with others of another shape.
_APART = 256

# Headers up to this length have their checksum checked always: it takes 0.02 ms, or
# 0.1 ms without NumPy. Only those with a colour profile or EXIF are longer.
_CHEAP = 1024

# Tables shorter than this are made faster without NumPy.
_FEW = 64

_SIZES = {"uint8": 1, "uint16": 2, "int32": 4, "float32": 4, "float16": 2}
_OUTPUTS = {"float32": 1, "float16": 2}  # all else is as stored


# ------------------------------------------------------------------------------- errors


class Error(Exception):
    """What all errors of this module are."""


class DeviceError(Error):
    """There is no GPU, no driver, no program for it, or a call of the driver failed."""


class LimitError(Error):
    """A batch takes more than max_bytes."""


class PictureError(Error):
    """A picture that was not decoded: `name` says which one, `what` says why."""

    def __init__(self, name, what):
        super().__init__(name, what)
        self.name, self.what = name, what

    def __str__(self):
        return f"{self.name}: {self.what}"


class Damaged(PictureError):
    """The bytes are no L3 picture, or none any more."""


class Truncated(PictureError):
    """The picture is shorter than it has to be."""


class Unsupported(PictureError):
    """The picture is over a limit, or not what the caller asked for."""


class Unreadable(PictureError):
    """The file could not be read; __cause__ is the OSError."""


class BatchError(Error):
    """Some pictures of a batch were not decoded.

    `errors` maps their indices to PictureErrors, and `pictures` is the list of all
    tensors of the batch, with None for those.
    """

    def __init__(self, errors, pictures):
        super().__init__(errors, pictures)
        self.errors, self.pictures = errors, pictures

    def __str__(self):
        shown = "; ".join(str(e) for e in itertools.islice(self.errors.values(), 5))
        more = f"; and {len(self.errors) - 5} more" if len(self.errors) > 5 else ""
        return f"{len(self.errors)} of {len(self.pictures)} pictures were not decoded: {shown}{more}"


# ------------------------------------------------------------------------------- files


class File(NamedTuple):
    """The bytes of a file and its name, or the OSError of reading it."""

    name: str
    data: object

    @classmethod
    def read(cls, path):
        """Reads a file; where that fails the error is kept for the decoder to report."""
        try:
            with open(path, "rb", buffering=0) as f:
                return cls(os.fspath(path), f.readall())
        except OSError as e:
            return cls(os.fspath(path), e)


class Files:
    """A batch of files in one piece of memory, laid out as the GPU wants them.

    `data` is a uint8 tensor of PyTorch on the CPU, or without PyTorch a bytearray;
    `places` has (offset, length) of each file in it; `names` are for messages, and
    `errors` maps the indices of files that could not be read to PictureErrors.
    """

    __slots__ = ("names", "places", "data", "errors")

    def __init__(self, names, places, data, errors):
        self.names, self.places, self.data, self.errors = names, places, data, errors

    def __len__(self):
        return len(self.names)

    def pin_memory(self):
        """Is called by a DataLoader with pin_memory=True: the copy that the GPU reads."""
        if not hasattr(self.data, "pin_memory"):
            return self
        return Files(self.names, self.places, self.data.pin_memory(), self.errors)


def _span(n):
    """How many bytes a file of n bytes takes in Files: zeros follow it."""
    return (n + _PADDING + _ALIGNMENT - 1) & -_ALIGNMENT


def _view(memory):
    """The bytes of a CPU tensor, an array or a buffer, to be read and written."""
    if hasattr(memory, "data_ptr"):
        n = memory.numel()
        return memoryview((ctypes.c_ubyte * n).from_address(memory.data_ptr())).cast("B") if n else memoryview(b"")
    return memoryview(memory).cast("B")


def _host_memory(n):
    """n bytes of ordinary memory: a tensor, so that workers hand it over without a copy."""
    try:
        import torch
    except ImportError:
        return bytearray(n)
    return torch.empty(n, dtype=torch.uint8)


def _measure(item, index):
    """Returns name, length and content of what a caller gave; a path is its own content."""
    if isinstance(item, File):
        name, content = item
        if isinstance(content, OSError):
            return name, 0, _unreadable(name, content)
    elif isinstance(item, (str, os.PathLike)):
        name = os.fspath(item)
        try:
            status = os.stat(item)
        except OSError as e:
            return name, 0, _unreadable(name, e)
        if not stat.S_ISREG(status.st_mode):  # a pipe would make us wait
            return name, 0, Unreadable(name, "not a file")
        return name, status.st_size, item
    else:
        name, content = f"picture {index}", item
    if isinstance(content, (str, os.PathLike)):
        raise TypeError(f"{name}: File holds the bytes of a file, not its path")
    content = memoryview(content).cast("B")
    return name, len(content), content


def _unreadable(name, error):
    e = Unreadable(name, error.strerror or str(error))
    e.__cause__ = error
    return e


def _fill(name, content, into):
    """Copies a file to its place, and returns None or the error."""
    if isinstance(content, memoryview):
        into[:] = content
        return None
    try:
        with open(content, "rb", buffering=0) as f:
            at = 0
            while at < len(into):
                n = f.readinto(into[at:])
                if not n:
                    return Truncated(name, f"{at} bytes could be read, its size is {len(into)}")
                at += n
    except OSError as e:
        return _unreadable(name, e)
    return None


def pack(items, memory=_host_memory, max_bytes=None):
    """Reads paths, File objects and buffers of bytes into one Files.

    memory(n) returns n bytes. A file of more than max_bytes is not read but reported;
    more than max_bytes in all are a LimitError.
    """
    names, places, contents, errors, end = [], [], [], {}, 0
    for i, item in enumerate(items):
        name, n, content = _measure(item, i)
        if isinstance(content, PictureError):
            errors[i] = content
        elif n > _MAX_FILE or max_bytes is not None and n > max_bytes:
            errors[i] = Unsupported(name, f"a file of {n} bytes, the limit is {_MAX_FILE if max_bytes is None else min(max_bytes, _MAX_FILE)}")
        if i in errors:
            n, content = 0, memoryview(b"")
        names.append(name)
        places.append((end, n))
        contents.append(content)
        end += _span(n)
    if max_bytes is not None and end > max_bytes:
        raise LimitError(f"the {len(names)} files of a batch have {end} bytes, max_bytes is {max_bytes}")
    data = memory(end)
    view = _view(data)
    for i, (at, n) in enumerate(places):
        error = _fill(names[i], contents[i], view[at:at + n])
        if error is not None:
            errors[i] = error
        view[at + n:at + _span(n)] = bytes(_span(n) - n)
    return Files(names, places, data, errors)


class BytesDataset:
    """The files of a tree with one directory a class, as of torchvision's ImageFolder.

    Sample i is (File, number of the class). `samples` has paths and numbers, `classes`
    the names of the classes in their order.
    """

    def __init__(self, root, extensions=(".l3",)):
        root = os.fspath(root)
        with os.scandir(root) as entries:
            self.classes = sorted(e.name for e in entries if e.is_dir() and not e.name.startswith("."))
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}
        self.samples = []
        for name, number in self.class_to_idx.items():
            for where, _, files in sorted(os.walk(os.path.join(root, name), followlinks=True)):
                self.samples += [(os.path.join(where, f), number) for f in sorted(files) if f.lower().endswith(tuple(extensions))]
        if not self.samples:
            raise FileNotFoundError(f"no files with {', '.join(extensions)} in the directories of {root}")

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        path, number = self.samples[index]
        return File.read(path), number


def collate(samples):
    """Makes a batch in a worker: of File objects a Files, of tuples (File, …) a tuple (Files, …).

    What follows the files is batched as PyTorch does it by default.
    """
    if isinstance(samples[0], File):
        return pack(samples)
    from torch.utils.data import default_collate

    files, *rest = zip(*samples)
    return (pack(files), *(default_collate(list(r)) for r in rest))


# ----------------------------------------------------------------------------- checksums


def _crc_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


_CRC = _crc_table()


def _crc32c_slowly(data, crc=0):
    crc ^= 0xFFFFFFFF
    for b in bytes(data):
        crc = _CRC[(crc ^ b) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


_CHUNK = 1024  # bytes that NumPy takes at once


@functools.lru_cache(maxsize=None)
def _crc_places():
    """What a byte adds to the checksum, by how many bytes follow it, and where that begins for each place of a chunk."""
    tables = [_np.array(_CRC, _np.uint32)]
    for _ in range(_CHUNK - 1):
        tables.append(tables[-1] >> 8 ^ tables[0][tables[-1] & 255])
    return _np.concatenate(tables), _np.arange(_CHUNK - 1, -1, -1) * 256


def _crc32c(data, crc=0):
    """CRC32C: with NumPy some 100 MB a second, without a tenth of that."""
    if _np is None:
        return _crc32c_slowly(data, crc)
    tables, places = _crc_places()
    data = _np.frombuffer(data, _np.uint8)
    for at in range(0, len(data), _CHUNK):
        chunk = data[at:at + _CHUNK].copy()
        if len(chunk) < 4:
            return _crc32c_slowly(chunk, crc)
        # What came before counts as if it were in the first four bytes.
        chunk[:4] ^= _np.frombuffer(struct.pack("<I", crc ^ 0xFFFFFFFF), _np.uint8)
        crc = int(_np.bitwise_xor.reduce(tables[places[-len(chunk):] + chunk])) ^ 0xFFFFFFFF
    return crc


def _header_sum(data, end):
    """The checksum of everything before the patches, its own four bytes as zeros."""
    return _crc32c(bytes(data[:28]) + bytes(4) + bytes(data[32:end]))


# ------------------------------------------------------------------------------- parsing


class Picture:
    """What an L3 file says before its patches; nothing of it is on the GPU.

    version is 1 or 2, depth 8 or 16 bits, orientation as in EXIF (0: unknown). Patches
    are patch_width × patch_height pixels but at the right and bottom edges, in `rows`
    rows of `columns`. offsets and lengths have one sequence for each channel in version
    1, and one for all in version 2; scratch has, for each patch, the bytes of its
    scratch row, or is None if none needs one.
    """

    __slots__ = ("name", "version", "width", "height", "channels", "depth", "orientation", "patch_width", "patch_height",
                 "columns", "rows", "offsets", "lengths", "scratch")

    @property
    def entry(self):
        """The name of the kernel that decodes it."""
        return f"l3v{self.version}_{self.channels}{'w' if self.depth == 16 else ''}"

    @property
    def patches(self):
        """How many patches there are."""
        return self.columns * self.rows

    def _grid(self, width, height, patch_width, patch_height):
        self.width, self.height, self.patch_width, self.patch_height = width, height, patch_width, patch_height
        self.columns, self.rows = (width - 1) // patch_width + 1, (height - 1) // patch_height + 1

    def _each(self, f):
        """A list of f(width, height) for every patch; f is called four times at most."""
        right, bottom = self.width - (self.columns - 1) * self.patch_width, self.height - (self.rows - 1) * self.patch_height

        def row(height):
            inner = [f(self.patch_width, height)] * (self.columns - 1) if self.columns > 1 else []
            return inner + [f(right, height)]

        return (row(self.patch_height) * (self.rows - 1) if self.rows > 1 else []) + row(bottom)

    def _corner(self, patch):
        return f"patch at {patch % self.columns * self.patch_width}, {patch // self.columns * self.patch_height}"

    def refusal(self, status):
        """The error that a status of the kernels means, see Refusal in abi.cuh."""
        patch, why = status >> 4, status & 15
        kind, says = _REFUSALS.get(why, (None, None))
        if kind is None or patch >= self.patches:
            return PictureError(self.name, f"the GPU's program said {status:#x}: a defect of it, please report")
        return kind(self.name, f"{self._corner(patch)}: {says}")


_REFUSALS = {
    1: (Damaged, "its head is damaged"),
    2: (Truncated, "it is shorter than its parts"),
    3: (Damaged, "it is longer than its parts"),
    4: (Damaged, "a block is damaged"),
    5: (Damaged, "a stream is damaged"),
    6: (Damaged, "its rows are damaged"),
    7: (PictureError, "it has no scratch row: a defect of this program, please report"),
}


def parse(data, name="picture", max_pixels=MAX_PIXELS, verify=False):
    """Reads and checks everything before the patches of a whole file.

    data is anything with bytes. Returns a Picture, all patches of which lie within the
    file, or raises a PictureError. Memory and time are bounded by the length of data,
    whatever it says. verify compares the checksums of all patches too, which takes a
    second for some 100 MB, and ten without NumPy.
    """
    data = memoryview(data).cast("B")
    magic = bytes(data[:4])
    if magic == b"LLL2":
        return _parse2(data, name, max_pixels, verify)
    if magic in (b"LLL.", b"LLL+"):
        return _parse1(data, name, max_pixels)
    if len(magic) < 4:
        raise Truncated(name, f"a file of {len(magic)} bytes")
    raise Damaged(name, f"no L3 file: it begins with {magic.hex(' ')}")


def _check_pixels(name, width, height, max_pixels):
    if width * height > max_pixels:
        raise Unsupported(name, f"{width}×{height} pixels, more than {max_pixels}; max_pixels raises the limit")


def _check_limits(p, n):
    if n > _MAX_FILE or p.patches > _MAX_PATCHES or min(p.width, p.patch_width) > _MAX_PATCH_WIDTH:
        raise Unsupported(p.name, f"{n} bytes, {p.patches} patches of {p.patch_width}×{p.patch_height}, on a GPU")


def _parse1(data, name, max_pixels):
    extended = data[3] == ord("+")
    table = 14 if extended else 13
    if len(data) < table:
        raise Truncated(name, f"{len(data)} bytes, its header takes {table}")
    width, height, side = struct.unpack_from("<iiB", data, 4)
    p = Picture()
    p.name, p.version, p.depth, p.orientation, p.scratch = name, 1, 8, 0, None
    p.channels = data[13] if extended else 3
    if width < 1 or height < 1 or side == 0 or p.channels not in (1, 3):
        raise Damaged(name, f"{width}×{height} pixels of {p.channels} channels in patches of {side}")
    if not extended and (width % side or height % side):
        raise Unsupported(name, f"{width}×{height} pixels in patches of {side}: what is beyond the last whole patch is not in the file")
    _check_pixels(name, width, height, max_pixels)
    p._grid(width, height, side, side)
    # Nothing is allocated before it is known that the file has a table of that size.
    n = p.patches
    begin = table + 2 * p.channels * n
    if begin > len(data):
        raise Truncated(name, f"{len(data)} bytes end in its table of {p.channels * n} sizes")
    _check_limits(p, len(data))
    end = _table1(p, data, table, begin)
    if end > len(data):
        raise Truncated(name, f"{len(data)} bytes, its patches end at {end}")
    _check_rows1(p)
    return p


def _table1(p, data, table, begin):
    """Reads the sizes of version 1, and returns where the last patch ends."""
    n, all_ = p.patches, p.channels * p.patches
    if _np is not None and all_ >= _FEW:
        sizes = _np.frombuffer(data, "<u2", all_, table).astype(_np.int64)
        ends = begin + _np.cumsum(sizes)
        p.lengths, p.offsets = list(sizes.reshape(-1, n)), list((ends - sizes).reshape(-1, n))
        return int(ends[-1])
    sizes = struct.unpack_from(f"<{all_}H", data, table)
    ends = list(itertools.accumulate(sizes, initial=begin))
    p.lengths = [sizes[i:i + n] for i in range(0, all_, n)]
    p.offsets = [ends[i:i + n] for i in range(0, all_, n)]
    return ends[-1]


def _check_rows1(p):
    """Every row of a patch takes two bytes or more, so that small files have no large pictures."""
    least = p._each(lambda _, height: 2 * height)
    if not isinstance(p.lengths[0], tuple) and not (_np.stack(p.lengths) < _np.array(least)).any():
        return
    for lengths in p.lengths:
        for i, (n, length) in enumerate(zip(least, lengths)):
            if length < n:
                raise Truncated(p.name, f"{p._corner(i)}: {length} bytes, its rows take {n} or more")


def _parse2(data, name, max_pixels, verify):
    if len(data) < 32:
        raise Truncated(name, f"{len(data)} bytes, its header takes 32")
    channels, depth, orientation, zero, width, height, patch_width, patch_height, meta, total = struct.unpack_from("<4B6I", data, 4)
    if not 1 <= channels <= 4 or depth not in (8, 16) or orientation > 8 or zero:
        raise Damaged(name, f"{channels} channels of {depth} bits, orientation {orientation}, flags {zero:#04x}")
    sides = (width, height, patch_width, patch_height)
    if min(sides) == 0 or max(sides) > 1 << 30 or meta > 1 << 30:
        raise Damaged(name, f"{width}×{height} pixels in patches of {patch_width}×{patch_height}, {meta} bytes of metadata")
    _check_pixels(name, width, height, max_pixels)
    p = Picture()
    p.name, p.version, p.channels, p.depth, p.orientation = name, 2, channels, depth, orientation
    p._grid(width, height, patch_width, patch_height)
    # As many patches as the file has entries for: nothing is allocated before.
    n = p.patches
    begin = 32 + 8 * n + meta
    if n > len(data) // 8 or begin > len(data):
        raise Truncated(name, f"{len(data)} bytes, the directory of its {n} patches and its metadata take {begin}")
    _check_limits(p, len(data))
    if (verify or begin <= _CHEAP) and _header_sum(data, begin) != total:
        raise Damaged(name, "the checksum of its header differs")
    _check_metadata(data[32 + 8 * n:begin], name)
    entries = struct.unpack_from(f"<{2 * n}I", data, 32)
    p.lengths = [entries[::2]]
    _directory2(p, data, begin)
    _check_lengths2(p)
    if verify:
        _verify2(p, data, entries[1::2])
    return p


def _check_metadata(data, name):
    at = 0
    while at < len(data):
        if at + 5 > len(data):
            raise Damaged(name, f"metadata of {len(data)} bytes")
        at += 5 + struct.unpack_from("<I", data, at + 1)[0]
    if at > len(data):
        raise Damaged(name, f"metadata of {len(data)} bytes")


def _directory2(p, data, begin):
    """Finds the patches of version 2: each begins at the next multiple of 16."""
    padded = ((n + 15) & -16 for n in p.lengths[0])
    offsets = list(itertools.accumulate(padded, initial=(begin + 15) & -16))
    end = offsets.pop() + 8
    last = offsets[-1] + p.lengths[0][-1] + 8
    if last > len(data):
        raise Truncated(p.name, f"{len(data)} bytes, its last patch and what follows it end at {last}")
    if end != len(data):
        raise (Truncated if end > len(data) else Damaged)(p.name, f"{len(data)} bytes, its patches end at {end}")
    p.offsets = [offsets]


def _check_lengths2(p):
    """Checks what bounds the memory that a file can ask for, and finds the scratch rows.

    A patch has four bits for each 64 samples that it carries, rows in groups of 32.
    """
    size = p.channels * p.depth // 8
    lengths = p.lengths[0]
    for i, need in enumerate(p._each(lambda w, h: max(w, 64) * ((h + _BAND - 1) // _BAND) * size)):
        if need > 4 * lengths[i]:
            raise Truncated(p.name, f"{p._corner(i)}: {lengths[i]} bytes, it takes {(need + 3) // 4} or more")
    if max(lengths) > _MAX_PATCH:
        raise Unsupported(p.name, f"a patch of {max(lengths)} bytes, on a GPU")
    p.scratch = None
    if min(p.width, p.patch_width) > _NARROW and min(p.height, p.patch_height) > _BAND:
        p.scratch = p._each(lambda w, h: (2 * w * p.channels + 15) & -16 if w > _NARROW and h > _BAND else 0)


def _verify2(p, data, sums):
    for i, (at, n) in enumerate(zip(p.offsets[0], p.lengths[0])):
        if _crc32c(data[at:at + n]) != sums[i]:
            raise Damaged(p.name, f"{p._corner(i)}: its checksum differs")


# -------------------------------------------------------------------------------- tables


def _patch_records(p, index, scratch):
    """The records of all patches of a picture, and how far the scratch memory goes now.

    index is that of the picture's record, scratch the first free address.
    """
    n = p.patches
    low, high, end = _scratch_rows(p, scratch)
    if _np is not None and n >= _FEW:
        t = _np.zeros((n, 8), "<u4")
        t[:, 0], t[:, 1] = index, _np.arange(n)
        for c in range(len(p.offsets)):
            t[:, 2 + c], t[:, 5 + c] = p.offsets[c], p.lengths[c]
        if low is not None:
            t[:, 3], t[:, 4] = low, high
        return t.tobytes(), end
    flat = [0] * (8 * n)
    flat[0::8], flat[1::8] = [index] * n, range(n)
    for c in range(len(p.offsets)):
        flat[2 + c::8], flat[5 + c::8] = p.offsets[c], p.lengths[c]
    if low is not None:
        flat[3::8], flat[4::8] = low, high
    return struct.pack(f"<{8 * n}I", *flat), end


def _scratch_rows(p, scratch):
    """Both halves of the addresses of the scratch rows, and the first address behind them."""
    if p.scratch is None:
        return None, None, scratch
    at = list(itertools.accumulate(p.scratch, initial=scratch))
    end = at.pop()
    at = [a if n else 0 for a, n in zip(at, p.scratch)]
    return [a & 0xFFFFFFFF for a in at], [a >> 32 for a in at], end


class _Target(NamedTuple):
    """Where and as what a picture is wanted: an address, and distances in bytes."""

    address: int
    row: int
    pixel: int
    channel: int
    output: int = 0
    factors: tuple = (0.0,) * 8  # scale of four channels, bias of four channels


def _picture_record(p, source, t):
    return _PICTURE.pack(source, t.address, t.row, t.pixel, t.channel, p.width, p.height, p.patch_width, p.patch_height,
                         p.channels, p.depth, t.output, p.version, p.columns, *t.factors)


class _Launch(NamedTuple):
    """A kernel and its patches, counted in all records."""

    entry: str
    first: int
    count: int

    @property
    def blocks(self):
        return (self.count + _WARPS - 1) // _WARPS


def _tables(pictures, sources, targets, scratch):
    """The tables for the kernels: records of pictures, records of patches, launches."""
    records, patches = [], {entry: [] for entry in _ENTRIES}
    for i, (p, source, target) in enumerate(zip(pictures, sources, targets)):
        records.append(_picture_record(p, source, target))
        table, scratch = _patch_records(p, i, scratch)
        patches[p.entry].append(table)
    launches, first = [], 0
    for entry, tables in patches.items():
        count = sum(map(len, tables)) // _PATCH_LEN
        if count:
            launches.append(_Launch(entry, first, count))
            first += count
    return b"".join(records), b"".join(itertools.chain.from_iterable(patches.values())), launches


def _numbers(given, n):
    """A number n times, or the numbers that there are."""
    try:
        return [float(given)] * n
    except TypeError:
        return [float(v) for v in given]


def _factors(p, mean, std):
    """scale and bias of each channel of a picture, see the top of this file."""
    means, stds = _numbers(mean, p.channels), _numbers(std, p.channels)
    if len(means) != p.channels or len(stds) != p.channels:
        raise Unsupported(p.name, f"{p.channels} channels, mean is for {len(means)} and std for {len(stds)}")
    maximum = (1 << p.depth) - 1
    none = [0.0] * (4 - p.channels)
    return (*(1 / (maximum * s) for s in stds), *none, *(-m / s for m, s in zip(means, stds)), *none)


def _check_factors(mean, std):
    """Refuses what no picture can be normalised by."""
    means, stds = _numbers(mean, 1), _numbers(std, 1)
    # No factor may pass what float32 holds.
    if not all(map(math.isfinite, means + stds)) or min(map(abs, stds)) < 1e-30 or max(map(abs, means)) / min(map(abs, stds)) > 1e30:
        raise ValueError(f"mean {mean}, std {std}: they have to be finite, and std not 0")


# -------------------------------------------------------------------------------- driver

_SONAMES = ("libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1")


class _Driver:
    """Loads and launches kernels in the primary context of a GPU: the one of PyTorch and CuPy."""

    def __init__(self, index, names=_SONAMES):
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
        self._in_context("cuLaunchKernel", function, u(blocks), u(1), u(1), u(_THREADS), u(1), u(1), u(0),
                         ctypes.c_void_p(stream), pointers, None)


# ----------------------------------------------------------------------------- frameworks
#
# A framework is asked for memory, streams and events, so that all memory belongs to its
# own allocator. Its arrays on the GPU are those of the caller; memory of the host is an
# array of bytes for _view. Work that is queued on a stream may read both later.


class _Foreign:
    """Bytes on the GPU, for what understands __cuda_array_interface__."""

    def __init__(self, address, n):
        self.__cuda_array_interface__ = {"shape": (n,), "typestr": "|u1", "data": (address, False), "strides": None, "version": 3}


class _Torch:
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
        return {name: getattr(self.torch, name) for name in _SIZES if hasattr(self.torch, name)}

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

    def foreign(self, address, n):
        """n bytes on the GPU that belong to somebody else, as an array."""
        return self.torch.as_tensor(_Foreign(address, n), device=self.device)

    def duplicate(self, array, from_, begin, n, stream):
        """Copies n bytes at begin of another array on the GPU."""
        with self.torch.cuda.stream(stream):
            array[:n].copy_(from_[begin:begin + n], non_blocking=True)

    def record(self, stream):
        """An event behind all that is queued; who waits for it sleeps."""
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
        n = math.prod(shape) * _SIZES[dtype]
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


class _Cupy:
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
        return {name: _np.dtype(name) for name in _SIZES}

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

    def foreign(self, address, n):
        owner = _Foreign(address, n)
        memory = self.cupy.cuda.UnownedMemory(address, n, owner, self.index)
        return self.cupy.ndarray((n,), _np.uint8, self.cupy.cuda.MemoryPointer(memory, 0))

    def duplicate(self, array, from_, begin, n, stream):
        self._copy(array.data.ptr, from_.data.ptr + begin, n, 3, stream)

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
        n = math.prod(shape) * _SIZES[dtype]
        return array[begin:begin + n].view(_np.dtype(dtype)).reshape(shape)

    def address(self, array):
        return array.data.ptr

    def strides(self, array):
        return list(array.strides)

    def widen(self, result, stored, begin, depth, stream):
        n = result.size * depth // 8
        with self.device, stream:
            result[...] = stored[begin:begin + n].view(_np.dtype(f"uint{depth}")).reshape(result.shape)


def _framework(library, device, priority):
    """The framework to take memory from: the one asked for, or the first that is there."""
    if library is None and type(device).__module__.startswith("cupy"):
        library = "cupy"
    for name, make in (("torch", _Torch), ("cupy", _Cupy)):
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


def _open(library, device, priority):
    """The framework and the driver; tests put others in their place."""
    framework = _framework(library, device, priority)
    return framework, _Driver(framework.index)


# --------------------------------------------------------------------------- the program


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
    kernel = os.path.join(here, "..", "kernel")
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


# ------------------------------------------------------------------------------- decoding


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
            words = struct.unpack_from(f"<{len(self._pictures)}I", _view(self._statuses))
            for (i, p), word in zip(self._pictures.items(), words):
                if word != _GOOD:
                    self._errors[i] = p.refusal(word)
            # The slot kept the batch, which its caller may give up before it is done.
            self._slot.pending = self._statuses = self._kept = self._slot = None


class _Wish(NamedTuple):
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
        wish = self._wish(out, layout, dtype, mean, std, size)
        if os.getpid() != self._pid:
            raise DeviceError("this Decoder is of the process that was forked: only read bytes in workers")
        with self._lock:
            slot = self._slots[self._next]
            self._next = (self._next + 1) % len(self._slots)
            slot.free()
            try:
                return self._submit(slot, files, wish, errors)
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

    def _wish(self, out, layout, dtype, mean, std, size):
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
        if (mean is not None or std is not None) and name not in _OUTPUTS:
            raise ValueError("mean and std are for float32 and float16")
        mean, std = 0.0 if mean is None else mean, 1.0 if std is None else std
        _check_factors(mean, std)
        return _Wish(out, layout, name, mean, std, None if size is None else tuple(size))

    def _dtype_name(self, dtype):
        if dtype is None:
            return None
        for name, d in self._framework.dtypes().items():
            if dtype == name if isinstance(dtype, str) else dtype == d:
                return name
        raise ValueError(f"dtype {dtype}: there are {', '.join(self._framework.dtypes())}")

    def _submit(self, slot, files, wish, policy):
        if not isinstance(files, Files):
            files = pack(files, lambda n: slot.room("files", n), self.max_bytes)
        elif not self._framework.is_pinned(files.data):
            # Copied, so that the GPU can read it while this process goes on.
            n = sum(_span(length) for _, length in files.places)
            if n > self.max_bytes:
                raise LimitError(f"the {len(files)} files of a batch have {n} bytes, max_bytes is {self.max_bytes}")
            data = slot.room("files", n)
            _view(data)[:n] = _view(files.data)[:n]
            files = Files(files.names, files.places, data, files.errors)
        pending = Pending(self._framework, files.names, dict(files.errors), policy)
        self._parse(pending, files, wish)
        if pending._pictures:
            self._queue(slot, pending, files, wish)
            slot.pending, pending._slot = pending, slot
        return pending

    def _parse(self, pending, files, wish):
        """Reads all headers; pictures that will not be decoded become errors."""
        view = _view(files.data)
        for i, (at, n) in enumerate(files.places):
            if i in pending._errors:
                continue
            try:
                p = parse(view[at:at + n], files.names[i], self.max_pixels, self.verify)
                self._check_wish(p, wish, len(files))
                pending._pictures[i] = p
            except PictureError as e:
                pending._errors[i] = e

    def _check_wish(self, p, wish, n):
        """Refuses a picture that is not what the caller asked for."""
        if wish.size is not None and wish.size != (p.height, p.width):
            raise Unsupported(p.name, f"{p.height}×{p.width} pixels (H×W), size is {wish.size[0]}×{wish.size[1]}")
        if wish.dtype in ("uint8", "uint16") and wish.dtype != f"uint{p.depth}":
            raise Unsupported(p.name, f"samples of {p.depth} bits, dtype is {wish.dtype}: float32, float16 and int32 take both")
        if wish.out is not None and tuple(wish.out.shape) != (n, *self._shape(p, wish)):
            raise Unsupported(p.name, f"its shape is {self._shape(p, wish)}, out has {tuple(wish.out.shape)} for {n} pictures")
        if wish.dtype in _OUTPUTS:
            _factors(p, wish.mean, wish.std)
        row = p.width * p.channels * _SIZES[self._type(p, wish)]
        if row * p.height > self.max_bytes:
            raise Unsupported(p.name, f"{p.width}×{p.height} pixels take {row * p.height} bytes, max_bytes is {self.max_bytes}")
        if row > _MAX_STRIDE:
            raise Unsupported(p.name, f"rows of {p.width} pixels, on a GPU")

    def _type(self, p, wish):
        """The name of the type that a picture becomes."""
        if wish.dtype is not None:
            return wish.dtype
        stored = f"uint{p.depth}"
        return stored if stored in self._framework.dtypes() else "int32"

    @staticmethod
    def _shape(p, wish):
        return (p.height, p.width, p.channels) if wish.layout == "HWC" else (p.channels, p.height, p.width)

    def _queue(self, slot, pending, files, wish):
        """Allocates memory on the GPU and queues all work of a batch."""
        f, stream, pictures = self._framework, slot.stream, list(pending._pictures.values())
        functions = self._load({p.entry for p in pictures}, files.names)
        n_files = sum(_span(length) for _, length in files.places)
        n_scratch = sum(sum(p.scratch) for p in pictures if p.scratch)
        n_records, n_patches = _PICTURE.size * len(pictures), _PATCH_LEN * sum(p.patches for p in pictures)
        n_tables = n_records + n_patches + 4 * len(pictures)
        places, n_output = self._places(pictures, wish)
        stored, n_stored = self._stored(pictures, wish)
        total = n_files + n_scratch + n_tables + n_output + n_stored
        if total > self.max_bytes:
            worst = max(pictures, key=lambda p: p.width * p.height)
            raise LimitError(f"a batch of {len(pictures)} pictures takes {total} bytes, max_bytes is {self.max_bytes}; the largest is {worst.name}, {worst.width}×{worst.height} pixels")

        if wish.out is not None:
            f.follow_caller(wish.out, stream)
            pending._memory = pending._batch = wish.out
        else:
            pending._memory = f.output(n_output, stream)
        self._views(pending, places, wish)
        source, tables = f.work(n_files, stream), f.work(n_tables, stream)
        scratch, temporary = f.work(n_scratch, stream), f.work(n_stored, stream)
        targets = [self._target(p, part, wish, temporary, at) for p, part, at in zip(pictures, pending._parts.values(), stored)]
        sources = [f.address(source) + files.places[i][0] for i in pending._pictures]
        records, patches, launches = _tables(pictures, sources, targets, f.address(scratch))

        host = slot.room("tables", n_tables)
        _view(host)[:n_tables] = records + patches + b"\xff" * (4 * len(pictures))
        f.upload(source, files.data, n_files, stream)
        f.upload(tables, host, n_tables, stream)
        at = f.address(tables)
        for launch in launches:
            u64 = ctypes.c_uint64
            self._driver.launch(functions[launch.entry], launch.blocks, (
                u64(at), u64(at + n_records + _PATCH_LEN * launch.first), ctypes.c_uint32(launch.count), u64(at + n_records + n_patches)), f.handle(stream))
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

    def _places(self, pictures, wish):
        """Where each picture begins in the memory of the batch, and how much that takes."""
        if wish.out is not None:
            return [0] * len(pictures), 0
        kinds = {(self._type(p, wish), self._shape(p, wish)) for p in pictures}
        apart = 1 if len(kinds) == 1 else _APART
        places, end = [], 0
        for p in pictures:
            places.append(end)
            end += (p.width * p.height * p.channels * _SIZES[self._type(p, wish)] + apart - 1) // apart * apart
        return places, end

    def _stored(self, pictures, wish):
        """The same for samples that wait to be made int32; None is for all others."""
        places, end = [], 0
        for p in pictures:
            if self._type(p, wish) != "int32":
                places.append(None)
                continue
            places.append(end)
            end += (p.width * p.height * p.channels * p.depth // 8 + _APART - 1) // _APART * _APART
        return places, end

    def _views(self, pending, places, wish):
        """Makes the tensors of the batch, parts of its memory."""
        if wish.out is not None:
            pending._parts = {i: wish.out[i] for i in pending._pictures}
            return
        f, pictures = self._framework, pending._pictures
        kinds = {(self._type(p, wish), self._shape(p, wish)) for p in pictures.values()}
        if len(kinds) == 1:
            (dtype, shape), = kinds
            batch = f.typed(pending._memory, 0, dtype, (len(pictures), *shape))
            pending._batch = batch if len(pictures) == len(pending._names) else None
            pending._parts = {i: batch[k] for k, i in enumerate(pictures)}
            return
        pending._parts = {i: f.typed(pending._memory, at, self._type(p, wish), self._shape(p, wish)) for (i, p), at in zip(pictures.items(), places)}

    def _target(self, p, part, wish, temporary, stored):
        """Where the kernel writes a picture."""
        f = self._framework
        if stored is None:
            address, strides = f.address(part), f.strides(part)
        else:
            shape, strides, step = self._shape(p, wish), [0, 0, 0], p.depth // 8
            address = f.address(temporary) + stored
            for i in (2, 1, 0):
                strides[i] = step
                step *= shape[i]
        row, pixel, channel = strides if wish.layout == "HWC" else (strides[1], strides[2], strides[0])
        output = _OUTPUTS.get(wish.dtype, 0)
        return _Target(address, row, pixel, channel, output, _factors(p, wish.mean, wish.std) if output else (0.0,) * 8)
