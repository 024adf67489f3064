"""Hostile program images: every one is refused with a reason before anything runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from attacks.image_fields import ImageFields
from everbit import engine
from everbit.compile.image import program_image
from everbit.compile.operations import OPERATIONS, PARAMETER_KINDS
from everbit.compile.program import Program
from reference.program_builder import ProgramBuilder
from reference.random_program import SINGLE_LAYERS, random_program, single_layer_program

INT32_LEAST, INT32_MOST = -(2**31), 2**31 - 1


def every_layer() -> Program:
    """Small, with every kind of layer: two signs with and without bias, both kinds of convolution, all pools."""
    build = ProgramBuilder(np.random.default_rng(0), 8)
    out = build.frozen_convolution(build.input(6, 6, 2), 3)
    out = build.affine(build.binary_convolution(build.sign(out, False), 3, False))
    out = build.latent(out, 4)
    out = build.rprelu(out, True, True)
    out = build.add(build.batch_norm(build.binary_convolution(build.sign(out, True, True), 3, True)), out)
    out = build.average_pool(build.max_pool(build.batch_norm(build.learnable_convolution(out, 3)), 3, 1, 1))
    build.global_average_pool(out)
    return build.finish()


PROGRAM = every_layer()
IMAGE = program_image(PROGRAM)
LAYERS = [layer.kind for layer in PROGRAM.layers]


def fields() -> ImageFields:
    return ImageFields(IMAGE)


def refused(image: bytes, message: str = "") -> None:
    with pytest.raises(ValueError, match=message or "."):
        engine.check_program(image)


def at(kind: str, last: bool = False) -> int:
    """Index of a layer of a kind."""
    return (len(LAYERS) - 1 - LAYERS[::-1].index(kind)) if last else LAYERS.index(kind)


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
    ("name", "values"), [("bits", [0, 2, 4, 7, 32, -1, INT32_MOST]), ("zero_point", [2**15, -(2**15) - 1, INT32_LEAST])]
)
def test_numbers_of_a_tensor(name: str, values: list[int]) -> None:
    for value in values:
        refused(fields().changed(**{f"tensor__0__{name}": value}), "impossible width or zero point")


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


def test_every_layer_taken_for_every_other() -> None:
    """Not each is wrong in itself; none may crash."""
    for index, kind in enumerate(LAYERS):
        for name, operation in OPERATIONS.items():
            if name == kind:
                continue
            try:
                engine.check_program(fields().changed(**{f"layer__{index}__operation": operation.code}))
            except ValueError:
                continue
            pytest.fail(f"layer {index}, {kind}, taken for {name}")


def test_the_only_input_comes_first_and_the_only_latent_is_there() -> None:
    code = {name: operation.code for name, operation in OPERATIONS.items()}
    second = at("frozen_convolution") if "frozen_convolution" in LAYERS else 1
    refused(fields().changed(**{f"layer__{second}__operation": code["input"]}), "only input")
    refused(fields().changed(layer__0__operation=code["affine"]), "only input")
    refused(fields().changed(**{f"layer__{at('latent')}__operation": code["add"]}))
    refused(fields().changed(**{f"layer__{at('rprelu')}__operation": code["latent"]}), "more than one latent")


ATTACKED_ATTRIBUTES: dict[str, dict[str, list[int]]] = {
    "convolution": {"input_mantissa": [1, INT32_LEAST], "input_exponent": [2000, INT32_LEAST]},
    "binary_convolution": {"pad_value": [-1, 2, INT32_MOST]},
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
    "average_pool": {"kernel": [0, -1, 1, 3, 256, INT32_MOST, INT32_LEAST]},
    "max_pool": {
        "kernel": [0, -1, 1, 2, 256, INT32_MOST, INT32_LEAST],
        "stride": [0, -1, 2, 256, INT32_MOST],
        "padding": [-1, 0, 3, INT32_MOST, INT32_LEAST],
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
for _kind in ("convolution", "binary_convolution"):
    for _name in ("kernel_height", "kernel_width", "stride"):
        ATTACKED_ATTRIBUTES[_kind][_name] = [0, -1, 256, 46341, INT32_MOST, INT32_LEAST]
    ATTACKED_ATTRIBUTES[_kind]["padding"] = [-1, 3, 255, INT32_MOST, INT32_LEAST]


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
    for index in (at("convolution"), at("convolution", last=True)):
        for mantissa in (1, 2**30 - 1, 2**31):
            refused(poked(index, 2, mantissa.to_bytes(4, "little")), "impossible multiplier")
    for index in (at("binary_convolution"), at("binary_convolution", last=True)):
        refused(poked(index, 0, bytes([8])), "bits where it has no channels")  # channel 3 of 3
        refused(poked(index, 0, bytes([1]), skip=8 * 3), "bits where it has no channels")  # output channel 3 of 3


def finished(build: ProgramBuilder) -> bytes:
    return program_image(build.finish())


def behind_the_latent(add: Callable[[ProgramBuilder, int], int]) -> bytes:
    build = ProgramBuilder(np.random.default_rng(0), 8)
    add(build, build.rprelu(build.latent(build.frozen_convolution(build.input(4, 4, 1), 3), 8), True, True))
    return finished(build)


def test_layers_that_cannot_learn_behind_the_latent() -> None:
    refused(behind_the_latent(lambda build, source: build.affine(source)), "cannot learn")
    refused(behind_the_latent(lambda build, source: build.frozen_convolution(source, 3)), "needs learnable weights")


def test_features_of_single_bits() -> None:
    refused(behind_the_latent(lambda build, source: build.sign(source, True)), "ends in single bits")


def test_too_many_features() -> None:
    build = ProgramBuilder(np.random.default_rng(0), 8)
    build.latent(build.frozen_convolution(build.input(129, 128, 1), 4), 1)
    refused(finished(build), "65536 features")


def test_a_latent_of_single_bits_and_no_latent() -> None:
    build = ProgramBuilder(np.random.default_rng(0), 8)
    image = build.frozen_convolution(build.input(4, 4, 1), 3)
    refused(finished(build), "never cut")
    build.latent(build.sign(image, False), 2)
    refused(finished(build), "latent must keep")


def learns(image: bytes, classes: int = 2) -> None:
    """A whole experience of the engine's learner on an image."""
    options = {"q_bin": 16, "q_nonbin": 16, "classes": classes, "replay_slots": 4, "replay_per_class": 2}
    options |= {"experience_patterns": 4, "batch_new": 2, "batch_replayed": 2, "cwr": True, "train_body": True}
    options |= {"count_replayed": True, "seed": 0, "learning_rates": [(2**30, -3)] * len(PARAMETER_KINDS)}
    learner = engine.NativeLearner(image, options)
    tensor = ImageFields(image)
    shape = tuple(tensor[f"tensor.{tensor['layer.0.output']}.{side}"] for side in ("height", "width", "channels"))
    for _ in range(2):
        learner.add(np.zeros((2, *shape), np.uint8), np.arange(2, dtype=np.int32))
        for _ in range(learner.begin_training(1)):
            learner.train_step()
        learner.end_experience()
    learner.logits(np.zeros((1, *shape), np.uint8))


