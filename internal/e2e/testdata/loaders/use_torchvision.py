PACKAGES = ("torchvision", "pillow")


def imagefolder(view):
    """torchvision `ImageFolder`"""
    from torchvision.datasets import ImageFolder

    data = ImageFolder(view)
    for (path, _), (picture, label) in zip(data.samples, data):
        yield path, label, picture


def datasetfolder_npy(view):
    """torchvision `DatasetFolder`, `np.load`"""
    import numpy as np
    from torchvision.datasets import DatasetFolder

    data = DatasetFolder(view, loader=np.load, extensions=(".npy",))
    for (path, _), (array, label) in zip(data.samples, data):
        yield path, label, array
