"""Batch norms: folded in front of the cut, learning gamma and beta behind it."""

from __future__ import annotations

import numpy as np
from torch import fx, nn

from everbit.compile.lowering import Lowering, RealWeights, floats, named_scale
from everbit.compile.plain_steps import MultiplyAdd
from everbit.compile.rules.real import frozen
from everbit.compile.rules.thresholds import taken_by_signs
from everbit.compile.trace import module_path
from everbit.quantize.scale import Floats, affine_of

XHAT_FRACTION = 11
"""Bits behind the point of a normalized activation."""

FAR = 4.0
"""Deviations of a batch norm's input from its statistics beyond which 16 bits of xhat, up to 16, are too few."""


def batch_norm(low: Lowering, node: fx.Node) -> None:
    """A batch norm.

    Frozen: one multiply-add a channel, folded into a layer with real weights before it, or into the thresholds of the
    signs behind it. Learnable: xhat, then gamma and beta.
    """
    module, source = low.module(node), low.source(node)
    assert isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d))
    gamma = floats(module.weight) if module.affine else np.ones(module.num_features)
    beta = floats(module.bias) if module.affine else np.zeros(module.num_features)
    if module.running_mean is None:
        raise low.error(node, "has no statistics of its own", "build it with track_running_stats=True")
    mean, sigma = floats(module.running_mean), np.sqrt(floats(module.running_var) + module.eps)
    if node in low.learnable:
        measured_mean, variance = low.calibration.statistics[node]
        measured = measured_mean, np.sqrt(variance + module.eps)
        if low.calibration.own_statistics:
            gamma, beta, mean, sigma = _within_xhat(gamma, beta, (mean, sigma), measured)
        else:
            mean, sigma = measured
        _learnable(low, node, gamma, beta, mean, sigma)
        return
    if source in low.deferred:
        layer = low.deferred[source]
        factor = gamma / sigma
        weight, bias = layer.weight * factor[:, None, None, None], beta + (layer.bias - mean) * factor
        frozen(low, source, node, low.activation(node), RealWeights(weight, bias, layer.groups))
        return
    _frozen(low, node, gamma / sigma, beta - mean * gamma / sigma)


def multiply_add(low: Lowering, node: fx.Node) -> None:
    """A constant times an activation, and a constant added to one."""
    module = low.module(node)
    assert isinstance(module, MultiplyAdd)
    if node in low.learnable:
        raise low.error(node, "takes a constant behind the cut", "fold it into a batch norm, or cut the network later")
    channels = low.shape(node)[2]
    factor, offset = (np.broadcast_to(floats(constant), channels) for constant in (module.factor, module.offset))
    _frozen(low, node, factor, offset)


def _frozen(low: Lowering, node: fx.Node, factor: Floats, offset: Floats) -> None:
    """factor * x + offset by channel: thresholds where only signs read it, else a layer."""
    if not taken_by_signs(low, node, factor, offset):
        index, before = low.by_channel(node, low.source(node))
        low.multiply_add(node, index, before.then(factor, offset), low.activation(node))


def _within_xhat(
    gamma: Floats, beta: Floats, own: tuple[Floats, Floats], measured: tuple[Floats, Floats]
) -> tuple[Floats, Floats, Floats, Floats]:
    """gamma, beta, mean and sigma of the same function, whose xhat fits its bits.

    A batch norm that was never trained, such as one that stands for a multiplier and a bias, may have statistics far
    from its input's. Such channels take the measured ones, and gamma and beta follow.
    """
    (mean, sigma), (measured_mean, measured_sigma) = own, measured
    far = np.hypot(measured_sigma, measured_mean - mean) > FAR * sigma
    new_gamma = np.where(far, gamma * measured_sigma / sigma, gamma)
    new_beta = np.where(far, beta + gamma * (measured_mean - mean) / sigma, beta)
    return new_gamma, new_beta, np.where(far, measured_mean, mean), np.where(far, measured_sigma, sigma)


def _learnable(low: Lowering, node: fx.Node, gamma: Floats, beta: Floats, mean: Floats, sigma: Floats) -> None:
    source = low.source(node)
    index, before = low.by_channel(node, source)
    input_exponent = 0
    if source not in low.stands_for:
        mantissa, exponent = np.frexp(low.builder.tensors[index].scale)
        if mantissa != 0.5:
            raise low.error(
                node, "learns, but no convolution that learns stands before it", "cut right after it, or further ahead"
            )
        input_exponent = int(exponent) - 1
        mean = mean - (_bias_before(low, source) if source in low.learnable else 0.0)
    one = 2.0**XHAT_FRACTION / sigma
    A, B, s = affine_of(before.factor * one, (before.offset - mean) * one)
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
