"""Parts of networks for phones: convolution, batch norm, ReLU6, and the inverted residual (MobileNetV2)."""

from __future__ import annotations

from torch import Tensor, nn

from everbit.nn.windows import SamePad2d
from everbit.zoo.birealnet import Add
from everbit.zoo.stem import scaled

DIVISOR = 8


def scaled_in_eights(filters: int, width: float) -> int:
    """Filters at a width multiplier: the nearest multiple of 8, or the next where that takes more than a tenth away."""
    exact = filters * width
    rounded = max(DIVISOR, scaled(filters, width / DIVISOR) * DIVISOR)
    return rounded if rounded >= 0.9 * exact else rounded + DIVISOR


def conv_norm(
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    same: bool = False,
    epsilon: float = 1e-5,
    relu: bool = True,
) -> nn.Sequential:
    """Convolution, batch norm, and ReLU6 where `relu`.

    Borders of kernel // 2 on each side; as TensorFlow pads where `same`, which differs at stride 2.
    """
    steps = nn.Sequential()
    own_border = not same or stride == 1
    if not own_border:
        steps.add_module("pad", SamePad2d(kernel, stride))
    border = kernel // 2 if own_border else 0
    steps.add_module("conv", nn.Conv2d(inputs, outputs, kernel, stride, border, groups=groups, bias=False))
    steps.add_module("bn", nn.BatchNorm2d(outputs, eps=epsilon))
    if relu:
        steps.add_module("relu", nn.ReLU6())
    return steps


class InvertedResidual(nn.Module):
    """1x1 to `expansion` times the channels, depthwise, 1x1 back without activation, and a shortcut where shapes agree.

    [N, in, H, W] -> [N, out, H/stride, W/stride]. At expansion 1 the first 1x1 is left out.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        expansion: int,
        stride: int,
        kernel: int = 3,
        same: bool = False,
        epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        inner = inputs * expansion
        self.expand = conv_norm(inputs, inner, 1, epsilon=epsilon) if expansion > 1 else nn.Identity()
        self.depthwise = conv_norm(inner, inner, kernel, stride, groups=inner, same=same, epsilon=epsilon)
        self.project = conv_norm(inner, outputs, 1, epsilon=epsilon, relu=False)
        self.add = Add() if stride == 1 and inputs == outputs else None

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.project(self.depthwise(self.expand(x)))
        return y if self.add is None else self.add(x, y)


def add_head(network: nn.Sequential, features: int, classes: int, dropout: float) -> None:
    """Give a network its global average pool, flatten, dropout and linear head."""
    network.add_module("pool", nn.AdaptiveAvgPool2d(1))
    network.add_module("flatten", nn.Flatten())
    network.add_module("dropout", nn.Dropout(dropout))
    network.add_module("head", nn.Linear(features, classes))
