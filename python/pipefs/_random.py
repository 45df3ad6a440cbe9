"""Random views: a Dataset that reads them, and what was drawn."""

from __future__ import annotations

import json
import multiprocessing
import os
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Sequence, Tuple, Union

from ._mount import Mount
from ._program import Error

if TYPE_CHECKING:
    import numpy

Box = Tuple[float, float, float, float]
_Samples = Union[Any, Sequence[Tuple[str, Any]]]


class Move(NamedTuple):
    """What one step does to the places of pixels.

    The point x, y of what the step gets is at (x - box[0]) * size[0] / box[2] and
    (y - box[1]) * size[1] / box[3] of what it makes; with flip, x counts from the other edge.
    orientation is that of EXIF which the step undoes before all else, 0 of other steps.
    """

    step: str
    box: Tuple[int, int, int, int]
    size: Tuple[int, int]
    flip: bool
    orientation: int = 0


class Draw(NamedTuple):
    """What was drawn for one file of a random view."""

    sample: str  # path in the dataset
    view: str
    seed: int
    epoch: int
    size: Tuple[int, int]  # of the sample: width and height in pixels
    moves: Tuple[Move, ...]

    def point(self, x: float, y: float) -> Tuple[float, float]:
        """Where a point of the sample, in pixels, is in the file. It may lie outside."""
        width, height = self.size
        for m in self.moves:
            x, y = _upright(m.orientation, x, y, width, height)
            x = (x - m.box[0]) * m.size[0] / m.box[2]
            y = (y - m.box[1]) * m.size[1] / m.box[3]
            width, height = m.size
            if m.flip:
                x = width - x
        return x, y

    def boxes(self, boxes: "Sequence[Sequence[float]]", least: float = 0.0) -> "list[tuple[int, Box]]":
        """Boxes of the sample, x0, y0, x1, y1 in pixels, as they are in the file.

        They are cut at its edges. Each comes with its place in the list that was given. One of
        which no more than the share least of its area is left is left out.
        """
        width, height = self.moves[-1].size if self.moves else self.size
        kept = []
        for i, (x0, y0, x1, y1) in enumerate(boxes):
            ax, ay = self.point(x0, y0)
            bx, by = self.point(x1, y1)
            left, right = sorted((ax, bx))
            top, bottom = sorted((ay, by))
            area = (right - left) * (bottom - top)
            left, right = max(left, 0.0), min(right, float(width))
            top, bottom = max(top, 0.0), min(bottom, float(height))
            if right > left and bottom > top and (right - left) * (bottom - top) > least * area:
                kept.append((i, (left, top, right, bottom)))
        return kept


def _upright(orientation: int, x: float, y: float, width: float, height: float) -> Tuple[float, float]:
    """Where a point of a picture is when its EXIF orientation is undone."""
    if orientation in (2, 3, 7, 8):
        x = width - x
    if orientation in (3, 4, 6, 7):
        y = height - y
    if orientation >= 5:
        x, y = y, x
    return x, y


def draw(path: "Union[str, os.PathLike[str]]") -> Draw:
    """What was drawn for a file below MNT/.draw."""
    try:
        with open(os.fspath(path) + ".draw", encoding="utf-8") as f:
            told = json.load(f)
    except FileNotFoundError as e:
        raise Error(f"{os.fspath(path)} is no picture of a random view below MNT/.draw/SEED/EPOCH") from e
    moves = tuple(Move(m["step"], tuple(m["box"]), tuple(m["size"]), m["flip"], m.get("orientation", 0)) for m in told["moves"])
    return Draw(told["sample"], told["view"], told["seed"], told["epoch"], tuple(told["size"]), moves)


