"""What the optimizers share: a parameter and what they remember of it, a tile of float32 copies at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from everbit import _engine
from everbit.errors import ConfigurationError
from everbit.nn.low_memory_training.packed_signs import PackedSigns
from everbit.nn.low_memory_training.rows import signs, tiles

DROPPED_BITS = {torch.float16: 13, torch.bfloat16: 16}
"""Bits of a float32's significand that a narrower one lacks."""


def memory_order(x: Tensor) -> list[int]:
    """The dimensions of x from the outermost in memory to the innermost; channels (1) after others of their stride."""
    strides = x.stride()
    return sorted(range(x.dim()), key=lambda dimension: (-strides[dimension], dimension == 1))


def _table(parameter: Tensor) -> tuple[int, int]:
    """Rows and columns of memory_rows()."""
    columns = parameter.shape[memory_order(parameter)[-1]] if parameter.dim() > 1 else parameter.numel()
    return parameter.numel() // max(1, columns), columns


def memory_rows(x: Tensor, parameter: Tensor) -> Tensor:
    """x, of the parameter's shape, as rows [R, C] in the order in which that lies in memory; a view of x.

    Raises RuntimeError where x does not lie in memory without gaps and in that order.
    """
    return x.permute(memory_order(parameter)).view(_table(parameter))


def remembered(state: dict[str, Any], name: str, parameter: Tensor) -> Tensor:
    """What the state holds under that name as memory_rows(), zeros at first."""
    kept: Tensor | None = state.get(name)
    if kept is None or memory_order(kept) != memory_order(parameter):  # loaded, from where the parameter lay otherwise
        laid = torch.empty_strided(parameter.shape, parameter.stride(), dtype=parameter.dtype, device=parameter.device)
        kept = state[name] = laid.zero_() if kept is None else laid.copy_(kept)
    return memory_rows(kept, parameter)


def gradient_tiles(parameter: Tensor, gradient: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Ranges of memory_rows(), and the gradient there as float32."""
    order, shape = memory_order(parameter), _table(parameter)
    as_bits_lie = order == [0, *range(2, parameter.dim()), 1]
    bits = gradient.bits if isinstance(gradient, PackedSigns) and as_bits_lie else None
    if isinstance(gradient, PackedSigns) and bits is not None:
        for tile in tiles(*shape):
            yield tile, signs(bits[tile], shape[1], torch.float32).mul_(gradient.magnitude)
        return
    rows = gradient.permute(order).reshape(shape)
    for tile in tiles(*shape):
        yield tile, rows[tile].to(torch.float32, copy=True)


def draws(parameter: Tensor, step: int) -> torch.Generator:
    """The draws of a parameter's step, the same each time: a saved optimizer goes on as if it had not been saved."""
    return torch.Generator(parameter.device).manual_seed(step)


def store(rows: Tensor, tile: slice, values: Tensor, generator: torch.Generator) -> None:
    """Writes float32 values to memory_rows() of a parameter; where that has 16 bits, up or down at random.

    A step below half the distance of two 16-bit numbers, 2.4e-4 at a latent weight of 1 in float16, would vanish to
    nearest; by chance it is right on average. The values are worked on in place.
    """
    dropped = DROPPED_BITS.get(rows.dtype)
    if dropped is not None:
        bits = values.view(torch.int32)
        bits.add_(torch.randint(1 << dropped, bits.shape, generator=generator, dtype=torch.int32, device=bits.device))
        bits.bitwise_and_(-1 << dropped)
    rows[tile] = values


def one_bit(gradient: Tensor) -> float | None:
    """The magnitude that all of a gradient has, None where it has more than one."""
    return gradient.magnitude if isinstance(gradient, PackedSigns) and gradient.bits is not None else None


class TiledOptimizer(torch.optim.Optimizer):
    """An optimizer that changes one parameter after another. A subclass says how."""

    trains_bits = False
    """Whether it takes weights without a latent."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As torch's. Raises ConfigurationError for weights without a latent, where it cannot train them."""
        super().add_param_group(param_group)
        if not self.trains_bits and any(isinstance(weight, PackedSigns) for weight in self.param_groups[-1]["params"]):
            raise ConfigurationError(
                f"{type(self).__name__} cannot train weights of one bit: use Bop, or latent_bits=16"
            )

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Changes every parameter that has a gradient; returns what the closure does, where there is one."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.update(parameter, parameter.grad, self.state[parameter], group)
        _engine.return_free_memory()
        return loss

    def update(self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Changes one parameter by its gradient."""
        raise NotImplementedError
