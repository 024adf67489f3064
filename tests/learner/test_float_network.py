"""The float network against the integer arithmetic: every layer alone, forward and backward, and the stored latents."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from everbit.compile.program import Program, Tensor
from everbit.learner.float_network import FloatNetwork
from reference.fixed_point import Gradient, Integers
from reference.network import ReferenceNetwork
from reference.program_builder import ProgramBuilder
from reference.random_program import SINGLE_LAYERS, random_images, random_program, single_layer_program

BATCH = 6
NEAR = {"convolution": 0.02, "depthwise_convolution": 0.02}
"""Of the norm, by kind of layer: 8-bit weights there, 16-bit constants elsewhere."""


def to_real(tensor: Tensor, q: Integers) -> torch.Tensor:
    """float32 [N, C, H, W] of integers [N, H, W, C]."""
    return torch.from_numpy(tensor.scale * (q - tensor.zero_point)).float().permute(0, 3, 1, 2)


def inside(tensor: Tensor, q: Integers) -> torch.Tensor:
    """Where integers [N, H, W, C] are not at the ends of their range, as bool [N, C, H, W]."""
    limit = 2 ** (tensor.bits - 1)
    return torch.from_numpy((q > -limit) & (q < limit - 1) | (tensor.bits == 1)).permute(0, 3, 1, 2)


def distance(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Norm of the difference by the norm of what is expected."""
    norm = expected.norm().item()
    return (found - expected).norm().item() / (norm or 1.0)


def assert_layer_agrees(
    program: Program, index: int, network: FloatNetwork, reference: ReferenceNetwork, near_by_kind: dict[str, float]
) -> None:
    """One learnable layer between the activations and gradients of the integer network around it."""
    layer = program.layers[index]
    tensors, activations = program.tensors, reference.activations
    inputs = [to_real(tensors[source], activations[source]).requires_grad_() for source in layer.inputs]
    module = network.layers[str(index)]
    out = module(*inputs)
    target, q = tensors[layer.output], activations[layer.output]
    mask, near = inside(target, q), near_by_kind.get(layer.kind, 0.004)
    assert distance(out * mask, to_real(target, q) * mask) < near, layer.name

    gradient, exponent = reference.gradients[layer.output]
    out.backward(torch.from_numpy(gradient * 2.0**exponent).float().permute(0, 3, 1, 2))
    for name, parameter in module.named_parameters():
        found = reference.sums[index, name.removeprefix("learned.")]
        factor = 1.0 if found.factor is None else found.factor.mantissa * 2.0 ** (found.factor.exponent - 31)
        expected = torch.from_numpy(found.values * 2.0**found.exponent * factor).float()
        expected = expected.permute(0, 3, 1, 2) if expected.ndim == 4 else expected.reshape(parameter.shape)
        assert distance(parameter.grad, expected) < near, (layer.name, name)
    readers = [other for other in program.layers[program.latent_index :] if set(other.inputs) & set(layer.inputs)]
    for source, value in zip(layer.inputs, inputs, strict=True):
        if source in reference.gradients and len(readers) == 1:
            expected_values, power = reference.gradients[source]
            expected = torch.from_numpy(expected_values * 2.0**power).float().permute(0, 3, 1, 2)
            assert distance(value.grad, expected) < near, (layer.name, "input")


def assert_program_agrees(program: Program, rng: np.random.Generator, near_by_kind: dict[str, float] = NEAR) -> None:
    reference = ReferenceNetwork(program, q_bin=16, q_nonbin=32)
    network = FloatNetwork(program, "program")
    reference.learnable_forward(reference.frozen_forward(random_images(rng, program, BATCH)))
    gradient = rng.integers(-(2**30), 2**30, BATCH * program.features)
    reference.backward_from_features(Gradient(gradient, -30))
    for index in range(program.latent_index + 1, len(program.layers)):
        assert_layer_agrees(program, index, network, reference, near_by_kind)


@pytest.mark.parametrize(("seed", "q_f"), [(0, 16), (1, 16), (2, 16), (3, 32)])
@pytest.mark.parametrize("kind", SINGLE_LAYERS)
def test_every_layer_agrees_with_the_integers(kind: str, seed: int, q_f: int) -> None:
    rng = np.random.default_rng(seed)
    assert_program_agrees(single_layer_program(kind, rng, q_f=q_f, channels=19), rng)


@pytest.mark.parametrize("seed", range(6))
def test_networks_agree_with_the_integers_layer_by_layer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert_program_agrees(random_program(rng, q_f=16, channels=(3, 37)[seed % 2]), rng)


