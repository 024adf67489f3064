"""Pools (docs/arithmetic.md, sections 3 and 4)."""

from __future__ import annotations

import numpy as np

from reference.fixed_point import Gradient, Integers, int64, rdiv, reciprocal, rshift, scale
from reference.step import BackwardResult, Step
from reference.windows import Window, correlate, correlate_input_gradient

LOWEST = np.iinfo(np.int64).min
BINOMIAL = np.outer([1, 2, 1], [1, 2, 1])


def _every_channel(taps: Integers, channels: int) -> Integers:
    """One filter [height, width] for each channel, as weights of a depthwise correlation."""
    return np.broadcast_to(taps[np.newaxis, :, :, np.newaxis], (channels, *taps.shape, 1)).astype(np.int64)


def _ones(window: Window) -> Integers:
    return np.ones((window.height, window.width), np.int64)


def _places_inside(step: Step, q: Integers) -> Integers:
    """Places of each window inside the image, [1, out_height, out_width, 1]."""
    image = step.window.pad(np.ones((1, *q.shape[1:3], 1), np.int64), 0)
    return correlate(image, _every_channel(_ones(step.window), 1), step.window)


def _rounded_quotient(values: Integers, by: Integers) -> Integers:
    return int64(np.sign(values) * ((2 * np.abs(values) + by) // (2 * by)))


def average_pool(step: Step, q: Integers) -> Integers:
    window = step.window
    total = correlate(window.pad(step.raw(q), 0), _every_channel(_ones(window), q.shape[3]), window)
    if step.layer.attributes.get("inside_only", 0):
        return step.target.zero_point + _rounded_quotient(total, _places_inside(step, q))
    return step.target.zero_point + rdiv(total, window.height * window.width)


def average_pool_backward(step: Step, inputs: list[Integers], gradient: Gradient) -> BackwardResult:
    window = step.window
    if step.layer.attributes.get("inside_only", 0):
        share, power = _rounded_quotient(int64(2**23), _places_inside(step, inputs[0])), -23
    else:
        mantissa, exponent = reciprocal(window.height * window.width)
        share, power = int64(int(mantissa) >> 16), int(exponent) - 15
    weight = _every_channel(_ones(window), inputs[0].shape[3])
    acc = correlate_input_gradient(gradient.values * share, weight, window, inputs[0])
    return [Gradient(acc, gradient.exponent + power)], {}


def _winners(step: Step, q: Integers) -> tuple[Integers, Integers]:
    """The largest value of each window and the number of the tap that holds it first."""
    padded = step.window.pad(q, LOWEST)
    values = np.stack([padded[step.window.read(*tap)] for tap in step.window.taps()])
    return values.max(axis=0), values.argmax(axis=0)


def max_pool(step: Step, q: Integers) -> Integers:
    return _winners(step, q)[0]


def max_pool_backward(step: Step, inputs: list[Integers], gradient: Gradient) -> BackwardResult:
    window = step.window
    winner = _winners(step, inputs[0])[1]
    padded = np.zeros_like(window.pad(inputs[0], 0))
    for number, tap in enumerate(window.taps()):
        padded[window.read(*tap)] += np.where(winner == number, gradient.values, 0)
    return [Gradient(window.crop(padded, *inputs[0].shape[1:3]), gradient.exponent)], {}


def global_max_pool(step: Step, q: Integers) -> Integers:
    return q.max(axis=(1, 2), keepdims=True)


def global_max_pool_backward(step: Step, inputs: list[Integers], gradient: Gradient) -> BackwardResult:
    batch, height, width, channels = inputs[0].shape
    flat = inputs[0].reshape(batch, height * width, channels)
    first = np.arange(height * width)[:, np.newaxis] == flat.argmax(axis=1)[:, np.newaxis]
    acc = np.where(first, gradient.values.reshape(batch, 1, channels), 0)
    return [Gradient(acc.reshape(inputs[0].shape), gradient.exponent)], {}


def blur_pool(step: Step, q: Integers) -> Integers:
    total = correlate(step.window.pad(step.raw(q), 0), _every_channel(BINOMIAL, q.shape[3]), step.window)
    return step.target.zero_point + rshift(total, 4)


def blur_pool_backward(step: Step, inputs: list[Integers], gradient: Gradient) -> BackwardResult:
    weight = _every_channel(BINOMIAL, inputs[0].shape[3])
    acc = correlate_input_gradient(gradient.values, weight, step.window, inputs[0])
    return [Gradient(acc, gradient.exponent - 4)], {}


def global_average_pool(step: Step, q: Integers) -> Integers:
    total = step.raw(q).sum(axis=(1, 2), keepdims=True)
    return step.target.zero_point + scale(total, step.attribute_scale("multiplier"))


def global_average_pool_backward(step: Step, inputs: list[Integers], gradient: Gradient) -> BackwardResult:
    mantissa, exponent = reciprocal(inputs[0].shape[1] * inputs[0].shape[2])
    acc = np.broadcast_to(gradient.values * (int(mantissa) >> 16), inputs[0].shape).copy()
    return [Gradient(acc, gradient.exponent + int(exponent) - 15)], {}
