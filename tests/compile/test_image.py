"""The program image: Python's table of layers and the engine's agree, and packed weights come back."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attacks.image_fields import ImageFields
from everbit.compile import image as writer
from everbit.compile.image import program_image
from everbit.compile.operations import ESTIMATORS, OPERATIONS, PARAMETER_KINDS
from everbit.packed_weights import pack_binary_weights, unpack_binary_weights, words_per_pixel
from reference.random_program import random_program

ENGINE = Path(__file__).resolve().parents[2] / "engine"
HEADER = (ENGINE / "program.h").read_text()
LAYER_TABLE = (ENGINE / "layers" / "layer.cc").read_text()


def snake(name: str) -> str:
    """kBinaryConvolution -> binary_convolution; RPReLU is one word."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name.removeprefix("k").replace("RPReLU", "Rprelu")).lower()


def enumerators(text: str, name: str) -> list[str]:
    """Names of an enum of a C++ source, without the last one, kCount."""
    match = re.search(rf"enum (?:class )?{name}(?: : int32_t)? \{{([^}}]*)\}}", text)
    assert match is not None
    names = [snake(entry.strip()) for entry in match[1].split(",") if entry.strip()]
    assert names[-1] in ("count", "estimators")
    return names[:-1]


def constant(name: str) -> int:
    match = re.search(rf"constexpr int32_t {name} = (-?\d+);", HEADER)
    assert match is not None
    return int(match[1])


def test_the_operations_are_the_engine_s() -> None:
    assert enumerators(HEADER, "Operation") == sorted(OPERATIONS, key=lambda name: OPERATIONS[name].code)
    assert [operation.code for operation in OPERATIONS.values()] == list(range(len(OPERATIONS)))


def test_the_kinds_of_parameters_are_the_engine_s() -> None:
    assert enumerators(HEADER, "ParameterKind") == list(PARAMETER_KINDS)


def test_the_estimators_are_the_engine_s() -> None:
    assert enumerators((ENGINE / "layers" / "sign.cc").read_text(), "Estimator") == list(ESTIMATORS)


def test_inputs_and_parameters_of_every_layer_are_the_engine_s() -> None:
    rows = re.findall(r'\{"(\w+)", (\d), \{([^}]*)\}', LAYER_TABLE)
    assert [name for name, _, _ in rows] == list(OPERATIONS)
    for name, inputs, kinds in rows:
        assert int(inputs) == OPERATIONS[name].inputs
        assert [snake(kind.strip()) for kind in kinds.split(",") if kind] == [
            kind for _, kind in OPERATIONS[name].parameters
        ]


def test_the_sizes_of_the_tables_are_the_engine_s() -> None:
    assert constant("kProgramVersion") == writer.VERSION
    assert constant("kMaxAttributes") == writer.MAX_ATTRIBUTES >= max(len(o.attributes) for o in OPERATIONS.values())
    assert constant("kMaxArrays") == writer.MAX_ARRAYS >= max(len(o.arrays) for o in OPERATIONS.values())
    assert constant("kMaxParameters") == writer.MAX_PARAMETERS >= max(len(o.parameters) for o in OPERATIONS.values())
    assert constant("kAbsent") == writer.ABSENT


@pytest.mark.parametrize("seed", range(5))
def test_an_image_says_what_the_program_says(seed: int) -> None:
    program = random_program(np.random.default_rng(seed))
    image = program_image(program)
    assert image == program_image(program)
    fields = ImageFields(image)
    assert fields["header.image_bytes"] == len(image)
    for index, tensor in enumerate(program.tensors):
        for name in ("height", "width", "channels", "bits", "zero_point"):
            assert fields[f"tensor.{index}.{name}"] == getattr(tensor, name)
    for index, layer in enumerate(program.layers):
        operation = OPERATIONS[layer.kind]
        assert fields[f"layer.{index}.operation"] == operation.code
        assert fields[f"layer.{index}.output"] == layer.output
        for place, name in enumerate(operation.attributes):
            assert fields[f"layer.{index}.attribute{place}"] == layer.attributes[name]
        for place, (name, dtype) in enumerate(operation.arrays):
            start, size = (fields[f"layer.{index}.array{place}_{part}"] for part in ("offset", "bytes"))
            expected = (
                layer.arrays[name].astype(np.dtype(dtype).newbyteorder("<")).tobytes() if name in layer.arrays else b""
            )
            assert image[start : start + size] == expected
            assert start % writer.ALIGNMENT == 0
        for place, (name, _) in enumerate(operation.parameters):
            number = fields[f"layer.{index}.parameter{place}"]
            assert (number == writer.ABSENT) == (name not in layer.parameters)
            if name in layer.parameters:
                start, size = (fields[f"parameter.{number}.{part}"] for part in ("offset", "bytes"))
                assert image[start : start + size] == layer.parameters[name].values.astype("<i4").tobytes()
                assert fields[f"parameter.{number}.range"] == layer.parameters[name].range_exponent


@given(st.integers(1, 20), st.integers(1, 9), st.integers(1, 200), st.integers(0, 2**32 - 1))
def test_packed_weights_come_back(out_channels: int, taps: int, in_channels: int, seed: int) -> None:
    bits = np.random.default_rng(seed).random((out_channels, taps, in_channels)) < 0.5
    packed = pack_binary_weights(bits)
    assert packed.shape == (-(-out_channels // 8), taps * words_per_pixel(in_channels), 8)
    assert packed.dtype == np.uint64
    np.testing.assert_array_equal(unpack_binary_weights(packed, out_channels, taps, in_channels), bits)
    assert sum(int(word).bit_count() for word in packed.ravel()) == bits.sum(), "unused bits are 0"


def test_where_a_weight_bit_lies() -> None:
    """[block of 8 outputs][tap, word][output in the block], lowest bit first: engine/kernels/xnor_gemm/xnor_gemm.h."""
    for out, tap, channel in [(0, 0, 0), (9, 1, 64), (7, 2, 129), (8, 0, 63)]:
        bits = np.zeros((10, 3, 130), np.bool_)
        bits[out, tap, channel] = True
        packed = pack_binary_weights(bits)
        assert packed[out // 8, tap * 3 + channel // 64, out % 8] == 1 << (channel % 64)
        assert np.count_nonzero(packed) == 1
