from __future__ import annotations

import pytest
import torch
from torch import Tensor

from everbit.errors import EverbitError
from everbit.nn.low_memory_training import products
from everbit.nn.low_memory_training.packed_signs import PackedSigns, sign_bits
from everbit.nn.low_memory_training.products import (
    LARGEST,
    LONGEST_STRIDE,
    LONGEST_SUM,
    Layer,
    PackedProducts,
    TiledProducts,
)
from everbit.nn.low_memory_training.rows import as_rows, empty
from reference.binary_products import SHAPES, layer_of, random_signs, reference

WAYS = [PackedProducts, TiledProducts]


def small_integers(*shape: int) -> Tensor:
    """Gradients whose largest is LARGEST, so that a step of the 16-bit integers is 1, and whose sums fit float32."""
    g = torch.randint(-100, 101, shape).float()
    g.view(-1)[-1] = -LARGEST
    return g


def run(
    way: type[PackedProducts] | type[TiledProducts], layer: Layer, x: Tensor, weight: Tensor, g: Tensor, scale: Tensor
) -> tuple[Tensor, ...]:
    """Outputs, dX and dW, as `reference` has them but for the scale."""
    packed = PackedSigns(sign_bits(x), x.shape, torch.float32)
    product = way(layer, sign_bits(weight), len(x))
    y = empty((len(x), layer.output[2], *layer.output[:2]), torch.float32, x.device)
    dx = empty(x.shape, torch.float32, x.device)
    product.forward(packed, as_rows(y), scale)
    dw = product.backward(packed, as_rows(g), scale, as_rows(dx), True)
    assert dw is not None
    shape = (layer.output[2], layer.kernel, layer.kernel, layer.input[2])
    return y.movedim(1, -1), dx.movedim(1, -1), (dw[0] * dw[1]).view(shape)


def case(number: int, pad_value: int, images: int | None = None) -> tuple[Layer, Tensor, Tensor, Tensor]:
    channels, outputs, size, kernel, stride, padding, few = SHAPES[number]
    layer = layer_of(channels, outputs, size, kernel, stride, padding, pad_value)
    images = images or few
    x, weight = random_signs(images, channels, *size), random_signs(outputs, channels, kernel, kernel)
    return layer, x, weight, small_integers(images, outputs, *layer.output[:2])


@pytest.mark.parametrize("pad_value", [-1, 0, 1])
@pytest.mark.parametrize("way", WAYS)
def test_both_ways_are_exact(way: type[PackedProducts], pad_value: int) -> None:
    for number in range(len(SHAPES)):
        layer, x, weight, g = case(number, pad_value)
        for found, expected in zip(
            run(way, layer, x, weight, g, torch.ones(layer.output[2])), reference(layer, x, weight, g), strict=True
        ):
            assert torch.equal(found, expected.float()), layer


@pytest.mark.parametrize("way", WAYS)
def test_pieces_add_up(way: type[PackedProducts], monkeypatch: pytest.MonkeyPatch) -> None:
    """More images than are multiplied at once, the last piece smaller."""
    for number in (2, 3, 5, 9):
        layer, x, weight, g = case(number, 1, images=7)
        largest = max(
            layer.input[0] * layer.input[1] * layer.input[2], layer.output[0] * layer.output[1] * layer.output[2]
        )
        monkeypatch.setattr(products, "ALL_AT_ONCE", largest)
        monkeypatch.setattr(products, "AT_ONCE", largest * 3)
        assert list(layer.pieces(7)) == [slice(0, 3), slice(3, 6), slice(6, 7)]
        for found, expected in zip(
            run(way, layer, x, weight, g, torch.ones(layer.output[2])), reference(layer, x, weight, g), strict=True
        ):
            assert torch.equal(found, expected.float()), layer


def test_a_piece_has_no_more_places_than_the_engine_takes() -> None:
    layer = layer_of(1, 1, (200, 200), 1, 1, 0, 0)
    assert list(layer.pieces(2)) == [slice(0, 1), slice(1, 2)]
    x, weight = random_signs(2, 1, 200, 200), random_signs(1, 1, 1, 1)
    g = small_integers(2, 1, 200, 200)
    for found, expected in zip(
        run(PackedProducts, layer, x, weight, g, torch.ones(1)), reference(layer, x, weight, g), strict=True
    ):
        assert torch.equal(found, expected.float())


