"""The table of architectures."""

from __future__ import annotations

from typing import Protocol

from torch import nn

from everbit.errors import ConfigurationError
from everbit.zoo.birealnet import birealnet18
from everbit.zoo.reactnet import reactnet18
from everbit.zoo.vgg_small import vgg_small


class Builder(Protocol):
    def __call__(self, *, width: float, classes: int, stem: str) -> nn.Module: ...


BUILDERS: dict[str, Builder] = {"birealnet18": birealnet18, "reactnet18": reactnet18, "vgg_small": vgg_small}


def build(name: str, width: float = 1.0, classes: int = 10, stem: str = "cifar") -> nn.Module:
    """A new network: `name` from BUILDERS, `width` times its filters, logits of `classes`, stem "cifar" or "imagenet".

    Its input is float [N, 3, H, W], images/127.5 - 1. Raises ConfigurationError for an unknown name or option.
    """
    if name not in BUILDERS:
        raise ConfigurationError(f"unknown network {name!r}: choose one of {', '.join(BUILDERS)}")
    if classes < 1:
        raise ConfigurationError(f"classes is {classes}: a network needs at least 1")
    return BUILDERS[name](width=width, classes=classes, stem=stem)