def test_a_latent_at_the_end_leaves_the_head_to_learn() -> None:
    build = ProgramBuilder(np.random.default_rng(0), 8)
    build.latent(build.frozen_convolution(build.input(4, 4, 1), 3), 1)
    learns(finished(build))


def test_a_layer_nobody_reads() -> None:
    """It gets no gradient, and none is made up for it."""
    build = ProgramBuilder(np.random.default_rng(0), 8)
    source = build.rprelu(build.latent(build.frozen_convolution(build.input(4, 4, 1), 3), 8), True, True)
    build.batch_norm(source)
    build.rprelu(source, False, False)
    program = build.finish()
    network = engine.Network(
        program_image(program),
        2,
        {"q_bin": 8, "q_nonbin": 16, "classes": 2, "cwr": True, "learning_rates": [(2**30, 0)] * 5},
    )
    before = [network.parameter(index) for index in range(3, 5)]  # gamma and beta
    network.forward(network.encode(np.zeros((2, 4, 4, 1), np.uint8)))
    network.begin_experience([0, 1])
    network.train(np.array([0, 1], np.int32))
    for index, values in enumerate(before):
        np.testing.assert_array_equal(network.parameter(3 + index), values)


def test_deep_chains_take_no_stack_and_little_time() -> None:
    """2000 additions that read one tensor twice each, nothing to learn below: no search may double at every one."""
    build = ProgramBuilder(np.random.default_rng(0), 8)
    out = build.latent(build.frozen_convolution(build.input(1, 1, 1), 1, 1, 1, 0), 8)
    tensor = build.tensors[out]
    for _ in range(2000):
        build.tensors.append(tensor)
        out = build._layer("add", (out, out), len(build.tensors) - 1, {"A0": 1, "A1": 1, "B": 0, "s": 1})
    build.deviations = [1.0] * len(build.tensors)
    learns(finished(build))


def test_a_head_beyond_memory() -> None:
    build = ProgramBuilder(np.random.default_rng(0), 8)
    build.latent(build.frozen_convolution(build.input(128, 128, 1), 4), 1)
    with pytest.raises(ValueError, match="head is too large"):
        learns(finished(build), classes=65534)


@pytest.mark.parametrize("kind", SINGLE_LAYERS)
def test_every_kind_of_single_layer_is_sound(kind: str) -> None:
    learns(program_image(single_layer_program(kind, np.random.default_rng(1), q_f=8, height=4, width=4)))


def test_random_programs_are_sound() -> None:
    for seed in range(5):
        learns(program_image(random_program(np.random.default_rng(seed), q_f=8)))
