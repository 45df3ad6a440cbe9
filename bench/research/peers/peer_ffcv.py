"""FFCV: one .beton file, a pipeline that Numba compiles, threads instead of processes."""
import os

import common

OWN = "own decoder and crop (OpenCV, area filter); compiled in an epoch that is not counted"
ROWS = [
    common.Row("ffcv-raw", "FFCV, raw", note=f"pixels stored; {OWN}"),
    common.Row("ffcv-jpeg", "FFCV, JPEG 90", same=False, note=f"all pictures encoded again, as JPEG of quality 90; {OWN}"),
]
IMPORTS = ["ffcv", "ffcv.loader"]
compiled = None


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
    """The same for all epochs: what Numba compiled belongs to it."""
    global compiled
    if compiled is None:
        compiled = build(where, options, seed)
        for _ in compiled:
            pass
        # The kernel drops no pages that are mapped.
        compiled.memory_manager.context.mmap = None
    return compiled


def build(where, options, seed):
    import numpy as np
    from ffcv.fields.basics import IntDecoder
    from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, ToTensor, ToTorchImage
    return Loader(
        os.path.join(where, "pictures.beton"), batch_size=options.batch, num_workers=options.workers, os_cache=True,
        order=OrderOption.RANDOM, seed=seed, drop_last=False,
        pipelines={
            "image": [RandomResizedCropRGBImageDecoder((common.SIDE, common.SIDE)), RandomHorizontalFlip(),
                      NormalizeImage(np.zeros(3), np.full(3, 255.0), np.float32), ToTensor(),
                      ToTorchImage(channels_last=False)],
            "label": [IntDecoder(), ToTensor()],
        })


def versions():
    import importlib.metadata

    import numba
    return {"ffcv": importlib.metadata.version("ffcv"), "numba": numba.__version__, **common.torch_versions()}
