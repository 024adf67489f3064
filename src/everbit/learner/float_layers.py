"""The layers of a program in real numbers: one PyTorch module a kind, every constant dequantized.

docs/arithmetic.md, sections 3 and 4, without its rounding and clamping. Activations are float32 [N, C, H, W]; constants
are folded in float64 first. Gradients come from autograd, those of signs from their estimators.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn import functional

from everbit.compile.image import unpack_binary_weights
from everbit.compile.operations import ESTIMATORS as ESTIMATOR_NAMES
from everbit.compile.program import Layer
from everbit.compile.program import Parameter as ProgramParameter
from everbit.compile.program import Tensor as ProgramTensor
from everbit.nn.binary import LATENT_CLIP
from everbit.nn.estimators import approx_sign, ste_sign

ProgramTensors = tuple[ProgramTensor, ...]


class LayerBuilder(Protocol):
    """How a module is made: from its layer, the tensors it reads and the tensor it writes."""

    def __call__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> nn.Module: ...


def _real(parameter: ProgramParameter) -> NDArray[np.float64]:
    return parameter.values.astype(np.float64) * 2.0 ** (parameter.range_exponent - 31)


def _by_channel(values: ArrayLike) -> Tensor:
    """float32 [C, 1, 1], to meet activations [N, C, H, W]."""
    return torch.from_numpy(np.asarray(values, np.float64)).float().reshape(-1, 1, 1)


def _parameters(layer: Layer) -> nn.ParameterDict:
    """The layer's parameters by channel, those it has."""
    return nn.ParameterDict({name: nn.Parameter(_by_channel(_real(p))) for name, p in layer.parameters.items()})


def _affine(layer: Layer, source: ProgramTensor) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Factor and offset [C] of the real input that give affine(q) = (q A + B) / 2^s."""
    A, B, s = (layer.arrays[name].astype(np.float64) for name in ("A", "B", "s"))
    return A / (source.scale * 2.0**s), (source.zero_point * A + B) / 2.0**s


def _weight(values: NDArray[np.float64], layer: Layer, source: ProgramTensor, target: ProgramTensor) -> Tensor:
    """float32 [out, in, height, width] of values in the program's order, [out, height, width, in]."""
    height, width = layer.attributes["kernel_height"], layer.attributes["kernel_width"]
    ordered = values.reshape(target.channels, height, width, source.channels)
    return torch.from_numpy(ordered).float().permute(0, 3, 1, 2).contiguous()


class _Constants(nn.Module):
    """A module whose constants are buffers that no state holds: the program has them."""

    def constant(self, name: str, value: Tensor | None) -> None:
        self.register_buffer(name, value, persistent=False)


class Input(_Constants):
    """Image bytes u, as floats, to S (2 u - offset)."""

    offset: Tensor

    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()
        self.scale = target.scale
        self.constant("offset", _by_channel(layer.arrays["offset"]))

    def forward(self, u: Tensor) -> Tensor:
        return (2 * u - self.offset) * self.scale


class Convolution(_Constants):
    """Convolution with ordinary weights; a learnable one has no bias."""

    bias: Tensor | None

    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()
        source = sources[0]
        self.stride, self.padding = layer.attributes["stride"], layer.attributes["padding"]
        if "weight" in layer.parameters:
            self.constant("bias", None)
            self.weight = nn.Parameter(_weight(_real(layer.parameters["weight"]), layer, source, target))
            return
        mantissa, exponent = layer.arrays["multiplier_mantissa"], layer.arrays["multiplier_exponent"]
        step = target.scale * mantissa.astype(np.float64) * 2.0 ** (exponent.astype(np.float64) - 31)
        weight = layer.arrays["weight"].astype(np.float64).reshape(target.channels, -1) * step[:, None] / source.scale
        self.weight = nn.Parameter(_weight(weight, layer, source, target), requires_grad=False)
        self.constant("bias", torch.from_numpy(layer.arrays["bias"].astype(np.float64) * step).float())

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv2d(x, self.weight, self.bias, self.stride, self.padding)


