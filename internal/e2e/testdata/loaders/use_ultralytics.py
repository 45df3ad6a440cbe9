PACKAGES = ("ultralytics", "opencv-python")


def classify(view):
    """Ultralytics, classification"""
    import numpy as np
    from ultralytics.cfg import get_cfg
    from ultralytics.data.dataset import ClassificationDataset

    data = ClassificationDataset(view, get_cfg())
    data.torch_transforms = np.asarray
    for i, (path, *_) in enumerate(data.samples):
        yield path, data[i]["cls"], data[i]["img"]


def detect(view):
    """Ultralytics, detection"""
    from ultralytics.data.dataset import YOLODataset

    data = YOLODataset(img_path=view, data={"names": {0: "cat", 1: "dog", 2: "owl"}}, task="detect", imgsz=1024, augment=False)
    for i, path in enumerate(data.im_files):
        boxes = data.labels[i]["cls"]
        yield path, int(boxes[0, 0]) if len(boxes) else "no box", data.load_image(i)[0][..., ::-1]


def links(view):
    """Ultralytics, detection, cache kept"""
    import shutil
    from pathlib import Path
    from ultralytics.data.dataset import YOLODataset
    from ultralytics.data.utils import check_det_dataset

    here = Path.cwd()
    (here / "images").symlink_to(view)
    shutil.copytree(Path(view).parent / "labels", here / "labels")
    pictures = sorted((here / "images").glob("*/*"))
    (here / "train.txt").write_text("".join(f"./{p.relative_to(here)}\n" for p in pictures))
    (here / "data.yaml").write_text("{path: ., train: train.txt, val: train.txt, names: [cat, dog, owl]}")

    config = check_det_dataset(here / "data.yaml")
    data = YOLODataset(img_path=config["train"], data=config, task="detect", imgsz=1024, augment=False)
    assert list((here / "labels").glob("*.cache"))
    for i, path in enumerate(data.im_files):
        boxes = data.labels[i]["cls"]
        yield path, int(boxes[0, 0]) if len(boxes) else "no box", data.load_image(i)[0][..., ::-1]
