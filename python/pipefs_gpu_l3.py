"""What an L3 file says before its patches, and the tables that the kernels want of it."""

from __future__ import annotations

import functools
import itertools
import math
import struct
from typing import NamedTuple

import pipefs_gpu_abi as abi
from pipefs_gpu_files import Damaged, PictureError, Truncated, Unsupported

try:
    import numpy as _np
except ImportError:  # everything works without it, tables of version 1 more slowly
    _np = None

# The most pixels of a picture that are decoded, unless the caller says otherwise: as
# everywhere in pipefs.
MAX_PIXELS = 200 << 20

_MAX_PATCHES = 1 << 20  # of a picture, so that its tables stay small

# Headers up to this length have their checksum checked always: it takes 0.02 ms, or
# 0.1 ms without NumPy. Only those with a colour profile or EXIF are longer.
_CHEAP = 1024

# Tables shorter than this are made faster without NumPy.
_FEW = 64


# ----------------------------------------------------------------------------- checksums


def _crc_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


_CRC = _crc_table()


def crc32c_slowly(data, crc=0):
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


def crc32c(data, crc=0):
    """CRC32C: with NumPy some 100 MB a second, without a tenth of that."""
    if _np is None:
        return crc32c_slowly(data, crc)
    tables, places = _crc_places()
    data = _np.frombuffer(data, _np.uint8)
    for at in range(0, len(data), _CHUNK):
        chunk = data[at:at + _CHUNK].copy()
        if len(chunk) < 4:
            return crc32c_slowly(chunk, crc)
        # What came before counts as if it were in the first four bytes.
        chunk[:4] ^= _np.frombuffer(struct.pack("<I", crc ^ 0xFFFFFFFF), _np.uint8)
        crc = int(_np.bitwise_xor.reduce(tables[places[-len(chunk):] + chunk])) ^ 0xFFFFFFFF
    return crc


def _header_sum(data, end):
    """The checksum of everything before the patches, its own four bytes as zeros."""
    return crc32c(bytes(data[:28]) + bytes(4) + bytes(data[32:end]))


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
        """The error that a status of the kernels means."""
        patch, why = status >> 4, status & 15
        if why not in abi.REFUSALS or patch >= self.patches:
            return PictureError(self.name, f"the GPU's program said {status:#x}: a defect of it, please report")
        kind, says = abi.REFUSALS[why]
        return {"Damaged": Damaged, "Truncated": Truncated}.get(kind, PictureError)(self.name, f"{self._corner(patch)}: {says}")


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
    if n > abi.MAX_FILE or p.patches > _MAX_PATCHES or min(p.width, p.patch_width) > abi.MAX_PATCH_WIDTH:
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
    for i, need in enumerate(p._each(lambda w, h: max(w, 64) * ((h + abi.BAND - 1) // abi.BAND) * size)):
        if need > 4 * lengths[i]:
            raise Truncated(p.name, f"{p._corner(i)}: {lengths[i]} bytes, it takes {(need + 3) // 4} or more")
    if max(lengths) > abi.MAX_PATCH:
        raise Unsupported(p.name, f"a patch of {max(lengths)} bytes, on a GPU")
    p.scratch = None
    if min(p.width, p.patch_width) > abi.NARROW and min(p.height, p.patch_height) > abi.BAND:
        p.scratch = p._each(lambda w, h: (2 * w * p.channels + 15) & -16 if w > abi.NARROW and h > abi.BAND else 0)


def _verify2(p, data, sums):
    for i, (at, n) in enumerate(zip(p.offsets[0], p.lengths[0])):
        if crc32c(data[at:at + n]) != sums[i]:
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


class Target(NamedTuple):
    """Where and as what a picture is wanted: an address, and distances in bytes."""

    address: int
    row: int
    pixel: int
    channel: int
    output: int = 0
    factors: tuple = (0.0,) * 8  # scale of four channels, bias of four channels


def _picture_record(p, source, t):
    return abi.PICTURE.pack(source, t.address, t.row, t.pixel, t.channel, p.width, p.height, p.patch_width, p.patch_height,
                         p.channels, p.depth, t.output, p.version, p.columns, *t.factors)


class _Launch(NamedTuple):
    """A kernel and its patches, counted in all records."""

    entry: str
    first: int
    count: int

    @property
    def blocks(self):
        return (self.count + abi.WARPS - 1) // abi.WARPS


def make_tables(pictures, sources, targets, scratch):
    """The tables for the kernels: records of pictures, records of patches, launches."""
    records, patches = [], {entry: [] for entry in abi.ENTRIES}
    for i, (p, source, target) in enumerate(zip(pictures, sources, targets)):
        records.append(_picture_record(p, source, target))
        table, scratch = _patch_records(p, i, scratch)
        patches[p.entry].append(table)
    launches, first = [], 0
    for entry, tables in patches.items():
        count = sum(map(len, tables)) // abi.PATCH_LEN
        if count:
            launches.append(_Launch(entry, first, count))
            first += count
    return b"".join(records), b"".join(itertools.chain.from_iterable(patches.values())), launches


def numbers_of(given, n):
    """A number n times, or the numbers that there are."""
    try:
        return [float(given)] * n
    except TypeError:
        return [float(v) for v in given]


def factors_of(p, mean, std):
    """scale and bias of each channel of a picture, see the top of this file."""
    means, stds = numbers_of(mean, p.channels), numbers_of(std, p.channels)
    if len(means) != p.channels or len(stds) != p.channels:
        raise Unsupported(p.name, f"{p.channels} channels, mean is for {len(means)} and std for {len(stds)}")
    maximum = (1 << p.depth) - 1
    none = [0.0] * (4 - p.channels)
    return (*(1 / (maximum * s) for s in stds), *none, *(-m / s for m, s in zip(means, stds)), *none)


def check_factors(mean, std):
    """Refuses what no picture can be normalised by."""
    means, stds = numbers_of(mean, 1), numbers_of(std, 1)
    # No factor may pass what float32 holds.
    if not all(map(math.isfinite, means + stds)) or min(map(abs, stds)) < 1e-30 or max(map(abs, means)) / min(map(abs, stds)) > 1e30:
        raise ValueError(f"mean {mean}, std {std}: they have to be finite, and std not 0")
