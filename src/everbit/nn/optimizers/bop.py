"""Bop: binary weights without latent ones (Helwegen et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from everbit.nn.low_memory_training.packed_signs import PackedSigns
from everbit.nn.low_memory_training.rows import pack, signs
from everbit.nn.optimizers.adam import Adam
from everbit.nn.optimizers.tiled import gradient_tiles, remembered


class Bop(Adam):
    """m <- (1 - rate) m + rate g,  w <- -w where m w > threshold; for weights of one bit (latent_bits=1).

    A one-bit gradient counts as +1 or -1, so that m lies between -1 and 1, and where several were added each of them
    does; others count as they are. Parameters that are not binary weights change by Adam, with its lr, betas and eps.
    """

    trains_bits = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        rate: float = 1e-2,
        threshold: float = 0.1,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(params, lr, betas, eps)
        for group in self.param_groups:
            group.update(rate=rate, threshold=threshold)

    def update(self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not isinstance(parameter, PackedSigns):
            super().update(parameter, gradient, state, group)
            return
        bits, m = parameter.bits, remembered(state, "m", parameter)
        assert bits is not None
        unit = gradient.magnitude if isinstance(gradient, PackedSigns) else 1.0
        for tile, g in gradient_tiles(parameter, gradient):
            mean = m[tile].float().lerp_(g.div_(unit), group["rate"])
            m[tile] = mean
            weight = signs(bits[tile], parameter.shape[1], torch.float32)
            bits[tile] = pack(torch.where(mean * weight > group["threshold"], -weight, weight) > 0)
