"""How the images of a foreign network are normalized, as part of the network: everbit's input is images/127.5 - 1."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import torch
from torch import nn

NAME = "normalize"


@dataclass(frozen=True)
class Normalization:
    """(images / 255 - mean) / deviation, by channel."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]


IMAGENET = Normalization((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""What torchvision and the repositories that follow it use."""

LITE = Normalization((127 / 255,) * 3, (128 / 255,) * 3)
"""(images - 127) / 128, EfficientNet-Lite's."""


def normalize_input(network: nn.Module, normalization: Normalization) -> None:
    """Puts a batch norm without parameters, `stem.normalize`, in front of a network's stem.

    It stands in front of the first convolution's border, so that the border is 0 after normalization, as it was in
    training: folded into the convolution's weights, the border would be another gray.
    """
    stem = network.get_submodule("stem")
    norm = nn.BatchNorm2d(len(normalization.mean), eps=0.0, affine=False)
    assert norm.running_mean is not None and norm.running_var is not None
    norm.running_mean.copy_(torch.tensor(normalization.mean) * 2 - 1)
    norm.running_var.copy_((torch.tensor(normalization.deviation) * 2) ** 2)
    network.add_module("stem", nn.Sequential(OrderedDict([(NAME, norm), *stem.named_children()])))


@torch.no_grad()
def fold_normalization(network: nn.Module) -> bool:
    """Takes `stem.normalize` into the weights of the stem's convolution and the mean of the batch norm behind it.

    Exact but where the convolution reads its border, which is then mid-gray. False where there is nothing to fold.
    """
    stem = network.get_submodule("stem")
    parts = dict(stem.named_children())
    norm = parts.pop(NAME, None)
    if norm is None:
        return False
    assert isinstance(norm, nn.BatchNorm2d) and norm.running_mean is not None and norm.running_var is not None
    conv, following = stem.get_submodule("conv"), stem.get_submodule("bn")
    assert isinstance(conv, nn.Conv2d) and isinstance(following, nn.BatchNorm2d)
    assert following.running_mean is not None
    factor = norm.running_var.rsqrt().view(1, -1, 1, 1)
    conv.weight.mul_(factor)
    following.running_mean.add_((conv.weight * norm.running_mean.view(1, -1, 1, 1)).sum(dim=(1, 2, 3)))
    network.add_module("stem", nn.Sequential(OrderedDict(parts)))
    return True
