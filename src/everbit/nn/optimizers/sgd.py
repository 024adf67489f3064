"""SGD with momentum in the width of its parameters (W23, section 3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from everbit.nn.optimizers.tiled import TiledOptimizer, gradient_tiles, memory_rows


class SGD(TiledOptimizer):
    """b <- momentum b + g,  w <- w - lr b.  params: any, of 16 or 32 bits; b has their width."""

    def __init__(self, params: Iterable[Any], lr: float = 0.1, momentum: float = 0.9) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})

    def update(self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not state:
            state["b"] = torch.zeros_like(parameter)
        w, b = memory_rows(parameter, parameter), memory_rows(state["b"], state["b"])
        for tile, g in gradient_tiles(parameter, gradient):
            g += b[tile].float().mul_(group["momentum"])
            b[tile] = g
            w[tile] = w[tile].float().sub_(g, alpha=group["lr"])
