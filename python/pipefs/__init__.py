"""pipefs mounts an image dataset as a directory of views, under paths that loaders know.

    import pipefs

    with pipefs.mount("/data/imagenet", cache="16GB") as m:
        dataset = ImageFolder(m.path("scan5") + "/train")

A program, which this package brings along, serves the mount in a process of its own. All
processes of a user that mount the same dataset with the same options share it, and it ends
when the last of them is gone.
"""

from ._ahead import Ahead
from ._epoch import EpochView
from ._mount import Mount, mount
from ._program import Error, __version__
from ._random import Draw, Move, Op, RandomView, draw
from ._sampler import ResumableSampler
from ._timed import timed

__all__ = ["Ahead", "Draw", "EpochView", "Error", "Mount", "Move", "Op", "RandomView", "ResumableSampler", "__version__", "draw", "mount", "timed"]
