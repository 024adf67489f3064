"""The table of architectures."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from everbit.errors import ConfigurationError
from everbit.zoo.binarynet import binarynet
from everbit.zoo.birealnet import birealnet18
from everbit.zoo.cnv import cnv
from everbit.zoo.cuts import CLASSES, require_network
from everbit.zoo.efficientnet_lite import efficientnet_lite0
from everbit.zoo.mlp import mlp
from everbit.zoo.mobilenet_v1 import mobilenet_v1
from everbit.zoo.mobilenet_v2 import mobilenet_v2
from everbit.zoo.quicknet import quicknet, quicknet_large, quicknet_small
from everbit.zoo.reactnet import reactnet18
from everbit.zoo.reactnet_a import reactnet_a
from everbit.zoo.vgg_small import vgg_small

BUILDERS: dict[str, Callable[..., nn.Module]] = {
    "quicknet": quicknet,
    "quicknet_small": quicknet_small,
    "quicknet_large": quicknet_large,
    "birealnet18": birealnet18,
    "reactnet18": reactnet18,
    "reactnet_a": reactnet_a,
    "vgg_small": vgg_small,
    "binarynet": binarynet,
    "cnv": cnv,
    "mlp": mlp,
    "mobilenet_v1": mobilenet_v1,
    "mobilenet_v2": mobilenet_v2,
    "efficientnet_lite0": efficientnet_lite0,
}
"""Functions of `width` and `classes`, and of `stem` where a network has several."""

MOST_WIDTH = 16
"""Times the filters of the paper; weights grow with its square."""


def build(name: str, width: float = 1.0, classes: int | None = None, stem: str | None = None) -> nn.Module:
    """A new network: `name` from BUILDERS, `width` times its filters, logits of `classes`.

    stem: one of the network's, by default its first; classes: by default those of the images the stem is made for
    (`everbit.zoo.cuts`). The input is float [N, channels, H, W], images/127.5 - 1. Raises ConfigurationError for an
    unknown name or option.
    """
    network = require_network(name, stem)
    stem = stem or network.stem
    if not 0 < width <= MOST_WIDTH:
        raise ConfigurationError(f"width is {width:g}: give a multiplier above 0 and up to {MOST_WIDTH}, such as 0.5")
    classes = CLASSES[stem] if classes is None else classes
    if classes < 1:
        raise ConfigurationError(f"classes is {classes}: a network needs at least 1")
    options = {"stem": stem} if len(network.stems) > 1 else {}
    return BUILDERS[name](width=width, classes=classes, **options)
