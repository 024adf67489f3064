"""Layers of binary networks. Each does one thing, so that a traced graph shows them as single steps."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from everbit.errors import ConfigurationError
from everbit.nn.estimators import ESTIMATORS, binarize, ste_sign
from everbit.nn.windows import pad_same

LATENT_CLIP = 1.0  # latent weights live in [-1, 1]; outside it their gradient is 0


class Sign(nn.Module):
    """sign(x) in {-1, +1}, any shape; `estimator` names its gradient (a key of ESTIMATORS).

    clip: for "ste_sign", the gradient is 0 where |x| is larger; QuickNet's is 1.25. "approx_sign" has 1.
    """

    def __init__(self, estimator: str = "approx_sign", clip: float = 1.0) -> None:
        super().__init__()
        if estimator not in ESTIMATORS:
            raise ConfigurationError(f"unknown sign estimator {estimator!r}: choose one of {', '.join(ESTIMATORS)}")
        if not clip > 0 or (estimator == "approx_sign" and clip != 1.0):
            raise ConfigurationError(f"clip is {clip}: ste_sign takes one above 0, approx_sign has 1")
        self.estimator, self.clip = estimator, clip

    def forward(self, x: Tensor) -> Tensor:
        return ste_sign(x, self.clip) if self.estimator == "ste_sign" else ESTIMATORS[self.estimator](x)

    def extra_repr(self) -> str:
        return f"{self.estimator}, clip={self.clip:g}"


class BinaryWeight(nn.Module):
    """What layers with binary weights share.

    `weight` is the latent weight, float [out, ...]; the layer uses sign(weight) * alpha with alpha_c = mean|weight_c|
    per output channel (alpha = 1 where `scale` is False), and passes gradients where |weight| <= 1. alpha takes no
    gradient: the batch norm behind it undoes any scale.
    """

    def __init__(self, shape: tuple[int, ...], scale: bool) -> None:
        super().__init__()
        self.scale = scale
        self.weight = nn.Parameter(torch.empty(shape))
        nn.init.normal_(self.weight, std=0.1)

    def alpha(self) -> Tensor:
        """Scale of each output channel, float [out]."""
        if self.scale:
            return self.weight.detach().abs().mean(dim=tuple(range(1, self.weight.dim())))
        return torch.ones(len(self.weight), dtype=self.weight.dtype, device=self.weight.device)

    def binary_weight(self) -> Tensor:
        """sign(weight) * alpha, in the shape of the weight."""
        return ste_sign(self.weight, LATENT_CLIP) * self._per_output(self.alpha())

    def _per_output(self, values: Tensor) -> Tensor:
        return values.view(-1, *[1] * (self.weight.dim() - 1))

    @torch.no_grad()
    def clip_latent(self) -> None:
        """Bring latent weights back into [-1, 1]; call after each step of the optimizer."""
        self.weight.clamp_(-LATENT_CLIP, LATENT_CLIP)

    @torch.no_grad()
    def set_binary(self, signs: Tensor, alpha: Tensor) -> None:
        """Make the weight sign * alpha exactly: signs in its shape (>= 0 is +1), alpha [out], positive."""
        self.weight.copy_(binarize(signs.to(self.weight.dtype)) * self._per_output(alpha.to(self.weight.dtype)))


class BinaryConv2d(BinaryWeight):
    """Convolution with binary weights [out, in, k, k]; its input is already +-1, made by a Sign.

    padding: on each side, or "same" as TensorFlow pads, where an odd row or column lies below or right. Borders are
    filled with `pad_value`: 0, +1 or -1. The scale of the weights: see alpha().
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int = 3,
        stride: int = 1,
        padding: int | str = 1,
        pad_value: int = 0,
        scale: bool = True,
    ) -> None:
        super().__init__((out_channels, in_channels, kernel_size, kernel_size), scale)
        if pad_value not in (-1, 0, 1):
            raise ConfigurationError(f"pad_value is {pad_value}: a binary convolution pads with -1, 0 or +1")
        if isinstance(padding, str) and padding != "same":
            raise ConfigurationError(f'padding is {padding!r}: a binary convolution takes a number or "same"')
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.pad_value = pad_value

    def forward(self, x: Tensor) -> Tensor:
        weight = self.binary_weight()
        if isinstance(self.padding, str):
            x = pad_same(x, (self.kernel_size, self.kernel_size), self.stride, float(self.pad_value))
            return functional.conv2d(x, weight, stride=self.stride)
        if self.pad_value == 0 or self.padding == 0:
            return functional.conv2d(x, weight, stride=self.stride, padding=self.padding)
        padded = functional.pad(x, [self.padding] * 4, value=float(self.pad_value))
        return functional.conv2d(padded, weight, stride=self.stride)

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"padding={self.padding!r}, pad_value={self.pad_value}, scale={self.scale}"
        )


class BinaryLinear(BinaryWeight):
    """Dense layer with binary weights [out, in]; its input [N, in] is already +-1, made by a Sign."""

    def __init__(self, in_features: int, out_features: int, scale: bool = True) -> None:
        super().__init__((out_features, in_features), scale)
        self.in_features, self.out_features = in_features, out_features

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.binary_weight())

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, scale={self.scale}"


def _add_per_channel(x: Tensor, bias: Tensor) -> Tensor:
    # Cast first: a float32 bias would turn a bfloat16 activation back into float32.
    return x + bias.to(x.dtype).view(-1, 1, 1)


class LearnedBias(nn.Module):
    """x + b per channel (ReActNet's threshold before a sign); x is [N, C, ...]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        return _add_per_channel(x, self.bias)


class RPReLU(nn.Module):
    """bias, PReLU, bias, all per channel (ReActNet): PReLU(x + b1) + b2 for x [N, C, H, W]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bias_in = nn.Parameter(torch.zeros(channels))
        self.slope = nn.Parameter(torch.full((channels,), 0.25))
        self.bias_out = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        moved = _add_per_channel(x, self.bias_in)
        return _add_per_channel(functional.prelu(moved, self.slope.to(x.dtype)), self.bias_out)