class RandomView:
    """A Dataset of the pictures of a random view, such as rrc224-hflip-npy.

    samples is a torchvision ImageFolder, or another Dataset with a list samples of (path,
    target), of files of the dataset or of any view of the mount; or such a list, whose paths
    may be relative to the dataset. An item is (picture, target): picture is what transform
    makes of a numpy array, uint8, of shape (height, width, channels), or (channels, height,
    width) of a view with chw. Without transform it is the array.

    What an item is depends on seed, epoch and the path of the picture only: every rank and
    worker gets the same, after a restart, too. set_epoch is seen by all workers, also by
    those of a DataLoader with persistent_workers.

    The view ends with npy.
    """

    def __init__(self, m: Mount, view: str, samples: _Samples, seed: int = 0,
                 transform: "Optional[Callable[[numpy.ndarray[Any, Any]], Any]]" = None) -> None:
        if view.split("-")[-1] != "npy":
            raise Error(f"RandomView reads views that end with npy, and {view} does not")
        self.mount, self.view, self.seed, self.transform = m, view, seed, transform
        self._epoch = multiprocessing.RawValue("Q", 0)
        self.samples = self._relative(getattr(samples, "samples", samples))
        self.classes = getattr(samples, "classes", None)
        m.path(view)  # says what is wrong with it
        if not os.path.isdir(self.root):
            raise Error(f"{view} draws nothing: read it with ImageFolder or DatasetFolder from {m.mountpoint}/{view}")

    def _relative(self, samples: "Sequence[Tuple[str, Any]]") -> "list[Tuple[str, Any]]":
        """The paths of the samples, relative to the dataset."""
        source = os.path.realpath(self.mount.stats()["source"])
        mountpoint = os.path.realpath(self.mount.mountpoint)
        found = []
        for path, target in samples:
            if os.path.isabs(path):
                # A link such as current does not matter, but the links of the dataset do.
                if path.startswith(self.mount.mountpoint + "/") or path.startswith(mountpoint + "/"):
                    base = self.mount.mountpoint if path.startswith(self.mount.mountpoint + "/") else mountpoint
                    path = os.path.relpath(path, base).split("/", 1)[1]
                else:
                    path = os.path.relpath(os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)), source)
                    if path.startswith("../"):
                        raise Error(f"{os.path.normpath(os.path.join(source, path))} is no file of {source}, nor of its mount {mountpoint}")
            found.append((path, target))
        return found

    @property
    def epoch(self) -> int:
        """The epoch that is drawn, 0 at first."""
        return int(self._epoch.value)

    def set_epoch(self, epoch: int) -> None:
        """Makes all processes that share this Dataset draw another epoch from the next item on."""
        self._epoch.value = epoch

    @property
    def root(self) -> str:
        """The directory of the view in the epoch that is drawn."""
        return os.path.join(self.mount.mountpoint, ".draw", str(self.seed), str(self.epoch), self.view)

    def path(self, index: int) -> str:
        """The path of one file in the epoch that is drawn; see draw."""
        return os.path.join(self.root, self.samples[index][0])

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> "Tuple[Any, Any]":
        picture = read_npy(self.path(index))
        if self.transform is not None:
            picture = self.transform(picture)
        return picture, self.samples[index][1]


def read_npy(path: str) -> "numpy.ndarray[Any, Any]":
    """Reads an npy file at once, where numpy.load reads its beginning twice."""
    import numpy

    with open(path, "rb", buffering=0) as f:
        data = bytearray(os.fstat(f.fileno()).st_size)
        got = f.readinto(data)
    if got != len(data):
        raise Error(f"{path} has {len(data)} bytes, of which {got} were read")
    if data[:8] != b"\x93NUMPY\x01\x00":
        raise Error(f"{path} is no npy file: the view leaves this picture as it is, perhaps because it may be a mask")
    end = 10 + int.from_bytes(data[8:10], "little")
    header = data[10:end].decode("latin-1")
    # The daemon writes the keys in this order, and nothing else.
    dtype = header.split("'")[3]
    shape = header[header.index("(") + 1:header.index(")")]
    return numpy.frombuffer(data, dtype, offset=end).reshape([int(n) for n in shape.split(",") if n.strip()])
