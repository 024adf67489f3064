"""Accumulators at their stated bounds.

All +1 or -1, the most negative values, K and the places of a mini-batch at the limit. Expected values are closed
forms, or int64 NumPy of the rule in docs/arithmetic.md.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from everbit import engine
from everbit.compile.image import program_image
from everbit.compile.operations import PARAMETER_KINDS
from everbit.compile.program import Parameter, Program, Tensor
from everbit.packed_weights import pack_binary_weights
from reference.fixed_point import Gradient, Scale, multiply, quantize, reciprocal, sats, scale
from reference.program_builder import ProgramBuilder
from reference.transparent_program import transparent_program

K_MOST = 32767
PLACES_MOST = 2**17  # of 32-bit gradients; narrower ones have no bound of their own
RATE = Scale(2**30, -14)  # 2^-15: of a sum of 65536 terms a step of a few units


def build(program: Program, batch: int, q_nonbin: int = 16, q_bin: int = 16) -> engine.Network:
    options = {"q_bin": q_bin, "q_nonbin": q_nonbin, "classes": 2, "cwr": True}
    return engine.Network(
        program_image(program), batch, options | {"learning_rates": [tuple(RATE)] * len(PARAMETER_KINDS)}
    )


def sign_convolution(
    signs: NDArray[np.int64], height: int, width: int, padding: int = 0, pad_value: int = 0, body: bool = False
) -> Program:
    """image -> latent of 8 bits [-> rprelu] -> sign (pixel >= 128) -> binary convolution, weights [out, kh, kw, in]."""
    out, kernel_height, kernel_width, channels = signs.shape
    program = transparent_program(height, width, channels, body)
    builder = ProgramBuilder(np.random.default_rng(0), 16)
    builder.tensors, builder.layers = list(program.tensors), list(program.layers)
    builder.deviations = [1.0] * len(builder.tensors)
    source = builder.sign(len(builder.tensors) - 1, learnable=True)
    shape = height + 2 * padding - kernel_height + 1, width + 2 * padding - kernel_width + 1, out
    target = builder._tensor(
        replace(builder.tensors[source], height=shape[0], width=shape[1], channels=out, bits=16), 1.0
    )
    attributes = {"kernel_height": kernel_height, "kernel_width": kernel_width, "stride": 1, "padding": padding}
    builder._layer(
        "binary_convolution",
        (source,),
        target,
        attributes | {"pad_value": pad_value},
        {"bits": pack_binary_weights((signs > 0).reshape(out, -1, channels))},
        {"weight": Parameter(np.array([2**30], np.int32), 0)},
    )
    return builder.finish()


def pixels(signs: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Images whose signs are given: 255 for +1, 0 for -1."""
    return np.where(signs > 0, 255, 0).astype(np.uint8)


def values(network: engine.Network, program: Program, index: int, batch: int) -> NDArray[np.int64]:
    tensor = program.tensors[index]
    raw = np.frombuffer(network.activation(index, batch), f"<i{tensor.bits // 8}")
    return raw.reshape(batch, tensor.height, tensor.width, tensor.channels).astype(np.int64)


@pytest.mark.parametrize("shape", [(7, 31, 151), (3, 3, 3640), (1, 1, 16384), (1, 2, 16383)], ids=str)
def test_a_binary_convolution_of_the_most_terms(shape: tuple[int, int, int], isa: str) -> None:
    terms = int(np.prod(shape))
    assert terms <= K_MOST
    rng = np.random.default_rng(terms)
    weights = np.stack([np.ones(shape), -np.ones(shape), *rng.choice([-1, 1], (8, *shape))]).astype(np.int64)
    images = np.stack([np.ones(shape), -np.ones(shape), rng.choice([-1, 1], shape)]).astype(np.int64)
    program = sign_convolution(weights, *shape[:2])
    network = build(program, len(images))
    network.forward(network.encode(pixels(images)))
    found = values(network, program, program.layers[-1].output, len(images)).reshape(len(images), len(weights))
    np.testing.assert_array_equal(found, images.reshape(len(images), -1) @ weights.reshape(len(weights), -1).T)
    assert found[0, 0] == terms
    assert found[0, 1] == -terms


