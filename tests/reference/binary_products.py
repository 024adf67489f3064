"""The products of a binary layer by float64, which holds every one of their sums exactly, and shapes to try."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from everbit.nn.low_memory_training.products import Layer
from everbit.nn.windows import same_padding

SHAPES: list[tuple[int, int, tuple[int, int], int, int, int | str, int]] = [
    (1, 1, (5, 4), 1, 1, 0, 3),
    (3, 5, (6, 7), 3, 1, 1, 2),
    (63, 65, (5, 5), 3, 2, 1, 1),
    (65, 130, (4, 6), 3, 1, "same", 2),
    (130, 3, (6, 4), 5, 2, "same", 3),
    (64, 9, (7, 7), 5, 1, 2, 1),
    (66, 8, (3, 3), 3, 1, 2, 2),
    (3, 4, (8, 8), 3, 2, 0, 2),  # the last row and column are never read
    (130, 63, (8, 8), 2, 2, 0, 2),
    (65, 130, (1, 1), 1, 1, 0, 9),  # dense
    (1, 1, (1, 1), 1, 1, 0, 1),
]
"""Channels in and out, height and width, kernel, stride, padding, images."""


def layer_of(
    channels: int, outputs: int, size: tuple[int, int], kernel: int, stride: int, padding: int | str, pad_value: int
) -> Layer:
    """The layer of a shape: its output and the padding above and left of it."""
    if isinstance(padding, str):
        before = [same_padding(side, kernel, stride)[0] for side in size]
        output = [-(-side // stride) for side in size]
    else:
        before = [padding, padding]
        output = [(side + 2 * padding - kernel) // stride + 1 for side in size]
    return Layer((*size, channels), (output[0], output[1], outputs), kernel, stride, (before[0], before[1]), pad_value)


def random_signs(*shape: int) -> Tensor:
    """+1 and -1, float64."""
    return torch.randint(0, 2, shape).double() * 2 - 1


def reference(layer: Layer, x: Tensor, weight: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sums, dX and dW, all float64 and channels last: [N, H', W', out], [N, H, W, in], [out, k, k, in].

    x [N, in, H, W], weight [out, in, k, k], g the gradient of the sums [N, out, H', W'].
    """
    x, weight = x.double().requires_grad_(), weight.double().requires_grad_()
    (height, width, _), (rows, columns, _) = layer.input, layer.output
    above, left = layer.padding
    below = max(0, (rows - 1) * layer.stride + layer.kernel - height - above)
    right = max(0, (columns - 1) * layer.stride + layer.kernel - width - left)
    padded = functional.pad(x, [left, right, above, below], value=float(layer.pad_value))
    z = functional.conv2d(padded, weight, stride=layer.stride)[:, :, :rows, :columns]
    dx, dw = torch.autograd.grad(z, (x, weight), g.double())
    return z.detach().movedim(1, -1), dx.movedim(1, -1), dw.movedim(1, -1)
