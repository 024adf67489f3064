"""Activation functions: RPReLU, and clamps such as ReLU and hardtanh."""

from __future__ import annotations

import math

from torch import Tensor, fx, nn

from everbit.compile.clamps import clamp_bounds
from everbit.compile.lowering import Lowering, floats, named_scale
from everbit.compile.rules.binary import U_FRACTION
from everbit.compile.rules.shapes import same
from everbit.compile.rules.thresholds import leads_to_signs
from everbit.compile.trace import module_path
from everbit.nn.binary import RPReLU


def rprelu(low: Lowering, node: fx.Node) -> None:
    """Bias, PReLU, bias."""
    module = low.module(node)
    assert isinstance(module, RPReLU)
    _prelu(low, node, {"pre": module.bias_in, "slope": module.slope, "post": module.bias_out})


def prelu(low: Lowering, node: fx.Node) -> None:
    """PReLU alone, with one slope or one for each channel."""
    module = low.module(node)
    assert isinstance(module, nn.PReLU)
    _prelu(low, node, {"slope": module.weight.expand(low.shape(node)[2])})


def _prelu(low: Lowering, node: fx.Node, parameters: dict[str, nn.Parameter | Tensor]) -> None:
    index, source = low.read(node)
    target = low.activation(node)
    low.tensor[node] = low.builder.add(
        "rprelu",
        module_path(node),
        (index,),
        target,
        attributes={
            **named_scale("input", source.scale * 2.0**U_FRACTION),
            **named_scale("output", 2.0**-U_FRACTION / target.scale),
        },
        parameters={name: low.parameter(floats(values), least=0) for name, values in parameters.items()},
    )


def clamp(low: Lowering, node: fx.Node) -> None:
    """Bounds in the steps of the input, whose numbers the output keeps.

    A frozen clamp whose input saturates where it clamps is no layer at all, nor is one on sums that only signs read.
    Behind the cut it remains: its gradient is masked. Sums of a binary convolution, a scale for each channel, are
    clamped at 0 alone.
    """
    source = low.source(node)
    bounds = clamp_bounds(low.graph, node)
    assert bounds is not None
    sums = low.stands_for.get(source)
    if sums is not None and leads_to_signs(low, node):
        same(low, node)
        return
    if sums is not None and all(bound == 0 or math.isinf(bound) for bound in bounds):
        index = low.tensor[source]
        low.stands_for[node] = sums
    elif sums is not None and node in low.learnable:
        raise low.error(node, "clamps the sums of a binary convolution", "put a batch norm between the two")
    else:
        index = low.read(node)[0]
    tensor = low.builder.tensors[index]
    half = 2 ** (tensor.bits - 1)
    low_bound, high_bound = (_step(bound, tensor.zero_point, tensor.scale, half) for bound in bounds)
    if node not in low.learnable and low_bound <= -half and high_bound >= half - 1:
        low.tensor[node] = index
        return
    attributes = {"low": low_bound, "high": high_bound}
    made = low.builder.add("clamp", module_path(node), (index,), tensor, attributes=attributes)
    low.tensor[node] = made
    bounded = max(abs(low_bound - tensor.zero_point), abs(high_bound - tensor.zero_point))
    low.reach[made] = min(low.largest(index), bounded)


def _step(bound: float, zero_point: int, scale: float, half: int) -> int:
    """A real bound in steps; one beyond the ends of the range where nothing is clamped, as far as 32 bits hold that."""
    least, most = max(-half - 1, -(2**31)), min(half, 2**31 - 1)
    if math.isinf(bound):
        return most if bound > 0 else least
    return max(least, min(most, round(zero_point + bound / scale)))
