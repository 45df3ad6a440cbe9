#!/usr/bin/env python3
"""Judge what loaders find in the views of a mount, by what they find in the dataset.

usage: check_loaders.py DATASET MNT LOADER...

DATASET and the views hold pictures of one size as images/CLASS/NAME, and boxes as
labels/CLASS/STEM.txt. A loader has to find every sample in each of the views: the pixels
that Pillow finds in the dataset where the view has a BMP file, and those that it finds
there itself where the view has the dataset's own file. Prints each difference and exits
1 if there is one; prints counts otherwise.
"""
import contextlib
import os
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["YOLO_VERBOSE"] = "False"
settings = tempfile.TemporaryDirectory(prefix="pipefs-yolo.")  # removed at exit
os.environ["YOLO_CONFIG_DIR"] = settings.name
import numpy as np
from PIL import Image

VIEWS = ("mix", "auto", "bmp-own", "original")
dataset, mnt, *loaders = sys.argv[1:]
problems = []
checked = 0


def check(ok, *what):
    global checked
    checked += 1
    if not ok:
        problems.append(" ".join(map(str, what)))


def pillow(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


# Each loader yields the paths of its samples, with their pixels in RGB.


def imagefolder(top):
    """torchvision"""
    from torchvision.datasets import ImageFolder

    data = ImageFolder(os.path.join(top, "images"))
    for i, (path, _) in enumerate(data.samples):
        yield path, np.asarray(data[i][0])


def timm(top):
    """timm"""
    from timm.data import ImageDataset

    data = ImageDataset(os.path.join(top, "images"))
    for i in range(len(data)):
        yield data.filename(i, absolute=True), np.asarray(data[i][0])


def keras(top):
    """keras"""
    from keras.utils import image_dataset_from_directory

    directory = os.path.join(top, "images")
    data = image_dataset_from_directory(directory, batch_size=1, shuffle=False, image_size=size, interpolation="nearest", verbose=False)
    for path, (pixels, _) in zip(data.file_paths, data):
        yield path, np.asarray(pixels)[0].astype(np.uint8)


def ultralytics_classify(top):
    """ultralytics"""
    from ultralytics.cfg import get_cfg
    from ultralytics.data.dataset import ClassificationDataset

    data = ClassificationDataset(os.path.join(top, "images"), get_cfg(overrides={"imgsz": max(size)}))
    data.torch_transforms = np.asarray
    for i, (path, *_) in enumerate(data.samples):
        yield path, data[i]["img"]


def ultralytics_detect(top):
    """ultralytics"""
    from ultralytics.data.dataset import YOLODataset

    classes = sorted(os.listdir(os.path.join(top, "labels")))
    data = YOLODataset(
        img_path=os.path.join(top, "images"), data={"names": dict(enumerate(classes)), "nc": len(classes)},
        task="detect", augment=False, imgsz=max(size), batch_size=1,
    )
    for i, path in enumerate(data.im_files):
        check(len(data.labels[i]["bboxes"]) == 1, path, "has no box")
        pixels, _, _ = data.load_image(i)
        yield path, pixels[..., ::-1]


LOADERS = {
    "ImageFolder": [imagefolder], "timm": [timm], "Keras": [keras],
    "Ultralytics": [ultralytics_classify, ultralytics_detect],
}


def found(loader, top):
    """What a loader finds, by the name below images."""
    samples = {}
    # What loaders print is no finding.
    with contextlib.redirect_stdout(sys.stderr):
        for path, pixels in loader(top):
            name = os.path.relpath(path, os.path.join(top, "images"))
            check(name not in samples, path, "is found twice")
            samples[name] = pixels
    return samples


def samples_of(top):
    names = []
    for directory, _, files in os.walk(os.path.join(top, "images")):
        names += [os.path.relpath(os.path.join(directory, f), os.path.join(top, "images")) for f in files if not f.endswith(".json")]
    return sorted(names)


names = samples_of(dataset)
truth = {name: pillow(os.path.join(dataset, "images", name)) for name in names}
size = next(iter(truth.values())).shape[:2]
rows = []
for loader in (f for name in loaders for f in LOADERS[name]):
    want = found(loader, dataset)
    check(sorted(want) == names, loader.__name__, "finds", len(want), "of", len(names), "samples in the dataset")
    for view in VIEWS:
        top = os.path.join(mnt, view)
        got = found(loader, top)
        check(sorted(got) == names, loader.__name__, view, "finds", len(got), "of", len(names), "samples")
        bmp = 0
        for name in set(got) & set(want):
            with open(os.path.join(top, "images", name), "rb") as f:
                raw = f.read(2) == b"BM"
            bmp += raw
            expected = truth[name] if raw else want[name]
            check(np.array_equal(got[name], expected), loader.__name__, view, name, "has other pixels")
        check(bmp == {"mix": bmp, "original": 0}.get(view, len(names)), view, "has", bmp, "BMP files")
        check(view != "mix" or 0 < bmp < len(names), view, "has", bmp, "BMP files and is no mix")
        module = sys.modules[loader.__doc__]
        rows.append(f"{loader.__name__} {module.__version__}, {view}: {len(got)} samples, {bmp} of them BMP")

for problem in problems[:40]:
    print(problem)
for row in rows:
    print(row)
print(f"{len(names)} samples, {checked} checks, {len(problems)} problems")
sys.exit(bool(problems) or checked == 0)
