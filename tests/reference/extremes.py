"""A program with many constants and parameters at the ends of what docs/arithmetic.md allows: every clamp is reached.

Some values stay as they were: where all saturate, no gradient flows and nothing is tested.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from everbit.compile.program import Head, Layer, Parameter, Program, Tensor

CHANNEL_SHARE = 0.3  # of the values of an array
TENSOR_SHARE = 0.15  # of the constants that hold for a whole tensor
MANTISSAS = (2**30, 2**31 - 1)
INT32_ENDS = (-(2**31 - 1), 2**31 - 1)

_ARRAYS: dict[str, tuple[int, ...]] = {
    "offset": (-(2**15), 2**15 - 1),
    "weight": (-128, 127),
    "bias": (-(2**31), 2**31 - 1),
    "multiplier_mantissa": (-(2**31) + 1, -(2**30), *MANTISSAS),
    "A": (-(2**15), 2**15 - 1),
    "B": (-(2**29), 2**29),
    "s": (0, 1, 15, 28, 29),
}

_ATTRIBUTES: dict[str, tuple[int, ...]] = {
    "A0": (-(2**13) + 1, 2**13 - 1),
    "A1": (-(2**13) + 1, 2**13 - 1),
    "B": (-(2**29), 2**29),
    "s": (0, 1, 15, 29),
    "clip": (0, 2**31 - 1),
    "encode_A": (-(2**15), 2**15 - 1),
    "encode_B": (-(2**29), 2**29),
    "encode_s": (0, 29),
    "decode_A": (-(2**14), 2**14),
    "decode_B": (-(2**29), 2**29),
    "decode_s": (0, 29),
}
"""Ends of each array and attribute; those named *_mantissa take MANTISSAS, those named *_exponent move by up to 6."""

_KEEPS_NUMBERS = ("latent", "average_pool", "max_pool", "global_max_pool", "blur_pool", "clamp", "flatten")


_WIDE_ARRAYS = {"A": INT32_ENDS, "B": (-(2**61), 2**61), "s": (0, 1, 32, 60, 61)}
_WIDE_ATTRIBUTES: dict[str, tuple[int, ...]] = {
    "A0": (-(2**30) + 1, 2**30 - 1),
    "A1": (-(2**30) + 1, 2**30 - 1),
    "s": (0, 1, 31, 61),
    "s0": (0, 1, 31, 61),
    "s1": (0, 1, 31, 61),
    "encode_A": (-(2**30) + 1, 2**30 - 1),
    "encode_B": INT32_ENDS,
    "encode_s": (0, 61),
    "decode_A": INT32_ENDS,
    "decode_B": INT32_ENDS,
    "decode_s": (0, 61),
}
"""The same for the layers that have wider constants, always or where a tensor has 32 bits."""


class _Extremes:
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def values(self, array: NDArray[np.generic], ends: tuple[int, ...]) -> NDArray[np.generic]:
        """A share of the values replaced by one of the ends."""
        drawn = self.rng.choice(np.array(ends, np.int64), array.shape)
        return np.where(self.rng.random(array.shape) < CHANNEL_SHARE, drawn, array.astype(np.int64)).astype(array.dtype)

    def array(self, name: str, array: NDArray[np.generic], source: Tensor | None, wide: bool) -> NDArray[np.generic]:
        if name == "bits":
            return array
        if name == "multiplier_exponent":
            return (array.astype(np.int64) + self.rng.integers(-6, 7, array.shape)).astype(array.dtype)
        if name in ("threshold", "low", "high"):
            assert source is not None
            half = 2 ** (source.bits - 1)
            return self.values(array, (-half, half - 1))
        return self.values(array, _WIDE_ARRAYS[name] if wide else _ARRAYS[name])

    def attribute(self, name: str, value: int, wide: bool) -> int:
        if self.rng.random() >= TENSOR_SHARE or (name.endswith("_mantissa") and value == 0):
            return value
        if name.endswith("_mantissa"):
            return int(self.rng.choice(MANTISSAS))
        if name.endswith("_exponent"):
            return value + int(self.rng.integers(-6, 7))
        ends = _WIDE_ATTRIBUTES if wide else _ATTRIBUTES
        return int(self.rng.choice(ends[name])) if name in ends else value

    def parameter(self, parameter: Parameter, kind: str) -> Parameter:
        ends = (1, 2**31 - 1) if kind == "binary_convolution" else INT32_ENDS
        values = self.values(parameter.values, ends).astype(np.int32)
        return replace(parameter, values=values)

    def layer(self, layer: Layer, tensors: tuple[Tensor, ...]) -> Layer:
        source = tensors[layer.inputs[0]] if layer.inputs else None
        bits = [tensors[index].bits for index in (*layer.inputs, layer.output)]
        wide = (32 in bits and layer.kind in ("affine", "add", "latent")) or layer.kind == "concat"
        attributes = {name: self.attribute(name, value, wide) for name, value in layer.attributes.items()}
        arrays = {name: self.array(name, array, source, wide) for name, array in layer.arrays.items()}
        parameters = {name: self.parameter(value, layer.kind) for name, value in layer.parameters.items()}
        return replace(layer, attributes=attributes, arrays=arrays, parameters=parameters)

    def zero_points(self, program: Program) -> tuple[Tensor, ...]:
        """Zero points at the ends of q_f bits; a latent or a pool keeps that of its input."""
        tensors = list(program.tensors)
        for layer in program.layers:
            tensor = tensors[layer.output]
            if layer.kind in _KEEPS_NUMBERS:
                tensors[layer.output] = replace(tensor, zero_point=tensors[layer.inputs[0]].zero_point)
            elif tensor.zero_point != 0 and self.rng.random() < TENSOR_SHARE:
                half = 2 ** (tensor.bits - 1)
                tensors[layer.output] = replace(tensor, zero_point=int(self.rng.choice([-half, half - 1])))
        return tuple(tensors)


def at_extremes(program: Program, rng: np.random.Generator) -> Program:
    """The same layers with a share of the constants at an end of their range; its real scales mean nothing any more."""
    extremes = _Extremes(rng)
    tensors = extremes.zero_points(program)
    layers = tuple(extremes.layer(layer, tensors) for layer in program.layers)
    exponent = program.head.logit[1]
    head = Head(
        program.head.range_exponent,
        (int(rng.choice(MANTISSAS)), exponent + int(rng.integers(-6, 7))),
        (int(rng.choice(MANTISSAS)), program.head.feature[1]),
    )
    return replace(program, tensors=tensors, layers=layers, head=head)
