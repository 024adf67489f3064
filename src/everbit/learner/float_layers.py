"""The layers of a program in real numbers: one PyTorch module a kind, every constant dequantized.

docs/arithmetic.md, sections 3 and 4, without its rounding and the saturation of tensors (float_network.py has that of
the frozen part). Activations are float32 [N, C, H, W]; constants are folded in float64 first. Gradients come from
autograd, those of signs from their estimators.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from everbit.compile.operations import ESTIMATORS as ESTIMATOR_NAMES
from everbit.compile.program import Layer
from everbit.compile.program import Tensor as ProgramTensor
from everbit.learner.float_constants import Constants, LayerBuilder, ProgramTensors, by_channel, parameters_of
from everbit.learner.float_windows import WINDOW_LAYERS
from everbit.nn.estimators import approx_sign, ste_sign


def _affine(layer: Layer, source: ProgramTensor) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Factor and offset [C] of the real input that give affine(q) = (q A + B) / 2^s."""
    A, B, s = (layer.arrays[name].astype(np.float64) for name in ("A", "B", "s"))
    return A / (source.scale * 2.0**s), (source.zero_point * A + B) / 2.0**s


class Input(Constants):
    """Image bytes u, as floats, to S (2 u - offset)."""

    offset: Tensor

    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()
        self.scale = target.scale
        self.constant("offset", by_channel(layer.arrays["offset"]))

    def forward(self, u: Tensor) -> Tensor:
        return (2 * u - self.offset) * self.scale


class Affine(Constants):
    """Folded batch norm."""

    factor: Tensor
    offset: Tensor

    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()
        factor, offset = _affine(layer, sources[0])
        self.constant("factor", by_channel(factor * target.scale))
        self.constant("offset", by_channel(offset * target.scale))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor + self.offset


class BatchNorm(Constants):
    """gamma xhat + beta, with xhat from frozen statistics."""

    factor: Tensor
    offset: Tensor

    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()
        factor, offset = _affine(layer, sources[0])
        self.constant("factor", by_channel(factor / 2**11))
        self.constant("offset", by_channel(offset / 2**11))
        self.learned = parameters_of(layer)

    def forward(self, x: Tensor) -> Tensor:
        normalized = x * self.factor + self.offset
        out: Tensor = self.learned["gamma"] * normalized + self.learned["beta"]
        return out


class Sign(Constants):
    """The sign of an activation, after a learned bias or by a threshold; its derivative is the estimator's."""

    threshold: Tensor

    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()
        self.estimator = ESTIMATOR_NAMES[layer.attributes["estimator"]]
        self.clip = layer.attributes["clip"] / 65536
        self.learned = parameters_of(layer)
        source = sources[0]
        threshold = np.zeros(1) if self.learned else layer.arrays["threshold"].astype(np.float64) - source.zero_point
        self.constant("threshold", by_channel(threshold * source.scale))
        self.moved = bool(threshold.any())

    def forward(self, x: Tensor) -> Tensor:
        u = x + self.learned["bias"] if "bias" in self.learned else x
        estimated = ste_sign(u, self.clip) if self.estimator == "ste_sign" else approx_sign(u)
        if not self.moved:
            return estimated
        # The estimator stands at 0; a threshold elsewhere moves the sign, not its derivative.
        return estimated + (torch.where(u >= self.threshold, 1.0, -1.0) - estimated).detach()


class Add(nn.Module):
    """The sum of two activations."""

    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return first + second


class RPReLU(nn.Module):
    """bias, PReLU, bias, all by channel; either bias may be missing."""

    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()
        self.learned = parameters_of(layer)

    def forward(self, x: Tensor) -> Tensor:
        u = x + self.learned["pre"] if "pre" in self.learned else x
        v = torch.where(u > 0, u, self.learned["slope"] * u)
        return v + self.learned["post"] if "post" in self.learned else v


class Clamp(nn.Module):
    """Between two bounds; the gradient passes strictly between them."""

    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()
        self.low, self.high = (target.scale * (layer.attributes[name] - target.zero_point) for name in ("low", "high"))

    def forward(self, x: Tensor) -> Tensor:
        return functional.hardtanh(x, self.low, self.high)


class Concat(nn.Module):
    """Channels side by side."""

    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return torch.cat([first, second], dim=1)


class Flatten(nn.Module):
    """A map to a row of channels."""

    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1)[:, :, None, None]


FLOAT_LAYERS: dict[str, LayerBuilder] = {
    "input": Input,
    "affine": Affine,
    "batch_norm": BatchNorm,
    "sign": Sign,
    "add": Add,
    "rprelu": RPReLU,
    "clamp": Clamp,
    "concat": Concat,
    "flatten": Flatten,
    **WINDOW_LAYERS,
}
"""Every kind of layer but the latent (float_latent.py)."""
