"""Operators of TensorFlow Lite, each in a small file, against LiteRT."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from everbit.errors import EverbitError, FormatError, UnsupportedError
from everbit.formats.importers import load_network
from everbit.nn import BlurPool2d, SamePad2d
from formats.importers.lite_model import (
    NONE,
    RELU,
    RELU6,
    RELU_N1_TO_1,
    SAME,
    VALID,
    LiteModel,
    lite_outputs,
)

RNG = np.random.default_rng(3)
BINOMIAL = np.outer([1, 2, 1], [1, 2, 1])[None, :, :, None] / 16


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def outputs(size: int, kernel: int, stride: int, padding: int) -> int:
    return -(-size // stride) if padding == SAME else (size - kernel) // stride + 1


def windows(padding: int, stride: int, activation: int = NONE, **more: int) -> dict[str, int]:
    return {"Padding": padding, "StrideH": stride, "StrideW": stride, "FusedActivationFunction": activation, **more}


def convolution(
    model: LiteModel, x: int, filters: int, kernel: tuple[int, int], padding: int, stride: int, activation: int = NONE
) -> int:
    _, height, width, channels = model.tensors[x]["shape"]
    weights = [model.constant(normal(filters, *kernel, channels)), model.constant(normal(filters))]
    shape = (1, outputs(height, kernel[0], stride, padding), outputs(width, kernel[1], stride, padding), filters)
    return model.add("CONV_2D", [x, *weights], shape, **windows(padding, stride, activation))


def depthwise(model: LiteModel, x: int, weight: np.ndarray, padding: int, stride: int, bias: bool = True) -> int:
    _, height, width, channels = model.tensors[x]["shape"]
    _, kernel, _, filters = weight.shape
    inputs = [x, model.constant(weight), model.constant(normal(filters) if bias else np.zeros(filters))]
    shape = (1, outputs(height, kernel, stride, padding), outputs(width, kernel, stride, padding), filters)
    return model.add(
        "DEPTHWISE_CONV_2D", inputs, shape, **windows(padding, stride, DepthMultiplier=filters // channels)
    )


def pool(model: LiteModel, kind: str, x: int, kernel: int, padding: int, stride: int) -> int:
    _, height, width, channels = model.tensors[x]["shape"]
    shape = (1, outputs(height, kernel, stride, padding), outputs(width, kernel, stride, padding), channels)
    return model.add(kind, [x], shape, **windows(padding, stride, FilterHeight=kernel, FilterWidth=kernel))


def dense(model: LiteModel, x: int, outputs_: int, activation: int = NONE) -> int:
    inputs = int(np.prod(model.tensors[x]["shape"][1:]))
    weights = [model.constant(normal(outputs_, inputs)), model.constant(normal(outputs_))]
    return model.add("FULLY_CONNECTED", [x, *weights], (1, outputs_), FusedActivationFunction=activation)


def mean(model: LiteModel, x: int) -> int:
    axes = model.constant([1, 2], "int32")
    return model.add("MEAN", [x, axes], (1, model.tensors[x]["shape"][3]))


Make = Callable[[LiteModel], int]
CASES: dict[str, Make] = {}


def case(name: str, make: Make) -> None:
    CASES[name] = make


for padding, word in ((SAME, "same"), (VALID, "valid")):
    for stride in (1, 2):
        for kernel in ((1, 1), (2, 2), (3, 3), (3, 1), (5, 5)):
            case(
                f"convolution {kernel} {word} {stride}",
                lambda m, k=kernel, p=padding, s=stride: mean(m, convolution(m, m.input(1, 7, 10, 3), 5, k, p, s)),
            )
        for kind in ("MAX_POOL_2D", "AVERAGE_POOL_2D"):
            for kernel, size in ((2, 7), (3, 7), (3, 6)):
                case(
                    f"{kind} {kernel} of {size} {word} {stride}",
                    lambda m, k=kernel, n=size, p=padding, s=stride, kind=kind: dense(
                        m, pool(m, kind, m.input(1, n, n, 3), k, p, s), 4
                    ),
                )
        for multiplier in (1, 2):
            case(
                f"depthwise {word} {stride} times {multiplier}",
                lambda m, p=padding, s=stride, n=multiplier: dense(
                    m, depthwise(m, m.input(1, 7, 8, 3), normal(1, 3, 3, 3 * n), p, s), 4
                ),
            )
        case(
            f"blur {word} {stride}",
            lambda m, p=padding, s=stride: dense(
                m, depthwise(m, m.input(1, 8, 7, 3), np.repeat(BINOMIAL, 3, 3), p, s, bias=False), 4
            ),
        )
for code, word in ((RELU, "relu"), (RELU6, "relu6"), (RELU_N1_TO_1, "relu n1 to 1")):
    case(f"fused {word}", lambda m, c=code: mean(m, convolution(m, m.input(1, 6, 6, 3), 5, (3, 3), SAME, 1, c)))
    case(f"fused {word} dense", lambda m, c=code: dense(m, dense(m, m.input(1, 4, 4, 3), 9, c), 5))
    kind = {RELU: "RELU", RELU6: "RELU6", RELU_N1_TO_1: "RELU_N1_TO_1"}[code]
    case(word, lambda m, k=kind: mean(m, m.add(k, [m.input(1, 5, 5, 3)], (1, 5, 5, 3))))


def _arithmetic(kind: str, constant: np.ndarray, first: bool = False) -> Make:
    def make(m: LiteModel) -> int:
        x, c = convolution(m, m.input(1, 5, 5, 3), 4, (3, 3), SAME, 1), m.constant(constant)
        inputs = [c, x] if first else [x, c]
        return mean(m, m.add(kind, inputs, (1, 5, 5, 4), FusedActivationFunction=RELU))

    return make


for kind in ("ADD", "SUB", "MUL"):
    case(f"{kind} by channel", _arithmetic(kind, normal(4)))
    case(f"{kind} one number", _arithmetic(kind, normal(1)))
    case(f"{kind} constant first", _arithmetic(kind, normal(1, 1, 1, 4), first=True))


def _norm_in_steps(m: LiteModel) -> int:
    """What is left of a batch norm that nothing took in, with a second reader in between."""
    x = m.input(1, 4, 4, 3)
    scaled = m.add("MUL", [x, m.constant(normal(3))], (1, 4, 4, 3))
    moved = m.add("ADD", [scaled, m.constant(normal(3))], (1, 4, 4, 3))
    moved = m.add("SUB", [moved, m.constant(normal(3))], (1, 4, 4, 3))
    return mean(m, m.add("ADD", [moved, scaled], (1, 4, 4, 3)))


def _flattened_constant(m: LiteModel) -> int:
    """A constant for every place of a flattened map, and the dense layer behind it: channels come last in the file."""
    x = m.add("RESHAPE", [m.input(1, 3, 4, 5), m.constant([1, 60], "int32")], (1, 60))
    x = m.add("MUL", [x, m.constant(normal(60))], (1, 60))
    return dense(m, x, 7)


def _padded(kind: str, value: float | None, behind: Callable[[LiteModel, int], int]) -> Make:
    def make(m: LiteModel) -> int:
        sides = m.constant([[0, 0], [1, 2], [0, 1], [0, 0]], "int32")
        extra = [] if value is None else [m.constant(value)]
        return dense(m, behind(m, m.add(kind, [m.input(1, 6, 6, 3), sides, *extra], (1, 9, 7, 3))), 4)

    return make


def _turned(m: LiteModel) -> int:
    """Channels first at the input, last in the middle, first again at a flatten, as converters of PyTorch leave it."""
    x = m.input(1, 3, 6, 5)
    x = m.add("TRANSPOSE", [x, m.constant([0, 2, 3, 1], "int32")], (1, 6, 5, 3))
    x = convolution(m, x, 4, (3, 3), SAME, 1)
    x = m.add("TRANSPOSE", [x, m.constant([0, 3, 1, 2], "int32")], (1, 4, 6, 5))
    x = m.add("RESHAPE", [x, m.constant([1, 120], "int32")], (1, 120))
    return dense(m, x, 3)


def _mean_channels_first(m: LiteModel) -> int:
    x = m.add("TRANSPOSE", [m.input(1, 6, 5, 3), m.constant([0, 3, 1, 2], "int32")], (1, 3, 6, 5))
    x = m.add("MUL", [x, m.constant(normal(3, 1, 1))], (1, 3, 6, 5))
    return m.add("MEAN", [x, m.constant([-2, -1], "int32")], (1, 3))


def _concatenated(m: LiteModel) -> int:
    x = m.input(1, 5, 5, 3)
    parts = [convolution(m, x, n, (1, 1), SAME, 1) for n in (2, 4)] + [x]
    return mean(m, m.add("CONCATENATION", parts, (1, 5, 5, 9), Axis=3))


def _mobile_head(m: LiteModel) -> int:
    """Average pool over the map, a 1x1 convolution as the classifier, reshape, softmax."""
    x = pool(m, "AVERAGE_POOL_2D", m.input(1, 4, 4, 3), 4, VALID, 1)
    x = convolution(m, x, 6, (1, 1), SAME, 1)
    return m.add("RESHAPE", [x, m.constant([1, 6], "int32")], (1, 6))


def _half_precision(m: LiteModel) -> int:
    """Weights kept as float16, made real by a step of their own."""
    half = m.constant(normal(5, 3, 3, 3), "float16")
    weight = m.add("DEQUANTIZE", [half], (5, 3, 3, 3))
    return mean(
        m, m.add("CONV_2D", [m.input(1, 6, 6, 3), weight, m.constant(normal(5))], (1, 6, 6, 5), **windows(SAME, 1))
    )


def _grouped(m: LiteModel) -> int:
    weights = [m.constant(normal(8, 3, 3, 2)), m.constant(normal(8))]
    return mean(m, m.add("CONV_2D", [m.input(1, 6, 6, 4), *weights], (1, 6, 6, 8), **windows(SAME, 1)))


case("batch norm in steps", _norm_in_steps)
case("constant for a flattened map", _flattened_constant)
case("PAD before a convolution", _padded("PAD", None, lambda m, x: convolution(m, x, 4, (3, 3), VALID, 2)))
case("PADV2 before a max pool", _padded("PADV2", 0.5, lambda m, x: pool(m, "MAX_POOL_2D", x, 2, VALID, 2)))
case("PAD before an average pool", _padded("PAD", None, lambda m, x: pool(m, "AVERAGE_POOL_2D", x, 3, VALID, 2)))
case("PAD before a ReLU", _padded("PADV2", -0.5, lambda m, x: m.add("RELU", [x], (1, 9, 7, 3))))
case("transposes", _turned)
case("mean of channels first", _mean_channels_first)
case("concatenation", _concatenated)
case("a 1x1 convolution as head", _mobile_head)
case("half precision", _half_precision)
case(
    "prelu",
    lambda m: mean(m, m.add("PRELU", [m.input(1, 4, 4, 3), m.constant(np.abs(normal(1, 1, 3)))], (1, 4, 4, 3))),
)
case("squeeze", lambda m: m.add("SQUEEZE", [pool(m, "AVERAGE_POOL_2D", m.input(1, 3, 3, 5), 3, VALID, 1)], (1, 5)))
case("grouped convolution", _grouped)


UNEQUAL_BORDERS = {"AVERAGE_POOL_2D 2 of 7 same 1"}
"""What PyTorch's average pool cannot do: one more place outside on one side, at each window."""


