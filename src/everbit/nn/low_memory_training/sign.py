"""The sign with its gradient's mask in one bit a value."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from everbit.nn.binary import Sign
from everbit.nn.low_memory_training.packed_signs import PackedSigns
from everbit.nn.low_memory_training.rows import as_rows, like, pack_rows, remembered_signs, tiles, unpack


class _Sign(torch.autograd.Function):
    """sign(x). Keeps the mask |x| <= clip as bits, or x itself where its slope is wanted."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, signs: Tensor | None, clip: float, keeps_slope: bool) -> Tensor:
        rows = as_rows(x)
        ctx.save_for_backward(x if keeps_slope else pack_rows(rows, lambda values: values.abs() <= clip))
        ctx.keeps_slope = keeps_slope
        bits = pack_rows(rows, lambda values: values >= 0) if signs is None else signs
        return PackedSigns(bits, x.shape, x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (kept,) = ctx.saved_tensors
        return sloped(gradient, kept) if ctx.keeps_slope else masked(gradient, kept), None, None, None


def masked(gradient: Tensor, mask: Tensor) -> Tensor:
    """The gradient where the mask's bit is 1, else 0."""
    result = like(gradient)
    rows, source = as_rows(result), as_rows(gradient)
    for tile in tiles(*rows.shape):
        torch.mul(source[tile], unpack(mask[tile], rows.shape[1]), out=rows[tile])
    return result


def sloped(gradient: Tensor, x: Tensor) -> Tensor:
    """The gradient times 2 - 2|x| where |x| <= 1, else 0 (Bi-Real Net)."""
    result = like(gradient)
    rows, source, at = as_rows(result), as_rows(gradient), as_rows(x)
    for tile in tiles(*rows.shape):
        rows[tile] = at[tile].abs().mul_(-2).add_(2).clamp_(min=0).mul_(source[tile])
    return result


class LowMemorySign(Sign):
    """sign(x), [N, C, ...], as PackedSigns; the gradient passes where |x| <= clip and is 0 elsewhere (W23, section 3).

    keeps_slope: "approx_sign" with its own gradient, which needs x. Without it, it has this gradient too: the area
    under both is the same.
    """

    keeps_slope: bool

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = _Sign.apply(x, remembered_signs(x), self.clip, self.keeps_slope)  # type: ignore[no-untyped-call]
        return result
