"""Reads the views of a mount in which bad samples are replaced: check_bad.py DIRECTORY..."""

import sys

from torchvision.datasets import ImageFolder

for root in sys.argv[1:]:
    data = ImageFolder(root)
    labels = [data[i][1] for i in range(len(data))]
    assert len(labels) == 240 and all(labels.count(k) == 40 for k in range(6)), (root, labels)
