#!/usr/bin/env python3
"""Judge what loaders find in the views of a mount, by what docs/generated/loaders.md says.

usage: check.py [--venvs DIR [--update]] [--only NAME] DATASET MNT PACKED

DATASET is what dataset.py makes, MNT a mount of it, PACKED a mount of a store of it that has mix.
Each row of each loader (a function of use_NAME.py) reads each kind of file of each view, and is
judged by what the same row reads from plain files. With --venvs loaders run in the virtual
environments there; without it torchvision runs, as it is installed. Prints what differs from the
page and exits 1 if something does; --update writes the page.
"""
import argparse
import importlib.util
import inspect
import os
import shutil
import signal
import sys
import tempfile

import numpy as np
from PIL import Image

import page
from process import HERE, Loader

# Scripts, and the environments that they run in.
LOADERS = {
    "use_torchvision.py": "torch", "use_torchvision_io.py": "torch", "use_torchcodec.py": "torch", "use_timm.py": "torch",
    "use_keras.py": "tensorflow", "use_tfdata.py": "tensorflow", "use_dali.py": "dali",
    "use_opencv.py": "torch", "use_ultralytics.py": "torch", "use_huggingface.py": "torch", "use_fastai.py": "torch", "use_webdataset.py": "torch",
}


def rows_of(script):
    """The rows of a loader: the functions of its script, in their order."""
    spec = importlib.util.spec_from_file_location("loader", os.path.join(HERE, script))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [f for f in vars(module).values() if inspect.isfunction(f)]


def samples_of(images):
    return sorted(f"{c}/{name}" for c in os.listdir(images) for name in os.listdir(os.path.join(images, c)))


def sample_of(name, samples):
    """The sample that a view lists under a name: its own, or with the view's extension."""
    stem = os.path.splitext(name)[0]
    by_stem = [s for s in samples if os.path.splitext(s)[0] == stem]
    return name if name in samples else stem if stem in samples else by_stem[0] if len(by_stem) == 1 else name


def write_decoded(view, plain, samples, to):
    """Writes what Pillow decodes from a view, as PNG files with the samples' names and EXIF, and the boxes."""
    for name in samples_of(os.path.join(view, "images")):
        sample = sample_of(name, samples)
        for sub in "images", "labels":
            os.makedirs(os.path.join(to, sub, os.path.dirname(sample)), exist_ok=True)
        with Image.open(os.path.join(view, "images", name)) as image, Image.open(os.path.join(plain, "images", sample)) as source:
            rgb = image.convert("RGB") if image.mode == "CMYK" else image  # which PNG has not
            rgb.save(os.path.join(to, "images", sample + ".png"), exif=source.getexif())
        shutil.copy(os.path.join(view, "labels", os.path.splitext(sample)[0] + ".txt"), os.path.join(to, "labels", sample + ".txt"))


def arrays_of(images, samples):
    """What npy has to hold: what Pillow makes of a file, and RGB for JPEG files."""
    arrays = {}
    for name in samples:
        with Image.open(os.path.join(images, name)) as image:
            arrays[name] = np.asarray(image.convert("RGB") if image.format == "JPEG" else image)
    return arrays


def difference(a, b):
    """The largest difference of two pictures, of 255; infinite if they are not of one shape."""
    if a is None or b is None or a.shape != b.shape or a.dtype.kind not in "uif":
        return float("inf")
    return float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max())


def is_mix(mix):
    """Whether some of the files are BMP files, and others are not."""
    heads = set()
    for directory, _, files in os.walk(mix):
        for name in files:
            with open(os.path.join(directory, name), "rb") as f:
                heads.add(f.read(2) == b"BM")
    return heads == {True, False}


