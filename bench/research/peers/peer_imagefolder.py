"""The control: the files as they are, torchvision's ImageFolder, PyTorch's DataLoader."""
import common

ROWS = [common.Row("imagefolder", "ImageFolder", prepared=False)]


def loader(where, row, options, seed):
    return common.imagefolder(where, options, seed)


versions = common.torch_versions