@pytest.mark.parametrize("name", CASES)
def test_operators_compute_what_litert_computes(name: str, tmp_path: Path) -> None:
    model = LiteModel()
    CASES[name](model)
    content = model.bytes()
    (tmp_path / "network").write_bytes(content)
    if name in UNEQUAL_BORDERS:
        with pytest.raises(UnsupportedError, match="more places outside on one side"):
            load_network(tmp_path / "network")
        return
    imported = load_network(tmp_path / "network")
    images = normal(3, *model.tensors[model.inputs[0]]["shape"][1:])
    turned = name == "transposes"
    x = torch.from_numpy(images if turned else images.transpose(0, 3, 1, 2))
    expected = lite_outputs(content, images).reshape(3, -1)
    with torch.no_grad():
        found = imported.network(x).numpy()
    assert imported.input_shape == tuple(np.moveaxis(images[0], 0, 2).shape if turned else images.shape[1:])
    assert found.shape == expected.shape == (3, imported.classes)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5)


def test_quantized_files_are_read_as_real_numbers(tmp_path: Path) -> None:
    """Full int8: weights and biases times their scales; the file's own steps of activations are not kept."""
    model = LiteModel()
    x = model.input(1, 6, 6, 3)
    steps = {"images": 1 / 32, "map": 1 / 16, "logits": 1 / 16}

    def made(kind: str, inputs: list[int], shape: tuple[int, ...], step: str, **options: int) -> int:
        y = model.add(kind, inputs, shape, "int8", **options)
        model.tensors[y] |= {"scale": steps[step], "zero_point": 3}
        return y

    scales = np.array([0.001, 0.002, 0.0005, 0.001, 0.003], np.float32)
    weight = model.constant(RNG.integers(-127, 128, (5, 3, 3, 3)), "int8", scale=scales, zero_point=[0] * 5, axis=0)
    bias = model.constant(
        RNG.integers(-900, 900, 5), "int32", scale=scales * np.float32(steps["images"]), zero_point=[0] * 5, axis=0
    )
    head = model.constant(RNG.integers(-127, 128, (4, 5)), "int8", scale=0.01)
    head_bias = model.constant(RNG.integers(-900, 900, 4), "int32", scale=np.float32(0.01 * steps["map"]))
    y = made("QUANTIZE", [x], (1, 6, 6, 3), "images")
    y = made("CONV_2D", [y, weight, bias], (1, 6, 6, 5), "map", **windows(SAME, 1, RELU))
    y = made("MEAN", [y, model.constant([1, 2], "int32")], (1, 5), "map")
    y = made("FULLY_CONNECTED", [y, head, head_bias], (1, 4), "logits", FusedActivationFunction=NONE)
    model.add("DEQUANTIZE", [y], (1, 4))
    images = RNG.uniform(-2, 2, (4, 6, 6, 3)).astype(np.float32)
    network = load(model, tmp_path)
    with torch.no_grad():
        found = network(torch.from_numpy(images.transpose(0, 3, 1, 2))).numpy()
    np.testing.assert_allclose(found, lite_outputs(model.bytes(), images), atol=2 * steps["logits"])


