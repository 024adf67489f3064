"""Convolutions: ordinary, in groups, depthwise, binary (docs/arithmetic.md, sections 3 and 4)."""

from __future__ import annotations

import numpy as np

from reference.fixed_point import Gradient, Integers, Scale, product_shift, scale
from reference.parameters import ParameterSum
from reference.step import BackwardResult, Step
from reference.windows import correlate, correlate_input_gradient, correlate_weight_gradient


def _by_output(step: Step, weight: Integers) -> Integers:
    """Weights as [C_out, height, width, C_in / groups]; depthwise ones lie [height, width, C]."""
    window, target = step.window, step.target
    if step.layer.kind == "depthwise_convolution":
        return weight.reshape(window.height, window.width, target.channels).transpose(2, 0, 1)[..., np.newaxis]
    return weight.reshape(target.channels, window.height, window.width, -1)


def real_convolution(step: Step, q: Integers) -> Integers:
    weight = step.state["weight"].p8 if "weight" in step.state else step.array("weight")
    acc = correlate(step.window.pad(step.raw(q), 0), _by_output(step, weight), step.window)
    if "bias" in step.layer.arrays:
        acc = acc + step.array("bias")
    multiplier = Scale(step.array("multiplier_mantissa"), step.array("multiplier_exponent"))
    return step.target.zero_point + scale(acc, multiplier)


def real_convolution_backward(step: Step, inputs: list[Integers], gradient: Gradient) -> BackwardResult:
    state, (g, e) = step.state["weight"], gradient
    weight = _by_output(step, state.p8)
    acc = correlate_input_gradient(g, weight, step.window, inputs[0])
    bits = step.sources[0].bits
    total = correlate_weight_gradient(g, step.window.pad(step.raw(inputs[0]), 0), weight, step.window, bits)
    if step.layer.kind == "depthwise_convolution":
        total = total[..., 0].transpose(1, 2, 0)
    sums = {"weight": ParameterSum(total, e + product_shift(bits), step.attribute_scale("input"))}
    return [Gradient(acc, e + state.range_exponent - 7)], sums


def binary_convolution(step: Step, signs: Integers) -> Integers:
    padded = step.window.pad(signs, step.layer.attributes["pad_value"])
    return correlate(padded, step.state["weight"].signs, step.window)


def binary_convolution_backward(step: Step, inputs: list[Integers], gradient: Gradient) -> BackwardResult:
    g, e = gradient
    weight = step.state["weight"]
    acc = correlate_input_gradient(g, weight.signs, step.window, inputs[0])
    if not weight.trainable:
        return [Gradient(acc, e)], {}
    padded = step.window.pad(inputs[0], step.layer.attributes["pad_value"])
    return [Gradient(acc, e)], {
        "weight": ParameterSum(correlate_weight_gradient(g, padded, weight.signs, step.window), e)
    }
