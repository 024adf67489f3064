"""First layers of networks, and how a width multiplier scales a number of filters."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from everbit.errors import ConfigurationError


def scaled(filters: int, width: float) -> int:
    """Filters at a width multiplier: the nearest whole number, at least 1."""
    return max(1, round(filters * width))


def _cifar(channels: int) -> nn.Sequential:
    """3x3 convolution, stride 1, batch norm; no activation: [N, 3, H, W] -> [N, C, H, W]."""
    stem = nn.Sequential()
    stem.add_module("conv", nn.Conv2d(3, channels, 3, padding=1, bias=False))
    stem.add_module("bn", nn.BatchNorm2d(channels))
    return stem


def _imagenet(channels: int) -> nn.Sequential:
    """7x7 convolution, stride 2, batch norm, max pool 3 stride 2: [N, 3, H, W] -> [N, C, H/4, W/4]."""
    stem = nn.Sequential()
    stem.add_module("conv", nn.Conv2d(3, channels, 7, stride=2, padding=3, bias=False))
    stem.add_module("bn", nn.BatchNorm2d(channels))
    stem.add_module("pool", nn.MaxPool2d(3, stride=2, padding=1))
    return stem


STEMS: dict[str, Callable[[int], nn.Sequential]] = {"cifar": _cifar, "imagenet": _imagenet}


STEM_STRIDES = {"cifar": 1, "imagenet": 2}
"""Stride of the first convolution of networks whose stems differ in nothing else."""


def stem_stride(name: str) -> int:
    """The stride of the stem of that name (a key of STEM_STRIDES)."""
    if name not in STEM_STRIDES:
        raise _unknown(name)
    return STEM_STRIDES[name]


def build_stem(name: str, channels: int) -> nn.Sequential:
    """The stem of that name (a key of STEMS) with `channels` output channels."""
    if name not in STEMS:
        raise _unknown(name)
    return STEMS[name](channels)


def _unknown(name: str) -> ConfigurationError:
    return ConfigurationError(f"unknown stem {name!r}: choose one of {', '.join(STEMS)}")
