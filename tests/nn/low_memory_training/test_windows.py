from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from everbit.nn.low_memory_training import rows
from everbit.nn.low_memory_training.packed_signs import PackedSigns, sign_bits
from everbit.nn.low_memory_training.windows import (
    LowMemoryAvgPool2d,
    LowMemoryMaxPool2d,
    LowMemoryReLU,
    usual_windows,
)

WINDOWS = [
    (1, 1, 0),
    (2, 2, 0),
    (3, 1, 1),
    (3, 2, 1),
    (2, 3, 1),
    (3, 3, 0),
    (2, 1, 0),
    (5, 2, 2),
    (4, 5, 2),
    (16, 1, 8),
]
SHAPES = [(1, 1, 5, 5), (3, 65, 7, 6), (2, 3, 11, 8)]


def compare(module: nn.Module, plain: nn.Module, x: Tensor, tolerance: float = 0.0) -> None:
    """Outputs and gradients of both, in either layout of memory."""
    for layout in (torch.contiguous_format, torch.channels_last):
        here, there = (x.detach().clone(memory_format=layout).requires_grad_() for _ in range(2))
        expected, found = plain(there), module(here)
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
        gradient = torch.randint(-8, 9, expected.shape).to(x.dtype)
        expected.backward(gradient)
        found.backward(gradient)
        torch.testing.assert_close(here.grad, there.grad, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_max_pool_is_torch_s(window: tuple[int, int, int]) -> None:
    """Few different values: many are equal, and the first of the largest has the gradient, in every window anew."""
    for shape in SHAPES:
        if min(shape[2:]) + 2 * window[2] < window[0]:
            continue
        for x in (torch.randn(shape), torch.randint(-1, 2, shape).float(), torch.zeros(shape) - 3):
            compare(LowMemoryMaxPool2d(*window), nn.MaxPool2d(*window), x)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_average_pool_is_torch_s(window: tuple[int, int, int]) -> None:
    for shape in SHAPES:
        if min(shape[2:]) + 2 * window[2] >= window[0]:
            x = torch.randint(-4, 5, shape).float()
            compare(LowMemoryAvgPool2d(*window), nn.AvgPool2d(*window), x, 1e-6)


def test_pools_of_many_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "TILE", 200)
    x = torch.randint(-2, 3, (7, 3, 6, 6)).float()
    compare(LowMemoryMaxPool2d(3, 2, 1), nn.MaxPool2d(3, 2, 1), x)
    compare(LowMemoryAvgPool2d(2), nn.AvgPool2d(2), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_types(dtype: torch.dtype) -> None:
    x = torch.randint(-9, 10, (2, 5, 6, 6)).to(dtype)
    compare(LowMemoryMaxPool2d(2), nn.MaxPool2d(2), x)
    compare(LowMemoryAvgPool2d(2), nn.AvgPool2d(2), x)
    compare(LowMemoryReLU(), nn.ReLU(), x)


@pytest.mark.parametrize("shape", [(4, 3), (2, 65, 7), (2, 5, 4, 4)], ids=str)
def test_relu_is_torch_s(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    x.view(-1)[:3] = torch.tensor([0.0, -0.0, 1e-30])
    here, there = x.clone().requires_grad_(), x.clone().requires_grad_()
    gradient = torch.randn(shape)
    found, expected = LowMemoryReLU()(here), nn.ReLU()(there)
    found.backward(gradient)
    expected.backward(gradient)
    assert torch.equal(found, expected)
    assert torch.equal(here.grad, there.grad)


def test_pools_of_signs() -> None:
    x = torch.where(torch.randn(2, 65, 4, 4) >= 0, 1.0, -1.0)
    packed = PackedSigns(sign_bits(x), x.shape, x.dtype)
    assert torch.equal(LowMemoryMaxPool2d(2)(packed), nn.MaxPool2d(2)(x))
    assert torch.equal(LowMemoryAvgPool2d(2)(packed), nn.AvgPool2d(2)(x))


@pytest.mark.parametrize(
    ("module", "usual"),
    [
        (nn.ReLU(), True),
        (nn.MaxPool2d(3, (2, 2), (1, 1)), True),
        (nn.MaxPool2d(16), True),
        (nn.MaxPool2d(17), False),
        (nn.MaxPool2d((2, 3)), False),
        (nn.MaxPool2d(2, (1, 2)), False),
        (nn.MaxPool2d(2, dilation=2), False),
        (nn.MaxPool2d(2, ceil_mode=True), False),
        (nn.MaxPool2d(2, return_indices=True), False),
        (nn.AvgPool2d(28), True),
        (nn.AvgPool2d(3, 1, 1), True),
        (nn.AvgPool2d(3, 1, 0, count_include_pad=False), True),
        (nn.AvgPool2d(3, 1, 1, count_include_pad=False), False),
        (nn.AvgPool2d(2, ceil_mode=True), False),
        (nn.AvgPool2d(2, divisor_override=3), False),
    ],
    ids=str,
)
def test_which_windows_are_usual(module: nn.Module, usual: bool) -> None:
    assert usual_windows(module) is usual