@pytest.mark.parametrize("pad_value", [-1, 0, 1])
def test_borders_at_the_most_terms(pad_value: int, isa: str) -> None:
    """Intermediate sums of the zero padding's correction stay inside int16."""
    weights = np.stack([np.full((3, 3, 3640), sign) for sign in (1, -1)]).astype(np.int64)
    image = np.full((1, 2, 2, 3640), -1, np.int64)
    program = sign_convolution(weights, 2, 2, padding=1, pad_value=pad_value)
    network = build(program, 1)
    network.forward(network.encode(pixels(image)))
    inside, outside = 4 * 3640, 5 * 3640 * pad_value
    expected = np.broadcast_to(np.array([outside - inside, inside - outside]), (1, 2, 2, 2))
    np.testing.assert_array_equal(values(network, program, program.layers[-1].output, 1), expected)


def test_a_binary_convolution_of_many_places(isa: str) -> None:
    """A map of 1.5 million cells: its runs of 64, times its tiles of 16, are more than 2^31."""
    side = 1220
    builder = ProgramBuilder(np.random.default_rng(0), 16)
    signs = builder.sign(builder.input(side, side, 1), learnable=False)
    sums = builder.binary_convolution(signs, 1, False, 1, 1, 0)
    weight = 1 if builder.layers[-1].arrays["bits"].ravel()[0] else -1
    builder.latent(builder.global_max_pool(sums), 8)
    program = builder.finish()
    image = np.random.default_rng(1).choice([-1, 1], (1, side, side, 1))
    network = build(program, 1)
    network.encode(pixels(image))
    np.testing.assert_array_equal(values(network, program, sums, 1), weight * image)


def program_without_more_terms(kind: str) -> Program:
    shape = (3, 3, 3641) if kind == "input" else (3, 3, 1)
    return sign_convolution(np.ones((3641 if kind == "output" else 1, *shape), np.int64), 3, 3)


@pytest.mark.parametrize("kind", ["input", "output"])
def test_one_term_too_many_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="32767 terms"):
        engine.check_program(program_image(program_without_more_terms(kind)))


@pytest.mark.parametrize("q_nonbin", [8, 16, 32])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_input_gradient_of_the_most_terms(sign: int, q_nonbin: int, isa: str) -> None:
    """All gradients at the end of their range, all weights alike: 9 taps x 3640 channels meet in the middle pixel."""
    top = 2 ** (q_nonbin - 1) - 1
    weights = np.full((3640, 3, 3, 1), sign, np.int64)
    program = sign_convolution(weights, 3, 3, padding=1, body=True)
    network = build(program, 1, q_nonbin)
    network.forward(network.encode(np.full((1, 3, 3, 1), 128, np.uint8)))
    network.backward(np.full(9 * 3640, -top, np.int64), 0)
    taps = np.array([[4, 6, 4], [6, 9, 6], [4, 6, 4]])
    expected = quantize(-sign * top * 3640 * taps.ravel(), 0, q_nonbin)
    assert_gradient(network, program.layers[-1].inputs[0], expected)


@pytest.mark.parametrize("q_nonbin", [8, 16, 32])
@pytest.mark.parametrize(("side", "batch"), [(64, 16), (255, 1), (64, 17), (181, 4)])
def test_the_weight_gradient_of_the_most_places(side: int, batch: int, q_nonbin: int, isa: str) -> None:
    """Activations and gradients all alike at every place of the mini-batch.

    65536 places, the most that are summed at once in 32 bits; an odd number of them; more of them; nearly 2^17.
    """
    places, top = side * side * batch, 2 ** (q_nonbin - 1) - 1
    assert places <= PLACES_MOST
    program = sign_convolution(np.array([1, -1]).reshape(2, 1, 1, 1), side, side) if side < 128 else None
    program = program or sign_convolution(np.array([1]).reshape(1, 1, 1, 1), side, side)
    channels = program.tensors[program.layers[-1].output].channels
    network = build(program, batch, q_nonbin)
    network.forward(network.encode(np.full((batch, side, side, 1), 255, np.uint8)))
    gradient = np.broadcast_to(np.array([-top, top])[:channels], (places, channels))
    network.backward(gradient.ravel().astype(np.int64), 1 - q_nonbin)
    step = multiply(RATE, reciprocal(batch)).times_power(1 - q_nonbin + 15)
    start = np.array([2**14, -(2**14)])[:channels]
    expected = sats(start - scale(np.array([-top, top])[:channels] * places, step), 16)
    assert (expected != start).all()
    np.testing.assert_array_equal(network.parameter(0), expected)


