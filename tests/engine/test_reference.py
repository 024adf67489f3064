"""The engine against the NumPy integer reference, to the last bit.

Every layer, forward, backward and update, at random shapes.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from everbit import engine
from everbit.compile.image import program_image
from everbit.compile.operations import OPERATIONS, PARAMETER_KINDS
from everbit.compile.program import Program
from everbit.packed_weights import pack_binary_weights, words_per_pixel
from everbit.quantize.widths import ALLOWED, Widths
from reference.fixed_point import Gradient, Scale
from reference.network import ReferenceNetwork
from reference.program_builder import ProgramBuilder
from reference.random_program import (
    AWKWARD_CHANNELS,
    LATENT_BITS,
    SINGLE_LAYERS,
    random_images,
    random_program,
    single_layer_program,
)

CLASSES = 5
BATCH = 6
WIDTHS = [  # q_f, q_bin, q_nonbin
    (8, 1, 8),
    (16, 1, 16),
    (8, 4, 16),
    (8, 8, 8),
    (16, 8, 16),
    (8, 16, 16),
    (32, 16, 32),
    (8, 4, 8),
    (16, 8, 32),
    (8, 32, 16),
    (32, 32, 32),
    (8, 32, 8),
    (32, 1, 32),
]
RATES = {
    "head": Scale(1 << 30, -1),
    "binary": Scale(1 << 30, 2),
    "norm": Scale(1288490188, -3),
    "bias": Scale(1 << 30, -2),
}
RATES["weight"] = Scale(1717986918, -5)


def build(program: Program, q_bin: int, q_nonbin: int, batch: int = BATCH) -> engine.Network:
    options = {
        "q_bin": q_bin,
        "q_nonbin": q_nonbin,
        "classes": CLASSES,
        "cwr": True,
        "learning_rates": [(RATES[kind].mantissa, RATES[kind].exponent) for kind in PARAMETER_KINDS],
    }
    return engine.Network(program_image(program), batch, options)


def read_tensor(program: Program, index: int, raw: bytes, batch: int) -> NDArray[np.int64]:
    """An activation's bytes -> integers [batch, height, width, channels]; bits as +-1."""
    tensor = program.tensors[index]
    shape = (batch, tensor.height, tensor.width, tensor.channels)
    if tensor.bits > 1:
        return np.frombuffer(raw, f"<i{tensor.bits // 8}").reshape(shape).astype(np.int64)
    words = np.frombuffer(raw, np.uint8).reshape(batch, tensor.height, tensor.width, -1)
    assert words.shape[-1] == 8 * words_per_pixel(tensor.channels)
    bits = np.unpackbits(words, axis=-1, bitorder="little")
    assert not bits[..., tensor.channels :].any(), "unused bits must stay 0"
    return np.where(bits[..., : tensor.channels] == 1, 1, -1).astype(np.int64)


def assert_parameters_equal(program: Program, native: engine.Network, reference: ReferenceNetwork) -> None:
    position = 0
    for index, layer in enumerate(program.layers):
        for name in (name for name, _ in OPERATIONS[layer.kind].parameters if name in layer.parameters):
            values = native.parameter(position)
            position += 1
            if index <= program.latent_index:
                continue
            state = reference.parameters[index][name]
            if values is None:
                assert state.bits == 1
            else:
                np.testing.assert_array_equal(values, state.values.ravel(), err_msg=f"{layer.kind} {layer.name} {name}")
            if layer.kind == "binary_convolution":
                out, taps = state.values.shape[0], state.values.shape[1] * state.values.shape[2]
                bits = pack_binary_weights((state.values >= 0).reshape(out, taps, -1))
                assert native.weight_bits(index) == bits.tobytes()


