"""Statistics for batch norms whose own are lost: files of converted networks hold only a multiplier and a bias."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from everbit.zoo.inputs import to_input

EPSILON = 1e-3
_BATCH = 64


@torch.no_grad()
def measure_statistics(network: nn.Module, paths: Iterable[str], images: NDArray[np.uint8]) -> None:
    """Gives batch norms the statistics of what they read, and the gamma and beta with which they compute the same.

    Behind the cut a compiler measures statistics anew and keeps gamma and beta: that preserves what a batch norm
    computes only where its statistics were those of data. paths: of the batch norms. images: uint8 [N, H, W, C].
    """
    norms = [network.get_submodule(path) for path in paths]
    seen = {norm: _Moments() for norm in norms}
    handles = [norm.register_forward_pre_hook(lambda norm, inputs: seen[norm].add(inputs[0])) for norm in norms]
    for first in range(0, len(images), _BATCH):
        network(to_input(images[first : first + _BATCH]))
    for handle in handles:
        handle.remove()
    for norm, moments in seen.items():
        assert isinstance(norm, (nn.BatchNorm1d, nn.BatchNorm2d))
        assert norm.running_mean is not None and norm.running_var is not None
        mean, variance = moments.mean_and_variance()
        slope = norm.weight.double() * (norm.running_var.double() + norm.eps).rsqrt()
        norm.bias.copy_(norm.bias.double() + slope * (mean - norm.running_mean.double()))
        norm.weight.copy_(slope * (variance + EPSILON).sqrt())
        norm.running_mean.copy_(mean)
        norm.running_var.copy_(variance)
        norm.eps = EPSILON


class _Moments:
    """Sums of values and of their squares by channel, float64."""

    def __init__(self) -> None:
        self.count = 0
        self.total = self.squares = torch.zeros(1, dtype=torch.float64)

    def add(self, x: Tensor) -> None:
        """x: [N, C, ...]."""
        rows = x.double().transpose(0, 1).flatten(1)
        self.count += rows.shape[1]
        self.total = self.total + rows.sum(dim=1)
        self.squares = self.squares + rows.square().sum(dim=1)

    def mean_and_variance(self) -> tuple[Tensor, Tensor]:
        mean = self.total / self.count
        return mean, (self.squares / self.count - mean.square()).clamp(min=0)
