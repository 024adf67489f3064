"""A tensor of two values, +m and -m, kept as one bit each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from everbit.nn.low_memory.rows import as_rows, empty, signs, tiles


class PackedSigns(Tensor):
    """+magnitude where the bit is 1, -magnitude where it is 0; a tensor like any other to those who read it.

    What a Sign makes (magnitude 1), one-bit gradients, and weights without a latent. Shape [N, C, ...]; its bits are
    those of rows.py. An operation that does not know it gets its values, all at once. One that changes it in place, as
    the accumulation of gradients does, leaves it with values instead of bits.
    """

    bits: Tensor | None
    numbers: Tensor | None
    magnitude: float

    @staticmethod
    def __new__(
        cls, bits: Tensor, shape: torch.Size, dtype: torch.dtype, magnitude: float = 1.0, requires_grad: bool = False
    ) -> PackedSigns:
        strides = empty(shape, dtype, torch.device("meta")).stride()
        made: PackedSigns = torch.Tensor._make_wrapper_subclass(
            cls, shape, strides=strides, dtype=dtype, device=bits.device, requires_grad=requires_grad
        )
        made.bits, made.numbers, made.magnitude = bits, None, magnitude
        return made

    def dense(self) -> Tensor:
        """The values."""
        if self.bits is None:
            assert self.numbers is not None
            return self.numbers
        made = empty(self.shape, self.dtype, self.device)
        rows = as_rows(made)
        for tile in tiles(*rows.shape):
            rows[tile] = signs(self.bits[tile], self.shape[1], self.dtype).mul_(self.magnitude)
        return made

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"PackedSigns({list(self.shape)}, {self.dtype}, magnitude={self.magnitude:g})"

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func is torch.ops.aten.detach.default:
            return args[0].same()
        densely = tree_map(
            lambda value: value.dense() if isinstance(value, PackedSigns) else value, (args, kwargs or {})
        )
        result = func(*densely[0], **densely[1])
        if func._schema.is_mutable and isinstance(args[0], PackedSigns):
            args[0].bits, args[0].numbers = None, densely[0][0]
            return args[0]
        return result

    def same(self) -> PackedSigns:
        """The same values, outside of any graph."""
        made = PackedSigns(torch.empty(0) if self.bits is None else self.bits, self.shape, self.dtype, self.magnitude)
        made.bits, made.numbers = self.bits, self.numbers
        return made
