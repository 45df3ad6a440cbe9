"""DALI on the CPU: its reader, decoder and operators, threads of C++."""
import common

ROWS = [common.Row("dali", "DALI, CPU", prepared=False,
                   note="decodes only what it crops, with its own decoder and resizer; shuffled in a buffer of 1,024 samples")]
IMPORTS = ["nvidia.dali"]


def loader(where, row, options, seed):
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=options.batch, num_threads=options.workers, device_id=None, seed=seed, prefetch_queue_depth=2)
    def pipeline():
        files, labels = fn.readers.file(file_root=where, random_shuffle=True, initial_fill=1024, name="reader")
        images = fn.decoders.image_random_crop(files, device="cpu", output_type=types.RGB)
        images = fn.resize(images, size=[common.SIDE, common.SIDE], interp_type=types.INTERP_TRIANGULAR)
        images = fn.crop_mirror_normalize(images, dtype=types.FLOAT, output_layout="CHW", mirror=fn.random.coin_flip(),
                                          mean=[0.0] * 3, std=[255.0] * 3)
        return images, labels

    built = pipeline()
    built.build()
    return Batches(built, options.batch)


class Batches:
    """What DALI's iterator for PyTorch does, which wants a newer PyTorch than Debian 12's:
    a copy of each batch as a tensor, the last one cut to what is left of the epoch."""

    def __init__(self, pipeline, batch):
        self.pipeline, self.batch = pipeline, batch

    def __iter__(self):
        import numpy as np
        import torch
        left = self.pipeline.reader_meta("reader")["epoch_size"]
        while left > 0:
            images, labels = (torch.from_numpy(np.array(o.as_tensor())) for o in self.pipeline.run())
            yield images[:left], labels[:left]
            left -= self.batch


def versions():
    import nvidia.dali
    return {"dali": nvidia.dali.__version__, **common.torch_versions()}
