from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from everbit.errors import ConfigurationError
from everbit.nn import BinaryConv2d, BinaryLinear, Sign
from everbit.nn.low_memory_training import Approximations, low_memory
from everbit.nn.low_memory_training.packed_signs import PackedSigns, sign_bits

EXACT = Approximations("float32", "l2", 32, 32, "slope")
ONE_BIT = Approximations("float32", "l2", 1, 32, "slope")

LAYERS = {
    "3x3": lambda: BinaryConv2d(5, 7, scale=False),
    "3x3 scaled": lambda: BinaryConv2d(66, 9),
    "1x1 stride 2": lambda: BinaryConv2d(65, 3, 1, 2, 0),
    "5x5 same +1": lambda: BinaryConv2d(3, 70, 5, 2, "same", 1),
    "3x3 -1": lambda: BinaryConv2d(64, 4, 3, 1, 1, -1),
    "3x3 +1": lambda: BinaryConv2d(5, 4, 3, 2, 2, 1),
    "1x1 padded": lambda: BinaryConv2d(5, 4, 1, 1, 1, 1),
    "dense": lambda: BinaryLinear(65, 130, scale=False),
    "dense scaled": lambda: BinaryLinear(9, 3),
}


def made(name: str, approximations: Approximations) -> tuple[nn.Module, nn.Module]:
    """A layer for low memory, and the ordinary one in float64 with the same weights."""
    plain = LAYERS[name]()
    plain.weight.data.mul_(8).clamp_(-1, 1)
    twin = LAYERS[name]().double()
    twin.load_state_dict(plain.state_dict())
    return low_memory(plain, approximations), twin


def input_of(layer: nn.Module, images: int = 3) -> Tensor:
    shape = (images, layer.in_channels, 7, 6) if isinstance(layer, BinaryConv2d) else (images, layer.in_features)
    return torch.randint(0, 2, shape).float() * 2 - 1


def close(found: Tensor, exact: Tensor, parts: float = 2e-4) -> None:
    """To rounding: integers of 15 bits of the largest gradient, added up."""
    torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=parts * float(exact.abs().max()))


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_autograd_s(name: str, real: bool, images: int) -> None:
    """With signs, dense or packed, and with a real input, as a first layer has it."""
    layer, twin = made(name, EXACT)
    x = input_of(layer, images) * (torch.rand(1) + 0.5 if real else 1)
    inputs = [x] if real else [x, PackedSigns(sign_bits(x), x.shape, x.dtype)]
    there = x.double().requires_grad_()
    expected = twin(there)
    gradient = torch.randn(expected.shape)
    wanted = torch.autograd.grad(expected, (there, twin.weight), gradient.double())
    for here in inputs:
        here = here.detach().requires_grad_()
        found = layer(here)
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-4)
        for one, exact in zip(torch.autograd.grad(found, (here, layer.weight), gradient), wanted, strict=True):
            close(one, exact)


@pytest.mark.parametrize("name", LAYERS)
def test_one_bit_gradients_are_the_signs_of_the_exact_ones(name: str) -> None:
    layer, twin = made(name, ONE_BIT)
    x = input_of(layer)
    expected = twin(x.double())
    gradient = torch.randint(-9, 10, expected.shape).float()
    expected.backward(gradient.double())
    layer(x).backward(gradient)
    found, exact = layer.weight.grad, twin.weight.grad
    assert isinstance(found, PackedSigns)
    assert found.bits is not None
    assert found.magnitude == 1 / math.sqrt(exact[0].numel())
    clear = exact.abs() > 1e-3 * exact.abs().max()
    values = found.dense()
    assert torch.equal(values[clear], (exact.sign() * found.magnitude).float()[clear])
    assert torch.equal(values.abs(), torch.full_like(values, found.magnitude))


