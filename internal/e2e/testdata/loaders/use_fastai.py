PACKAGES = ("fastai", "pillow")


def from_folder(view):
    """fastai `ImageDataLoaders.from_folder`"""
    from fastai.vision.all import ImageDataLoaders, Resize

    loaders = ImageDataLoaders.from_folder(view, valid_pct=0.2, item_tfms=Resize(224), bs=2, num_workers=0)
    for data in (loaders.train_ds, loaders.valid_ds):
        for path, (picture, label) in zip(data.items, data):
            yield path, label, picture