@pytest.mark.parametrize("seed", range(6))
def test_the_frozen_part_agrees_with_the_integers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program = random_program(rng, q_f=(16, 32)[seed % 3 == 2], channels=(3, 37)[seed % 2])
    images = random_images(rng, program, BATCH)
    expected = ReferenceNetwork(program, q_bin=16, q_nonbin=16).frozen_activations(images)
    network = FloatNetwork(program, "program")
    for index in range(program.latent_index):
        layer = program.layers[index]
        inputs = [to_real(program.tensors[source], expected[source]) for source in layer.inputs]
        pixels = torch.from_numpy(images).permute(0, 3, 1, 2).float()
        out = network.layers[str(index)](*(inputs or [pixels]))
        target, q = program.tensors[layer.output], expected[layer.output]
        mask = inside(target, q)
        # One step of rounding, and the 16-bit factors of an affine.
        far = ((out - to_real(target, q)).abs() > 2 * target.scale + 0.004 * out.abs()) & mask
        assert not far.any(), layer.name


@pytest.mark.parametrize("q_f", [16, 32])
@pytest.mark.parametrize("bits", [1, 2, 4, 6, 7, 8, 16])
def test_latents_are_stored_as_the_engine_stores_them(bits: int, q_f: int) -> None:
    rng = np.random.default_rng(bits)
    program = random_program(rng, q_f=q_f, latent_bits=bits, channels=5, height=7, width=5)
    reference = ReferenceNetwork(program, q_bin=16, q_nonbin=16)
    images = random_images(rng, program, BATCH)
    codes = reference.frozen_forward(images)
    stored = reference.pack_codes(codes)
    network = FloatNetwork(program, "program")
    assert network.latent.stored_bytes == stored.shape[1]
    tensor = program.tensors[program.layers[program.latent_index].output]
    expected = to_real(tensor, reference.learnable_forward(codes)[program.layers[program.latent_index].output])
    slack = 2.0**-22 * expected.abs().max()  # of float32, which holds 24 of 32 bits
    assert (network.latent.decode(stored) - expected).abs().max() <= 1.01 * tensor.scale + slack

    own = read_codes(network.encode(images), bits, codes.shape)
    assert np.mean(np.abs(own - codes) > 2) < 0.05  # a sign of the frozen part may flip


def test_signs_are_stored_as_they_are() -> None:
    rng = np.random.default_rng(0)
    build = ProgramBuilder(rng, 8)
    signs = build.sign(build.frozen_convolution(build.input(5, 4, 1), 67), False)
    build.batch_norm(build.binary_convolution(build.latent(signs, 1), 3, True))
    program = build.finish()
    images = random_images(rng, program, BATCH)
    reference, network = ReferenceNetwork(program, q_bin=16, q_nonbin=16), FloatNetwork(program, "program")
    codes = reference.frozen_forward(images)
    expected = torch.from_numpy(2 * codes - 1).float().permute(0, 3, 1, 2)
    assert torch.equal(network.latent.decode(reference.pack_codes(codes)), expected)
    assert np.mean(network.encode(images) != reference.pack_codes(codes)) < 0.05


def read_codes(stored: NDArray[np.uint8], bits: int, shape: tuple[int, ...]) -> Integers:
    lanes = np.unpackbits(stored, axis=1, bitorder="little")[:, : int(np.prod(shape[1:])) * bits]
    codes: Integers = (lanes.reshape(*shape, bits).astype(np.int64) << np.arange(bits)).sum(axis=-1)
    return codes


def test_float_latents_are_the_activations_themselves() -> None:
    rng = np.random.default_rng(0)
    program = random_program(rng, q_f=16, channels=3)
    network = FloatNetwork(program, "float")
    images = random_images(rng, program, BATCH)
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).float()
    stored = network.encode(images)
    assert stored.shape == (BATCH, 4 * int(np.prod(program.latent_shape)))
    assert torch.equal(network.latent.decode(stored), network._run_frozen(pixels))


def test_latent_weights_start_at_their_magnitude_and_stay_in_range() -> None:
    program = single_layer_program("binary_convolution", np.random.default_rng(0), channels=19)
    network = FloatNetwork(program, "program")
    (weight,) = network.learnable_by_kind()["binary"]
    magnitude = (
        next(layer for layer in program.layers if layer.kind == "binary_convolution").parameters["weight"].values
    )
    assert weight.abs().unique().tolist() == [pytest.approx(magnitude.item() / 2**31)]
    weight.data.add_(3.0)
    network.clip_latent_weights()
    assert weight.unique().tolist() == [1.0]
