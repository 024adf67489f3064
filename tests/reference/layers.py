"""Forward and backward of every layer (docs/arithmetic.md, sections 3 and 4) on int64 arrays [N, H, W, C].

A 1-bit tensor is an array of +1 and -1. `FORWARD[kind](step, *inputs)` gives the output tensor before its clamp;
`BACKWARD[kind](step, inputs, gradient)` gives the gradients of the inputs before `quantize`, and the parameters' sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from everbit.compile.operations import ESTIMATORS
from everbit.compile.program import Layer, Tensor
from reference.fixed_point import (
    Gradient,
    Integers,
    Scale,
    affine,
    int64,
    product_shift,
    rdiv,
    reciprocal,
    rshift,
    sat,
    scale,
    shift_by,
    wide_affine,
)
from reference.parameters import ParameterState, ParameterSum
from reference.windows import Window, correlate, correlate_input_gradient, correlate_weight_gradient

LOWEST = np.iinfo(np.int64).min


@dataclass
class Step:
    """A layer with its tensors and the present state of its parameters."""

    layer: Layer
    sources: tuple[Tensor, ...]
    target: Tensor
    state: dict[str, ParameterState]

    def attribute_scale(self, name: str) -> Scale:
        """The Scale made of the attributes NAME_mantissa and NAME_exponent."""
        return Scale(self.layer.attributes[f"{name}_mantissa"], self.layer.attributes[f"{name}_exponent"])

    def array(self, name: str) -> Integers:
        return int64(self.layer.arrays[name])

    @property
    def window(self) -> Window:
        a = self.layer.attributes
        height, width = a.get("kernel_height", a.get("kernel", 0)), a.get("kernel_width", a.get("kernel", 0))
        return Window(height, width, a.get("stride", height), a.get("padding", 0))

    @property
    def wide(self) -> bool:
        """Whether one of its tensors has 32 bits."""
        return 32 in (self.target.bits, *(source.bits for source in self.sources))

    def raw(self, q: Integers) -> Integers:
        """q minus the zero point of the first input."""
        return q - self.sources[0].zero_point


BackwardResult = tuple[list[Gradient], dict[str, ParameterSum]]


def channel_sum(values: Integers) -> Integers:
    """Sum over the mini-batch and all places, [C]."""
    return int64(values.sum(axis=(0, 1, 2)))


def input_image(step: Step, image: Integers) -> Integers:
    return int64(2 * image - step.array("offset"))


def _real_weight(step: Step) -> Integers:
    if "weight" in step.state:
        return step.state["weight"].p8
    window, source, target = step.window, step.sources[0], step.target
    return step.array("weight").reshape(target.channels, window.height, window.width, source.channels)


def convolution(step: Step, q: Integers) -> Integers:
    padded = step.window.pad(step.raw(q), 0)
    acc = correlate(padded, _real_weight(step), step.window, step.target.height, step.target.width)
    if "bias" in step.layer.arrays:
        acc = acc + step.array("bias")
    multiplier = Scale(step.array("multiplier_mantissa"), step.array("multiplier_exponent"))
    return step.target.zero_point + scale(acc, multiplier)


def convolution_backward(step: Step, inputs: list[Integers], gradient: Gradient) -> BackwardResult:
    weight, (g, e) = step.state["weight"], gradient
    acc = correlate_input_gradient(g, weight.p8, step.window, *inputs[0].shape[1:3])
    bits = step.sources[0].bits
    total = correlate_weight_gradient(g, step.window.pad(step.raw(inputs[0]), 0), step.window, bits)
    factor = step.attribute_scale("input")
    sums = {"weight": ParameterSum(total, e + product_shift(bits), factor)}
    return [Gradient(acc, e + weight.range_exponent - 7)], sums


def binary_convolution(step: Step, signs: Integers) -> Integers:
    padded = step.window.pad(signs, step.layer.attributes["pad_value"])
    return correlate(padded, step.state["weight"].signs, step.window, step.target.height, step.target.width)


def binary_convolution_backward(step: Step, inputs: list[Integers], gradient: Gradient) -> BackwardResult:
    g, e = gradient
    weight = step.state["weight"]
    acc = correlate_input_gradient(g, weight.signs, step.window, *inputs[0].shape[1:3])
    if not weight.trainable:
        return [Gradient(acc, e)], {}
    padded = step.window.pad(inputs[0], step.layer.attributes["pad_value"])
    return [Gradient(acc, e)], {"weight": ParameterSum(correlate_weight_gradient(g, padded, step.window), e)}


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


def average_pool(step: Step, q: Integers) -> Integers:
    window, target = step.window, step.target
    raw = step.raw(q)
    total = sum(raw[window.read(*tap, target.height, target.width)] for tap in window.taps())
    return target.zero_point + rdiv(int64(total), window.height * window.width)


def average_pool_backward(step: Step, inputs: list[Integers], gradient: Gradient) -> BackwardResult:
    window = step.window
    mantissa, exponent = reciprocal(window.height * window.width)
    acc = np.zeros_like(inputs[0])
    for tap in window.taps():
        acc[window.read(*tap, step.target.height, step.target.width)] = gradient.values * (int(mantissa) >> 16)
    return [Gradient(acc, gradient.exponent + int(exponent) - 15)], {}


def _winners(step: Step, q: Integers) -> tuple[Integers, Integers]:
    """The largest value of each window and the number of the tap that holds it first."""
    padded = step.window.pad(q, LOWEST)
    height, width = step.target.height, step.target.width
    values = np.stack([padded[step.window.read(*tap, height, width)] for tap in step.window.taps()])
    return values.max(axis=0), values.argmax(axis=0)


def max_pool(step: Step, q: Integers) -> Integers:
    return _winners(step, q)[0]


def max_pool_backward(step: Step, inputs: list[Integers], gradient: Gradient) -> BackwardResult:
    window = step.window
    winner = _winners(step, inputs[0])[1]
    padded = np.zeros_like(window.pad(inputs[0], 0))
    for number, tap in enumerate(window.taps()):
        place = window.read(*tap, step.target.height, step.target.width)
        padded[place] += np.where(winner == number, gradient.values, 0)
    return [Gradient(window.crop(padded), gradient.exponent)], {}


def global_average_pool(step: Step, q: Integers) -> Integers:
    total = step.raw(q).sum(axis=(1, 2), keepdims=True)
    return step.target.zero_point + scale(total, step.attribute_scale("multiplier"))


def global_average_pool_backward(step: Step, inputs: list[Integers], gradient: Gradient) -> BackwardResult:
    mantissa, exponent = reciprocal(inputs[0].shape[1] * inputs[0].shape[2])
    acc = np.broadcast_to(gradient.values * (int(mantissa) >> 16), inputs[0].shape).copy()
    return [Gradient(acc, gradient.exponent + int(exponent) - 15)], {}


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
    "convolution": convolution,
    "binary_convolution": binary_convolution,
    "affine": folded_affine,
    "batch_norm": batch_norm,
    "sign": sign,
    "add": add,
    "rprelu": rprelu,
    "average_pool": average_pool,
    "max_pool": max_pool,
    "global_average_pool": global_average_pool,
}

BACKWARD: dict[str, Callable[[Step, list[Integers], Gradient], BackwardResult]] = {
    "convolution": convolution_backward,
    "binary_convolution": binary_convolution_backward,
    "batch_norm": batch_norm_backward,
    "sign": sign_backward,
    "add": add_backward,
    "rprelu": rprelu_backward,
    "average_pool": average_pool_backward,
    "max_pool": max_pool_backward,
    "global_average_pool": global_average_pool_backward,
}


def forward(step: Step, inputs: list[Integers]) -> Integers:
    """The output tensor, clamped to its bits."""
    out = FORWARD[step.layer.kind](step, *inputs)
    return out if step.target.bits == 1 else sat(out, step.target.bits)
