from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from everbit.errors import ConfigurationError
from everbit.nn import BinaryConv2d, BinaryLinear, BlurPool2d, SamePad2d
from everbit.nn.windows import same_padding


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "expected"),
    [
        (224, 3, 2, (0, 1)),
        (55, 3, 2, (1, 1)),
        (32, 3, 1, (1, 1)),
        (32, 2, 1, (0, 1)),
        (7, 1, 2, (0, 0)),
        (5, 2, 3, (0, 0)),
    ],
)
def test_same_padding_is_tensorflow_s(size: int, kernel: int, stride: int, expected: tuple[int, int]) -> None:
    """pad = max((ceil(size / stride) - 1) * stride + kernel - size, 0), the smaller half first."""
    assert same_padding(size, kernel, stride) == expected


def test_same_pad_is_the_border_of_the_window_behind_it() -> None:
    x = torch.randn(2, 3, 6, 7)
    padded = SamePad2d(3, 2, -1.0)(x)
    assert torch.equal(padded, functional.pad(x, [1, 1, 0, 1], value=-1.0))
    assert functional.max_pool2d(padded, 3, 2).shape[2:] == (3, 4)


@pytest.mark.parametrize(("padding", "border"), [("same", [0, 1, 0, 1]), (1, [1] * 4), (0, [0] * 4)])
def test_blur_pool_is_a_binomial_filter(padding: int | str, border: list[int]) -> None:
    x = torch.randn(2, 3, 8, 8)
    row = torch.tensor([1.0, 2.0, 1.0])
    weight = torch.outer(row, row).expand(3, 1, 3, 3) / 16
    expected = functional.conv2d(functional.pad(x, border), weight, stride=2, groups=3)
    torch.testing.assert_close(BlurPool2d(2, padding)(x), expected)


def test_a_binary_convolution_pads_as_tensorflow_does() -> None:
    layer = BinaryConv2d(3, 5, 3, 2, padding="same", pad_value=1, scale=False)
    x = torch.where(torch.rand(2, 3, 6, 8) < 0.5, -1.0, 1.0)
    expected = functional.conv2d(functional.pad(x, [0, 1, 0, 1], value=1.0), torch.sign(layer.weight), stride=2)
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize("scale", [False, True])
def test_a_binary_dense_layer_is_a_product_of_signs(scale: bool) -> None:
    layer = BinaryLinear(7, 4, scale=scale)
    x = torch.where(torch.rand(3, 7) < 0.5, -1.0, 1.0)
    expected = x @ torch.sign(layer.weight).T
    torch.testing.assert_close(layer(x), expected * layer.weight.abs().mean(1) if scale else expected)


def test_wrong_options_are_named() -> None:
    with pytest.raises(ConfigurationError, match="padding is 3"):
        BlurPool2d(2, 3)
    with pytest.raises(ConfigurationError, match="padding is 'valid'"):
        BinaryConv2d(1, 1, padding="valid")
