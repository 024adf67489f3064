"""A tensor of two values, +m and -m, kept as one bit each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from everbit.errors import ConfigurationError
from everbit.nn.low_memory_training.rows import as_rows, channels_last, empty, pack_rows, signs, tiles


class PackedSigns(Tensor):
    """+magnitude where the bit is 1, -magnitude where it is 0; a tensor like any other to those who read it.

    What a Sign makes (magnitude 1), one-bit gradients, and weights without a latent. Shape [N, C, ...]; its bits are
    those of rows.py. An operation that does not know it gets its values, all at once. One that changes it in place, as
    the accumulation of gradients does, leaves it with `numbers` instead of bits. for_good: it stays bits (weights
    without a latent); what is copied into it leaves its signs, any other change raises ConfigurationError.
    """

    bits: Tensor | None
    numbers: Tensor | None
    magnitude: float
    for_good: bool

    @staticmethod
    def __new__(
        cls, bits: Tensor, shape: torch.Size, dtype: torch.dtype, magnitude: float = 1.0, for_good: bool = False
    ) -> PackedSigns:
        made: PackedSigns = torch.Tensor._make_wrapper_subclass(
            cls, shape, strides=channels_last(shape), dtype=dtype, device=bits.device
        )
        made.bits, made.numbers, made.magnitude, made.for_good = bits, None, magnitude, for_good
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

    def numpy(self, *, force: bool = False) -> Any:
        """The values as an array, a copy."""
        return self.dense().numpy(force=force)

    def tolist(self) -> Any:
        """The values as nested lists."""
        return self.dense().tolist()

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"PackedSigns({list(self.shape)}, {self.dtype}, magnitude={self.magnitude:g})"

    # PyTorch moves the tensors of a module that has these two (`module.to`) as wholes, with their attributes.
    def __tensor_flatten__(self) -> tuple[list[str], tuple[Any, ...]]:
        return ["numbers" if self.bits is None else "bits"], (self.dtype, self.magnitude, self.for_good)

    @staticmethod
    def __tensor_unflatten__(parts: dict[str, Tensor], rest: tuple[Any, ...], size: Any, stride: Any) -> PackedSigns:
        (kept,) = parts.values()
        made = PackedSigns(kept, size, *rest)
        made.bits, made.numbers = parts.get("bits"), parts.get("numbers")
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        rule = ON_BITS.get(func)
        if rule is not None and isinstance(args[0], PackedSigns):
            result = rule(*args, **kwargs)
            if result is not None:
                return result
        written = _written(func, args, kwargs)
        if any(packed.for_good for packed in written):
            raise ConfigurationError(
                f"{func} would change weights of one bit: "
                "train them with everbit.nn.optimizers.Bop, or use latent_bits=16"
            )
        known: dict[int, Tensor] = {}  # by id of the packed tensor its values, and the other way round

        def values(value: Any) -> Any:
            if not isinstance(value, PackedSigns):
                return value
            if id(value) not in known:
                known[id(value)] = value.dense()
                known[id(known[id(value)])] = value
            return known[id(value)]

        densely = tree_map(values, (args, kwargs))
        result = func(*densely[0], **densely[1])
        if not written:
            return result
        for packed in written:
            packed.bits, packed.numbers = None, known[id(packed)]
        return tree_map(lambda value: known.get(id(value), value), result)

    def same(self) -> PackedSigns:
        """The same values, outside of any graph."""
        return self._with(lambda kept: kept)

    def _with(self, change: Callable[[Tensor], Tensor], dtype: torch.dtype | None = None) -> PackedSigns:
        """One like this, whose bits or numbers are changed."""
        names, rest = self.__tensor_flatten__()
        parts = {name: change(getattr(self, name)) for name in names}
        return PackedSigns.__tensor_unflatten__(parts, (dtype or self.dtype, *rest[1:]), self.shape, self.stride())


def sign_bits(x: Tensor) -> Tensor:
    """The bits of sign(x), [rows, C] of x [N, C, ...]; of one that has bits those, not a copy."""
    if isinstance(x, PackedSigns) and x.bits is not None:
        return x.bits
    return pack_rows(as_rows(x), lambda values: values >= 0)


def _written(func: Any, args: Any, kwargs: Any) -> list[PackedSigns]:
    """The packed tensors that an operation changes in place."""
    if not func._schema.is_mutable:
        return []
    given = {argument.name: value for argument, value in zip(func._schema.arguments, args, strict=False)} | kwargs
    changed = [
        given.get(argument.name)
        for argument in func._schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    return [leaf for leaf in tree_leaves(changed) if isinstance(leaf, PackedSigns)]


def _detach(x: PackedSigns) -> PackedSigns:
    return x.same()


def _clone(x: PackedSigns, memory_format: torch.memory_format | None = None) -> PackedSigns | None:
    """With the bits' own order only: reshape() asks for values that lie otherwise."""
    return x._with(torch.clone) if memory_format in (None, torch.preserve_format) else None


def _move(x: PackedSigns, dtype: torch.dtype | None = None, device: Any = None, **_: Any) -> PackedSigns | None:
    """Weights go to another device or width as bits; of others the values are wanted."""
    if not x.for_good or not (dtype or x.dtype).is_floating_point:
        return None
    return x._with(lambda kept: kept.to(device=device), dtype)


def _copy(x: PackedSigns, source: Tensor, *_: Any, **__: Any) -> PackedSigns | None:
    """Into the bits themselves, so that whoever shares them sees it."""
    if not x.for_good:
        return None
    assert x.bits is not None
    x.bits.copy_(sign_bits(source if source.shape == x.shape else source.expand(x.shape)))
    return x


ON_BITS: dict[Any, Callable[..., PackedSigns | None]] = {
    torch.ops.aten.detach.default: _detach,
    torch.ops.aten.clone.default: _clone,
    torch.ops.aten._to_copy.default: _move,
    torch.ops.aten.copy_.default: _copy,
}
"""Operations that need no values, by the tensor they begin with; None where they do after all."""
