"""Forward and backward of every layer (docs/arithmetic.md, sections 3 and 4) on int64 arrays [N, H, W, C].

A 1-bit tensor is an array of +1 and -1. `FORWARD[kind](step, *inputs)` gives the output tensor before its clamp;
`BACKWARD[kind](step, inputs, gradient)` gives the gradients of the inputs before `quantize`, and the parameters' sums.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from everbit.compile.operations import ESTIMATORS
from reference import convolutions, pools
from reference.fixed_point import Gradient, Integers, affine, int64, rshift, sat, scale, shift_by, wide_affine
from reference.parameters import ParameterSum
from reference.step import BackwardResult, Step, channel_sum


def input_image(step: Step, image: Integers) -> Integers:
    return int64(2 * image - step.array("offset"))


def folded_affine(step: Step, q: Integers) -> Integers:
    rule = wide_affine if step.wide else affine
    return step.target.zero_point + rule(q, step.array("A"), step.array("B"), step.array("s"))


def normalized(step: Step, q: Integers) -> Integers:
    """xhat of a batch norm, 16 bits in units of 2^-11."""
    return sat(affine(q, step.array("A"), step.array("B"), step.array("s")), 16)


def batch_norm(step: Step, q: Integers) -> Integers:
    gamma, beta = step.state["gamma"], step.state["beta"]
    shift = shift_by(beta.p16, beta.range_exponent - gamma.range_exponent + 11)
    acc = sat(gamma.p16 * normalized(step, q) + shift, 32)
    return step.target.zero_point + scale(acc, step.attribute_scale("output"))


def batch_norm_backward(step: Step, inputs: list[Integers], gradient: Gradient) -> BackwardResult:
    g, e = gradient
    gamma, s = step.state["gamma"], step.array("s")
    sums = {
        "gamma": ParameterSum(channel_sum(g * normalized(step, inputs[0])), e - 11),
        "beta": ParameterSum(channel_sum(g), e),
    }
    least = int(s.min())
    slope = rshift(gamma.p16 * step.array("A"), s - least)
    t = max(0, int(np.abs(slope).max()).bit_length() - 15)
    exponent = e + gamma.range_exponent - 15 - least + t - 11 - step.layer.attributes["input_exponent"]
    return [Gradient(g * rshift(slope, t), exponent)], sums


def _biased(step: Step, q: Integers, name: str) -> Integers:
    """The real input plus the bias `name`, in units of 2^-16."""
    u = scale(step.raw(q), step.attribute_scale("input"))
    if name not in step.state:
        return u
    bias = step.state[name]
    return sat(u + shift_by(bias.p16, bias.range_exponent + 1), 32)


def sign(step: Step, q: Integers) -> Integers:
    if "bias" in step.state:
        return np.where(_biased(step, q, "bias") >= 0, 1, -1)
    return np.where(q >= step.array("threshold"), 1, -1)


def _ste_sign(g: Integers, u: Integers, clip: int) -> tuple[Integers, int]:
    return np.where(np.abs(u) <= clip, g, 0), 0


def _approx_sign(g: Integers, u: Integers, clip: int) -> tuple[Integers, int]:
    return g * np.maximum(0, 2**15 - (np.abs(u) >> 1)), -14


_ESTIMATOR = {"ste_sign": _ste_sign, "approx_sign": _approx_sign}


def sign_backward(step: Step, inputs: list[Integers], gradient: Gradient) -> BackwardResult:
    attributes = step.layer.attributes
    estimator = _ESTIMATOR[ESTIMATORS[attributes["estimator"]]]
    acc, power = estimator(gradient.values, _biased(step, inputs[0], "bias"), attributes["clip"])
    exponent = gradient.exponent + power
    sums = {"bias": ParameterSum(channel_sum(acc), exponent)} if "bias" in step.state else {}
    return [Gradient(acc, exponent)], sums


def add(step: Step, first: Integers, second: Integers) -> Integers:
    a = step.layer.attributes
    if step.wide:
        assert a["B"] == 0
        z0, z1 = (source.zero_point for source in step.sources)
        return step.target.zero_point + rshift((first - z0) * a["A0"] + (second - z1) * a["A1"], a["s"])
    total = first * a["A0"] + second * a["A1"] + a["B"]
    assert (total == sat(total, 32)).all(), "the sum of an add left int32"
    return step.target.zero_point + rshift(total, a["s"])


def add_backward(step: Step, inputs: list[Integers], gradient: Gradient) -> BackwardResult:
    return [gradient, gradient], {}


def rprelu(step: Step, q: Integers) -> Integers:
    u = _biased(step, q, "pre")
    slope = step.state["slope"]
    v = np.where(u > 0, u, sat(rshift(slope.p16 * u, 15 - slope.range_exponent), 32))
    if "post" in step.state:
        post = step.state["post"]
        v = sat(v + shift_by(post.p16, post.range_exponent + 1), 32)
    return step.target.zero_point + scale(v, step.attribute_scale("output"))


def rprelu_backward(step: Step, inputs: list[Integers], gradient: Gradient) -> BackwardResult:
    g, e = gradient
    u = _biased(step, inputs[0], "pre")
    slope = step.state["slope"]
    power = 15 - slope.range_exponent
    acc = np.where(u > 0, g << power, g * slope.p16)
    sums = {"slope": ParameterSum(channel_sum(np.where(u > 0, 0, g * sat(rshift(u, 5), 16))), e - 11)}
    if "pre" in step.state:
        sums["pre"] = ParameterSum(channel_sum(acc), e - power)
    if "post" in step.state:
        sums["post"] = ParameterSum(channel_sum(g), e)
    return [Gradient(acc, e - power)], sums


def clamp(step: Step, q: Integers) -> Integers:
    return np.clip(q, step.layer.attributes["low"], step.layer.attributes["high"])


def clamp_backward(step: Step, inputs: list[Integers], gradient: Gradient) -> BackwardResult:
    inside = (inputs[0] > step.layer.attributes["low"]) & (inputs[0] < step.layer.attributes["high"])
    return [Gradient(np.where(inside, gradient.values, 0), gradient.exponent)], {}


def concat(step: Step, first: Integers, second: Integers) -> Integers:
    a, zero_points = step.layer.attributes, [source.zero_point for source in step.sources]
    parts = [rshift((q - zero_points[k]) * a[f"A{k}"], a[f"s{k}"]) for k, q in enumerate((first, second))]
    return step.target.zero_point + np.concatenate(parts, axis=3)


def concat_backward(step: Step, inputs: list[Integers], gradient: Gradient) -> BackwardResult:
    split = inputs[0].shape[3]
    parts = gradient.values[..., :split], gradient.values[..., split:]
    return [Gradient(part, gradient.exponent) for part in parts], {}


def flatten(step: Step, q: Integers) -> Integers:
    return q.transpose(0, 3, 1, 2).reshape(len(q), 1, 1, -1)


def flatten_backward(step: Step, inputs: list[Integers], gradient: Gradient) -> BackwardResult:
    batch, height, width, channels = inputs[0].shape
    acc = gradient.values.reshape(batch, channels, height, width).transpose(0, 2, 3, 1)
    return [Gradient(acc, gradient.exponent)], {}


def encode_latent(step: Step, q: Integers) -> Integers:
    """Codes in [0, 2^L - 1] of the tensor at the cut."""
    a = step.layer.attributes
    if step.target.bits == 1:
        return int64(q > 0)
    if a["bits"] == 1:
        return int64(q >= step.array("threshold"))
    if step.wide:
        return np.clip(rshift((q - a["encode_B"]) * a["encode_A"], a["encode_s"]), 0, 2 ** a["bits"] - 1)
    return np.clip(affine(q, a["encode_A"], a["encode_B"], a["encode_s"]), 0, 2 ** a["bits"] - 1)


def decode_latent(step: Step, codes: Integers) -> Integers:
    """The tensor that the learnable part sees."""
    a = step.layer.attributes
    if step.target.bits == 1:
        return 2 * codes - 1
    if step.wide and a["bits"] > 1:
        return sat(a["decode_B"] + rshift(codes * a["decode_A"], a["decode_s"]), 32)
    if a["bits"] == 1:
        return sat(np.where(codes == 1, step.array("high"), step.array("low")), step.target.bits)
    return sat(affine(codes, a["decode_A"], a["decode_B"], a["decode_s"]), step.target.bits)


FORWARD: dict[str, Callable[..., Integers]] = {
    "input": input_image,
    "convolution": convolutions.real_convolution,
    "binary_convolution": convolutions.binary_convolution,
    "affine": folded_affine,
    "batch_norm": batch_norm,
    "sign": sign,
    "add": add,
    "rprelu": rprelu,
    "average_pool": pools.average_pool,
    "max_pool": pools.max_pool,
    "global_average_pool": pools.global_average_pool,
    "depthwise_convolution": convolutions.real_convolution,
    "blur_pool": pools.blur_pool,
    "global_max_pool": pools.global_max_pool,
    "clamp": clamp,
    "concat": concat,
    "flatten": flatten,
}

BACKWARD: dict[str, Callable[[Step, list[Integers], Gradient], BackwardResult]] = {
    "convolution": convolutions.real_convolution_backward,
    "binary_convolution": convolutions.binary_convolution_backward,
    "batch_norm": batch_norm_backward,
    "sign": sign_backward,
    "add": add_backward,
    "rprelu": rprelu_backward,
    "average_pool": pools.average_pool_backward,
    "max_pool": pools.max_pool_backward,
    "global_average_pool": pools.global_average_pool_backward,
    "depthwise_convolution": convolutions.real_convolution_backward,
    "blur_pool": pools.blur_pool_backward,
    "global_max_pool": pools.global_max_pool_backward,
    "clamp": clamp_backward,
    "concat": concat_backward,
    "flatten": flatten_backward,
}


def forward(step: Step, inputs: list[Integers]) -> Integers:
    """The output tensor, clamped to its bits."""
    out = FORWARD[step.layer.kind](step, *inputs)
    return out if step.target.bits == 1 else sat(out, step.target.bits)
