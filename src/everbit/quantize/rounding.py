"""Rounding of weights by what they are multiplied with, so that the errors of a sum cancel where they can.

The errors e of an output's weights cost e^T C e, with C the covariance of what the output reads. Weights are rounded
one after the other, and those still to come make up for the error so far (the optimal update of Hassibi and Stork's
surgeon, 1993, applied to rounding as in Frantar et al., GPTQ, 2022).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from torch import Tensor, nn
from torch.nn import functional

from everbit.quantize.scale import Floats

DAMPING = 0.5
"""Of the mean variance, added to every variance: what a few images show is not all that comes."""

PLACES = 14
"""About as many places a side of a map are looked at; neighbors say nearly the same."""


@dataclass
class Moments:
    """Sums over places of what the outputs of each group read: values [groups, K], products of two [groups, K, K]."""

    count: int
    values: Tensor
    products: Tensor

    @classmethod
    def of(cls, module: nn.Module, x: Tensor) -> Moments:
        """Of the input of a convolution, [N, C, H, W], or of a dense layer, [N, K]."""
        if isinstance(module, nn.Linear):
            read = x.reshape(1, -1, x.shape[-1])
        else:
            conv = cast(nn.Conv2d, module)
            windows = _windows(conv, x)
            grouped = windows.reshape(len(x), conv.groups, -1, windows.shape[-1])
            read = grouped.permute(1, 0, 3, 2).reshape(conv.groups, -1, grouped.shape[2])
        return cls(read.shape[1], read.sum(dim=1).double(), (read.transpose(1, 2) @ read).double())

    def __iadd__(self, other: Moments) -> Moments:
        self.count += other.count
        self.values += other.values
        self.products += other.products
        return self

    def covariance(self) -> Floats:
        """[groups, K, K]."""
        mean = self.values / self.count
        covariance: Floats = (self.products / self.count - mean[:, :, None] * mean[:, None, :]).numpy()
        return covariance


def _windows(conv: nn.Conv2d, x: Tensor) -> Tensor:
    """What a convolution reads at some of its places, [N, C * taps, places]."""
    vertical, horizontal = cast("tuple[int, int]", conv.padding)
    x = functional.pad(x, (horizontal, horizontal, vertical, vertical))
    steps = []
    for side, (length, kernel, stride) in enumerate(zip(x.shape[2:], conv.kernel_size, conv.stride, strict=True)):
        skip = max(1, ((length - kernel) // stride + 1) // PLACES)
        x = x.narrow(2 + side, skip // 2 * stride, length - skip // 2 * stride)
        steps.append(skip * stride)
    return functional.unfold(x, conv.kernel_size, stride=(steps[0], steps[1]))


def rounded(weights: Floats, covariance: Floats, largest: int) -> Floats:
    """Whole numbers [outputs, K], at most `largest` in size, for weights in steps; covariance: [groups, K, K].

    The outputs of a group follow one another. Columns are rounded from the most to the least varying input; each leaves
    its error to the columns behind it.
    """
    groups, inputs, _ = covariance.shape
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    order = np.argsort(-variance, axis=1, kind="stable")
    damping = DAMPING * variance.mean(axis=1) + 1e-12
    damped = covariance + damping[:, None, None] * np.eye(inputs)
    damped = np.take_along_axis(np.take_along_axis(damped, order[:, :, None], axis=1), order[:, None, :], axis=2)
    factor = np.linalg.cholesky(np.linalg.inv(damped)).transpose(0, 2, 1)
    columns = order[:, None, :].repeat(len(weights) // groups, axis=1)
    left = np.take_along_axis(weights.reshape(groups, -1, inputs), columns, axis=2)
    whole = np.empty_like(left)
    for k in range(inputs):
        whole[:, :, k] = np.clip(np.round(left[:, :, k]), -largest, largest)
        error = (left[:, :, k] - whole[:, :, k]) / factor[:, None, k, k]
        left[:, :, k + 1 :] -= error[:, :, None] * factor[:, None, k, k + 1 :]
    result = np.empty_like(whole)
    np.put_along_axis(result, columns, whole, axis=2)
    ordered: Floats = result.reshape(weights.shape)
    return ordered
