# SPDX-License-Identifier: Apache-2.0
"""Pictures for the tutorial scripts, where those of PyTorch use torchvision: Fashion-MNIST of the Debian package
dataset-fashion-mnist, or drawn ones where it is not installed."""
import gzip
import os

import torch

FOLDER = "/usr/share/datasets/fashion-mnist"


def _read(name, skip):
    with gzip.open(os.path.join(FOLDER, name)) as file:
        file.read(skip)
        return torch.frombuffer(bytearray(file.read(28 * 28 * 2000)), dtype=torch.uint8)


class Pictures(torch.utils.data.TensorDataset):
    """The first 2000 pictures of 28 x 28, one channel, normalised, with labels from 0 to 9."""

    def __init__(self, train=True):
        part = "train" if train else "t10k"
        try:
            x = _read(f"{part}-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28).float() / 255
            y = _read(f"{part}-labels-idx1-ubyte.gz", 8).long()[:len(x)]
        except OSError:
            g = torch.Generator().manual_seed(3 + train)
            y = torch.randint(10, (2000,), generator=g)
            kinds = torch.rand(10, 1, 28, 28, generator=torch.Generator().manual_seed(0))
            x = kinds[y] + 0.5 * torch.rand(2000, 1, 28, 28, generator=g)
        super().__init__((x - 0.2860) / 0.3530, y)
