"""Hostile program images of 32-bit tensors: their layers have wider constants, with bounds of their own."""

from __future__ import annotations

import pytest

from attacks.hostile_program import INT32_LEAST, INT32_MOST, every_layer
from attacks.image_fields import ImageFields
from everbit import engine
from everbit.compile.image import program_image
from everbit.compile.operations import OPERATIONS

PROGRAM = every_layer(32)
IMAGE = program_image(PROGRAM)
KINDS = [layer.kind for layer in PROGRAM.layers]


def refused(image: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        engine.check_program(image)


def test_the_program_is_sound() -> None:
    engine.check_program(IMAGE)
    assert {tensor.bits for tensor in PROGRAM.tensors} == {1, 16, 32}


@pytest.mark.parametrize(
    ("kind", "name", "values"),
    [
        ("add", "A0", [2**30, -(2**30), INT32_MOST, INT32_LEAST]),
        ("add", "A1", [2**30, -(2**30), INT32_MOST, INT32_LEAST]),
        ("add", "B", [1, -1, INT32_MOST]),
        ("add", "s", [-1, 62, INT32_MOST, INT32_LEAST]),
        ("latent", "bits", [0, 17, 32, INT32_LEAST]),
        ("latent", "encode_A", [2**30, -(2**30), INT32_MOST, INT32_LEAST]),
        ("latent", "encode_s", [-1, 62, INT32_MOST]),
        ("latent", "decode_s", [-1, 62, INT32_LEAST]),
    ],
)
def test_attributes(kind: str, name: str, values: list[int]) -> None:
    index, place = KINDS.index(kind), OPERATIONS[kind].attributes.index(name)
    for value in values:
        changed = ImageFields(IMAGE).changed(**{f"layer__{index}__attribute{place}": value})
        refused(changed, "out of range|must have 1 to 16 bits")


@pytest.mark.parametrize(("place", "message"), [(0, "one value a channel"), (1, "one value a channel")])
def test_constants_of_narrow_layers(place: int, message: str) -> None:
    """The arrays of an affine at the size they have between narrower tensors."""
    index = KINDS.index("affine")
    image = ImageFields(IMAGE)
    size = image[f"layer.{index}.array{place}_bytes"]
    for value in (size // 2, size - 1, size + 4, 0):
        refused(image.changed(**{f"layer__{index}__array{place}_bytes": value}), message)


@pytest.mark.parametrize(
    ("place", "value"),
    [(1, (2**61 + 1).to_bytes(8, "little")), (1, (-(2**61) - 1).to_bytes(8, "little", signed=True)), (2, bytes([62]))],
)
def test_offsets_and_shifts_out_of_range(place: int, value: bytes) -> None:
    start = ImageFields(IMAGE)[f"layer.{KINDS.index('affine')}.array{place}_offset"]
    changed = bytearray(IMAGE)
    changed[start : start + len(value)] = value
    refused(bytes(changed), "out of range")


def test_a_batch_norm_that_learns_reads_no_32_bits() -> None:
    image = ImageFields(IMAGE)
    for index, kind in enumerate(KINDS):
        if kind == "batch_norm":
            changed = {f"tensor__{image[f'layer.{index}.input0']}__bits": 32}
            refused(image.changed(**changed), "batch norm that learns reads 32 bits|16-bit sums")
