"""FFCV: one .beton file, a pipeline that Numba compiles, threads instead of processes."""
import os

import common

OWN = "own decoder and crop; compiled by a batch that is not counted"
AREA = "OpenCV, area"
ROWS = [
    common.Row("ffcv-raw", "FFCV, raw", resize=AREA, note=f"pixels stored; {OWN}"),
    common.Row("ffcv-jpeg", "FFCV, JPEG 90", same=False, resize=AREA, note=f"all pictures encoded again, as JPEG of quality 90; {OWN}"),
]
IMPORTS = ["ffcv", "ffcv.loader"]


def prepare(src, dst, row, options):
    from ffcv.fields import IntField, RGBImageField
    from ffcv.writer import DatasetWriter
    from PIL import Image
    from torchvision import datasets
    dataset = datasets.ImageFolder(src)
    largest = 0
    for path, _ in dataset.samples:
        with Image.open(path) as image:
            largest = max(largest, 3 * image.width * image.height)
    page = 1 << max(22, (largest - 1).bit_length())  # a sample has to fit a page
    image = RGBImageField(write_mode="raw" if row.id == "ffcv-raw" else "jpg", jpeg_quality=90)
    DatasetWriter(os.path.join(dst, "pictures.beton"), {"image": image, "label": IntField()}, page_size=page,
                  num_workers=options.workers).from_indexed_dataset(dataset)


def loader(where, row, options, seed):
    import numpy as np
    from ffcv.fields.basics import IntDecoder
    from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, ToTensor, ToTorchImage
    last = [ToTensor()] if options.kind == "uint8" else [
        NormalizeImage(np.zeros(3), np.full(3, 255.0), np.float32), ToTensor(), ToTorchImage(channels_last=False)]
    built = Loader(
        os.path.join(where, "pictures.beton"), batch_size=options.batch, num_workers=options.workers, os_cache=True,
        order=OrderOption.RANDOM, seed=seed, drop_last=False,
        pipelines={
            "image": [RandomResizedCropRGBImageDecoder((common.SIDE, common.SIDE)), RandomHorizontalFlip(), *last],
            "label": [IntDecoder(), ToTensor()],
        })
    # What Numba compiles belongs to the loader: it reads one batch before all else.
    order = built.traversal_order
    every, order.indices = order.indices, order.indices[:options.batch]
    for _ in built:
        pass
    order.indices = every
    # The kernel drops no pages that are mapped.
    built.memory_manager.context.mmap = None
    return built


def versions():
    import importlib.metadata

    import numba
    return {"ffcv": importlib.metadata.version("ffcv"), "numba": numba.__version__, **common.torch_versions()}
