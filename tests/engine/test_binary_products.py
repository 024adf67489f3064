"""The engine's products of binary layers outside of a program: exact, and never beyond the arrays they are given."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from everbit import _engine  # noqa: E402
from everbit.nn.low_memory_training.packed_signs import sign_bits  # noqa: E402
from everbit.nn.low_memory_training.products import LARGEST, LONGEST_SUM, MOST_PLACES, Layer  # noqa: E402
from everbit.packed_weights import interleaved  # noqa: E402
from reference.binary_products import SHAPES, layer_of, random_signs, reference  # noqa: E402


def open_products(layer: Layer, batch: int, threads: int = 1) -> Any:
    window = (layer.kernel, layer.kernel, layer.stride, *layer.padding)
    return _engine.BinaryProducts(layer.input, layer.output, window, layer.pad_value, batch, threads)


def words(x: Any) -> np.ndarray:
    return sign_bits(x).numpy().reshape(-1).view(np.uint64)


def check(layer: Layer, x: Any, weight: Any, g: Any, threads: int) -> None:
    """All three products are the reference's."""
    products = open_products(layer, len(x), threads)
    packed = interleaved(sign_bits(weight).numpy().view(np.uint64).reshape(layer.output[2], -1)).ravel()
    integers = g.movedim(1, -1).to(torch.int16).contiguous().numpy().ravel()
    z = np.full(len(x) * math.prod(layer.output), 77, np.int16)
    dx = np.full(len(x) * math.prod(layer.input), 77, np.int32)
    dw = np.full(weight.numel(), 77, np.int32)
    products.sums(words(x), packed, z)
    products.input_gradient(integers, packed, dx)
    products.weight_gradient(integers, words(x), dw)
    for name, found, expected in zip(("z", "dX", "dW"), (z, dx, dw), reference(layer, x, weight, g), strict=True):
        np.testing.assert_array_equal(found, expected.numpy().ravel(), err_msg=f"{name} of {layer}")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("pad_value", [-1, 0, 1])
def test_products_are_those_of_a_convolution(isa: str, pad_value: int, threads: int) -> None:
    torch.manual_seed(1)
    for channels, outputs, size, kernel, stride, padding, images in SHAPES:
        layer = layer_of(channels, outputs, size, kernel, stride, padding, pad_value)
        x, weight = random_signs(images, channels, *size), random_signs(outputs, channels, kernel, kernel)
        g = torch.randint(-LARGEST, LARGEST + 1, (images, outputs, *layer.output[:2]))
        check(layer, x, weight, g, threads)


EXTREMES = {
    "longest sums": layer_of(LONGEST_SUM, 2, (1, 1), 1, 1, 0, 0),
    "longest sums of gradients": layer_of(2, LONGEST_SUM, (1, 1), 1, 1, 0, 0),
    "longest sums over a window": layer_of(LONGEST_SUM // 9, 3, (3, 3), 3, 1, 1, 1),
    "most places": layer_of(1, 2, (256, 256), 1, 1, 0, 0),
    "most places of windows": layer_of(2, 1, (256, 256), 3, 1, 1, -1),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_extremes(isa: str, name: str) -> None:
    """Everything of one sign, gradients as large as they can be: no sum wraps."""
    layer = EXTREMES[name]
    channels, outputs = layer.input[2], layer.output[2]
    for sign in (-1, 1):
        x = torch.full((1, channels, *layer.input[:2]), float(sign))
        weight = torch.ones(outputs, channels, layer.kernel, layer.kernel)
        check(layer, x, weight, torch.full((1, outputs, *layer.output[:2]), sign * LARGEST), 1)


SOUND = {"input": (4, 4, 65), "output": (4, 4, 5), "window": (3, 3, 1, 1, 1), "pad_value": 0, "batch": 2, "threads": 1}


@pytest.mark.parametrize(
    "change",
    [
        {"input": (4, 4, 0)},
        {"input": (4, -4, 65)},
        {"input": (65537, 4, 65)},
        {"output": (4, 0, 5)},
        {"output": (2, 4, 5)},
        {"output": (4, 6, 5)},
        {"window": (0, 3, 1, 1, 1)},
        {"window": (3, 3, 0, 1, 1)},
        {"window": (3, 3, 1, 3, 1)},
        {"window": (3, 3, 1, 1, -1)},
        {"window": (65536, 65536, 1, 1, 1)},
        {"pad_value": 2},
        {"batch": 0},
        {"batch": -1},
        {"batch": MOST_PLACES // 16 + 1},
        {"batch": 2**31 - 1},
        {"threads": 0},
        {"input": (4, 4, 3641), "batch": 1},
        {"output": (4, 4, 3641), "batch": 1},
        {"input": (65536, 65536, 1), "output": (65536, 65536, 1), "window": (1, 1, 1, 0, 0), "batch": 1},
        {"input": (65536, 32768, 1), "output": (258, 129, 1), "window": (1, 1, 255, 0, 0), "batch": 1},
    ],
    ids=str,
)
def test_impossible_products_are_refused(change: dict[str, Any]) -> None:
    _engine.BinaryProducts(**SOUND)
    with pytest.raises(ValueError, match=r"."):
        _engine.BinaryProducts(**{**SOUND, **change})


def test_sides_are_three() -> None:
    with pytest.raises(TypeError):
        _engine.BinaryProducts(**{**SOUND, "input": (4, 4)})


ARRAYS: dict[str, dict[str, np.ndarray]] = {
    "sums": {
        "x": np.zeros(2 * 16 * 2, np.uint64),
        "weights": np.zeros(9 * 2 * 8, np.uint64),
        "z": np.zeros(2 * 16 * 5, np.int16),
    },
    "input_gradient": {
        "g": np.zeros(2 * 16 * 5, np.int16),
        "weights": np.zeros(9 * 2 * 8, np.uint64),
        "dx": np.zeros(2 * 16 * 65, np.int32),
    },
    "weight_gradient": {
        "g": np.zeros(2 * 16 * 5, np.int16),
        "x": np.zeros(2 * 16 * 2, np.uint64),
        "dw": np.zeros(5 * 9 * 65, np.int32),
    },
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_another_size_are_refused(name: str) -> None:
    product, sound = getattr(_engine.BinaryProducts(**SOUND), name), ARRAYS[name]
    product(**sound)
    for array, values in sound.items():
        for wrong in (values[:-1], values[:0], np.append(values, values[:1]), np.append(values, values)):
            with pytest.raises(ValueError, match=r"whole images|size of the product"):
                product(**{**sound, array: wrong})


@pytest.mark.parametrize("name", ARRAYS)
def test_results_go_nowhere_but_into_the_array(name: str) -> None:
    """No copy of it is made to fit another type, layout or permission: the caller would see nothing of the results."""
    product, sound = getattr(_engine.BinaryProducts(**SOUND), name), ARRAYS[name]
    result = list(sound)[-1]
    locked = sound[result].copy()
    locked.flags.writeable = False
    for wrong in (sound[result].astype(np.int64), np.repeat(sound[result], 2)[::2], locked):
        with pytest.raises(TypeError):
            product(**{**sound, result: wrong})
