"""Sign functions with estimated gradients, named as in larq. sign(0) = +1: a zero would make a net ternary."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def binarize(x: Tensor) -> Tensor:
    """Return +1 where x >= 0 (also for -0.0), else -1, in x's shape and dtype."""
    return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)


class _StraightThroughSign(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, clip: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.clip = clip
        return binarize(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return gradient * (x.abs() <= ctx.clip), None


class _ApproximateSign(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return binarize(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        scaled: Tensor = x.abs().mul_(-2).add_(2).clamp_(min=0).mul_(gradient)
        return scaled


def ste_sign(x: Tensor, clip: float = 1.0) -> Tensor:
    """sign(x); the gradient passes unchanged where |x| <= clip and is 0 elsewhere."""
    signs: Tensor = _StraightThroughSign.apply(x, clip)  # type: ignore[no-untyped-call]
    return signs


def approx_sign(x: Tensor) -> Tensor:
    """sign(x); the gradient is multiplied by 2 - 2|x| where |x| <= 1 and is 0 elsewhere (Bi-Real Net)."""
    signs: Tensor = _ApproximateSign.apply(x)  # type: ignore[no-untyped-call]
    return signs


ESTIMATORS = {"ste_sign": ste_sign, "approx_sign": approx_sign}
