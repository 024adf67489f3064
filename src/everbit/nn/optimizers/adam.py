"""Adam in the width of its parameters (Kingma and Ba 2015; in 16 bits for W23, section 3)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from everbit.nn.optimizers.tiled import (
    TiledOptimizer,
    draws,
    gradient_tiles,
    memory_rows,
    one_bit,
    remembered,
    store,
)


class Adam(TiledOptimizer):
    """w <- w - lr m / (sqrt(v) + eps), with m and v the means of g and g^2 that betas give, unbiased.

    params: any, of 16 or 32 bits; those of 16 are rounded at random. m and the root of v are kept in their width: both
    fit where g fits, v itself would underflow, and so would the biased means of the first steps. Of a one-bit gradient
    every g^2 is the same: v is one number.
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
        step = state["step"] = state.get("step", 0) + 1
        # The newest gradient's share in an unbiased mean: all at first, 1 - beta in the end.
        share, square_share = ((1 - beta) / (1 - beta**step) for beta in group["betas"])
        root, magnitude = state.get("root_v", 0.0), one_bit(gradient)
        if magnitude is not None and not isinstance(root, Tensor):
            root = state["root_v"] = math.sqrt(root**2 + square_share * (magnitude**2 - root**2))
        elif not isinstance(root, Tensor):
            state["root_v"] = torch.full_like(parameter, root)
        roots = remembered(state, "root_v", parameter) if isinstance(state["root_v"], Tensor) else None
        w, m = memory_rows(parameter, parameter), remembered(state, "m", parameter)
        generator = draws(parameter, step)
        for tile, g in gradient_tiles(parameter, gradient):
            if roots is not None:
                root = roots[tile].float().square_().lerp_(g.square(), square_share).sqrt_()
                roots[tile] = root
            mean = m[tile].float().lerp_(g, share)
            m[tile] = mean
            change = mean / (root + group["eps"])  # no change of the mean itself, which may lie in m
            store(w, tile, w[tile].to(torch.float32, copy=True).sub_(change, alpha=group["lr"]), generator)
