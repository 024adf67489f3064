"""Statistics of a compiled program, from its tables. Needs no torch."""

from __future__ import annotations

import math
from collections import Counter

from everbit.compile.program import Layer, Program
from everbit.zoo.statistics import LayerStatistics

PARAMETER_BITS = 32  # of what learns, in the file; a learner keeps it in the widths it was compiled for
_FIXED = {"blur_pool": 9}  # taps of filters that no array holds
_KERNEL = ("kernel_height", "kernel_width")


def _weights(program: Program, layer: Layer) -> int:
    """Weights of a layer that multiplies, 0 for others."""
    output = program.tensors[layer.output]
    taps = math.prod(layer.attributes.get(name, 0) for name in _KERNEL)
    if layer.kind == "depthwise_convolution":
        return output.channels * taps
    groups = max(1, layer.attributes.get("groups", 1))
    return output.channels * taps * program.tensors[layer.inputs[0]].channels // groups if taps else 0


def _layer(program: Program, index: int) -> LayerStatistics:
    layer = program.layers[index]
    output = program.tensors[layer.output]
    binary = layer.kind == "binary_convolution"
    weights, taps = _weights(program, layer), _FIXED.get(layer.kind, 0)
    parameters: Counter[int] = Counter()
    for name, array in layer.arrays.items():
        if name != "bits":
            parameters[array.dtype.itemsize * 8] += array.size
    trainable = 0
    if binary:
        parameters[1] = weights
        trainable = weights
    else:
        trainable = sum(parameter.values.size for parameter in layer.parameters.values())
        parameters[PARAMETER_BITS] += trainable
    learnable = index > program.latent_index
    places = output.height * output.width
    macs = places * (weights or taps * output.channels)
    return LayerStatistics(
        name=layer.name,
        kind=layer.kind,
        input_bits=program.tensors[layer.inputs[0]].bits if layer.inputs else 8,
        output_shape=(output.height, output.width, output.channels),
        parameters={bits: count for bits, count in sorted(parameters.items()) if count},
        trainable=trainable if learnable else 0,
        binary_macs=macs if binary else 0,
        other_macs=0 if binary else macs,
        learnable=learnable,
    )


def program_statistics(program: Program) -> list[LayerStatistics]:
    """Every layer of the program, in order, without the head that a learner grows.

    Parameters are the numbers in the file: arrays by the width of their elements, binary weights as single bits.
    """
    return [_layer(program, index) for index in range(len(program.layers))]