def check_program(program: Program, q_bin: int, q_nonbin: int, rng: np.random.Generator, batch: int = BATCH) -> None:
    native, reference = build(program, q_bin, q_nonbin, batch), ReferenceNetwork(program, q_bin, q_nonbin, CLASSES)
    images = random_images(rng, program, batch)
    codes = reference.frozen_forward(images)
    stored = native.encode(images)
    np.testing.assert_array_equal(stored, reference.pack_codes(codes))

    kept = [0, 2, 3]
    every_row = np.ones(CLASSES, bool)
    native.begin_experience(kept)
    reference.begin_experience(kept)
    for rounding_key in (None, int(rng.integers(2**63))):  # to nearest, then stochastic
        labels = rng.choice(kept, batch).astype(np.int32)
        native.forward(stored)
        reference.train_step(codes, labels, every_row, RATES, rounding_key=rounding_key)
        for index, expected in reference.activations.items():
            found = read_tensor(program, index, native.activation(index, batch), batch)
            np.testing.assert_array_equal(found, expected.reshape(found.shape), err_msg=f"tensor {index}")
        native.train(labels, rounding_key)
        for index in reference.gradients:
            found = native.gradient(index)
            if found is None:
                assert not reference.needs_gradient(index)
                continue
            np.testing.assert_array_equal(
                found[0], reference.gradients[index].values.ravel(), err_msg=f"gradient {index}"
            )
            assert found[1] == reference.gradients[index].exponent
        assert_parameters_equal(program, native, reference)
        np.testing.assert_array_equal(native.head(True), reference.tw.ravel())
    counts = [7, 0, 3, 12, 0]
    for _ in range(2):
        native.end_experience(counts)
        reference.consolidate(dict(enumerate(counts)))
        np.testing.assert_array_equal(native.head(False), reference.cw.ravel())
    native.forward(stored)
    np.testing.assert_array_equal(native.logits(False), reference.logits(codes))


@pytest.mark.parametrize("extreme", [False, True], ids=["ordinary", "extreme"])
@pytest.mark.parametrize("kind", SINGLE_LAYERS)
def test_every_layer(kind: str, extreme: bool, isa: str) -> None:
    for seed, (q_f, q_bin, q_nonbin) in enumerate(WIDTHS):
        rng = np.random.default_rng([seed, extreme])
        program = single_layer_program(kind, rng, q_f=q_f, extreme=extreme)
        check_program(program, q_bin, q_nonbin, rng)


@pytest.mark.parametrize("latent_bits", LATENT_BITS)
@pytest.mark.parametrize("extreme", [False, True], ids=["ordinary", "extreme"])
def test_whole_networks(latent_bits: int, extreme: bool, isa: str) -> None:
    for seed, (q_f, q_bin, q_nonbin) in enumerate(WIDTHS):
        if (seed + LATENT_BITS.index(latent_bits)) % 2:
            continue  # the other half of the widths meets the other latents
        rng = np.random.default_rng([seed, latent_bits])
        program = random_program(rng, q_f=q_f, latent_bits=latent_bits, extreme=extreme)
        check_program(program, q_bin, q_nonbin, rng)


def test_every_combination_of_widths() -> None:
    combinations = [
        Widths(q_f, q_bin, q_nonbin, latent)
        for q_f, q_bin, q_nonbin, latent in itertools.product(*ALLOWED.values())
        if q_f <= q_nonbin
    ]
    assert len(combinations) == 210
    for seed, widths in enumerate(combinations):
        rng = np.random.default_rng(seed)
        program = random_program(
            rng, q_f=widths.q_f, latent_bits=widths.latent, channels=3, height=4, width=3, blocks=1
        )
        assert (program.q_f, program.latent_bits) == (widths.q_f, widths.latent)
        check_program(program, widths.q_bin, widths.q_nonbin, rng)


@pytest.mark.parametrize(("q_nonbin", "seed"), [(8, 0), (16, 1), (32, 2)])
@pytest.mark.parametrize("kind", ["binary_convolution", "convolution"])
def test_more_places_than_are_summed_at_once(kind: str, q_nonbin: int, seed: int) -> None:
    """6 images of 110 x 111 pixels are 73260 places, more than 2^16."""
    rng = np.random.default_rng(seed)
    builder = ProgramBuilder(rng, 8)
    source = builder.latent(builder.frozen_convolution(builder.input(110, 111, 1), 3), 8)
    if kind == "convolution":
        raw = builder.learnable_convolution(source, 5, 3, 1, 1)
    else:
        raw = builder.binary_convolution(builder.sign(source, True, True), 5, True)
    builder.global_average_pool(builder.batch_norm(raw))
    check_program(builder.finish(), 4 if q_nonbin == 8 else 16, q_nonbin, rng)


