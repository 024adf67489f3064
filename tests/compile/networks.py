"""Small networks in the style of those that everbit compiles, one for each kind of layer in its place."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from everbit.nn import BinaryConv2d, BinaryLinear, BlurPool2d, SamePad2d, Sign


def _convolution(channels: int, filters: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """Convolution, batch norm, ReLU6."""
    return nn.Sequential(
        nn.Conv2d(channels, filters, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(filters),
        nn.ReLU6(),
    )


class InvertedResidual(nn.Module):
    """1x1, depthwise 3x3, 1x1 without activation, and a shortcut (MobileNetV2)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.expand = _convolution(channels, 2 * channels, 1)
        self.depthwise = _convolution(2 * channels, 2 * channels, 3, 1, 2 * channels)
        self.project = nn.Sequential(nn.Conv2d(2 * channels, channels, 1, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.project(self.depthwise(self.expand(x)))


class QuickBlock(nn.Module):
    """x + BN(ReLU(binary 3x3(sign x))), borders of +1 (QuickNet)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.sign = Sign("ste_sign")
        self.conv = BinaryConv2d(channels, channels, 3, padding="same", pad_value=1)
        self.relu = nn.ReLU()
        self.bn = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bn(self.relu(self.conv(self.sign(x))))


class Concatenation(nn.Module):
    """Three branches side by side."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = _convolution(channels, 5, 1), _convolution(channels, 8, 3, groups=2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.first(x), x, self.second(x)], dim=1)


def _quicknet() -> nn.Sequential:
    stem = nn.Sequential(
        SamePad2d(3, 2),
        nn.Conv2d(3, 8, 3, 2, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        SamePad2d(3, 2),
        nn.Conv2d(8, 8, 3, 2, groups=8, bias=False),
        nn.BatchNorm2d(8),
        nn.Conv2d(8, 16, 1, bias=False),
        nn.BatchNorm2d(16),
    )
    transition = nn.Sequential(
        nn.ReLU(), nn.MaxPool2d(2, 1), BlurPool2d(2), nn.Conv2d(16, 24, 1, bias=False), nn.BatchNorm2d(24)
    )
    return nn.Sequential(stem, QuickBlock(16), transition, QuickBlock(24), nn.ReLU(), nn.AdaptiveAvgPool2d(1))


def _mobilenet() -> nn.Sequential:
    blocks = [InvertedResidual(12), InvertedResidual(12)]
    return nn.Sequential(_convolution(3, 12, 3, 2), *blocks, _convolution(12, 20, 1), nn.AdaptiveAvgPool2d(1))


def _binarynet() -> nn.Sequential:
    def conv(channels: int, filters: int) -> list[nn.Module]:
        return [BinaryConv2d(channels, filters), nn.MaxPool2d(4), nn.BatchNorm2d(filters), nn.Hardtanh()]

    first = nn.Sequential(*conv(3, 9))
    second = nn.Sequential(Sign("ste_sign"), *conv(9, 5))
    dense = nn.Sequential(Sign("ste_sign"), nn.Flatten(), BinaryLinear(20, 30), nn.BatchNorm1d(30), nn.Hardtanh())
    last = nn.Sequential(Sign("ste_sign"), BinaryLinear(30, 70), nn.BatchNorm1d(70))
    return nn.Sequential(first, second, dense, last)


def _dense() -> nn.Sequential:
    dense = nn.Sequential(nn.Flatten(), nn.Linear(6 * 16, 40), nn.BatchNorm1d(40), nn.ReLU())
    return nn.Sequential(_convolution(3, 6, 3, 2), nn.AvgPool2d(3, 4, 1, count_include_pad=False), dense)


def _mixed() -> nn.Sequential:
    pools = nn.Sequential(nn.ZeroPad2d((1, 0, 0, 1)), nn.AvgPool2d(3, 2), nn.MaxPool2d(3, 2, ceil_mode=True))
    return nn.Sequential(_convolution(3, 6, 3, 2), pools, Concatenation(6), nn.AdaptiveMaxPool2d(1))


NETWORKS: dict[str, tuple[Callable[[], nn.Sequential], tuple[str, ...]]] = {
    "quicknet": (_quicknet, ("0", "1", "2")),
    "mobilenet": (_mobilenet, ("0", "1", "2")),
    "binarynet": (_binarynet, ("0", "1")),
    "dense": (_dense, ("0", "1")),
    "mixed": (_mixed, ("0", "1", "2")),
}
"""Networks that return features, and where they can be cut."""


class WithHead(nn.Module):
    """A body and a linear head on its features."""

    def __init__(self, body: nn.Sequential) -> None:
        super().__init__()
        self.body, self.flatten = body, nn.Flatten()
        with torch.no_grad():
            features = self.flatten(body.eval()(torch.zeros(1, 3, 32, 32))).shape[1]
        self.head = nn.Linear(features, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.flatten(self.body(x)))
