"""Hostile program images: attributes, arrays and parameters of every layer are checked before anything runs."""

from __future__ import annotations

import pytest

from attacks.hostile_program import IMAGE, INT32_LEAST, INT32_MOST, LAYERS, PROGRAM, at, fields, refused
from everbit.compile.operations import OPERATIONS, PARAMETER_KINDS

ATTACKED_ATTRIBUTES: dict[str, dict[str, list[int]]] = {
    "convolution": {
        "input_mantissa": [1, INT32_LEAST],
        "input_exponent": [2000, INT32_LEAST],
        "groups": [-1, 2, 5, INT32_MOST, INT32_LEAST],
    },
    "depthwise_convolution": {"input_mantissa": [1, INT32_LEAST], "input_exponent": [2000, INT32_LEAST]},
    "binary_convolution": {"pad_value": [-2, 2, INT32_MOST, INT32_LEAST]},
    "batch_norm": {
        "output_mantissa": [1, -5],
        "output_exponent": [1025, INT32_MOST],
        "input_exponent": [65, -65, INT32_MOST, INT32_LEAST],
    },
    "sign": {
        "estimator": [-1, 2, INT32_MOST],
        "clip": [-1, INT32_LEAST],
        "input_mantissa": [7],
        "input_exponent": [INT32_LEAST],
    },
    "add": {
        "A0": [2**13, -(2**13), INT32_MOST, INT32_LEAST],
        "A1": [2**13, INT32_LEAST],
        "B": [2**29 + 1, -(2**29) - 1, INT32_LEAST],
        "s": [-1, 30, INT32_MOST],
    },
    "rprelu": {
        "input_mantissa": [1],
        "input_exponent": [INT32_MOST],
        "output_mantissa": [-1],
        "output_exponent": [1025],
    },
    "average_pool": {
        "kernel": [0, -1, 256, INT32_MOST, INT32_LEAST],
        "stride": [-1, 1, 3, 256, INT32_MOST, INT32_LEAST],
        "padding": [-1, 2, INT32_MOST, INT32_LEAST],
        "skew": [-1, 2, INT32_MOST, INT32_LEAST],
        "inside_only": [-1, 2, INT32_MOST, INT32_LEAST],
    },
    "max_pool": {
        "kernel": [0, -1, 1, 256, INT32_MOST, INT32_LEAST],
        "stride": [0, -1, 2, 256, INT32_MOST, INT32_LEAST],
        "padding": [-1, 3, INT32_MOST, INT32_LEAST],
        "skew": [-2, 2, INT32_MOST, INT32_LEAST],
    },
    "blur_pool": {
        "stride": [0, -1, 4, 256, INT32_MOST, INT32_LEAST],
        "padding": [-1, 3, INT32_MOST, INT32_LEAST],
        "skew": [-2, 3, INT32_MOST, INT32_LEAST],
    },
    "clamp": {
        "low": [128, -130, INT32_MOST, INT32_LEAST],
        "high": [129, -129, INT32_MOST, INT32_LEAST],
    },
    "concat": {
        "A0": [2**30, -(2**30), INT32_MOST, INT32_LEAST],
        "s0": [-1, 62, INT32_MOST],
        "A1": [2**30, -(2**30), INT32_MOST, INT32_LEAST],
        "s1": [-1, 62, INT32_MOST],
    },
    "global_average_pool": {"multiplier_mantissa": [1, 2**29, INT32_LEAST], "multiplier_exponent": [1025, INT32_LEAST]},
    "latent": {
        "bits": [0, -1, 17, 32, INT32_MOST, INT32_LEAST],
        "encode_A": [2**15, -(2**15) - 1, INT32_MOST],
        "encode_B": [2**29 + 1, INT32_LEAST],
        "encode_s": [-1, 30, INT32_MOST],
        "decode_A": [2**15, INT32_LEAST],
        "decode_B": [-(2**29) - 1],
        "decode_s": [30, -1],
    },
}
for _kind in ("convolution", "binary_convolution", "depthwise_convolution"):
    for _name in ("kernel_height", "kernel_width", "stride"):
        ATTACKED_ATTRIBUTES[_kind][_name] = [0, -1, 256, 46341, INT32_MOST, INT32_LEAST]
    ATTACKED_ATTRIBUTES[_kind]["padding"] = [-1, 3, 255, INT32_MOST, INT32_LEAST]
    ATTACKED_ATTRIBUTES[_kind]["skew"] = [-2, 2, INT32_MOST, INT32_LEAST]


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [(k, n, v) for k, names in ATTACKED_ATTRIBUTES.items() for n, values in names.items() for v in values],
)
def test_attributes(kind: str, name: str, value: int) -> None:
    """In the frozen part and behind the latent."""
    place = OPERATIONS[kind].attributes.index(name)
    for index in {at(kind), at(kind, last=True)}:
        refused(fields().changed(**{f"layer__{index}__attribute{place}": value}))


