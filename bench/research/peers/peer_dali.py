"""DALI on the CPU: its reader, decoder and operators, threads of C++."""
import common

ROWS = [common.Row("dali", "DALI, CPU", prepared=False, resize="DALI, triangular",
                   note="decodes only what it crops, with its own decoder and resizer; shuffled in a buffer of 1,024 samples")]
IMPORTS = ["nvidia.dali"]


def loader(where, row, options, seed):
    from nvidia.dali import fn, pipeline_def, types
    from nvidia.dali.plugin.base_iterator import LastBatchPolicy
    from nvidia.dali.plugin.pytorch import DALIClassificationIterator
    last = {"dtype": types.UINT8, "output_layout": "HWC"} if options.kind == "uint8" else {
        "dtype": types.FLOAT, "output_layout": "CHW", "mean": [0.0] * 3, "std": [255.0] * 3}

    @pipeline_def(batch_size=options.batch, num_threads=options.workers, device_id=None, seed=seed, prefetch_queue_depth=2)
    def pipeline():
        files, labels = fn.readers.file(file_root=where, random_shuffle=True, initial_fill=1024, pad_last_batch=True, name="reader")
        images = fn.decoders.image_random_crop(files, device="cpu", output_type=types.RGB)
        images = fn.resize(images, size=[common.SIDE, common.SIDE], interp_type=types.INTERP_TRIANGULAR)
        return fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), **last), labels

    return Batches(DALIClassificationIterator(
        pipeline(), reader_name="reader", last_batch_policy=LastBatchPolicy.PARTIAL, auto_reset=True, prepare_first_batch=False))


class Batches:
    def __init__(self, iterator):
        self.iterator = iterator

    def __iter__(self):
        for batch, in self.iterator:
            yield batch["data"], batch["label"]


def versions():
    import nvidia.dali
    return {"dali": nvidia.dali.__version__, **common.torch_versions()}
