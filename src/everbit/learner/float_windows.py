"""Convolutions and pools of a float network, which read windows of a map (docs/arithmetic.md, sections 3 and 4)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from everbit.compile.program import Layer
from everbit.compile.program import Tensor as ProgramTensor
from everbit.learner.float_constants import Constants, LayerBuilder, ProgramTensors, real_values
from everbit.nn.binary import LATENT_CLIP
from everbit.nn.estimators import ste_sign
from everbit.packed_weights import unpack_binary_weights


def _border(layer: Layer, source: ProgramTensor, target: ProgramTensor) -> list[int]:
    """What a layer's windows read on the left, right, top and bottom of the image."""
    a = layer.attributes
    kernel = a.get("kernel", 3)  # a blur pool's is 3
    height, width = a.get("kernel_height", kernel), a.get("kernel_width", kernel)
    stride, top = a["stride"] or kernel, a["padding"]
    left = top + a["skew"]
    right = (target.width - 1) * stride + width - left - source.width
    bottom = (target.height - 1) * stride + height - top - source.height
    return [left, max(0, right), top, max(0, bottom)]


def _weight(values: NDArray[np.float64], layer: Layer, target: ProgramTensor) -> Tensor:
    """float32 [out, in / groups, height, width] of values in the program's order, [out, height, width, in / groups]."""
    height, width = layer.attributes["kernel_height"], layer.attributes["kernel_width"]
    ordered = values.reshape(target.channels, height, width, -1)
    return torch.from_numpy(ordered).float().permute(0, 3, 1, 2).contiguous()


def _steps(layer: Layer, target: ProgramTensor) -> NDArray[np.float64]:
    """Real value of one unit of a frozen layer's sums, by channel."""
    mantissa, exponent = layer.arrays["multiplier_mantissa"], layer.arrays["multiplier_exponent"]
    step: NDArray[np.float64] = mantissa.astype(np.float64) * 2.0 ** (exponent.astype(np.float64) - 31) * target.scale
    return step


class Convolution(Constants):
    """Convolution with ordinary weights; a learnable one has no bias."""

    bias: Tensor | None

    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()
        source = sources[0]
        self.stride, self.border = layer.attributes["stride"], _border(layer, source, target)
        self.groups = layer.attributes["groups"] or 1
        if "weight" in layer.parameters:
            self.constant("bias", None)
            self.weight = nn.Parameter(_weight(real_values(layer.parameters["weight"]), layer, target))
            return
        step = _steps(layer, target)
        weight = layer.arrays["weight"].astype(np.float64).reshape(target.channels, -1) * step[:, None] / source.scale
        self.weight = nn.Parameter(_weight(weight, layer, target), requires_grad=False)
        self.constant("bias", torch.from_numpy(layer.arrays["bias"].astype(np.float64) * step).float())

    def forward(self, x: Tensor) -> Tensor:
        padded = functional.pad(x, self.border)
        return functional.conv2d(padded, self.weight, self.bias, self.stride, groups=self.groups)


class DepthwiseConvolution(Constants):
    """One filter a channel; a learnable one has no bias. Its weight lies as the program's, [height, width, C]."""

    bias: Tensor | None

    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()
        source, a = sources[0], layer.attributes
        self.stride, self.border = a["stride"], _border(layer, source, target)
        shape = (a["kernel_height"], a["kernel_width"], target.channels)
        learned = layer.parameters.get("weight")
        if learned is not None:
            weight, bias = real_values(learned), None
        else:
            step = _steps(layer, target)
            weight = layer.arrays["weight"].astype(np.float64).reshape(shape) * step / source.scale
            bias = torch.from_numpy(layer.arrays["bias"].astype(np.float64) * step).float()
        self.weight = nn.Parameter(torch.from_numpy(weight.reshape(shape)).float(), requires_grad=learned is not None)
        self.constant("bias", bias)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight.permute(2, 0, 1).unsqueeze(1)
        return functional.conv2d(functional.pad(x, self.border), weight, self.bias, self.stride, groups=x.shape[1])


class BinaryConvolution(nn.Module):
    """Convolution by the signs of latent weights in [-1, 1], which all start from one magnitude."""

    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()
        a, source = layer.attributes, sources[0]
        self.stride, self.border, self.pad_value = a["stride"], _border(layer, source, target), float(a["pad_value"])
        taps = a["kernel_height"] * a["kernel_width"]
        words = layer.arrays["bits"].astype(np.uint64)
        bits = unpack_binary_weights(words, target.channels, taps, source.channels)
        magnitude = float(max(2.0**-31, real_values(layer.parameters["weight"]).item())) if layer.parameters else 1.0
        latent = np.where(bits, magnitude, -magnitude)
        self.weight = nn.Parameter(_weight(latent, layer, target), requires_grad=bool(layer.parameters))
        self.unit = target.scale  # 1, but where a network ends in sums

    def forward(self, x: Tensor) -> Tensor:
        weight = ste_sign(self.weight, LATENT_CLIP) * self.unit
        return functional.conv2d(functional.pad(x, self.border, value=self.pad_value), weight, None, self.stride)

    @torch.no_grad()
    def clip_latent(self) -> None:
        """Brings latent weights back into [-1, 1]; call after each step of the optimizer."""
        self.weight.clamp_(-LATENT_CLIP, LATENT_CLIP)


class AveragePool(nn.Module):
    """Mean over windows, over all their places or those inside the image."""

    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()
        a = layer.attributes
        self.kernel, self.stride, self.inside_only = a["kernel"], a["stride"] or a["kernel"], bool(a["inside_only"])
        self.border = _border(layer, sources[0], target)

    def forward(self, x: Tensor) -> Tensor:
        mean = functional.avg_pool2d(functional.pad(x, self.border), self.kernel, self.stride)
        if not self.inside_only:
            return mean
        image = functional.pad(torch.ones_like(x[:1, :1]), self.border)
        return mean / functional.avg_pool2d(image, self.kernel, self.stride)


class MaxPool(nn.Module):
    """The largest value of each window; padded places never win."""

    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()
        self.kernel, self.stride = layer.attributes["kernel"], layer.attributes["stride"]
        self.border = _border(layer, sources[0], target)

    def forward(self, x: Tensor) -> Tensor:
        padded = functional.pad(x, self.border, value=-torch.inf) if any(self.border) else x
        return functional.max_pool2d(padded, self.kernel, self.stride)


class BlurPool(nn.Module):
    """The binomial filter on every channel."""

    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()
        self.stride, self.border = layer.attributes["stride"], _border(layer, sources[0], target)

    def forward(self, x: Tensor) -> Tensor:
        row = x.new_tensor([0.25, 0.5, 0.25])
        weight = torch.outer(row, row).expand(x.shape[1], 1, 3, 3)
        return functional.conv2d(functional.pad(x, self.border), weight, None, self.stride, groups=x.shape[1])


class GlobalAveragePool(nn.Module):
    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(2, 3), keepdim=True)


class GlobalMaxPool(nn.Module):
    """The largest value of each channel, the first one where several are."""

    def __init__(self, layer: Layer, sources: ProgramTensors, target: ProgramTensor) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return functional.max_pool2d(x, (x.shape[2], x.shape[3]))


WINDOW_LAYERS: dict[str, LayerBuilder] = {
    "convolution": Convolution,
    "depthwise_convolution": DepthwiseConvolution,
    "binary_convolution": BinaryConvolution,
    "average_pool": AveragePool,
    "max_pool": MaxPool,
    "blur_pool": BlurPool,
    "global_average_pool": GlobalAveragePool,
    "global_max_pool": GlobalMaxPool,
}