def test_one_place_too_many_is_refused() -> None:
    program = sign_convolution(np.ones((1, 1, 1, 1), np.int64), 64, 64)
    build(program, 33)
    build(program, 32, q_nonbin=32)
    with pytest.raises(ValueError, match="too large for exact sums of 32-bit gradients"):
        build(program, 33, q_nonbin=32)


def test_a_convolution_of_the_most_negative_values(isa: str) -> None:
    """-2^15 times -2^7, 8192 times in each sum: more than int32 holds, and 512 of them in a lane are one too many."""
    channels = 8192
    builder = ProgramBuilder(np.random.default_rng(0), 16)
    image = builder.input(1, 1, channels)
    constants = {"A": np.full(channels, -(2**15), np.int16), "B": np.zeros(channels, np.int32)}
    lowest = builder._tensor(replace(builder.tensors[image]), 1.0)
    builder._layer("affine", (image,), lowest, arrays=constants | {"s": np.zeros(channels, np.uint8)})
    weight = np.full((3, 1, 1, channels), -128, np.int8)
    weight[1] = 127
    weight[2, ..., ::2] = 0
    output = builder._tensor(replace(builder.tensors[image], channels=3), 1.0)
    arrays: dict[str, NDArray[np.generic]] = {
        "weight": weight,
        "bias": np.zeros(3, np.int32),
        "multiplier_mantissa": np.full(3, 2**30, np.int32),
        "multiplier_exponent": np.full(3, -20, np.int8),
    }
    attributes = {
        "kernel_height": 1,
        "kernel_width": 1,
        "stride": 1,
        "padding": 0,
        "input_mantissa": 0,
        "input_exponent": 0,
    }
    builder._layer("convolution", (lowest,), output, attributes, arrays)
    builder.latent(output, 8)
    program = builder.finish()
    network = build(program, 1)
    network.encode(np.full((1, 1, 1, channels), 255, np.uint8))
    assert (values(network, program, lowest, 1) == -(2**15)).all()
    sums = np.array([2**15 * 128 * channels, -(2**15) * 127 * channels, 2**15 * 128 * channels // 2])
    expected = np.clip(scale(sums, Scale(2**30, -20)), -(2**15), 2**15 - 1)
    np.testing.assert_array_equal(values(network, program, output, 1).ravel(), expected)


@pytest.mark.parametrize("q_nonbin", [8, 16, 32])
def test_the_gradients_of_a_convolution_of_the_most_places(q_nonbin: int, isa: str) -> None:
    """Activations 65535 steps from their zero point at 65536 places."""
    side, batch, top = 64, 16, 2 ** (q_nonbin - 1) - 1
    builder = ProgramBuilder(np.random.default_rng(0), 16)
    image = builder.input(side, side, 1)
    constants = {"A": np.full(1, 2**15 - 1, np.int16), "B": np.zeros(1, np.int32), "s": np.zeros(1, np.uint8)}
    highest = builder._tensor(replace(builder.tensors[image], zero_point=-(2**15)), 1.0)
    builder._layer("affine", (image,), highest, arrays=constants)
    source = builder.latent(highest, 1)
    builder.layers[-1].arrays["high"][:] = 2**15 - 1
    builder.layers[-1].arrays["threshold"][:] = 0
    builder.learnable_convolution(source, 1)
    layer = builder.layers[-1]
    layer.attributes.update(input_mantissa=2**30, input_exponent=-15)  # a factor of 2^-16
    program = builder.finish()
    network = build(program, batch, q_nonbin)
    network.forward(network.encode(np.full((batch, side, side, 1), 255, np.uint8)))
    before = network.parameter(0)
    assert before is not None
    network.backward(np.full(side * side * batch, -top, np.int64), 1 - q_nonbin)
    step = multiply(multiply(RATE, reciprocal(batch)), Scale(2**30, -15))
    power = 1 - q_nonbin - layer.parameters["weight"].range_exponent + q_nonbin - 1
    expected = sats(before - scale(np.array([-top * 65535 * side * side * batch]), step.times_power(power)), q_nonbin)
    assert (expected != before).all()
    np.testing.assert_array_equal(network.parameter(0), expected)


@pytest.mark.parametrize("q_nonbin", [8, 16, 32])
def test_gradients_that_meet_at_the_ends_of_their_range(q_nonbin: int, isa: str) -> None:
    """Two gradients of -(2^(q_b - 1) - 1) meet in one tensor: their sum needs one bit more."""
    builder = ProgramBuilder(np.random.default_rng(0), 8)
    image = builder.input(1, 1, 65)
    source = builder.rprelu(builder.latent(builder.frozen_convolution(image, 65, 1, 1, 0), 8), False, False)
    builder.add(source, source)
    program = builder.finish()
    network = build(program, 2, q_nonbin)
    network.forward(network.encode(np.zeros((2, 1, 1, 65), np.uint8)))
    top = 2 ** (q_nonbin - 1) - 1
    network.backward(np.full(2 * 65, -top, np.int64), 0)
    met = quantize(np.full(2 * 65, -2 * top, np.int64), 0, q_nonbin)
    assert met == Gradient(met.values, 1)
    assert_gradient(network, source, met)


def assert_gradient(network: engine.Network, tensor: int, expected: Gradient) -> None:
    found = network.gradient(tensor)
    assert found is not None
    np.testing.assert_array_equal(found[0], expected.values.ravel())
    assert found[1] == expected.exponent


CHANNELS = (1, 63, 64, 65)  # around a block of the kernels'


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("q_nonbin", [8, 16, 32])
def test_a_depthwise_convolution_of_the_most_taps(q_nonbin: int, channels: int, isa: str) -> None:
    """15 x 15 and 1 x 255 taps of values 65535 steps from their zero point, weights -128 (learnable: -127) and 127."""
    odd = np.arange(channels) % 2 == 1
    for height, width in ((15, 15), (1, 255)):
        builder = ProgramBuilder(np.random.default_rng(0), 16)
        image = builder.input(height, width, channels)
        constants = {"A": np.full(channels, 2**15 - 1, np.int16), "B": np.zeros(channels, np.int32)}
        highest = builder._tensor(replace(builder.tensors[image], zero_point=-(2**15)), 1.0)
        builder._layer("affine", (image,), highest, arrays=constants | {"s": np.zeros(channels, np.uint8)})
        window = {"kernel_height": height, "kernel_width": width, "stride": 1, "padding": 0, "skew": 0}
        attributes = window | {"input_mantissa": 2**30, "input_exponent": -15}
        multiplier: dict[str, NDArray[np.generic]] = {
            "multiplier_mantissa": np.full(channels, 2**30, np.int32),
            "multiplier_exponent": np.full(channels, -16, np.int8),
        }
        frozen = builder._tensor(replace(builder.tensors[highest], height=1, width=1, zero_point=0), 1.0)
        weight = np.full((height, width, channels), -128, np.int8)
        weight[..., odd] = 127
        arrays = {"weight": weight, "bias": np.zeros(channels, np.int32)} | multiplier
        builder._layer("depthwise_convolution", (highest,), frozen, attributes, arrays)
        source = builder.latent(highest, 1)
        builder.layers[-1].arrays["high"][:] = 2**15 - 1
        builder.layers[-1].arrays["threshold"][:] = 0
        learned = builder._tensor(replace(builder.tensors[frozen]), 1.0)
        values_of = Parameter(np.where(weight > 0, 2**31 - 1, -(2**31) + 1).astype(np.int32).ravel(), 0)
        one = {name: array[:1] for name, array in multiplier.items()}
        builder._layer("depthwise_convolution", (source,), learned, attributes, one, {"weight": values_of})
        program = builder.finish()
        network = build(program, 2, q_nonbin)
        network.forward(network.encode(np.full((2, height, width, channels), 255, np.uint8)))
        sums = 65535 * height * width * np.where(odd, 127, -128).astype(np.int64)
        expected = np.clip(scale(sums, Scale(2**30, -16)), -(2**15), 2**15 - 1)
        np.testing.assert_array_equal(values(network, program, frozen, 1).ravel(), expected)
        sums = 65535 * height * width * np.where(odd, 127, -127).astype(np.int64)
        expected = np.clip(scale(sums, Scale(2**30, -16)), -(2**15), 2**15 - 1)
        np.testing.assert_array_equal(values(network, program, learned, 2).reshape(2, channels), [expected, expected])
        before, top = network.parameter(0), 2 ** (q_nonbin - 1) - 1
        assert before is not None
        network.backward(np.full(2 * channels, -top, np.int64), 9 - q_nonbin)  # steps of 8 bits move too
        step = multiply(multiply(RATE, reciprocal(2)), Scale(2**30, -15)).times_power(8)
        expected = sats(before - scale(np.full(before.shape, -top * 65535 * 2), step), q_nonbin)
        assert (expected != before).any()
        np.testing.assert_array_equal(network.parameter(0), expected)


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("q_nonbin", [8, 16, 32])
def test_the_input_gradient_of_the_most_depthwise_taps(q_nonbin: int, channels: int, isa: str) -> None:
    """255 gradients at the end of their range times weights of -127 or 127 meet in the middle pixel."""
    height, width, top = 15, 17, 2 ** (q_nonbin - 1) - 1
    builder = ProgramBuilder(np.random.default_rng(0), 8)
    image = builder.input(2 * height - 1, 2 * width - 1, channels)
    source = builder.rprelu(builder.latent(image, 8), False, False)
    target = builder._tensor(Tensor(height, width, channels, 16, 0, 1.0), 1.0)
    odd = np.arange(channels) % 2 == 1
    weight = np.broadcast_to(np.where(odd, 2**31 - 1, -(2**31) + 1), (height, width, channels)).astype(np.int32)
    window = {"kernel_height": height, "kernel_width": width, "stride": 1, "padding": 0, "skew": 0}
    attributes = window | {"input_mantissa": 2**30, "input_exponent": -15}
    multiplier: dict[str, NDArray[np.generic]] = {
        "multiplier_mantissa": np.array([2**30], np.int32),
        "multiplier_exponent": np.array([-16], np.int8),
    }
    builder._layer("depthwise_convolution", (source,), target, attributes, multiplier, {"weight": Parameter(weight, 0)})
    network = build(builder.finish(), 2, q_nonbin)
    network.forward(network.encode(np.full((2, 2 * height - 1, 2 * width - 1, channels), 128, np.uint8)))
    network.backward(np.full(2 * height * width * channels, -top, np.int64), 0)
    readers = [np.minimum(np.arange(1, 2 * side), np.arange(1, 2 * side)[::-1]) for side in (height, width)]
    sums = np.multiply.outer(np.outer(*readers), np.where(odd, -127, 127) * top)
    assert np.abs(sums).max() == 255 * 127 * top
    assert_gradient(network, source, quantize(np.stack([sums, sums]).astype(np.int64), -7, q_nonbin))


def largest_pool(value: int, zero_point: int, side: int) -> tuple[Program, int, int]:
    """Pixels of one value -> an average pool over 255 x 255 of them, frozen and behind an rprelu; both outputs."""
    builder = ProgramBuilder(np.random.default_rng(0), 16)
    image = builder.input(side, side, 1)
    constants = {"A": np.zeros(1, np.int16), "B": np.array([value - zero_point], np.int32)}
    ends = builder._tensor(replace(builder.tensors[image], zero_point=zero_point), 1.0)
    builder._layer("affine", (image,), ends, arrays=constants | {"s": np.zeros(1, np.uint8)})
    pooled = builder.average_pool(ends, 255, 1)
    source = builder.rprelu(builder.latent(builder.clamp(ends, -1e9, 1e9), 8), False, False)
    learned = builder.average_pool(source, 255, 1)
    return builder.finish(), pooled, learned


@pytest.mark.parametrize(("value", "zero_point"), [(-(2**15), 2**15 - 1), (2**15 - 1, -(2**15)), (-(2**15), 0)])
def test_the_largest_average_pool(value: int, zero_point: int, isa: str) -> None:
    program, pooled, _ = largest_pool(value, zero_point, 255)
    network = build(program, 1)
    network.encode(np.zeros((1, 255, 255, 1), np.uint8))
    assert values(network, program, pooled, 1).item() == value


@pytest.mark.parametrize("q_nonbin", [8, 16, 32])
@pytest.mark.parametrize("side", [255, 256])
def test_the_gradient_of_the_largest_average_pool(side: int, q_nonbin: int, isa: str) -> None:
    """One window over all pixels; four, of which the pixels in the middle lie in every one."""
    program, _, learned = largest_pool(0, 0, side)
    network = build(program, 1, q_nonbin)
    network.forward(network.encode(np.zeros((1, side, side, 1), np.uint8)))
    windows, top = side - 254, 2 ** (q_nonbin - 1) - 1
    network.backward(np.full(windows**2, -top, np.int64), 0)
    readers = np.minimum(np.minimum(np.arange(1, side + 1), windows), np.arange(1, side + 1)[::-1])
    mantissa, exponent = reciprocal(255**2)
    sums = -top * (int(mantissa) >> 16) * np.outer(readers, readers)
    source = next(layer.inputs[0] for layer in program.layers if layer.output == learned)
    assert_gradient(network, source, quantize(sums.astype(np.int64), int(exponent) - 15, q_nonbin))
