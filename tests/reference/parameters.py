"""Trainable parameters at a learner's bit widths (docs/arithmetic.md, section 2) and their update (section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from everbit.compile.operations import OPERATIONS
from everbit.compile.program import Layer, Parameter, Program
from everbit.packed_weights import unpack_binary_weights
from reference.fixed_point import (
    Integers,
    Scale,
    draws_at,
    int64,
    multiply,
    reciprocal,
    rshift,
    sats,
    scale,
    scale_randomly,
)


class ParameterSum(NamedTuple):
    """A parameter's gradient summed over the mini-batch: values * 2^exponent * factor; no factor is a factor of 1."""

    values: Integers
    exponent: int
    factor: Scale | None = None


@dataclass
class ParameterState:
    """A parameter of `bits` bits; kind: a key of PARAMETER_KINDS.

    Binary latent weights [C_out, height, width, C_in] have kind "binary" and range exponent 0; at 1 bit they are +-1
    and never change.
    """

    kind: str
    values: Integers
    bits: int
    range_exponent: int

    @property
    def trainable(self) -> bool:
        return self.bits > 1

    @property
    def signs(self) -> Integers:
        """Weight bits of a binary layer as +-1."""
        return np.where(self.values >= 0, 1, -1)

    @property
    def p16(self) -> Integers:
        """The 16 bits that the forward pass sees."""
        return sats(rshift(self.values, self.bits - 16), 16) if self.bits > 16 else self.values << (16 - self.bits)

    @property
    def p8(self) -> Integers:
        """The 8 bits that a real convolution sees."""
        return sats(rshift(self.values, self.bits - 8), 8)

    def update(self, gradient: ParameterSum, learning_rate: Scale, batch: int, key: int | None = None) -> None:
        """One step of SGD; key: of this parameter's stochastic rounding, None for rounding to nearest."""
        step = multiply(learning_rate, reciprocal(batch))
        if gradient.factor is not None:
            step = multiply(step, gradient.factor)
        power = gradient.exponent - self.range_exponent + self.bits - 1
        by = step.times_power(power)
        if key is None:
            moved = scale(gradient.values, by)
        else:
            draws = draws_at(key, np.arange(gradient.values.size)) >> np.uint64(32)
            moved = scale_randomly(gradient.values, by, int64(draws))
        self.values = sats(self.values - moved, self.bits)


def narrow(parameter: Parameter, bits: int) -> Integers:
    """The program's 32-bit values at `bits` bits."""
    return sats(rshift(parameter.values, 32 - bits), bits)


def binary_weight_signs(layer: Layer, in_channels: int, out_channels: int) -> Integers:
    """The program's weight bits of a binary convolution as +-1, [C_out, height, width, C_in]."""
    height, width = layer.attributes["kernel_height"], layer.attributes["kernel_width"]
    words = layer.arrays["bits"].astype(np.uint64)
    bits = unpack_binary_weights(words, out_channels, height * width, in_channels)
    return np.where(bits, 1, -1).astype(np.int64).reshape(out_channels, height, width, in_channels)


def layer_state(program: Program, index: int, q_bin: int, q_nonbin: int) -> dict[str, ParameterState]:
    """A layer's parameters at the start of a learner's life; those of the frozen part keep 32 bits."""
    layer = program.layers[index]
    learnable = index > program.latent_index
    source, target = program.tensors[layer.inputs[0]] if layer.inputs else None, program.tensors[layer.output]
    state = {}
    if layer.kind == "binary_convolution":
        assert source is not None
        signs = binary_weight_signs(layer, source.channels, target.channels)
        bits = q_bin if learnable and "weight" in layer.parameters else 1
        if bits > 1:
            signs = signs * np.maximum(narrow(layer.parameters["weight"], bits), 1)
        return {"weight": ParameterState("binary", signs, bits, 0)}
    for name, kind in OPERATIONS[layer.kind].parameters:
        if name in layer.parameters:
            parameter = layer.parameters[name]
            bits = q_nonbin if learnable else 32
            values = narrow(parameter, bits)
            if kind == "weight":
                height, width = layer.attributes["kernel_height"], layer.attributes["kernel_width"]
                by_output = (target.channels, height, width, -1)
                values = values.reshape((height, width, -1) if layer.kind == "depthwise_convolution" else by_output)
            state[name] = ParameterState(kind, int64(values), bits, parameter.range_exponent)
    return state
