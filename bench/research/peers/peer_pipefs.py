"""pipefs: views of the dataset. Each mount starts with an empty cache."""
import json
import os
import sys

import common

RANDOM, CENTRE = "rrc224-hflip-npy", "resize256-crop224-npy"
DRAWN = "drawn by the daemon, read by pipefs.RandomView"
BATCHES = f"batches of {RANDOM} made by the daemon, np.load of files opened with O_DIRECT in the training's own process, no workers"
FLOATS = "floats are made of a batch after collation, always in the same memory"
PIXELS = "pipefs-pixels"
EXACT = "pipefs, bilinear"
ROWS = [
    common.Row("pipefs-rrc", f"pipefs {RANDOM}/", prepared=False, resize=EXACT, note=f"{DRAWN}, nothing prepared; {FLOATS}"),
    common.Row("pipefs-rrc-pixels", f"pipefs {RANDOM}/, pixels stored", resize=EXACT, store=PIXELS,
               note=f"{DRAWN}, from what `pack` and `materialize ppm` keep; {FLOATS}"),
    common.Row("pipefs-epoch", "pipefs .epoch/, a batch a file", prepared=False, resize=EXACT,
               note=f"{BATCHES}, nothing prepared; {FLOATS}"),
    common.Row("pipefs-epoch-pixels", "pipefs .epoch/, a batch a file, pixels stored", resize=EXACT, store=PIXELS,
               note=f"{BATCHES}, from what `pack` and `materialize ppm` keep; {FLOATS}"),
    common.Row("pipefs-centre", f"pipefs {CENTRE}/, stored", resize=EXACT, control="imagefolder-centre",
               note=f"packed, `materialize {CENTRE}`; DatasetFolder and np.load; {FLOATS}"),
    common.Row("pipefs-rrc-mix", f"pipefs {RANDOM}/, pixels stored, mixed", resize=EXACT, store=PIXELS, named=True,
               note=f"{DRAWN}; `--cache daemon --mix adaptive` decides how many pictures are decoded from their files instead; {FLOATS}"),
    common.Row("pipefs-rrc-l3", f"pipefs {RANDOM}/, L3 stored", resize=EXACT, named=True,
               note=f"{DRAWN}, from what `pack --represent l3` keeps of PNG files; {FLOATS}"),
    common.Row("pipefs-original", "pipefs original/", prepared=False, named=True),
    common.Row("pipefs-ppm", "pipefs ppm/", prepared=False, named=True,
               note="mounted over the dataset, nothing prepared: the first epoch decodes, later ones read pixels"),
    common.Row("pipefs-ppm-stored", "pipefs ppm/, stored", store=PIXELS, named=True,
               note="packed; `materialize ppm` keeps the pixels on disk"),
    common.Row("pipefs-scan5", "pipefs scan5/, packed", same=False, named=True,
               note="five of ten scans: a coarser picture, half the bytes to read"),
    common.Row("pipefs-resize256", "pipefs resize256-ppm/, stored", same=False, named=True,
               note="the shorter side is 256 before the random crop; packed, `materialize resize256-ppm`"),
]
VIEWS = {"pipefs-centre": CENTRE, "pipefs-original": "original", "pipefs-ppm": "ppm", "pipefs-ppm-stored": "ppm",
         "pipefs-scan5": "scan5", "pipefs-resize256": "resize256-ppm"}  # others list original/ and read a random view
MATERIALIZED = {PIXELS: "ppm", "pipefs-centre": CENTRE, "pipefs-resize256": "resize256-ppm"}


def drawn(options):
    return RANDOM.replace("-npy", f"-{options.recipe}-npy") if options.recipe else RANDOM


def prepare(src, dst, row, options):
    store = os.path.join(dst, "store")
    env = environment(options)
    represent = ["--represent", "l3"] if row.id == "pipefs-rrc-l3" else []
    common.run([options.pipefs, "pack", *represent, src, store], env)
    if row.store in MATERIALIZED:
        common.run([options.pipefs, "materialize", store, MATERIALIZED[row.store]], env)