def load(model: LiteModel, tmp_path: Path) -> torch.nn.Module:
    return load_network(model.save(tmp_path / "network.tflite")).network


def test_a_binomial_filter_is_a_blur_pool(tmp_path: Path) -> None:
    model = LiteModel()
    mean(model, depthwise(model, model.input(1, 8, 8, 3), np.repeat(BINOMIAL, 3, 3), SAME, 2, bias=False))
    assert any(isinstance(module, BlurPool2d) for module in load(model, tmp_path).modules())


def test_same_padding_holds_at_other_sizes(tmp_path: Path) -> None:
    """An even border for one size of images is an odd one for another: SamePad2d sees the size."""
    model = LiteModel()
    mean(model, convolution(model, model.input(1, 7, 7, 3), 5, (3, 3), SAME, 2))
    network = load(model, tmp_path)
    assert any(isinstance(module, SamePad2d) for module in network.modules())
    other, weight = LiteModel(), model.tensors
    x = other.input(1, 8, 8, 3)
    constants = [other.tensor(t["shape"], data=t["data"]) for t in weight if "data" in t and t["dtype"] == "float32"]
    mean(other, other.add("CONV_2D", [x, *constants], (1, 4, 4, 5), **windows(SAME, 2)))
    images = normal(2, 8, 8, 3)
    with torch.no_grad():
        found = network(torch.from_numpy(images.transpose(0, 3, 1, 2))).numpy()
    np.testing.assert_allclose(found, lite_outputs(other.bytes(), images), rtol=1e-4, atol=2e-5)


