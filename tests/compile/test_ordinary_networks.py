"""MobileNets and EfficientNet-Lite0 behind cuts from the last layer up: integers as in the reference, float beside."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

from compile.test_compiler import images, trained_statistics
from engine.test_reference import check_program
from everbit.compile.compiler import compile_program
from everbit.learner.float_learner import FloatLearner
from everbit.learner.float_network import FloatNetwork
from everbit.learner.learner import Learner
from everbit.learner.settings import Settings
from everbit.quantize.widths import Widths
from everbit.zoo.registry import build
from learner.test_float_network import assert_program_agrees, read_codes
from reference.network import ReferenceNetwork

WIDTHS = {"mobilenet_v1": 0.0625, "mobilenet_v2": 0.125, "efficientnet_lite0": 0.125}
CUTS = {
    "mobilenet_v1": ("pool", "block13", "block12.depthwise", "block9"),
    "mobilenet_v2": ("pool", "last", "block16", "block12"),
    "efficientnet_lite0": ("pool", "block16", "block15", "block12"),
}
CASES = [(name, cut) for name, cuts in CUTS.items() for cut in cuts]
HEAD_ONLY = "pool"
NEAR = {"convolution": 0.05, "depthwise_convolution": 0.05}
"""Of the norm: weights have 8 bits forward, the largest of them less than half of the range that learning may use."""


@pytest.fixture(scope="module")
def networks() -> dict[str, nn.Module]:
    """On images of 32 pixels the maps behind the last cuts have one or four places."""
    return {name: trained_statistics(build(name, width)) for name, width in WIDTHS.items()}


@pytest.mark.parametrize(("name", "cut"), CASES)
def test_integers_learn_what_the_reference_learns(networks: dict[str, nn.Module], name: str, cut: str) -> None:
    for latent in (8, 6):
        widths = Widths(8, 16, 16, latent)
        program = compile_program(networks[name], images(16), cut=cut, widths=widths)
        kinds = {layer.kind for layer in program.layers[program.latent_index + 1 :]}
        assert (cut == HEAD_ONLY) == (not kinds)
        check_program(program, widths.q_bin, widths.q_nonbin, np.random.default_rng(latent), batch=4)


@pytest.mark.parametrize(("name", "cut"), [case for case in CASES if case[1] != HEAD_ONLY])
def test_float_layers_are_those_of_the_integers(networks: dict[str, nn.Module], name: str, cut: str) -> None:
    """Forward and backward, layer by layer, through depthwise convolutions, ReLU6 and sums."""
    program = compile_program(networks[name], images(16), cut=cut, widths=Widths(16, 16, 32, 8))
    assert_program_agrees(program, np.random.default_rng(3), NEAR)


@pytest.mark.parametrize(("name", "cut"), CASES)
def test_float_latents_are_near_those_of_the_integers(networks: dict[str, nn.Module], name: str, cut: str) -> None:
    """A frozen ReLU is no layer of a program, only the end of a tensor's range: the float network must have it too."""
    program = compile_program(networks[name], images(16), cut=cut, widths=Widths(16, 16, 16, 8))
    pixels = images(6, 5)
    expected = ReferenceNetwork(program, 16, 16).frozen_forward(pixels)
    found = read_codes(FloatNetwork(program, "program").encode(pixels), 8, expected.shape)
    assert np.abs(found - expected).mean() < 0.5


@pytest.mark.parametrize("name", WIDTHS)
def test_learners_of_either_kind_learn_classes(networks: dict[str, nn.Module], name: str) -> None:
    program = compile_program(networks[name], images(16), cut=CUTS[name][2], widths=Widths(8, 16, 16, 8))
    rates = {"head": 0.01, "norm": 0.003, "bias": 0.003, "weight": 0.003}
    settings = Settings(classes=4, epochs=8, batch_new=4, batch_replayed=16, learning_rates=rates)
    pixels, labels = images(24, 9), [0, 1] * 12
    for learner in (Learner(program, settings), FloatLearner(program, settings)):
        learner.partial_fit(pixels, labels)
        right = np.mean(np.array(learner.predict(pixels)) == labels)
        assert right > 0.7, type(learner).__name__
