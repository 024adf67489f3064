"""ReAct-18: BiReal-18 with learned thresholds and learned activations (docs/method.md, section 3)."""

from __future__ import annotations

from torch import Tensor, nn

from everbit.nn.binary import BinaryConv2d, LearnedBias, RPReLU, Sign
from everbit.zoo.birealnet import Add, ResidualNet, build_downsample


class ReActBlock(nn.Module):
    """RPReLU(BN(bconv3x3(sign(x + b))) + shortcut(x)): [N, in, H, W] -> [N, out, H/stride, W/stride].

    V24 cuts at the sum, before the RPReLU: "stage4.block1.add".
    """

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.bias = LearnedBias(in_channels)
        self.sign = Sign("approx_sign")
        self.conv = BinaryConv2d(in_channels, out_channels, 3, stride, padding=1)
        self.bn = nn.BatchNorm2d(out_channels)
        self.downsample = build_downsample(in_channels, out_channels, stride)
        self.add = Add()
        self.activation = RPReLU(out_channels)

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        activated: Tensor = self.activation(self.add(self.bn(self.conv(self.sign(self.bias(x)))), shortcut))
        return activated


def reactnet18(width: float = 1.0, classes: int = 10, stem: str = "cifar") -> ResidualNet:
    """ReAct-18; 11,198,474 parameters (4 per batch-norm channel) at width 1, 10 classes, CIFAR stem."""
    return ResidualNet(ReActBlock, width, classes, stem)