def test_a_batch_norm_in_steps_is_one(tmp_path: Path) -> None:
    model = LiteModel()
    x = convolution(model, model.input(1, 5, 5, 3), 4, (3, 3), SAME, 1)
    x = model.add("MUL", [x, model.constant(normal(4))], (1, 5, 5, 4))
    x = model.add("ADD", [x, model.constant(normal(4))], (1, 5, 5, 4), FusedActivationFunction=RELU)
    mean(model, x)
    norms = [m for m in load(model, tmp_path).modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert len(norms) == 1


def _unsupported() -> dict[str, tuple[Make, str]]:
    def one(kind: str, *shape: int, **options: int) -> Make:
        return lambda m: mean(m, m.add(kind, [m.input(1, 4, 4, 3)], shape or (1, 4, 4, 3), **options))

    def two(kind: str) -> Make:
        def make(m: LiteModel) -> int:
            x = m.input(1, 4, 4, 3)
            return mean(m, m.add(kind, [x, m.add("RELU", [x], (1, 4, 4, 3))], (1, 4, 4, 3)))

        return make

    def channel_pad(m: LiteModel) -> int:
        sides = m.constant([[0, 0], [0, 0], [0, 0], [0, 2]], "int32")
        return mean(m, m.add("PAD", [m.input(1, 4, 4, 3), sides], (1, 4, 4, 5)))

    def dilated(m: LiteModel) -> int:
        weights = [m.constant(normal(5, 3, 3, 3)), m.constant(normal(5))]
        options = windows(SAME, 1, DilationHFactor=2, DilationWFactor=2)
        return mean(m, m.add("CONV_2D", [m.input(1, 6, 6, 3), *weights], (1, 6, 6, 5), **options))

    def map_as_result(m: LiteModel) -> int:
        return m.add("RELU", [m.input(1, 4, 4, 3)], (1, 4, 4, 3))

    def softmax_inside(m: LiteModel) -> int:
        x = dense(m, m.input(1, 2, 2, 3), 4)
        return dense(m, m.add("SOFTMAX", [x], (1, 4), Beta=1), 3)

    def odd_average(m: LiteModel) -> int:
        return mean(m, pool(m, "AVERAGE_POOL_2D", m.input(1, 6, 6, 3), 4, SAME, 1))

    return {
        "unknown": (one("HARD_SWISH"), r"operator 0 \(HARD_SWISH, which makes 'tensor_1'\) is no step"),
        "unknown custom": (one("MyOwn"), r"operator 0 \(MyOwn, which makes 'tensor_1'\)"),
        "product": (two("MUL"), r"operator 1 \(MUL, .*combines two activations"),
        "channel pad": (channel_pad, "pads batch or channels"),
        "dilated": (dilated, r"operator 0 \(CONV_2D, .*is dilated"),
        "map as result": (map_as_result, "ends in a map"),
        "softmax inside": (softmax_inside, "is a softmax inside the network"),
        "average with an odd border": (odd_average, "more places outside on one side"),
    }


@pytest.mark.parametrize("name", _unsupported())
def test_what_cannot_be_imported_is_named_with_its_place(name: str, tmp_path: Path) -> None:
    make, message = _unsupported()[name]
    model = LiteModel()
    make(model)
    with pytest.raises(UnsupportedError, match=message):
        load(model, tmp_path)


def test_a_file_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    def wrong_shape(m: LiteModel) -> None:
        m.tensors[convolution(m, m.input(1, 6, 6, 3), 5, (3, 3), SAME, 2)]["shape"] = [1, 4, 4, 5]

    def wrong_channels(m: LiteModel) -> None:
        weights = [m.constant(normal(5, 3, 3, 4)), m.constant(normal(5))]
        m.add("CONV_2D", [m.input(1, 6, 6, 3), *weights], (1, 6, 6, 5), **windows(SAME, 1))

    def few_biases(m: LiteModel) -> None:
        weights = [m.constant(normal(5, 3, 3, 3)), m.constant(normal(4))]
        m.add("CONV_2D", [m.input(1, 6, 6, 3), *weights], (1, 6, 6, 5), **windows(SAME, 1))

    def cycle(m: LiteModel) -> None:
        x, later = m.input(1, 6, 6, 3), m.tensor((1, 6, 6, 3))
        y = m.add("ADD", [x, later], (1, 6, 6, 3))
        z = m.add("RELU", [y], (1, 6, 6, 3))
        m.operators[0]["inputs"][1] = z

    def made_twice(m: LiteModel) -> None:
        y = m.add("RELU", [m.input(1, 6, 6, 3)], (1, 6, 6, 3))
        m.operators.append(dict(m.operators[0], outputs=[y]))

    def no_stride(m: LiteModel) -> None:
        convolution(m, m.input(1, 6, 6, 3), 5, (3, 3), SAME, 1)
        m.operators[0]["options"]["StrideH"] = 0

    def not_finite(m: LiteModel) -> None:
        m.add("MUL", [m.input(1, 6, 6, 3), m.constant([1.0, np.inf, 1.0])], (1, 6, 6, 3))

    cases = [
        (wrong_shape, r"operator 0 \(CONV_2D.*makes \[3, 3, 5\] where the file says \[4, 4, 5\]"),
        (wrong_channels, r"has weights \[5, 3, 3, 4\] for 3 channels"),
        (few_biases, "has 4 biases for 5 outputs"),
        (cycle, "which no operator before it makes"),
        (made_twice, "makes what is there already"),
        (no_stride, "of stride"),
        (not_finite, r"tensor 1 \(tensor_1\) holds values that are not finite"),
    ]
    for make, message in cases:
        model = LiteModel()
        make(model)
        with pytest.raises(FormatError, match=message):
            load(model, tmp_path)


def test_errors_are_everbit_s(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no network")
    with pytest.raises(EverbitError, match="is no network file that can be imported"):
        load_network(tmp_path / "text")
    with pytest.raises(FormatError, match="cannot read"):
        load_network(tmp_path / "absent")