class Judge:
    """Knows what loaders have to find, and compares."""

    def __init__(self, args, work):
        self.mounts, self.trees = (args.mnt, args.packed), os.path.join(work, "trees")
        self.kinds = [k for k in page.KINDS if os.path.isdir(os.path.join(args.dataset, k))]
        self.samples = {k: samples_of(os.path.join(args.dataset, k, "images")) for k in self.kinds}
        shutil.copytree(args.dataset, os.path.join(self.trees, "plain"))
        for view in sorted({like(view) for view in page.SAME + page.OTHER}):
            for kind in self.kinds:
                write_decoded(os.path.join(args.mnt, view, kind), os.path.join(args.dataset, kind), self.samples[kind], os.path.join(self.trees, view, kind))
        self.references = {}

    def kinds_of(self, view):
        """Those that are there: the store has no photographs, so that the same files are BMP files
        in mix wherever this runs."""
        return [k for k in self.kinds if view != "mix" or k != "photographs"]

    def begin(self, loader, work):
        """What a loader changes in plain files, and some do, is no other one's business."""
        self.loader, self.own = loader, os.path.join(work, loader.script)
        shutil.copytree(self.trees, self.own)

    def read(self, row, images, kind):
        """The labels and pictures that a row finds, by sample, what else it finds, and its error."""
        found, error = self.loader.read(row, images)
        named = [(sample_of(name, self.samples[kind]), label, array) for name, label, array in found]
        labels, arrays = {n: label for n, label, _ in named}, {n: array for n, _, array in named}
        odd = len(named) - len(arrays) + len(set(arrays) - set(self.samples[kind]))
        return labels, arrays, odd, error

    def reference(self, row, tree, kind):
        key = self.loader.script, row, tree, kind
        if key not in self.references:
            self.references[key] = self.read(row, os.path.join(self.own, tree, kind, "images"), kind)[1]
        return self.references[key]

    def outcome(self, row, view, kind):
        """What a row makes of one kind of files in a view, as page.Outcome."""
        images = os.path.join(self.mounts[view == "mix"], view, kind, "images")
        samples = self.samples[kind]
        classes = sorted({s.split("/")[0] for s in samples})
        labels, arrays, odd, error = self.read(row, images, kind)
        wrong = sum(label not in (classes.index(name.split("/")[0]), name.split("/")[0]) for name, label in labels.items())
        if view == "npy":
            wants = [arrays_of(os.path.join(self.trees, "plain", kind, "images"), samples)]
        else:
            trees = ("plain", like(view)) if view in page.SAME else (like(view),)
            wants = [self.reference(row, tree, kind) for tree in trees]
        differences = [[difference(array, want.get(name)) for want in wants] for name, array in arrays.items()]
        return page.Outcome(
            found=len(arrays), of=len(samples), odd=odd, wrong=wrong, error=(error or "").replace(os.path.dirname(images), "VIEW"),
            plain=max((d[0] for d in differences), default=0), best=max((min(d) for d in differences), default=0))


def like(view):
    """The view that has the same pixels, and the dataset's own names."""
    return "original" if view in page.SAME else view.removesuffix("-own")


def main():
    parser = argparse.ArgumentParser(usage=__doc__.splitlines()[2])
    parser.add_argument("--venvs", type=os.path.abspath)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--only", default="")
    for name in "dataset", "mnt", "packed":
        parser.add_argument(name, type=os.path.abspath)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and end the loader's process
    if not is_mix(os.path.join(args.packed, "mix") + "/"):
        sys.exit("mix shows either no BMP files, or no others")
    table = page.Table()
    with tempfile.TemporaryDirectory(prefix="pipefs-loaders.") as work:
        judge = Judge(args, work)
        for script, venv in LOADERS.items():
            if args.only not in script or not args.venvs and script != "use_torchvision.py":
                continue
            print(script, file=sys.stderr, flush=True)
            python = os.path.join(args.venvs, venv, "bin", "python") if args.venvs else sys.executable
            with Loader(script, python, work) as loader:
                judge.begin(loader, work)
                for row in rows_of(script):
                    views = ["npy"] if row.__name__.endswith("_npy") else page.SAME + page.OTHER
                    for view in views:
                        for kind in judge.kinds_of(view):
                            table.add(row.__doc__, view, kind, judge.outcome(row.__name__, view, kind))
                table.versions.update(loader.versions)
    return page.finish(table, update=args.update, exact=bool(args.venvs), whole=bool(args.venvs) and not args.only)


if __name__ == "__main__":
    sys.exit(main())
