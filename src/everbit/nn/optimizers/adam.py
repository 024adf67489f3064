"""Adam in the width of its parameters (Kingma and Ba 2015; in 16 bits for W23, section 3)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from everbit.nn.optimizers.tiled import TiledOptimizer, gradient_tiles, memory_rows, one_bit


class Adam(TiledOptimizer):
    """m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g^2,  w <- w - lr m^ / (sqrt(v^) + eps), with m^, v^ unbiased.

    params: any, of 16 or 32 bits; m has their width. Of a one-bit gradient every g^2 is the same: v is one number. Else
    its root is kept, which 16 bits hold where g itself fits; v would underflow.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    def update(self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        (b1, b2), magnitude = group["betas"], one_bit(gradient)
        if not state:
            state.update(
                step=0, m=torch.zeros_like(parameter), root_v=0.0 if magnitude else torch.zeros_like(parameter)
            )
        if magnitude is None and not isinstance(state["root_v"], Tensor):
            state["root_v"] = torch.full_like(parameter, state["root_v"])
        state["step"] += 1
        rate, correction = group["lr"] / (1 - b1 ** state["step"]), math.sqrt(1 - b2 ** state["step"])
        if not isinstance(state["root_v"], Tensor):
            assert magnitude is not None
            state["root_v"] = math.sqrt(b2 * state["root_v"] ** 2 + (1 - b2) * magnitude**2)
        w, m = memory_rows(parameter, parameter), memory_rows(state["m"], state["m"])
        for tile, g in gradient_tiles(parameter, gradient):
            if isinstance(state["root_v"], Tensor):
                kept = memory_rows(state["root_v"], state["root_v"])
                root: Tensor | float = kept[tile].float().square_().mul_(b2).addcmul_(g, g, value=1 - b2).sqrt_()
                kept[tile] = root
                change = root / correction + group["eps"]
            else:
                change = state["root_v"] / correction + group["eps"]
            mean = m[tile].float().mul_(b1).add_(g, alpha=1 - b1)
            m[tile] = mean
            w[tile] = w[tile].float().sub_(mean.div_(change).mul_(rate))
