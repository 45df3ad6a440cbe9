"""WebDataset: tar shards, read one after another, shuffled in a buffer."""
import os
import random

import common

ROWS = [common.Row("webdataset", "WebDataset", named=True,
                   note="order: shards shuffled, then a buffer of 1,000 samples; Pillow decodes; the files as they are in tar shards")]
IMPORTS = ["webdataset"]


def prepare(src, dst, row, options):
    import webdataset as wds
    found, _ = common.samples(src)
    random.Random(0).shuffle(found)  # classes have to be mixed before they lie in shards
    each = min(10000, max(1, -(-len(found) // (4 * options.workers))))
    with wds.ShardWriter(os.path.join(dst, "%06d.tar"), maxcount=each, verbose=0) as to:
        for i, (path, label) in enumerate(found):
            with open(path, "rb") as f:
                to.write({"__key__": f"{i:08d}", extension(path): f.read(), "cls": label})


def extension(path):
    return os.path.splitext(path)[1][1:].lower()


def loader(where, row, options, seed):
    import torch
    import webdataset as wds
    torch.manual_seed(seed)
    shards = sorted(os.path.join(where, f) for f in os.listdir(where) if f.endswith(".tar"))
    dataset = (
        wds.WebDataset(shards, shardshuffle=len(shards), seed=seed, empty_check=False)
        .shuffle(1000).decode("pil").to_tuple("jpg;jpeg;png", "cls")
        .map_tuple(common.standard(options), int).batched(options.batch))
    return wds.WebLoader(dataset, batch_size=None, num_workers=options.workers, persistent_workers=True)


def versions():
    import webdataset
    return {"webdataset": webdataset.__version__, **common.torch_versions()}