@pytest.mark.parametrize("pad_value", [-1, 0, 1])
def test_the_pad_value_of_the_gradient_is_that_of_the_output(pad_value: int) -> None:
    """The output is linear in each weight: dW is what the output gains, and at the border that is the pad value."""
    layer = low_memory(BinaryConv2d(3, 2, 3, 1, 1, pad_value, scale=False), EXACT)
    x = torch.ones(1, 3, 4, 4)
    gradient = torch.randint(-50, 51, (1, 2, 4, 4)).float()
    layer(x).backward(gradient)
    for place in ((0, 0, 0, 0), (1, 2, 1, 1), (1, 1, 2, 0)):
        both = []
        for value in (-0.5, 0.5):
            with torch.no_grad():
                layer.weight[place] = value
            both.append(layer(x).detach())
        gained = ((both[1] - both[0]) / 2 * gradient).sum()
        torch.testing.assert_close(layer.weight.grad[place], gained, rtol=1e-3, atol=0.02)
    inside = torch.ones(1, 1, 4, 4)
    padded = nn.functional.pad(inside, [1] * 4, value=float(pad_value))
    windows = padded.unfold(2, 4, 1).unfold(3, 4, 1)[0, 0]  # by tap, what its places read
    expected = torch.einsum("ijhw,ohw->oij", windows, gradient[0])
    close(layer.weight.grad[:, 0], expected.double())


@pytest.mark.parametrize("approximations", [EXACT, ONE_BIT])
def test_only_what_is_wanted(approximations: Approximations) -> None:
    layer = low_memory(BinaryConv2d(5, 7), approximations)
    x = input_of(layer)
    layer(x).sum().backward()
    assert layer.weight.grad is not None and x.grad is None
    layer.weight.grad = None
    layer.weight.requires_grad_(False)
    assert not layer(x).requires_grad
    x.requires_grad_()
    layer(x).sum().backward()
    assert layer.weight.grad is None and x.grad is not None
    with torch.no_grad():
        assert not layer(x).requires_grad


def test_latents_are_clipped_where_they_train() -> None:
    """Weights that stay as they are keep their scale, whatever it is."""
    for trains, mode, largest in ((True, True, 1.0), (False, True, 3.0), (True, False, 3.0)):
        layer = low_memory(BinaryConv2d(5, 7), EXACT).train(mode)
        layer.weight.data.fill_(3.0)
        layer.weight.requires_grad_(trains)
        layer(input_of(layer))
        assert layer.weight.max() == largest


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (BinaryConv2d(65, 2), (1, 66, 4, 4)),
        (BinaryConv2d(65, 2), (65, 4, 4)),
        (BinaryConv2d(65, 2), (1, 65)),
        (BinaryConv2d(65, 2, 5, padding=0), (1, 65, 4, 4)),
        (BinaryLinear(65, 2), (3, 66)),
        (BinaryLinear(65, 2), (3, 65, 1, 1)),
        (BinaryLinear(65, 2), (65,)),
    ],
    ids=str,
)
def test_another_input_is_refused(layer: nn.Module, shape: tuple[int, ...]) -> None:
    """Rows of 65 and 66 bits are equally long: the engine would not notice."""
    network = low_memory(nn.Sequential(Sign("ste_sign"), layer), EXACT)
    with pytest.raises((ConfigurationError, IndexError), match=r"cannot take an input of shape|out of range"):
        network(torch.randn(shape))
    layer.eval()
    with pytest.raises(ConfigurationError, match="cannot take an input of shape"):
        layer(torch.ones(shape))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_sums_are_rounded_once(dtype: str) -> None:
    layer = low_memory(BinaryConv2d(130, 3, scale=False), Approximations(dtype))
    x = input_of(layer, 4)
    exact = nn.functional.conv2d(x, torch.where(layer.weight >= 0, 1.0, -1.0), padding=1)
    y = layer.forward(x)
    assert y.dtype == getattr(torch, dtype)
    assert torch.equal(y, exact.to(y.dtype))
