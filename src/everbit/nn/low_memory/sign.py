"""The sign with its gradient's mask in one bit a value."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from everbit.nn.binary import Sign
from everbit.nn.low_memory.packed_signs import PackedSigns
from everbit.nn.low_memory.rows import as_rows, like, pack_rows, remembered_signs, tiles, unpack


class _Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, signs: Tensor | None, clip: float) -> Tensor:
        rows = as_rows(x)
        ctx.save_for_backward(pack_rows(rows, lambda values: values.abs() <= clip))
        bits = pack_rows(rows, lambda values: values >= 0) if signs is None else signs
        return PackedSigns(bits, x.shape, x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return masked(gradient, ctx.saved_tensors[0]), None, None


def masked(gradient: Tensor, mask: Tensor) -> Tensor:
    """The gradient where the mask's bit is 1, else 0."""
    result = like(gradient)
    rows, source = as_rows(result), as_rows(gradient)
    for tile in tiles(*rows.shape):
        torch.mul(source[tile], unpack(mask[tile], rows.shape[1]), out=rows[tile])
    return result


class LowMemorySign(Sign):
    """sign(x), [N, C, ...], as PackedSigns; the gradient passes where |x| <= clip and is 0 elsewhere (METHOD 3, W23).

    "approx_sign" has this gradient too: its slope needs x, of which one bit is left. The area under both is the same.
    """

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = _Sign.apply(x, remembered_signs(x), self.clip)  # type: ignore[no-untyped-call]
        return result
