PACKAGES = ("timm", "pillow")


def create_dataset(view):
    """timm `create_dataset`"""
    from timm.data import create_dataset

    data = create_dataset("", root=view)
    for i, (picture, label) in enumerate(data):
        yield data.filename(i, absolute=True), label, picture


def set_img_extensions(view):
    """timm, `set_img_extensions`"""
    from timm.data import create_dataset, set_img_extensions

    set_img_extensions((".jpg", ".jpeg", ".png", ".bmp", ".ppm"))
    data = create_dataset("", root=view)
    for i, (picture, label) in enumerate(data):
        yield data.filename(i, absolute=True), label, picture
