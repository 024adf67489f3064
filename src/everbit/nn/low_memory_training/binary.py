"""Layers with binary weights that keep bits alone for their backward pass (W23, section 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from everbit.errors import ConfigurationError
from everbit.nn.binary import BinaryConv2d, BinaryLinear, BinaryWeight
from everbit.nn.low_memory_training.packed_signs import PackedSigns, sign_bits
from everbit.nn.low_memory_training.products import Layer, products
from everbit.nn.low_memory_training.rows import as_rows, empty, pack_rows, tidy_up
from everbit.nn.windows import same_padding


class _BinaryProduct(torch.autograd.Function):
    """alpha * (x times sign(weight)). Keeps x, as bits where it is signs, and the bits of the weights."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, alpha: Tensor, layer: Layer, dtype: torch.dtype, one_bit: bool
    ) -> Tensor:
        bits = sign_bits(weight)
        y = empty((len(x), layer.output[2], *layer.output[: x.dim() - 2]), dtype, x.device)
        products(layer, x, bits).forward(x, as_rows(y), alpha)
        kept = x.bits if isinstance(x, PackedSigns) else None
        ctx.save_for_backward(x if kept is None else kept, bits, alpha)
        ctx.x = None if kept is None else (x.shape, x.dtype)
        ctx.weight = (weight.shape, weight.dtype)
        ctx.layer, ctx.one_bit = layer, one_bit
        tidy_up(y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        kept, bits, alpha = ctx.saved_tensors
        x = kept if ctx.x is None else PackedSigns(kept, *ctx.x)
        dx = empty(x.shape, gradient.dtype, x.device) if ctx.needs_input_grad[0] else None
        rows = None if dx is None else as_rows(dx)
        dw = products(ctx.layer, x, bits).backward(x, as_rows(gradient), alpha, rows, ctx.needs_input_grad[1])
        weight_gradient = None if dw is None else _gradient(*dw, ctx.weight, ctx.one_bit)
        del dw
        tidy_up(gradient)
        return dx, weight_gradient, None, None, None, None


def _gradient(dw: Tensor, unit: float, weight: tuple[torch.Size, torch.dtype], one_bit: bool) -> Tensor:
    """unit * dW, [out * taps, in], in the weight's shape: signs of magnitude 1 / sqrt(fan-in), or as it is."""
    shape, dtype = weight
    if one_bit:
        return PackedSigns(pack_rows(dw, lambda values: values >= 0), shape, dtype, 1 / math.sqrt(math.prod(shape[1:])))
    return (dw * unit).to(dtype).view(shape[0], *shape[2:], shape[1]).movedim(-1, 1)


class _LowMemoryBinary(BinaryWeight):
    """What both layers share. dtype: of their outputs. one_bit: gradients of the weights are signs."""

    dtype: torch.dtype
    one_bit: bool

    def product(self, x: Tensor, layer: Layer) -> Tensor:
        if x.dim() != self.weight.dim() or x.shape[1] != layer.input[2] or min(layer.output) < 1:
            raise ConfigurationError(
                f"{self} cannot take an input of shape {list(x.shape)}: change the one or the other"
            )
        if self.training and self.weight.requires_grad and not isinstance(self.weight, PackedSigns):
            self.clip_latent()  # beyond 1 it would have no gradient, and one bit cannot say so
        y: Tensor = _BinaryProduct.apply(_packed(x), self.weight, self.alpha(), layer, self.dtype, self.one_bit)  # type: ignore[no-untyped-call]
        return y

    def alpha(self) -> Tensor:
        """Scale of each output channel, float32 [out], whatever the width of the weight."""
        if not self.scale:
            return torch.ones(len(self.weight), device=self.weight.device)
        dimensions = tuple(range(1, self.weight.dim()))
        total: Tensor = torch.linalg.vector_norm(self.weight.detach(), 1, dimensions, dtype=torch.float32)
        return total / math.prod(self.weight.shape[1:])

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if isinstance(self.weight, PackedSigns):
            destination[prefix + "weight"] = self.weight.dense().to(torch.int8)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        weight, loaded = self.weight, state_dict.get(prefix + "weight")
        if isinstance(weight, PackedSigns) and loaded is not None and loaded.shape == weight.shape:
            # As bits also where the loaded tensors take the place of the module's (load_state_dict(..., assign=True)).
            state_dict = {**state_dict, prefix + "weight": weight.detach().clone().copy_(loaded)}
        super()._load_from_state_dict(state_dict, prefix, *args)


class _Pack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return PackedSigns(pack_rows(as_rows(x), lambda values: values > 0), x.shape, x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


def _packed(x: Tensor) -> Tensor:
    """Signs as bits, also where a layer between (a flatten, a pool) made values of them; other inputs as they are."""
    if isinstance(x, PackedSigns) or not bool((x.detach().abs() == 1).all()):
        return x
    packed: Tensor = _Pack.apply(x)  # type: ignore[no-untyped-call]
    return packed


class LowMemoryBinaryConv2d(_LowMemoryBinary, BinaryConv2d):
    """Convolution with binary weights of [N, C, H, W]; the first layer's input may be real."""

    def forward(self, x: Tensor) -> Tensor:
        sides = x.shape[2:] if x.dim() == 4 else (0, 0)  # product() refuses the latter
        return self.product(x, convolution_layer(self, sides))


class LowMemoryBinaryLinear(_LowMemoryBinary, BinaryLinear):
    """Dense layer with binary weights of [N, C]; the first layer's input may be real."""

    def forward(self, x: Tensor) -> Tensor:
        return self.product(x, dense_layer(self))


def convolution_layer(module: BinaryConv2d, size: Sequence[int]) -> Layer:
    """The shape of a convolution's product over maps of a size, height and width."""
    kernel, stride = module.kernel_size, module.stride
    if isinstance(module.padding, str):
        before = [same_padding(side, kernel, stride)[0] for side in size]
        output = [-(-side // stride) for side in size]
    else:
        before = [module.padding, module.padding]
        output = [(side + 2 * module.padding - kernel) // stride + 1 for side in size]
    return Layer(
        (size[0], size[1], module.in_channels),
        (output[0], output[1], module.out_channels),
        kernel,
        stride,
        (before[0], before[1]),
        module.pad_value,
    )


def dense_layer(module: BinaryLinear) -> Layer:
    """The shape of a dense layer's product."""
    return Layer((1, 1, module.in_features), (1, 1, module.out_features), 1, 1, (0, 0), 0)