class BinaryConvolution(nn.Module):
    """Convolution by the signs of latent weights in [-1, 1], which all start from one magnitude."""

    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()
        a, source = layer.attributes, sources[0]
        self.stride, self.padding, self.pad_value = a["stride"], a["padding"], float(a["pad_value"])
        taps = a["kernel_height"] * a["kernel_width"]
        words = layer.arrays["bits"].astype(np.uint64)
        bits = unpack_binary_weights(words, target.channels, taps, source.channels)
        magnitude = float(max(2.0**-31, _real(layer.parameters["weight"]).item())) if layer.parameters else 1.0
        latent = np.where(bits, magnitude, -magnitude)
        self.weight = nn.Parameter(_weight(latent, layer, source, target), requires_grad=bool(layer.parameters))

    def forward(self, x: Tensor) -> Tensor:
        weight = ste_sign(self.weight, LATENT_CLIP)
        if self.pad_value == 0:
            return functional.conv2d(x, weight, None, self.stride, self.padding)
        return functional.conv2d(functional.pad(x, [self.padding] * 4, value=self.pad_value), weight, None, self.stride)

    @torch.no_grad()
    def clip_latent(self) -> None:
        """Brings latent weights back into [-1, 1]; call after each step of the optimizer."""
        self.weight.clamp_(-LATENT_CLIP, LATENT_CLIP)


class Affine(_Constants):
    """Folded batch norm."""

    factor: Tensor
    offset: Tensor

    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()
        factor, offset = _affine(layer, sources[0])
        self.constant("factor", _by_channel(factor * target.scale))
        self.constant("offset", _by_channel(offset * target.scale))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor + self.offset


class BatchNorm(_Constants):
    """gamma xhat + beta, with xhat from frozen statistics."""

    factor: Tensor
    offset: Tensor

    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()
        factor, offset = _affine(layer, sources[0])
        self.constant("factor", _by_channel(factor / 2**11))
        self.constant("offset", _by_channel(offset / 2**11))
        self.learned = _parameters(layer)

    def forward(self, x: Tensor) -> Tensor:
        normalized = x * self.factor + self.offset
        out: Tensor = self.learned["gamma"] * normalized + self.learned["beta"]
        return out


class Sign(_Constants):
    """The sign of an activation, after a learned bias or by a threshold; its derivative is the estimator's."""

    threshold: Tensor

    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()
        self.estimator = ESTIMATOR_NAMES[layer.attributes["estimator"]]
        self.clip = layer.attributes["clip"] / 65536
        self.learned = _parameters(layer)
        source = sources[0]
        threshold = np.zeros(1) if self.learned else layer.arrays["threshold"].astype(np.float64) - source.zero_point
        self.constant("threshold", _by_channel(threshold * source.scale))
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
        self.learned = _parameters(layer)

    def forward(self, x: Tensor) -> Tensor:
        u = x + self.learned["pre"] if "pre" in self.learned else x
        v = torch.where(u > 0, u, self.learned["slope"] * u)
        return v + self.learned["post"] if "post" in self.learned else v


class AveragePool(nn.Module):
    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()
        self.kernel = layer.attributes["kernel"]

    def forward(self, x: Tensor) -> Tensor:
        return functional.avg_pool2d(x, self.kernel)


class MaxPool(nn.Module):
    """The largest value of each window; padded places never win."""

    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()
        a = layer.attributes
        self.kernel, self.stride, self.padding = a["kernel"], a["stride"], a["padding"]

    def forward(self, x: Tensor) -> Tensor:
        padded = functional.pad(x, [self.padding] * 4, value=-torch.inf) if self.padding else x
        return functional.max_pool2d(padded, self.kernel, self.stride)


class GlobalAveragePool(nn.Module):
    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(2, 3), keepdim=True)


FLOAT_LAYERS: dict[str, LayerBuilder] = {
    "input": Input,
    "convolution": Convolution,
    "binary_convolution": BinaryConvolution,
    "affine": Affine,
    "batch_norm": BatchNorm,
    "sign": Sign,
    "add": Add,
    "rprelu": RPReLU,
    "average_pool": AveragePool,
    "max_pool": MaxPool,
    "global_average_pool": GlobalAveragePool,
}
"""Every kind of layer but the latent (float_latent.py)."""
