"""The controls: the files as they are, torchvision's ImageFolder, PyTorch's DataLoader."""
import common

CENTRE = "imagefolder-centre"
ROWS = [
    common.Row(common.CONTROL, "ImageFolder", prepared=False),
    common.Row(CENTRE, "ImageFolder, Resize(256), CenterCrop(224)", prepared=False, control=CENTRE,
               note="nothing is drawn; it and what is compared with it say what stored results gain"),
]


def loader(where, row, options, seed):
    return common.imagefolder(where, options, seed, random=row.id != CENTRE)


versions = common.torch_versions
