"""SGD with momentum in the width of its parameters (W23, section 3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from everbit.errors import ConfigurationError
from everbit.nn.optimizers.tiled import TiledOptimizer, draws, gradient_tiles, memory_rows, remembered, store


class SGD(TiledOptimizer):
    """b <- momentum b + g,  w <- w - lr b.  params: any, of 16 or 32 bits; those of 16 are rounded at random.

    What is kept of b, in the parameter's width, is the gradients' mean b (1 - momentum) / (1 - momentum^steps): it fits
    where they fit.
    """

    def __init__(self, params: Iterable[Any], lr: float = 0.1, momentum: float = 0.9) -> None:
        if not 0 <= momentum < 1:
            raise ConfigurationError(f"momentum is {momentum}: give one from 0 to below 1")
        super().__init__(params, {"lr": lr, "momentum": momentum})

    def update(self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        step = state["step"] = state.get("step", 0) + 1
        share = (1 - group["momentum"]) / (1 - group["momentum"] ** step)  # of the newest gradient in the mean
        w, mean = memory_rows(parameter, parameter), remembered(state, "mean", parameter)
        generator = draws(parameter, step)
        for tile, g in gradient_tiles(parameter, gradient):
            moved = mean[tile].float().lerp_(g, share)
            mean[tile] = moved
            store(w, tile, w[tile].to(torch.float32, copy=True).sub_(moved, alpha=group["lr"] / share), generator)
