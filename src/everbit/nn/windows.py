"""Windows as TensorFlow pads them, and the blur pool."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from everbit.errors import ConfigurationError


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Places before and after `size` ones, so that windows read ceil(size / stride) times; an odd one lies after."""
    total = max(0, (-(-size // stride) - 1) * stride + kernel - size)
    return total // 2, total - total // 2


def pad_same(x: Tensor, kernel: tuple[int, int], stride: int, value: float) -> Tensor:
    """x [N, C, H, W] with the borders of `same_padding`."""
    top, bottom = same_padding(x.shape[2], kernel[0], stride)
    left, right = same_padding(x.shape[3], kernel[1], stride)
    return functional.pad(x, [left, right, top, bottom], value=value)


class SamePad2d(nn.Module):
    """The borders that TensorFlow's "same" puts around [N, C, H, W], for the window of the layer behind it.

    That layer takes no padding of its own. value: of the border; 0, or -inf in front of a max pool.
    """

    def __init__(self, kernel_size: int, stride: int, value: float = 0.0) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.value = kernel_size, stride, value

    def forward(self, x: Tensor) -> Tensor:
        return pad_same(x, (self.kernel_size, self.kernel_size), self.stride, self.value)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, value={self.value}"


class BlurPool2d(nn.Module):
    """The binomial filter [1 2 1] x [1 2 1] / 16 on every channel, then every `stride`-th place; borders are 0.

    padding: on each side, 0, 1 or 2, or "same" as TensorFlow pads (QuickNet).
    """

    def __init__(self, stride: int = 2, padding: int | str = "same") -> None:
        super().__init__()
        if padding not in (0, 1, 2, "same"):
            raise ConfigurationError(f'padding is {padding!r}: a blur pool takes 0, 1, 2 or "same"')
        self.stride, self.padding = stride, padding

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(self.padding, str):
            padded = pad_same(x, (3, 3), self.stride, 0.0)
        else:
            padded = functional.pad(x, [self.padding] * 4)
        channels, row = x.shape[1], x.new_tensor([0.25, 0.5, 0.25])
        weight = torch.outer(row, row).expand(channels, 1, 3, 3)
        return functional.conv2d(padded, weight, stride=self.stride, groups=channels)

    def extra_repr(self) -> str:
        return f"stride={self.stride}, padding={self.padding!r}"
