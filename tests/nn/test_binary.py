from __future__ import annotations

import pytest
import torch
from torch import fx, nn
from torch.nn import functional

from everbit.errors import ConfigurationError
from everbit.nn import BinaryConv2d, LearnedBias, RPReLU, Sign


def signs(*shape: int) -> torch.Tensor:
    return torch.where(torch.rand(*shape) < 0.5, -1.0, 1.0)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("pad_value", [-1, 0, 1])
@pytest.mark.parametrize("scale", [False, True])
def test_binary_convolution_is_a_convolution_of_signs(stride: int, pad_value: int, scale: bool) -> None:
    layer = BinaryConv2d(3, 5, 3, stride, padding=1, pad_value=pad_value, scale=scale)
    layer.weight.data[0, 0, 0, 0] = 0.0
    x = signs(2, 3, 6, 6)
    weight = torch.where(layer.weight < 0, -1.0, 1.0)
    expected = functional.conv2d(functional.pad(x, [1] * 4, value=float(pad_value)), weight, stride=stride)
    if scale:
        expected = expected * layer.weight.abs().mean((1, 2, 3)).view(-1, 1, 1)
    torch.testing.assert_close(layer(x), expected)


def test_latent_weight_takes_gradient_only_inside_the_clip() -> None:
    layer = BinaryConv2d(2, 2, 3)
    layer.weight.data[0, 0, 0] = torch.tensor([1.5, -1.0, -1.5])
    layer(signs(1, 2, 5, 5)).square().sum().backward()
    assert layer.weight.grad[0, 0, 0, 0] == 0
    assert layer.weight.grad[0, 0, 0, 2] == 0
    assert layer.weight.grad[0, 0, 0, 1] != 0


def test_clip_latent_brings_weights_back() -> None:
    layer = BinaryConv2d(2, 2, 3)
    layer.weight.data.mul_(100)
    layer.clip_latent()
    assert layer.weight.abs().max() == 1


def test_set_binary_gives_back_exactly_the_float16_alpha() -> None:
    layer = BinaryConv2d(512, 7, 3)
    alpha = torch.rand(7).half().float() + 0.01
    alpha = alpha.half().float()
    layer.set_binary(signs(7, 512, 3, 3), alpha)
    assert torch.equal(layer.alpha(), alpha)


def test_learned_bias_and_rprelu() -> None:
    bias, activation = LearnedBias(2), RPReLU(2)
    for parameter in (*bias.parameters(), *activation.parameters()):
        nn.init.normal_(parameter)
    x = torch.randn(3, 2, 4, 4)
    torch.testing.assert_close(bias(x), x + bias.bias[:, None, None])
    moved = x + activation.bias_in[:, None, None]
    expected = (
        torch.where(moved > 0, moved, activation.slope[:, None, None] * moved) + activation.bias_out[:, None, None]
    )
    torch.testing.assert_close(activation(x), expected)


@pytest.mark.parametrize("layer", [LearnedBias(2), RPReLU(2), Sign()])
def test_bfloat16_stays_bfloat16(layer: nn.Module) -> None:
    assert layer(torch.zeros(1, 2, 3, 3, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_layers_can_be_traced() -> None:
    network = nn.Sequential(LearnedBias(2), Sign("ste_sign"), BinaryConv2d(2, 3), RPReLU(3))

    class LayerTracer(fx.Tracer):
        def is_leaf_module(self, module: nn.Module, path: str) -> bool:
            return module.__module__.startswith("everbit.nn")

    graph = LayerTracer().trace(network)
    assert [node.target for node in graph.nodes if node.op == "call_module"] == ["0", "1", "2", "3"]


def test_wrong_options_are_named() -> None:
    with pytest.raises(ConfigurationError, match="approx_sign"):
        Sign("swish")
    with pytest.raises(ConfigurationError, match="pad_value is 2"):
        BinaryConv2d(1, 1, pad_value=2)
