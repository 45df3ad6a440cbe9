PACKAGES = ("torchcodec",)


def decode_image(view):
    """TorchCodec `decode_image`"""
    from pathlib import Path
    from torchcodec.decoders import decode_image

    for path in sorted(Path(view).glob("*/*")):
        yield path, path.parent.name, decode_image(path).permute(1, 2, 0)
