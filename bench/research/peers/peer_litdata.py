"""LitData: samples in binary chunks of 64 MB, streamed."""
import os

import common

ROWS = [common.Row("litdata", "LitData", named=True, note="the files' bytes in chunks; Pillow decodes")]
IMPORTS = ["litdata"]


def read(sample):
    path, label = sample
    with open(path, "rb") as f:
        return {"image": f.read(), "label": label}


def prepare(src, dst, row, options):
    os.environ["DATA_OPTIMIZER_CACHE_FOLDER"] = os.path.join(options.work, "chunks")
    os.environ["DATA_OPTIMIZER_DATA_CACHE_FOLDER"] = os.path.join(options.work, "data")
    import litdata
    found, _ = common.samples(src)
    litdata.optimize(fn=read, inputs=found, output_dir=os.path.join(dst, "chunks"), chunk_bytes="64MB",
                     num_workers=options.workers)


def loader(where, row, options, seed):
    import io

    import litdata
    from PIL import Image
    augment = common.standard(options)

    class Pictures(litdata.StreamingDataset):
        def __getitem__(self, index):
            sample = super().__getitem__(index)
            return augment(Image.open(io.BytesIO(sample["image"])).convert("RGB")), sample["label"]

    dataset = Pictures(os.path.join(where, "chunks"), shuffle=True, seed=seed)
    return litdata.StreamingDataLoader(dataset, batch_size=options.batch, num_workers=options.workers,
                                      persistent_workers=True)


def versions():
    import litdata
    return {"litdata": litdata.__version__, **common.torch_versions()}
