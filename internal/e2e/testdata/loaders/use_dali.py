PACKAGES = ("nvidia-dali-cuda120", "nvidia-nvimgcodec-cu12")


def file_reader(view):
    """DALI `readers.file`, `decoders.image`"""
    from nvidia.dali import fn, pipeline_def

    @pipeline_def(batch_size=1, num_threads=2, device_id=None)
    def pipeline():
        files, labels = fn.readers.file(file_root=view, name="reader")
        pictures = fn.decoders.image(files, device="cpu")
        return pictures, labels, fn.get_property(files, key="source_info")

    pipe = pipeline()
    pipe.build()
    for _ in range(pipe.epoch_size("reader")):
        picture, label, path = pipe.run()
        yield path.as_array().tobytes().decode(), label.as_array()[0, 0], picture.as_array()[0]


def reader_npy(view):
    """DALI `readers.numpy`"""
    from glob import glob
    from nvidia.dali import fn, pipeline_def

    @pipeline_def(batch_size=1, num_threads=2, device_id=None)
    def pipeline():
        arrays = fn.readers.numpy(files=sorted(glob(view + "/*/*.npy")), name="reader")
        return arrays, fn.get_property(arrays, key="source_info")

    pipe = pipeline()
    pipe.build()
    for _ in range(pipe.epoch_size("reader")):
        array, path = pipe.run()
        path = path.as_array().tobytes().decode()
        yield path, path.split("/")[-2], array.as_array()[0]
