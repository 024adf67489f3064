"""Batch norms: folded in front of the cut, learning gamma and beta behind it."""

from __future__ import annotations

import numpy as np
from torch import fx, nn

from everbit.compile.lowering import Lowering, RealWeights, floats, named_scale
from everbit.compile.rules.real import frozen
from everbit.compile.trace import module_path
from everbit.quantize.scale import NARROW, WIDE, Floats, affine_of

XHAT_FRACTION = 11
"""Bits behind the point of a normalized activation."""


def batch_norm(low: Lowering, node: fx.Node) -> None:
    """A batch norm.

    Frozen: one multiply-add a channel, folded into a layer with real weights before it. Learnable: xhat, then gamma and
    beta.
    """
    module, source = low.module(node), low.source(node)
    assert isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d))
    gamma = floats(module.weight) if module.affine else np.ones(module.num_features)
    beta = floats(module.bias) if module.affine else np.zeros(module.num_features)
    mean, variance = low.calibration.statistics.get(node) or (floats(module.running_mean), floats(module.running_var))
    sigma = np.sqrt(variance + module.eps)
    if node in low.learnable:
        _learnable(low, node, gamma, beta, mean, sigma)
        return
    if source in low.deferred:
        before = low.deferred[source]
        factor = gamma / sigma
        weight, bias = before.weight * factor[:, None, None, None], beta + (before.bias - mean) * factor
        frozen(low, source, node, low.activation(node), RealWeights(weight, bias, before.groups))
        return
    index, unit, zero_point = _normalized_input(low, node)
    target = low.activation(node)
    a = unit * gamma / (sigma * target.scale)
    b = (beta - mean * gamma / sigma) / target.scale - a * zero_point
    wide = 32 in (target.bits, low.builder.tensors[index].bits)
    A, B, s = affine_of(a, b, WIDE if wide else NARROW)
    low.tensor[node] = low.builder.add("affine", module_path(node), (index,), target, arrays={"A": A, "B": B, "s": s})


def _normalized_input(low: Lowering, node: fx.Node) -> tuple[int, Floats | float, int]:
    """What a batch norm reads: tensor, real value of one step (by channel behind a binary convolution), zero point."""
    source = low.source(node)
    if source in low.channel_scale:
        return low.tensor[source], low.channel_scale[source], 0
    index, tensor = low.read(node)
    return index, tensor.scale, tensor.zero_point


def _learnable(low: Lowering, node: fx.Node, gamma: Floats, beta: Floats, mean: Floats, sigma: Floats) -> None:
    index, unit, zero_point = _normalized_input(low, node)
    source = low.source(node)
    input_exponent = 0
    if source not in low.channel_scale:
        mantissa, exponent = np.frexp(unit)
        if mantissa != 0.5:
            raise low.error(
                node, "learns, but no convolution that learns stands before it", "cut right after it, or further ahead"
            )
        input_exponent = int(exponent) - 1
        mean = mean - (_bias_before(low, source) if source in low.learnable else 0.0)
    a = unit / sigma * 2.0**XHAT_FRACTION
    A, B, s = affine_of(a, -mean / sigma * 2.0**XHAT_FRACTION - a * zero_point)
    target = low.activation(node)
    parameters = {"gamma": low.parameter(gamma, least=0), "beta": low.parameter(beta, least=0)}
    real = 2.0 ** (parameters["gamma"].range_exponent - 15 - XHAT_FRACTION) / target.scale
    low.tensor[node] = low.builder.add(
        "batch_norm",
        module_path(node),
        (index,),
        target,
        attributes={**named_scale("output", real), "input_exponent": input_exponent},
        arrays={"A": A, "B": B, "s": s},
        parameters=parameters,
    )


def _bias_before(low: Lowering, source: fx.Node) -> Floats | float:
    """The constant bias of the convolution before a learnable batch norm: it only moves the mean."""
    bias = getattr(low.module(source), "bias", None)
    return 0.0 if bias is None else floats(bias)
