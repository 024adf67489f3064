"""Functions and tensor methods of a traced network, as the modules that do the same.

The lowering rules then meet one form of each step. An entry of the tables takes what stands behind the input in a call,
by torch's own names, and gives the modules that follow one another in its place.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from everbit.compile.plain_steps import FlattenTo, RefusedError, Squeeze

Steps = list[nn.Module]


def _relu(inplace: bool = False) -> Steps:
    return [nn.ReLU()]


def _relu6(inplace: bool = False) -> Steps:
    return [nn.ReLU6()]


def _clamp(min: float | None = None, max: float | None = None) -> Steps:
    return [nn.Hardtanh(-math.inf if min is None else float(min), math.inf if max is None else float(max))]


def _hardtanh(min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Steps:
    return _clamp(min_val, max_val)


def _max_pool(
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Steps:
    return [nn.MaxPool2d(kernel_size, stride, padding, dilation, return_indices, ceil_mode)]


def _average_pool(
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Steps:
    return [nn.AvgPool2d(kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)]


def _global_average_pool(output_size: Any) -> Steps:
    return [nn.AdaptiveAvgPool2d(output_size)]


def _global_max_pool(output_size: Any, return_indices: bool = False) -> Steps:
    return [nn.AdaptiveMaxPool2d(output_size, return_indices)]


def _over_the_map(pool: type[nn.Module]) -> Callable[..., Steps]:
    """A mean or maximum over height and width."""

    def steps(dim: Any = None, keepdim: bool = False, dtype: object = None) -> Steps:
        axes = {axis % 4 for axis in dim} if isinstance(dim, (tuple, list)) else {dim}
        if axes != {2, 3}:
            raise RefusedError(f"reduces the axes {dim}", "reduce height and width at once: dim=(2, 3)")
        return [pool(1)] if keepdim else [pool(1), Squeeze()]

    return steps


def _dropout(p: float = 0.5, training: bool = True, inplace: bool = False) -> Steps:
    if training:
        raise RefusedError("drops values whenever the network runs", "pass training=self.training, or use nn.Dropout")
    return []


def _nothing(**options: object) -> Steps:
    return []


def _pad(pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Steps:
    if mode != "constant" or len(pad) > 4 or not all(isinstance(length, int) for length in pad):
        raise RefusedError(f"pads {list(pad)} in mode {mode}", "pad height and width by a constant")
    left, right, top, bottom = (*pad, *[0] * (4 - len(pad)))
    return [nn.ConstantPad2d((left, right, top, bottom), value or 0.0)]


def _filled(module: nn.Module, **tensors: Any) -> nn.Module:
    """A module in evaluation mode with the given parameters and buffers."""
    if any(isinstance(tensor, fx.Node) for tensor in tensors.values()):
        raise RefusedError("takes weights that the network computes", "give it parameters or buffers of the module")
    with torch.no_grad():
        for name, tensor in tensors.items():
            if tensor is not None:
                getattr(module, name).copy_(tensor)
    return module.eval()


def _batch_norm(
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Steps:
    if training or running_mean is None or running_var is None:
        raise RefusedError("normalizes by the statistics of each batch", "keep running statistics")
    norm = nn.BatchNorm2d(_length(running_mean, 0), eps)
    return [_filled(norm, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)]


def _convolution(
    weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Steps:
    kernel = (_length(weight, 2), _length(weight, 3))
    inputs = _length(weight, 1) * groups
    conv = nn.Conv2d(inputs, _length(weight, 0), kernel, stride, padding, dilation, groups, bias is not None)
    return [_filled(conv, weight=weight, bias=bias)]


def _linear(weight: Any, bias: Any = None) -> Steps:
    return [_filled(nn.Linear(_length(weight, 1), _length(weight, 0), bias is not None), weight=weight, bias=bias)]


def _prelu(weight: Any) -> Steps:
    return [_filled(nn.PReLU(_length(weight, 0)), weight=weight)]


def _length(tensor: Any, axis: int) -> int:
    return int(tensor.shape[axis]) if isinstance(tensor, Tensor) else 1


def _flatten(start_dim: int = 0, end_dim: int = -1) -> Steps:
    return [nn.Flatten(start_dim, end_dim)]


def _reshape(*shape: Any) -> Steps:
    """To [N, -1], [N, F] or [-1, F]; an N that the network reads from a tensor's shape is the batch."""
    sizes = list(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else list(shape)
    if len(sizes) == 2 and (isinstance(sizes[0], fx.Node) or sizes[0] == -1):
        if isinstance(sizes[1], fx.Node):
            return [Squeeze()]
        if sizes[1] > 0:
            return [FlattenTo(sizes[1])]
        if sizes[0] != -1:
            return [nn.Flatten()]
    raise RefusedError(f"reshapes to {sizes}", "use nn.Flatten() or x.flatten(1)")


def _index(index: Any) -> Steps:
    if index != (slice(None), slice(None), 0, 0):
        raise RefusedError("takes a part of an activation", "use layers that are listed in docs/compile.md")
    return [Squeeze()]


def _squeeze(dim: Any = None) -> Steps:
    axes = {axis % 4 for axis in dim} if isinstance(dim, (tuple, list)) else {dim if dim is None else dim % 4}
    if not axes <= {2, 3}:
        raise RefusedError("drops the batch too where it is 1", "use nn.Flatten() or x.flatten(1)")
    return [Squeeze()]


def _softmax(dim: int | None = None, dtype: object = None, **options: object) -> Steps:
    return [nn.Softmax(dim)]


def _log_softmax(dim: int | None = None, dtype: object = None, **options: object) -> Steps:
    return [nn.LogSoftmax(dim)]


def _no_sign() -> Steps:
    raise RefusedError("gives 0 for 0, a third value between -1 and +1", "use everbit.nn.Sign, where sign(0) is +1")


_mean, _maximum = _over_the_map(nn.AdaptiveAvgPool2d), _over_the_map(nn.AdaptiveMaxPool2d)

FUNCTIONS: dict[object, Callable[..., Steps]] = {
    **dict.fromkeys((torch.relu, torch.relu_, functional.relu, functional.relu_), _relu),
    functional.relu6: _relu6,
    **dict.fromkeys((torch.clamp, torch.clip), _clamp),
    **dict.fromkeys((functional.hardtanh, functional.hardtanh_), _hardtanh),
    **dict.fromkeys((torch.max_pool2d, functional.max_pool2d), _max_pool),
    functional.avg_pool2d: _average_pool,
    functional.adaptive_avg_pool2d: _global_average_pool,
    functional.adaptive_max_pool2d: _global_max_pool,
    **dict.fromkeys((functional.dropout, functional.dropout2d, functional.alpha_dropout), _dropout),
    functional.pad: _pad,
    functional.batch_norm: _batch_norm,
    **dict.fromkeys((torch.conv2d, functional.conv2d), _convolution),
    functional.linear: _linear,
    **dict.fromkeys((torch.prelu, functional.prelu), _prelu),
    torch.flatten: _flatten,
    torch.reshape: _reshape,
    torch.squeeze: _squeeze,
    operator.getitem: _index,
    torch.mean: _mean,
    torch.amax: _maximum,
    **dict.fromkeys((torch.softmax, functional.softmax), _softmax),
    **dict.fromkeys((torch.log_softmax, functional.log_softmax), _log_softmax),
    **dict.fromkeys((torch.sign, torch.sgn), _no_sign),
}
METHODS: dict[str, Callable[..., Steps]] = {
    **dict.fromkeys(("relu", "relu_"), _relu),
    **dict.fromkeys(("clamp", "clamp_", "clip", "clip_"), _clamp),
    "prelu": _prelu,
    "flatten": _flatten,
    **dict.fromkeys(("view", "reshape"), _reshape),
    "squeeze": _squeeze,
    "mean": _mean,
    "amax": _maximum,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    **dict.fromkeys(("contiguous", "detach", "clone"), _nothing),
    **dict.fromkeys(("sign", "sign_", "sgn"), _no_sign),
}
