"""Random views: a Dataset that reads them, and what was drawn."""

from __future__ import annotations

import errno
import json
import os
import re
from typing import TYPE_CHECKING, Any, Callable, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _batches
from ._arrays import labels_of, read_npy
from ._mount import Mount
from ._program import Error, path_of
from ._view import View

if TYPE_CHECKING:
    import numpy

Box = Tuple[float, float, float, float]
_Samples = Union[Any, Sequence[Tuple[str, Any]]]
_Transform = Callable[["numpy.ndarray[Any, Any]"], Any]


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


class Op(NamedTuple):
    """An operation that a step has drawn.

    op is brightness, contrast, saturation, sharpness or hue (by is the factor of torchvision's
    adjust_…), posterize (bits), solarize (threshold), autocontrast, equalize, invert, grey, blur
    (sigma), erase (box), identity; or shearx, sheary (by is the tangent), translatex, translatey
    (pixels), rotate (degrees).
    """

    step: str
    op: str
    by: float
    box: Optional[Tuple[int, int, int, int]] = None  # x, y, width, height


_MOVING = ("shearx", "sheary", "translatex", "translatey", "rotate")


class Draw(NamedTuple):
    """What was drawn for one file of a random view."""

    sample: str  # path in the dataset
    view: str
    seed: int
    epoch: int
    size: Tuple[int, int]  # of the sample: width and height in pixels
    moves: Tuple[Move, ...]
    repeat: int = 0  # which of several draws of one epoch it is
    ops: Tuple[Op, ...] = ()

    def point(self, x: float, y: float) -> Tuple[float, float]:
        """Where a point of the sample, in pixels, is in the file. It may lie outside."""
        for o in self.ops:
            if o.op in _MOVING:
                raise Error(f"{o.step} of {self.view} drew {o.op} for {self.sample}: where points and boxes are then is not told. "
                            "Take a view without this step for a dataset with boxes or masks")
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
    except OSError as e:
        raise Error(f"{os.fspath(path)} is no picture of a random view below MNT/.draw/SEED/EPOCH: {e.strerror}") from e
    moves = tuple(Move(m["step"], tuple(m["box"]), tuple(m["size"]), m["flip"], m.get("orientation", 0)) for m in told["moves"])
    ops = tuple(Op(o["step"], o["op"], o["by"], tuple(o["box"]) if "box" in o else None) for o in told.get("ops", ()))
    return Draw(told["sample"], told["view"], told["seed"], told["epoch"], tuple(told["size"]), moves, told["repeat"], ops)


def masks_of(m: Mount, pictures: "Sequence[str]") -> "List[str]":
    """The paths of the masks of pictures, by the pairs of the mount."""
    stands, pairs, masks = {"*": "([^/]*)", "**": "(.*)", "**/": "((?:.*/)?)"}, [], []
    for pair in m.stats().get("pairs") or ():
        ours, theirs = (re.split(r"(\*\*/|\*\*|\*)", side.lstrip("/")) for side in pair.split("="))
        picture, mask = (re.compile("".join(stands.get(word) or re.escape(word) for word in side), re.DOTALL) for side in (ours, theirs))
        pairs.append((picture, mask, theirs))
    if not pairs:
        raise Error("masks=True needs a mount that knows the masks: pipefs.mount(..., pair='images/**.jpg=masks/**.png')")
    for path in pictures:
        found = [(f, side) for picture, _, side in pairs for f in [picture.fullmatch(path)] if f]
        if not found or any(mask.fullmatch(path) for _, mask, _ in pairs):
            raise Error(f"{path} has no mask: no pair of the mount is about it")
        words = iter(found[0][0].groups())
        masks.append("".join(next(words) if word in stands else word for word in found[0][1]))
    return masks


