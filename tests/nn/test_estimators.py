from __future__ import annotations

import pytest
import torch

from everbit.nn import ESTIMATORS, approx_sign, ste_sign

POINTS = torch.tensor([-2.0, -1.25, -1.0, -0.6, -0.1, -0.0, 0.0, 0.1, 0.5, 1.0, 1.01, 3.0])


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_sign_is_plus_or_minus_one_and_plus_one_at_zero(name: str, dtype: torch.dtype) -> None:
    result = ESTIMATORS[name](POINTS.to(dtype))
    assert result.dtype == dtype
    assert result.tolist() == [-1.0] * 5 + [1.0] * 7


@pytest.mark.parametrize("clip", [1.0, 1.25])
def test_straight_through_gradient_passes_inside_the_clip(clip: float) -> None:
    x = POINTS.clone().requires_grad_()
    upstream = torch.linspace(-1, 1, len(POINTS))
    ste_sign(x, clip).backward(upstream)
    assert torch.equal(x.grad, torch.where(POINTS.abs() <= clip, upstream, torch.zeros(())))


def test_approximate_gradient_is_the_tent() -> None:
    x = POINTS.clone().requires_grad_()
    upstream = torch.linspace(-1, 1, len(POINTS))
    approx_sign(x).backward(upstream)
    tent = torch.where(POINTS.abs() <= 1, 2 - 2 * POINTS.abs(), torch.zeros(()))
    torch.testing.assert_close(x.grad, tent * upstream)
    assert torch.equal(x.detach(), POINTS)  # the backward pass works in place, never on its input
