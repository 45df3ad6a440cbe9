PACKAGES = ("torchvision",)


def decode_image(view):
    """torchvision.io `decode_image`"""
    from pathlib import Path
    from torchvision.io import decode_image

    for path in sorted(Path(view).glob("*/*")):
        yield path, path.parent.name, decode_image(path, mode="RGB").permute(1, 2, 0)
