"""The table of layers a program may hold: the names and order of everything the engine reads.

`engine/program.h` has the same table in C++; `tests/compile/test_image.py` holds the two together. docs/arithmetic.md
says what each layer computes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Operation:
    """One kind of layer.

    code: its number in a program image.
    inputs: how many tensors it reads.
    attributes: names of its int32 attributes, in order.
    arrays: names and dtypes of its constant arrays, in order. An array may be absent.
    wide: dtypes that differ where the layer reads or writes a tensor of 32 bits.
    parameters: names and learning-rate kinds of its trainable parameters, in order. A parameter may be absent.
    later: names of its last attributes, which programs written before they existed lack; 0 means what those meant.
    """

    code: int
    inputs: int
    attributes: tuple[str, ...] = ()
    arrays: tuple[tuple[str, str], ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()
    wide: tuple[tuple[str, str], ...] = ()
    later: tuple[str, ...] = ()

    def dtypes(self, bits: Iterable[int]) -> dict[str, str]:
        """Names and dtypes of the arrays, in order, for a layer whose tensors have these bits."""
        return dict(self.arrays) | (dict(self.wide) if 32 in bits else {})


PARAMETER_KINDS = ("head", "binary", "norm", "bias", "weight")
"""Kinds of parameters, each with its own learning rate (docs/method.md 1.2)."""

ESTIMATORS = ("ste_sign", "approx_sign")
"""Straight-through estimators of a sign, by their number in a program image."""

_WINDOW = ("kernel_height", "kernel_width", "stride", "padding")
"""padding: rows above the image. skew, elsewhere: how many more columns left of it than rows above it."""

_REAL_WEIGHTS = (
    ("weight", "int8"),
    ("bias", "int32"),
    ("multiplier_mantissa", "int32"),
    ("multiplier_exponent", "int8"),
)
_AFFINE = (("A", "int16"), ("B", "int32"), ("s", "uint8"))

OPERATIONS: dict[str, Operation] = {
    "input": Operation(0, 0, arrays=(("offset", "int16"),)),
    "convolution": Operation(
        1,
        1,
        attributes=(*_WINDOW, "input_mantissa", "input_exponent", "skew", "groups"),
        arrays=_REAL_WEIGHTS,
        parameters=(("weight", "weight"),),
        later=("skew", "groups"),
    ),
    "binary_convolution": Operation(
        2,
        1,
        attributes=(*_WINDOW, "pad_value", "skew"),
        arrays=(("bits", "uint64"),),
        parameters=(("weight", "binary"),),
        later=("skew",),
    ),
    "affine": Operation(3, 1, arrays=_AFFINE, wide=(("A", "int32"), ("B", "int64"))),
    "batch_norm": Operation(
        4,
        1,
        attributes=("output_mantissa", "output_exponent", "input_exponent"),
        arrays=_AFFINE,
        parameters=(("gamma", "norm"), ("beta", "norm")),
    ),
    "sign": Operation(
        5,
        1,
        attributes=("estimator", "clip", "input_mantissa", "input_exponent"),
        arrays=(("threshold", "int32"),),
        parameters=(("bias", "bias"),),
    ),
    "add": Operation(6, 2, attributes=("A0", "A1", "B", "s")),
    "rprelu": Operation(
        7,
        1,
        attributes=("input_mantissa", "input_exponent", "output_mantissa", "output_exponent"),
        parameters=(("pre", "bias"), ("slope", "bias"), ("post", "bias")),
    ),
    "average_pool": Operation(
        8,
        1,
        attributes=("kernel", "stride", "padding", "skew", "inside_only"),
        later=("stride", "padding", "skew", "inside_only"),
    ),
    "max_pool": Operation(9, 1, attributes=("kernel", "stride", "padding", "skew"), later=("skew",)),
    "global_average_pool": Operation(10, 1, attributes=("multiplier_mantissa", "multiplier_exponent")),
    "latent": Operation(
        11,
        1,
        attributes=("bits", "encode_A", "encode_B", "encode_s", "decode_A", "decode_B", "decode_s"),
        arrays=(("threshold", "int32"), ("low", "int16"), ("high", "int16")),
        wide=(("low", "int32"), ("high", "int32")),
    ),
    "depthwise_convolution": Operation(
        12,
        1,
        attributes=(*_WINDOW, "input_mantissa", "input_exponent", "skew"),
        arrays=_REAL_WEIGHTS,
        parameters=(("weight", "weight"),),
    ),
    "blur_pool": Operation(13, 1, attributes=("stride", "padding", "skew")),
    "global_max_pool": Operation(14, 1),
    "clamp": Operation(15, 1, attributes=("low", "high")),
    "concat": Operation(16, 2, attributes=("A0", "s0", "A1", "s1")),
    "flatten": Operation(17, 1),
}