def mount(src, dst, mnt, row, options):
    env = {**environment(options), "XDG_RUNTIME_DIR": mnt + ".run"}  # sockets want short paths
    os.makedirs(mnt, exist_ok=True)
    os.makedirs(mnt + ".run", mode=0o700, exist_ok=True)
    source = os.path.join(dst, "store") if row.prepared else src
    mix = ["--cache", "daemon", "--mix", "adaptive"] if row.id == "pipefs-rrc-mix" else []
    common.run([options.pipefs, "mount", "--log-file", mnt + ".log", *mix, source, mnt], env)
    view = VIEWS.get(row.id, "original")
    mounted = common.Mount(mnt, os.path.join(mnt, view), 0, unmount=[options.pipefs, "umount", mnt], env=env)
    try:
        mounted.pid = stats(mnt, options)["pid"]
    except BaseException:
        mounted.close()
        raise
    return mounted


def environment(options):
    """With what pipefs keeps by itself below the work directory, which each mount finds empty."""
    return {**os.environ, "XDG_CACHE_HOME": os.path.join(options.work, "cache"),
            "XDG_STATE_HOME": os.path.join(options.work, "state")}


def stats(mnt, options):
    return json.loads(common.run([options.pipefs, "stats", "--json", mnt]))


def loader(where, row, options, seed):
    if VIEWS.get(row.id) == CENTRE:
        import numpy as np
        from torchvision import datasets
        return Arrays(datasets.DatasetFolder(where, np.load, ("npy",)), options, seed)
    if row.id in VIEWS:
        return common.imagefolder(where, options, seed)
    if row.id.startswith("pipefs-epoch"):
        return Epochs(os.path.dirname(where), options, seed)
    sys.path.insert(0, os.path.join(common.ROOT, "python"))
    import pipefs
    from torchvision import datasets

    class Mounted(pipefs.Mount):
        """What RandomView asks of a mount, of one that run.py has made and that this process need not hold."""

        mountpoint = os.path.dirname(where)

        def __init__(self):
            self._descriptors = []

        def path(self, view, *below):
            return os.path.join(self.mountpoint, view, *below)

        def stats(self):
            return stats(self.mountpoint, options)

    return Arrays(pipefs.RandomView(Mounted(), drawn(options), datasets.ImageFolder(where), seed=seed), options, seed)


class Arrays:
    """Batches of a Dataset of uint8 arrays, height × width × channels. Floats are made of them here."""

    def __init__(self, dataset, options, seed):
        self.dataset, self.convert, self.epoch = dataset, conversion(options), 0
        self.batches = common.batches(dataset, options, seed)

    def __iter__(self):
        if hasattr(self.dataset, "set_epoch"):
            self.dataset.set_epoch(self.epoch)
        self.epoch += 1
        for pictures, labels in self.batches:
            yield self.convert(pictures), labels


class Epochs:
    """The files of epoch views, one after another."""

    def __init__(self, mnt, options, seed):
        self.top, self.options, self.epoch = os.path.join(mnt, ".epoch", str(seed)), options, 0
        self.convert = conversion(options)

    def __iter__(self):
        import numpy as np
        import torch
        where = os.path.join(self.top, str(self.epoch), "1", "0", str(self.options.batch), drawn(self.options))
        self.epoch += 1
        with open(os.path.join(where, "index.json"), encoding="utf-8") as f:
            batches = json.load(f)["batches"]
        for i in range(batches):
            with open(os.open(os.path.join(where, f"{i:06d}.npy"), os.O_RDONLY | os.O_DIRECT), "rb") as f:
                pictures = torch.from_numpy(np.load(f))
            yield self.convert(pictures), np.load(os.path.join(where, f"{i:06d}.labels.npy"))


def conversion(options):
    """To floats between 0 and 1, channels × height × width, as ToTensor makes them. They are
    made in the same memory each time, as FFCV's are: the pages of new memory cost more."""
    if options.kind == "uint8":
        return lambda pictures: pictures
    import torch
    buffer = torch.empty((options.batch, 3, common.SIDE, common.SIDE))
    return lambda pictures: buffer[:len(pictures)].copy_(pictures.permute(0, 3, 1, 2)).div_(255)


def mount_versions(options):
    return {"pipefs": common.run([options.pipefs, "version"]).split()[1]}


versions = common.torch_versions
