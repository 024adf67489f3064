"""Programs that are sound layer by layer: refused where they make no sense as a whole, else safe to learn with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from attacks.hostile_program import learns, refused
from attacks.image_fields import ImageFields
from everbit import engine
from everbit.compile.image import program_image
from everbit.compile.operations import OPERATIONS
from reference.program_builder import ProgramBuilder
from reference.random_program import SINGLE_LAYERS, random_program, single_layer_program


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
    refused(finished(build), "single bits must have 1 bit")


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


@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 3), (2, 1), (3, 2)])
@pytest.mark.parametrize("q_nonbin", [8, 16, 32])
def test_a_pool_that_counts_its_places_another_way_is_safe(kernel: int, stride: int, q_nonbin: int) -> None:
    """inside_only flipped: gradients then sum in wider numbers, and the plan must have room for them."""
    image = ImageFields(behind_the_latent(lambda build, source: build.average_pool(source, kernel, stride, "same")))
    layer, place = image["header.layer_count"] - 1, OPERATIONS["average_pool"].attributes.index("inside_only")
    for inside_only in (1, 0):
        learns(image.changed(**{f"layer__{layer}__attribute{place}": inside_only}), q_nonbin=q_nonbin)


def test_random_programs_are_sound() -> None:
    for seed in range(5):
        learns(program_image(random_program(np.random.default_rng(seed), q_f=8)))
