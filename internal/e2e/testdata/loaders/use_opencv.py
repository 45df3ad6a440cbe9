PACKAGES = ("opencv-python",)


def imread(view):
    """OpenCV `imread`"""
    import cv2
    from pathlib import Path

    for path in sorted(Path(view).glob("*/*")):
        picture = cv2.imread(str(path))
        if picture is None:
            raise ValueError(f"imread: cannot read {path}")
        yield path, path.parent.name, picture[..., ::-1]
