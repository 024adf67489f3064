"""Operators of Larq Compute Engine against a plain NumPy rendering of its definition, and that against the engine."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from everbit.compile.compiler import compile_program
from everbit.errors import FormatError, UnsupportedError
from everbit.formats.importers import load_network
from everbit.formats.importers.statistics import measure_statistics
from everbit.nn import BinaryConv2d, Sign
from formats.importers.lite_model import (
    NONE,
    RELU,
    RELU6,
    RELU_N1_TO_1,
    SAME,
    VALID,
    LiteModel,
    lce_outputs,
    pack_filter,
)

RNG = np.random.default_rng(5)
BOUNDS = {NONE: (-np.inf, np.inf), RELU: (0, np.inf), RELU_N1_TO_1: (-1, 1), RELU6: (0, 6)}


def signs(x: np.ndarray) -> np.ndarray:
    """Larq's sign: +1 for 0, of either sign."""
    return np.where(x >= 0, 1.0, -1.0)


def padded(x: np.ndarray, kernel: int, stride: int, padding: int, value: float) -> np.ndarray:
    """x [N, H, W, C] with TensorFlow's border."""
    if padding == VALID:
        return x
    sides = []
    for size in x.shape[1:3]:
        total = max(0, (-(-size // stride) - 1) * stride + kernel - size)
        sides.append((total // 2, total - total // 2))
    return np.pad(x, [(0, 0), *sides, (0, 0)], constant_values=value)


def windows(x: np.ndarray, kernel: int, stride: int) -> np.ndarray:
    """[N, H', W', kernel, kernel, C]."""
    views = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(1, 2))
    return np.moveaxis(views[:, ::stride, ::stride], 3, -1)


def sums(x: np.ndarray, weight: np.ndarray, stride: int, padding: int, pad: int) -> np.ndarray:
    """Binary convolution of signs [N, H, W, C] with weights [out, k, k, C]."""
    kernel = weight.shape[1]
    seen = windows(padded(x, kernel, stride, padding, pad), kernel, stride)
    return np.einsum("nhwijc,oijc->nhwo", seen, weight)


def transformed(z: np.ndarray, activation: int, multiplier: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """The activation comes before the multiplier and the bias."""
    return np.clip(z, *BOUNDS[activation]) * multiplier + bias


def bconv(
    model: LiteModel,
    packed: int,
    size: tuple[int, int],
    weight: np.ndarray,
    stride: int = 1,
    padding: int = SAME,
    pad: int = 1,
    activation: int = NONE,
    transform: tuple[np.ndarray, np.ndarray] | None = None,
    thresholds: np.ndarray | None = None,
) -> int:
    outputs, kernel, _, channels = weight.shape
    places = [-(-n // stride) if padding == SAME else (n - kernel) // stride + 1 for n in size]
    inputs = [packed, model.constant(pack_filter(weight), "int32")]
    if thresholds is None:
        assert transform is not None
        inputs += [model.constant(transform[0]), model.constant(transform[1]), -1]
        shape, dtype = (1, *places, outputs), "float32"
    else:
        inputs += [-1, -1, model.constant(thresholds, "int32")]
        shape, dtype = (1, *places, -(-outputs // 32)), "int32"
    options = {"channels_in": channels, "dilation_height_factor": 1, "dilation_width_factor": 1}
    options |= {"fused_activation_function": activation, "pad_values": pad, "padding": padding}
    return model.add("LceBconv2d", inputs, shape, dtype, **options, stride_height=stride, stride_width=stride)


def mean(model: LiteModel, x: int) -> int:
    return model.add("MEAN", [x, model.constant([1, 2], "int32")], (1, model.tensors[x]["shape"][3]))


def dense(model: LiteModel, x: int, weight: np.ndarray) -> int:
    return model.add("FULLY_CONNECTED", [x, model.constant(weight), -1], (1, len(weight)), FusedActivationFunction=NONE)


def images(count: int, height: int, width: int, channels: int) -> np.ndarray:
    """Real values with zeros of both signs among them."""
    x = RNG.normal(size=(count, height, width, channels)).astype(np.float32)
    x[RNG.random(x.shape) < 0.1] = 0.0
    x[RNG.random(x.shape) < 0.1] = -0.0
    return x


def imported(content: bytes, x: np.ndarray, folder: Path) -> np.ndarray:
    (folder / "network.tflite").write_bytes(content)
    network = load_network(folder / "network.tflite").network
    with torch.no_grad():
        return network(torch.from_numpy(np.ascontiguousarray(x.transpose(0, 3, 1, 2)))).numpy()


def random_signs(*shape: int) -> np.ndarray:
    return np.where(RNG.random(shape) < 0.5, -1.0, 1.0)


COMBINATIONS = [
    (padding, pad, stride, activation, channels, kernel)
    for padding, pad in ((VALID, 0), (SAME, 0), (SAME, 1))
    for stride, activation, channels, kernel in itertools.product((1, 2), BOUNDS, (1, 35, 64), (1, 2, 3))
    if not (padding == SAME and pad == 0 and activation != NONE)  # refused by Larq Compute Engine
]


def combination(
    padding: int, pad: int, stride: int, activation: int, channels: int, kernel: int
) -> tuple[bytes, np.ndarray, np.ndarray]:
    """A file with one binary convolution of 33 filters, multipliers of both signs; images; what it should give."""
    x, weight = images(3, 6, 9, channels), random_signs(33, kernel, kernel, channels)
    transform = RNG.normal(size=33).astype(np.float32), RNG.normal(size=33).astype(np.float32)
    model = LiteModel()
    packed = model.quantize(model.input(1, 6, 9, channels))
    mean(model, bconv(model, packed, (6, 9), weight, stride, padding, pad, activation, transform))
    z = sums(signs(x), weight, stride, padding, pad)
    return model.bytes(), x, transformed(z, activation, *transform).mean(axis=(1, 2))


@pytest.mark.parametrize("case", COMBINATIONS, ids=str)
def test_a_binary_convolution_is_the_definition_s(case: tuple[int, ...], tmp_path: Path) -> None:
    content, x, expected = combination(*case)
    np.testing.assert_allclose(imported(content, x, tmp_path), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", COMBINATIONS, ids=str)
def test_the_definition_is_the_engine_s(case: tuple[int, ...]) -> None:
    content, x, expected = combination(*case)
    np.testing.assert_allclose(lce_outputs(content, x), expected, rtol=1e-4, atol=1e-4)


def thresholded(pool: tuple[int, int, int] | None, padding: int) -> tuple[bytes, np.ndarray, np.ndarray]:
    """Sign, binary convolution with thresholds, a pool of signs perhaps, binary convolution, dense layer."""
    x, first, second = images(4, 8, 8, 35), random_signs(40, 3, 3, 35), random_signs(6, 3, 3, 40)
    terms = first[0].size
    thresholds = RNG.integers(terms // 2 - 12, terms // 2 + 12, 40).astype(np.int32)
    thresholds[:6] = [-(2**31), -1, 0, terms, terms - 1, 2**31 - 1]  # always and never among them
    transform = np.array([1, -1, 0.5, -0.5, 2, 0.1], np.float32), RNG.normal(size=6).astype(np.float32)
    model = LiteModel()
    packed = model.quantize(model.input(1, 8, 8, 35))
    packed = bconv(model, packed, (8, 8), first, 1, padding, 1, thresholds=thresholds)
    count = (terms - sums(signs(x), first, 1, padding, 1)) / 2
    bits = np.where(count > thresholds, -1.0, 1.0)
    side = bits.shape[1]
    if pool is not None:
        kernel, stride, border = pool
        side = -(-side // stride) if border == SAME else (side - kernel) // stride + 1
        options = {"padding": border, "stride_height": stride, "stride_width": stride}
        options |= {"filter_height": kernel, "filter_width": kernel}
        packed = model.add("LceBMaxPool2d", [packed], (1, side, side, 2), "int32", **options)
        bits = windows(padded(bits, kernel, stride, border, -1), kernel, stride).max(axis=(3, 4))
    mean(model, bconv(model, packed, (side, side), second, 1, SAME, 1, transform=transform))
    z = sums(bits, second, 1, SAME, 1)
    return model.bytes(), x, transformed(z, NONE, *transform).mean(axis=(1, 2))


THRESHOLDED = [
    (pool, padding) for pool in (None, (2, 2, VALID), (3, 2, SAME), (2, 1, SAME)) for padding in (SAME, VALID)
]


@pytest.mark.parametrize("case", THRESHOLDED, ids=str)
def test_packed_outputs_and_pools_are_the_definition_s(case: tuple, tmp_path: Path) -> None:
    content, x, expected = thresholded(*case)
    np.testing.assert_allclose(imported(content, x, tmp_path), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", THRESHOLDED, ids=str)
def test_the_definition_of_packed_outputs_is_the_engine_s(case: tuple) -> None:
    content, x, expected = thresholded(*case)
    np.testing.assert_allclose(lce_outputs(content, x), expected, rtol=1e-4, atol=1e-4)


def dequantized() -> tuple[bytes, np.ndarray, np.ndarray]:
    x, weight = images(2, 4, 4, 35), RNG.normal(size=(5, 35)).astype(np.float32)
    model = LiteModel()
    packed = model.quantize(model.input(1, 4, 4, 35))
    dense(model, mean(model, model.add("LceDequantize", [packed], (1, 4, 4, 35))), weight)
    return model.bytes(), x, signs(x).mean(axis=(1, 2)) @ weight.T


def test_dequantize_gives_signs(tmp_path: Path) -> None:
    content, x, expected = dequantized()
    np.testing.assert_allclose(imported(content, x, tmp_path), expected, rtol=1e-4, atol=1e-4)


def bordered(value: float) -> tuple[bytes, np.ndarray, np.ndarray]:
    """A border in front of a sign: the sign of its value, so that a border of 0 is one of +1."""
    x, weight = images(3, 6, 6, 35), random_signs(7, 3, 3, 35)
    transform = RNG.normal(size=7).astype(np.float32), RNG.normal(size=7).astype(np.float32)
    model = LiteModel()
    around = model.constant([[0, 0], [1, 2], [0, 1], [0, 0]], "int32")
    wide = model.add("PADV2", [model.input(1, 6, 6, 35), around, model.constant(value)], (1, 9, 7, 35))
    mean(model, bconv(model, model.quantize(wide), (9, 7), weight, 2, VALID, 0, transform=transform))
    z = sums(signs(np.pad(x, [(0, 0), (1, 2), (0, 1), (0, 0)], constant_values=value)), weight, 2, VALID, 0)
    return model.bytes(), x, transformed(z, NONE, *transform).mean(axis=(1, 2))


@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, -1.5])
def test_a_border_in_front_of_a_sign_is_its_sign(value: float, tmp_path: Path) -> None:
    content, x, expected = bordered(value)
    np.testing.assert_allclose(imported(content, x, tmp_path), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("value", [0.0, 1.5, -1.5])
def test_the_engine_sees_that_border_too(value: float) -> None:
    content, x, expected = bordered(value)
    np.testing.assert_allclose(lce_outputs(content, x), expected, rtol=1e-4, atol=1e-4)


def residual(folder: Path) -> Path:
    """A stem, two residual blocks with packed signs between them, a head."""
    model = LiteModel()
    x = model.input(1, 16, 16, 3)
    stem = [model.constant(RNG.normal(size=(20, 3, 3, 3)) / 3), model.constant(RNG.normal(size=20) / 3)]
    options = {"Padding": SAME, "StrideH": 2, "StrideW": 2, "FusedActivationFunction": NONE}
    x = model.add("CONV_2D", [x, *stem], (1, 8, 8, 20), **options)
    for _ in range(2):
        transform = RNG.normal(size=20).astype(np.float32) / 9, RNG.normal(size=20).astype(np.float32) / 9
        weight = random_signs(20, 3, 3, 20)
        branch = bconv(model, model.quantize(x), (8, 8), weight, activation=RELU, transform=transform)
        x = model.add("ADD", [x, branch], (1, 8, 8, 20), FusedActivationFunction=NONE)
    dense(model, mean(model, x), RNG.normal(size=(4, 20)).astype(np.float32))
    return model.save(folder / "residual.tflite")


def test_imported_networks_compile_and_learn_at_any_cut(tmp_path: Path) -> None:
    network = load_network(residual(tmp_path))
    pixels = RNG.integers(0, 256, (16, *network.input_shape), np.uint8)
    x = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1
    before = network.network(x).detach()
    measure_statistics(network.network, network.folded_norms, pixels)
    torch.testing.assert_close(network.network(x).detach(), before, rtol=1e-3, atol=1e-3)
    for cut in ("conv_0_bn", "add_3", "add_6"):
        program = compile_program(network.network, pixels, cut=cut)
        assert program.latent_shape == (8, 8, 20)


def test_signs_and_weights_are_everbit_s_layers(tmp_path: Path) -> None:
    network = load_network(residual(tmp_path)).network
    assert isinstance(network.get_submodule("sign_1"), Sign)
    layer = network.get_submodule("bconv_2")
    assert isinstance(layer, BinaryConv2d)
    assert (layer.padding, layer.pad_value, layer.scale) == ("same", 1, False)
    assert set(layer.weight.unique().tolist()) == {-1.0, 1.0}


def broken(**changes: object) -> LiteModel:
    """A binary convolution with some of its options or inputs changed."""
    model = LiteModel()
    transform = np.ones(5, np.float32), np.zeros(5, np.float32)
    packed = model.quantize(model.input(1, 6, 6, 35))
    mean(model, bconv(model, packed, (6, 6), random_signs(5, 3, 3, 35), transform=transform))
    model.operators[1]["options"] |= {k: v for k, v in changes.items() if k in model.operators[1]["options"]}
    return model


def test_contradictions_are_refused(tmp_path: Path) -> None:
    def saved(model: LiteModel) -> Path:
        return model.save(tmp_path / "network.tflite")

    cases = [
        (broken(channels_in=64), FormatError, "reads 35 channels, and says 64"),
        (broken(pad_values=7), FormatError, "pads with 7, which is neither 0 nor 1"),
        (broken(pad_values=0, fused_activation_function=RELU), FormatError, "an activation behind a border of 0"),
        (broken(fused_activation_function=9), UnsupportedError, "fused activation function 9"),
        (broken(dilation_height_factor=2), UnsupportedError, "is dilated"),
        (broken(stride_height=2), UnsupportedError, r"different strides by axis, \[2, 1\]"),
        (broken(padding=5), FormatError, "padding 5"),
        (broken(stride_height=0, stride_width=0), FormatError, r"of stride \[0, 0\]"),
    ]
    grouped = LiteModel()
    packed = grouped.quantize(grouped.input(1, 6, 6, 64))
    transform = np.ones(4, np.float32), np.zeros(4, np.float32)
    mean(grouped, bconv(grouped, packed, (6, 6), random_signs(4, 3, 3, 32), transform=transform))
    grouped.operators[1]["options"]["channels_in"] = 64
    cases.append((grouped, UnsupportedError, r"operator 1 \(LceBconv2d, .*in groups"))
    few = broken()
    few.tensors[few.operators[1]["inputs"][2]] |= {"shape": [4], "data": np.ones(4, np.float32).tobytes()}
    cases.append((few, FormatError, "has 4 multipliers and 5 biases for 5 filters"))
    unpacked = broken()
    unpacked.operators[1]["inputs"][0] = unpacked.inputs[0]
    cases.append((unpacked, FormatError, "reads numbers where packed signs are expected"))
    for model, kind, message in cases:
        with pytest.raises(kind, match=message):
            load_network(saved(model))