@pytest.mark.parametrize("way", WAYS)
def test_scales_of_the_outputs(way: type[PackedProducts]) -> None:
    """Outputs and gradients times alpha; the engine rounds the latter to 15 bits of the largest."""
    layer, x, weight, _ = case(3, 0)
    alpha = torch.rand(layer.output[2])
    g = torch.randn(len(x), layer.output[2], *layer.output[:2])
    y, dx, dw = run(way, layer, x, weight, g, alpha)
    z, _, _ = reference(layer, x, weight, g)
    scaled = g * alpha.view(1, -1, 1, 1)
    _, exact_dx, exact_dw = reference(layer, x, weight, scaled)
    torch.testing.assert_close(y, (z.float() * alpha))
    half_step = float(scaled.abs().max()) / LARGEST / 2
    assert (dx - exact_dx).abs().max() <= half_step * layer.taps * layer.output[2]
    assert (dw - exact_dw).abs().max() <= half_step * len(x) * layer.output[0] * layer.output[1]
    if way is TiledProducts:
        torch.testing.assert_close(dx, exact_dx.float(), atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(dw, exact_dw.float(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("layer", "packed"),
    [
        (layer_of(LONGEST_SUM, 1, (1, 1), 1, 1, 0, 0), True),
        (layer_of(LONGEST_SUM + 1, 1, (1, 1), 1, 1, 0, 0), False),
        (layer_of(1, LONGEST_SUM + 1, (1, 1), 1, 1, 0, 0), False),
        (layer_of(LONGEST_SUM // 9 + 1, 1, (3, 3), 3, 1, 1, 0), False),
        (layer_of(1, 1, (256, 256), 1, 1, 0, 0), True),
        (layer_of(1, 1, (257, 256), 1, 1, 0, 0), False),
        (layer_of(2, 3, (4, 4), 1, 1, 1, 1), False),
        (layer_of(2, 3, (4, 4), 3, 1, 3, -1), False),
        (layer_of(2, 3, (260, 260), 3, LONGEST_STRIDE + 1, 1, 0), False),
        (layer_of(2, 3, (260, 260), 3, LONGEST_STRIDE, 1, 0), True),
    ],
    ids=str,
)
def test_what_the_engine_does_not_take_torch_multiplies(layer: Layer, packed: bool) -> None:
    x = random_signs(1, layer.input[2], *layer.input[:2])
    weight = random_signs(layer.output[2], layer.input[2], layer.kernel, layer.kernel)
    kept = PackedSigns(sign_bits(x), x.shape, torch.float32)
    assert PackedProducts.takes(layer, kept) is packed
    assert not PackedProducts.takes(layer, x)
    way = type(products.products(layer, kept, sign_bits(weight)))
    assert way is (PackedProducts if packed else TiledProducts)
    g = small_integers(1, layer.output[2], *layer.output[:2])
    for found, expected in zip(
        run(way, layer, x, weight, g, torch.ones(layer.output[2])), reference(layer, x, weight, g), strict=True
    ):
        assert torch.equal(found, expected.float())


@pytest.mark.parametrize("magnitude", [0.0, 1e-38, 1e-30, 1e30])
def test_gradients_of_any_size(magnitude: float) -> None:
    layer, x, weight, g = case(2, 1)
    scale = torch.ones(layer.output[2])
    _, dx, dw = run(PackedProducts, layer, x, weight, g / LARGEST * magnitude, scale)
    _, expected_dx, expected_dw = reference(layer, x, weight, g.double() / LARGEST * magnitude)
    torch.testing.assert_close(dx, expected_dx.float(), rtol=1e-4, atol=magnitude * 1e-3 + 1e-36)
    torch.testing.assert_close(dw, expected_dw.float(), rtol=1e-4, atol=magnitude * 1e-3 + 1e-36)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), -float("inf")])
@pytest.mark.parametrize("place", [0, -1])
def test_a_gradient_that_is_no_number_is_named(value: float, place: int) -> None:
    layer, x, weight, g = case(1, 0)
    g.view(-1)[place] = value
    with pytest.raises(
        EverbitError, match=r"a gradient in front of a binary layer became .*: use a lower learning rate"
    ):
        run(PackedProducts, layer, x, weight, g, torch.ones(layer.output[2]))


@pytest.mark.parametrize("way", WAYS)
def test_what_is_not_wanted_is_not_computed(way: type[PackedProducts]) -> None:
    layer, x, weight, g = case(3, 0)
    kept = PackedSigns(sign_bits(x), x.shape, torch.float32)
    product = way(layer, sign_bits(weight), len(x))
    assert product.backward(kept, as_rows(g), torch.ones(layer.output[2]), None, False) is None
