"""What the optimizers share: a parameter and what they remember of it, a tile of float32 copies at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from everbit import _engine
from everbit.nn.low_memory.packed_signs import PackedSigns
from everbit.nn.low_memory.rows import as_rows, signs, tiles


def memory_rows(x: Tensor, like: Tensor) -> Tensor:
    """x as rows [R, C] in the order in which `like` lies in memory; of `like` itself a view."""
    if like.dim() > 1 and like.movedim(1, -1).is_contiguous():
        return as_rows(x)
    return x.reshape(1, -1) if like.dim() < 2 else x.reshape(-1, like.shape[-1])


def gradient_tiles(parameter: Tensor, gradient: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Ranges of memory_rows(), and the gradient there as float32."""
    packed = gradient if isinstance(gradient, PackedSigns) and gradient.bits is not None else None
    rows = None if packed is not None else memory_rows(gradient, parameter)
    shape = memory_rows(parameter, parameter).shape
    for tile in tiles(*shape):
        if packed is not None:
            assert packed.bits is not None
            yield tile, signs(packed.bits[tile], shape[1], torch.float32).mul_(packed.magnitude)
        else:
            assert rows is not None
            yield tile, rows[tile].to(torch.float32)


def one_bit(gradient: Tensor) -> float | None:
    """The magnitude that all of a gradient has, None where it has more than one."""
    return gradient.magnitude if isinstance(gradient, PackedSigns) and gradient.bits is not None else None


class TiledOptimizer(torch.optim.Optimizer):
    """An optimizer that changes one parameter after another. A subclass says how."""

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
