"""Hostile program images: what the header, the tensors and the graph say is checked before anything is read."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from attacks.hostile_program import IMAGE, INT32_LEAST, INT32_MOST, LAYERS, PROGRAM, at, fields, learns, refused
from attacks.image_fields import ImageFields
from everbit import engine
from everbit.compile.image import program_image
from everbit.compile.operations import OPERATIONS
from reference.known_classes import with_known_classes


def test_the_program_itself_is_sound() -> None:
    engine.check_program(IMAGE)
    assert set(LAYERS) == set(OPERATIONS)
    assert bytes(fields().image) == IMAGE
    assert fields()["header.image_bytes"] == len(IMAGE)


def test_truncated_at_every_record() -> None:
    image = fields()
    cuts = [0, 1, 7, 8, *image.ends.values(), *(end - 1 for end in image.ends.values()), len(IMAGE) - 1]
    for cut in cuts:
        refused(IMAGE[:cut], "truncated")
        if cut >= image.ends["header"]:  # the length in the header made to fit: the tables or arrays do not
            refused(image.changed(header__image_bytes=cut)[:cut])
    refused(IMAGE + b"\0", "names another length")


@pytest.mark.parametrize(
    ("field", "values", "message"),
    [
        ("version", [2, INT32_MOST], "newer everbit: update"),
        ("version", [0, -1], "never existed"),
        ("image_bytes", [0, -1, INT32_MOST, len(IMAGE) + 64], "names another length"),
        ("tensor_count", [0, -1, 2049, INT32_MOST], "impossible number"),
        ("layer_count", [0, 1, -1, 2049, INT32_MOST], "impossible number"),
        ("parameter_count", [-1, 3 * 2048 + 1, INT32_MOST], "impossible number"),
        ("tensor_count", [2048], "tables do not fit"),
        ("layer_count", [2048], "tables do not fit"),
        ("parameter_count", [6144], "tables do not fit"),
        ("logit_mantissa", [1, 2**30 - 1, INT32_LEAST], "head .* impossible scale"),
        ("feature_mantissa", [-1, -(2**30) + 1], "head .* impossible scale"),
        ("logit_exponent", [1025, -1025, INT32_MOST, INT32_LEAST], "head .* impossible scale"),
        ("feature_exponent", [1025, INT32_LEAST], "head .* impossible scale"),
        ("head_range", [32, -32, INT32_MOST], "head .* impossible scale"),
    ],
)
def test_header(field: str, values: list[int], message: str) -> None:
    for value in values:
        refused(fields().changed(**{f"header__{field}": value}), message)


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"EVERBIT", b"everbit\0" + IMAGE[8:], b"PK\3\4" + IMAGE[4:]])
def test_foreign_bytes(content: bytes) -> None:
    refused(content, "truncated|no everbit|not an everbit")


@pytest.mark.parametrize("name", ["height", "width", "channels"])
@pytest.mark.parametrize("value", [0, -1, 2**14 + 1, 46341, 65536, 2**30, INT32_MOST, INT32_LEAST])
def test_sides_of_a_tensor(name: str, value: int) -> None:
    for tensor in range(len(PROGRAM.tensors)):
        refused(fields().changed(**{f"tensor__{tensor}__{name}": value}), "impossible shape")


@pytest.mark.parametrize(
    "shape",
    [
        (16384, 16384, 16384),
        (16384, 16384, 1),
        (16384, 4097, 1),
        (1, 16384, 16384),
        (8192, 8192, 2),
        (2048, 2048, 1024),
    ],
)
def test_products_beyond_int32(shape: tuple[int, int, int]) -> None:
    """Each side allowed, the product not: 2^26 values at most."""
    values = dict(zip(("tensor__0__height", "tensor__0__width", "tensor__0__channels"), shape, strict=True))
    refused(fields().changed(**values), "impossible shape")


@pytest.mark.parametrize(
    ("name", "values"),
    [("bits", [0, 2, 4, 7, 33, 64, -1, INT32_MOST]), ("zero_point", [2**15, -(2**15) - 1, INT32_LEAST])],
)
def test_numbers_of_a_tensor(name: str, values: list[int]) -> None:
    for value in values:
        refused(fields().changed(**{f"tensor__0__{name}": value}), "impossible width or zero point")


@pytest.mark.parametrize(
    ("bits", "values"), [(1, [1, -1]), (8, [128, -129, 2**15 - 1, -(2**15)]), (32, [1, -1, 2**15 - 1])]
)
def test_zero_points_are_integers_of_the_tensor(bits: int, values: list[int]) -> None:
    """Kernels for 8-bit values take zero points in 8 bits too."""
    for value in (*values, INT32_LEAST):
        refused(fields().changed(tensor__0__bits=bits, tensor__0__zero_point=value), "impossible width or zero point")


def test_a_tensor_of_another_shape_than_its_layer_makes() -> None:
    for tensor in range(len(PROGRAM.tensors)):
        image = fields()
        for name in ("height", "width", "channels"):
            refused(image.changed(**{f"tensor__{tensor}__{name}": image[f"tensor.{tensor}.{name}"] + 1}))


@pytest.mark.parametrize("index", range(len(LAYERS)), ids=LAYERS)
def test_graph(index: int) -> None:
    image = fields()
    own = image[f"layer.{index}.output"]
    for value in (-1, len(PROGRAM.tensors), INT32_MOST, INT32_LEAST):
        refused(image.changed(**{f"layer__{index}__output": value}), "does not exist")
    if index > 0:
        refused(image.changed(**{f"layer__{index}__output": image[f"layer.{index - 1}.output"]}), "same tensor")
    for place in range(OPERATIONS[LAYERS[index]].inputs):
        name = f"layer__{index}__input{place}"
        refused(image.changed(**{name: own}), "no earlier layer")  # reads its own output
        if index + 1 < len(LAYERS):
            refused(image.changed(**{name: image[f"layer.{index + 1}.output"]}), "no earlier layer")
        for value in (-1, len(PROGRAM.tensors), INT32_MOST, INT32_LEAST):
            refused(image.changed(**{name: value}), "no earlier layer")
        if index > PROGRAM.latent_index:
            refused(image.changed(**{name: 0}), "its side of the latent")
    if OPERATIONS[LAYERS[index]].inputs < 2:
        refused(image.changed(**{f"layer__{index}__input1": 0}), "too many inputs")


@pytest.mark.parametrize("value", [-1, len(OPERATIONS), 255, INT32_MOST, INT32_LEAST])
def test_unknown_kinds_of_layers(value: int) -> None:
    for index in range(len(LAYERS)):
        refused(fields().changed(**{f"layer__{index}__operation": value}), "unknown kind")


ALIKE = {
    ("max_pool", "average_pool"),
    ("average_pool", "max_pool"),
    ("average_pool", "blur_pool"),
    ("blur_pool", "average_pool"),
    ("blur_pool", "max_pool"),
    ("global_max_pool", "global_average_pool"),
    ("flatten", "global_average_pool"),
    ("flatten", "global_max_pool"),
    ("flatten", "clamp"),
}


def test_every_layer_taken_for_every_other() -> None:
    """Not each is wrong in itself: those of the same shapes and few constants make sound programs, which learn."""
    for index, kind in enumerate(LAYERS):
        for name, operation in OPERATIONS.items():
            if name == kind:
                continue
            image = fields().changed(**{f"layer__{index}__operation": operation.code})
            if (kind, name) in ALIKE:
                learns(image)
            else:
                refused(image)


def test_the_only_input_comes_first_and_the_only_latent_is_there() -> None:
    code = {name: operation.code for name, operation in OPERATIONS.items()}
    refused(fields().changed(layer__1__operation=code["input"]), "only input")
    refused(fields().changed(layer__0__operation=code["affine"]), "only input")
    refused(fields().changed(**{f"layer__{at('latent')}__operation": code["add"]}))
    refused(fields().changed(**{f"layer__{at('rprelu')}__operation": code["latent"]}), "more than one latent")


KNOWN = program_image(with_known_classes(PROGRAM, np.random.default_rng(0), ("a", "b", "c")))


@pytest.mark.parametrize(
    ("field", "values", "message"),
    [
        ("classes", [-1, 65535, INT32_MOST, INT32_LEAST], "impossible number of classes"),
        ("classes", [1000, 65534], "lie outside the image"),
        *(
            (name, [-64, 1, 32, -(-len(KNOWN) // 64) * 64, INT32_MOST, INT32_LEAST], "lie outside the image")
            for name in ("weights", "bias", "past")
        ),
    ],
)
def test_known_classes(field: str, values: list[int], message: str) -> None:
    engine.check_program(KNOWN)
    for value in values:
        refused(ImageFields(KNOWN).changed(**{f"header__known_{field}": value}), message)


def test_known_classes_that_stand_for_nothing() -> None:
    for past in (0, -1, INT32_LEAST):
        image = ImageFields(KNOWN)
        struct.pack_into("<i", image.image, image["header.known_past"] + 8, past)
        refused(bytes(image.image), "stands for no pattern")


def test_fewer_classes_than_are_known() -> None:
    learns(KNOWN, classes=3)
    with pytest.raises(ValueError, match="knows more classes"):
        learns(KNOWN, classes=2)


def test_no_classes_need_no_arrays() -> None:
    """Images from before there were any hold 0; whatever stands in the other fields then means nothing."""
    image = ImageFields(KNOWN)
    image["header.known_classes"] = 0
    learns(image.changed(header__known_weights=INT32_MOST, header__known_bias=-1, header__known_past=3))