@pytest.mark.parametrize("index", range(len(LAYERS)), ids=LAYERS)
def test_arrays(index: int) -> None:
    """Of a wrong size, out of the image, out of alignment, absent."""
    image = fields()
    for place, (name, _) in enumerate(OPERATIONS[LAYERS[index]].arrays):
        offset, size = f"layer__{index}__array{place}_offset", f"layer__{index}__array{place}_bytes"
        for value in (-64, len(IMAGE) // 64 * 64 + 64, 2**31 - 64, INT32_LEAST, INT32_MOST):
            refused(image.changed(**{offset: value}), "outside the image")
        for value in (1, 4, 32, 63):
            refused(image.changed(**{offset: image[f"layer.{index}.array{place}_offset"] + value}), "outside the image")
        for value in (-1, INT32_LEAST, INT32_MOST, len(IMAGE) + 1):
            refused(image.changed(**{size: value}), "outside the image")
        if name not in PROGRAM.layers[index].arrays:
            continue
        own = image[f"layer.{index}.array{place}_bytes"]
        for value in (0, own - 1, own + 1, own * 2):
            refused(image.changed(**{size: value}))


@pytest.mark.parametrize("index", range(fields()["header.parameter_count"]))
def test_parameters(index: int) -> None:
    image = fields()
    name = f"parameter__{index}__"
    for field, values, message in [
        ("layer", [-1, 0, len(LAYERS), INT32_MOST, INT32_LEAST], "malformed|not its own"),
        ("kind", [-1, len(PARAMETER_KINDS), INT32_MOST], "malformed"),
        ("count", [0, -1, INT32_MOST, INT32_LEAST, image[f"parameter.{index}.count"] + 1], "malformed"),
        ("range", [32, -32, INT32_LEAST], "malformed"),
        ("offset", [-64, 1, 2**31 - 64, len(IMAGE) // 64 * 64 + 64], "outside the image"),
        ("bytes", [-4, INT32_MOST, image[f"parameter.{index}.bytes"] - 4], "malformed|outside the image"),
    ]:
        for value in values:
            refused(image.changed(**{name + field: value}), message)
    kind = image[f"parameter.{index}.kind"]
    for other in set(range(len(PARAMETER_KINDS))) - {kind}:
        refused(image.changed(**{name + "kind": other}), "kind it does not learn")


def test_parameters_of_another_size_than_their_layer_needs() -> None:
    """Count and bytes agree with each other, not with the layer."""
    image = fields()
    for index in range(image["header.parameter_count"]):
        for count in (1, 2, 5):
            if count != image[f"parameter.{index}.count"]:
                values = {f"parameter__{index}__count": count, f"parameter__{index}__bytes": 4 * count}
                refused(image.changed(**values))


def test_parameters_shared_or_left_out() -> None:
    image = fields()
    owners = [index for index, layer in enumerate(PROGRAM.layers) if layer.parameters]
    for index in owners:
        for place, (name, _) in enumerate(OPERATIONS[LAYERS[index]].parameters):
            field = f"layer.{index}.parameter{place}"
            if name not in PROGRAM.layers[index].parameters:
                continue
            for value in (image[field] + 1, image[field] - 1, image["header.parameter_count"], INT32_MOST, INT32_LEAST):
                refused(image.changed(**{field.replace(".", "__"): value}))
            refused(image.changed(**{field.replace(".", "__"): -1}))  # belongs to no layer then
    norm = at("batch_norm")
    shared = {f"layer__{norm}__parameter1": image[f"layer.{norm}.parameter0"]}
    refused(image.changed(**shared), "not its own")


def test_a_sign_has_a_threshold_or_a_bias() -> None:
    """Fused with the layers before it, a sign reads thresholds, one a channel, and no bias."""
    image = fields()
    plain, biased = at("sign"), at("sign", last=True)
    borrowed = {f"layer__{biased}__array0_{end}": image[f"layer.{plain}.array0_{end}"] for end in ("offset", "bytes")}
    refused(image.changed(**borrowed), "not both")


def test_layers_without_parameters_take_none() -> None:
    image = fields()
    first = image["header.parameter_count"] - 1
    for index, kind in enumerate(LAYERS):
        for place in range(len(OPERATIONS[kind].parameters), 3):
            refused(image.changed(**{f"layer__{index}__parameter{place}": first}), "not its own|does not learn")


def test_constants_out_of_range() -> None:
    """Bytes of the arrays: unused weight bits, multipliers that are not normalised, affine shifts and offsets."""
    image = fields()

    def poked(index: int, place: int, value: bytes, skip: int = 0) -> bytes:
        changed = bytearray(IMAGE)
        start = image[f"layer.{index}.array{place}_offset"] + skip
        changed[start : start + len(value)] = value
        return bytes(changed)

    most, least = (2**29 + 1).to_bytes(4, "little"), (-(2**29) - 1).to_bytes(4, "little", signed=True)
    for kind in ("affine", "batch_norm"):
        refused(poked(at(kind), 2, bytes([30])), "out of range")
        refused(poked(at(kind), 1, most), "out of range")
        refused(poked(at(kind), 1, least), "out of range")
    kinds = ("convolution", "depthwise_convolution")
    for index in {at(kind, last) for kind in kinds for last in (False, True)}:
        for mantissa in (1, 2**30 - 1, 2**31):
            refused(poked(index, 2, mantissa.to_bytes(4, "little")), "impossible multiplier")
    for index in (at("binary_convolution"), at("binary_convolution", last=True)):
        refused(poked(index, 0, bytes([8])), "bits where it has no channels")  # channel 3 of 3
        refused(poked(index, 0, bytes([1]), skip=8 * 3), "bits where it has no channels")  # output channel 3 of 3