def test_signs_as_latents(isa: str) -> None:
    """A cut behind a sign stores its bits as they are, also where channels do not fill their words."""
    for channels in AWKWARD_CHANNELS:
        rng = np.random.default_rng(channels)
        builder = ProgramBuilder(rng, 8)
        signs = builder.latent(builder.sign(builder.frozen_convolution(builder.input(5, 4, 1), channels), False), 1)
        builder.batch_norm(builder.binary_convolution(signs, 70, True))
        check_program(builder.finish(), 8, 16, rng)


MAPS = [  # height, width, channels, outputs, kernel, padding, pad value, batch: small batches of larger maps
    (7, 7, 128, 70, 3, 1, 1, 1),
    (9, 30, 37, 64, 3, 1, 0, 2),
    (14, 13, 70, 33, 3, 0, -1, 1),
    (16, 12, 64, 130, 5, "same", 0, 3),
    (33, 8, 65, 8, 1, 0, 0, 4),
    (8, 8, 64, 64, 3, 2, 0, 5),
]


@pytest.mark.parametrize(("q_bin", "q_nonbin"), [(8, 8), (16, 16)])
@pytest.mark.parametrize("shape", MAPS, ids=lambda shape: "x".join(map(str, shape)))
def test_binary_convolutions_of_maps(
    shape: tuple[int, int, int, int, int, int | str, int, int], q_bin: int, q_nonbin: int, isa: str
) -> None:
    """Shapes that suit tiles, forward and backward: maps of signs and of gradients, whole runs and what is left."""
    height, width, channels, outputs, kernel, padding, pad_value, batch = shape
    rng = np.random.default_rng([height, q_bin])
    builder = ProgramBuilder(rng, 8)
    source = builder.latent(builder.frozen_convolution(builder.input(height, width, 1), channels), 8)
    source = builder.rprelu(source, True, True)  # so that somebody needs the signs' gradient
    sums = builder.binary_convolution(builder.sign(source, True, True), outputs, True, kernel, 1, padding, pad_value)
    builder.global_average_pool(builder.rprelu(builder.batch_norm(sums), False, False))
    check_program(builder.finish(), q_bin, q_nonbin, rng, batch)


ENDS = [  # height, width, kernel, stride, padding
    (3, 1, 1, 1, 0),
    (4, 3, 1, 2, 0),
    (5, 4, 2, 1, 0),
    (7, 6, 5, 1, 0),
    (7, 11, 5, 2, 2),
]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("shape", ENDS, ids=lambda shape: "x".join(map(str, shape)))
def test_convolutions_whose_last_window_ends_the_tensor(
    shape: tuple[int, int, int, int, int], channels: int, isa: str
) -> None:
    """Kernels that read a few values behind a window do not read behind the tensor (the sanitizers see it)."""
    height, width, kernel, stride, padding = shape
    for q_f in (8, 16):
        rng = np.random.default_rng([height, q_f])
        builder = ProgramBuilder(rng, q_f)
        source = builder.frozen_convolution(builder.input(height, width, 2), channels)
        source = builder.latent(builder.frozen_convolution(source, 5, kernel, stride, padding), 8)
        builder.global_average_pool(builder.batch_norm(builder.learnable_convolution(source, 3, 1, 1, 0)))
        check_program(builder.finish(), 8, 16, rng)


def test_gradient_from_the_features(isa: str) -> None:
    """The body alone, with gradients at the ends of their range."""
    for q_nonbin in (8, 16, 32):
        rng = np.random.default_rng(q_nonbin)
        program = random_program(rng, q_f=8, latent_bits=8)
        native, reference = build(program, 8, q_nonbin), ReferenceNetwork(program, 8, q_nonbin, CLASSES)
        codes = reference.frozen_forward(random_images(rng, program, BATCH))
        native.forward(reference.pack_codes(codes))
        reference.learnable_forward(codes)
        top = 2 ** (q_nonbin - 1) - 1
        gradient = rng.choice([-top, top], BATCH * program.features).astype(np.int64)
        native.backward(gradient, -20)
        reference.backward_from_features(Gradient(gradient, -20))
        for index, expected in reference.gradients.items():
            found = native.gradient(index)
            if found is not None:
                np.testing.assert_array_equal(found[0], expected.values.ravel())
                assert found[1] == expected.exponent