class RandomView(View):
    """A Dataset of the pictures of a random view, such as rrc224-hflip-npy.

    samples is a torchvision ImageFolder, or another Dataset with a list samples of (path,
    target), of files of the dataset or of any view of the mount; or such a list, whose paths
    may be relative to the dataset. An item is (picture, target): picture is what transform
    makes of a numpy array, uint8, of shape (height, width, channels), or (channels, height,
    width) of a view with chw. Without transform it is the array.

    view may be a list of views. An item is then (pictures, target), with a picture of each
    view, also where one is named several times: no two of them are the same draw. DINO has
    2 * ["rrc224scale40to100-hflip-npy"] + 8 * ["rrc96scale5to40-hflip-npy"]. The daemon decodes
    a sample once for all of them. transform may be a list, one for each picture.

    What an item is depends on seed, epoch and the path of the picture only, and in a list on
    the place there: every rank and worker gets the same, after a restart, too. set_epoch is
    seen by all workers, also by those of a DataLoader with persistent_workers.

    skip leaves samples that cannot be made out of the batches of a DataLoader (torch 2.0 and newer). It
    needs a mount with on_error="black".

    masks makes an item (picture, mask, target); mask is an array, of which no transform makes anything else. It
    needs a mount with pair="images/**.jpg=masks/**.png".

    The views end with npy.
    """

    def __init__(self, m: Mount, view: "Union[str, Sequence[str]]", samples: _Samples, seed: int = 0,
                 transform: "Union[None, _Transform, Sequence[Optional[_Transform]]]" = None, *, skip: bool = False,
                 masks: bool = False) -> None:
        super().__init__(m, seed)
        self.skip = self._check_skip(skip)
        self.views = [view] if isinstance(view, str) or not isinstance(view, Sequence) else list(view)
        self._several = not isinstance(view, str)
        if not self.views:
            raise Error("RandomView needs a view, such as rrc224-hflip-npy")
        self.transforms = list(transform) if isinstance(transform, (list, tuple)) else [transform] * len(self.views)
        if len(self.transforms) != len(self.views):
            raise Error(f"there are {len(self.views)} views and {len(self.transforms)} transforms")
        self.samples = self._relative(getattr(samples, "samples", samples))
        self.classes = getattr(samples, "classes", None)
        self.masks: "Optional[List[str]]" = masks_of(m, [path for path, _ in self.samples]) if masks else None  # paths
        self._batches = True  # the daemon can put pictures of the view into one file
        for v in dict.fromkeys(self.views):
            m.path(v)  # raises Error for what is no view
            if v.split("-")[-1] != "npy":
                raise Error(f"RandomView reads views that end with npy, and {v} does not")
            if not os.path.isdir(self._root(self.views.index(v))):
                raise Error(f"{v} draws nothing: read it with ImageFolder or DatasetFolder from {m.mountpoint}/{v}")
        self._warn_of_parts(self.classes or [], "ImageFolder(m.path('original', {!r}))")

    def _relative(self, samples: "Sequence[Tuple[str, Any]]") -> "list[Tuple[str, Any]]":
        """The paths of the samples, relative to the dataset."""
        source = self.mount.stats()["source"]
        near = source[len("file://"):] if source.startswith("file://") else source
        is_far = "://" in near  # none of its files are on this machine
        source = near if is_far else os.path.realpath(near)
        mountpoint = os.path.realpath(self.mount.mountpoint)
        found = []
        try:
            pairs = [(path_of("the path of a sample", path), target) for path, target in samples]
        except (TypeError, ValueError) as e:
            raise Error(f"the samples are a {type(samples).__name__}: want an ImageFolder, or a list of (path, target)") from e
        for path, target in pairs:
            if os.path.isabs(path):
                # A link such as current does not matter, but the links of the dataset do.
                if path.startswith(self.mount.mountpoint + "/") or path.startswith(mountpoint + "/"):
                    base = self.mount.mountpoint if path.startswith(self.mount.mountpoint + "/") else mountpoint
                    path = os.path.relpath(path, base).split("/", 1)[1]
                elif is_far:
                    raise Error(f"{path} is no file of the mount {mountpoint}: a sample of {source} has its path there, or one relative to {source}")
                else:
                    path = os.path.relpath(os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)), source)
                    if path.startswith("../"):
                        raise Error(f"{os.path.normpath(os.path.join(source, path))} is no file of {source}, nor of its mount {mountpoint}")
            found.append((path, target))
        return found

    def _root(self, n: int) -> str:
        """The directory of the pictures in place n of an item, in the epoch that is drawn."""
        # The place is the number of the draw, and not how often the view was named before:
        # two views with one number would take the same random numbers.
        epoch = f"{self.epoch}.{n}" if n else str(self.epoch)
        return os.path.join(self.mount.mountpoint, ".draw", str(self.seed), epoch, self.views[n])

    @property
    def root(self) -> str:
        """The directory of the view, or of the first one, in the epoch that is drawn."""
        return self._root(0)

    def path(self, index: int, n: int = 0) -> str:
        """The path of a file in the epoch that is drawn: of picture n of an item; see draw."""
        return os.path.join(self._root(n), self.samples[index][0])

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> "Tuple[Any, ...]":
        pictures, masks = [], []
        for n, transform in enumerate(self.transforms):
            picture = self._read(self.path(index, n))
            pictures.append(picture if transform is None else transform(picture))
            if self.masks:
                masks.append(labels_of(self._read(os.path.join(self._root(n), self.masks[index]))))
        self._count(len(self) / (self._group or (0, 1))[1])
        return (*(found if self._several else found[0] for found in (pictures, masks) if found), self.samples[index][1])

    def _read(self, path: str) -> "numpy.ndarray[Any, Any]":
        try:
            return read_npy(path)
        except OSError as e:
            raise self.mount.failed(path, e, "in Python: pipefs.mount(..., images=GLOB, masks=GLOB), pair='PICTURES=MASKS', or force_random=True, where "
                                    "pipefs.draw tells how boxes move" if e.errno == errno.EPERM else "") from e

    def __getitems__(self, indices: "Sequence[int]") -> "List[Tuple[Any, ...]]":
        """The items of a batch: DataLoader calls it. The daemon makes all of them at once, in one file."""
        own = type(self).__getitem__ is RandomView.__getitem__ and type(self).path is RandomView.path  # else a subclass has other items
        together = own and not self._several and self._batches and len(indices) > 1
        pictures = self._batch([self.samples[i][0] for i in indices]) if together else None
        masks = self._batch([self.masks[i] for i in indices]) if self.masks and pictures else None
        if pictures is None or self.masks and masks is None:
            return self._one_by_one(indices)
        self._count(len(self) / (self._group or (0, 1))[1], len(indices))
        transform = self.transforms[0]
        made = [picture if transform is None else transform(picture) for picture in pictures]
        return list(zip(*filter(None, (made, masks and list(map(labels_of, masks)))), (self.samples[i][1] for i in indices)))

    def _batch(self, samples: "Sequence[str]") -> "Optional[List[numpy.ndarray[Any, Any]]]":
        paths = list(map(os.fsencode, samples))
        found: "List[numpy.ndarray[Any, Any]]" = []
        view = os.path.relpath(self.root, self.mount.mountpoint)
        try:
            while len(found) < len(paths):
                found += _batches.read(self.mount.mountpoint, view, paths[len(found):])
        except _batches.Never:
            self._batches = False
            return None
        except OSError:
            return None  # what is wrong with which sample is found out one by one
        return found

    def _one_by_one(self, indices: "Sequence[int]") -> "List[Tuple[Any, ...]]":
        items = []
        bad: "List[Error]" = []
        skipped: "List[Error]" = []
        for i in indices:
            try:
                items.append(self[i])
            except Error as e:
                skips = self.skip and getattr(e.__cause__, "errno", 0) == errno.EIO  # there are not too many of them
                (skipped if skips else bad).append(e)
        if not items and skipped and not bad:
            raise Error(f"none of the {len(indices)} samples of a batch can be made, such as {self.path(indices[0])}") from skipped[0]
        if len(bad) > 1:
            raise Error(f"{len(bad)} of the {len(indices)} samples of a batch cannot be read:\n" + "\n".join(map(str, bad))) from bad[0]
        if bad:
            raise bad[0]
        return items
