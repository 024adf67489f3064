"""Compiled networks of every kind against the float networks they came from, and against the integer reference."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from compile.networks import NETWORKS, WithHead
from everbit import engine
from everbit.compile.compiler import compile_program
from everbit.compile.image import program_image
from everbit.errors import CompileError
from everbit.nn import BinaryConv2d, SamePad2d, Sign
from everbit.quantize.widths import Widths
from reference.network import ReferenceNetwork

LEAST = {("quicknet", 8): 0.85, ("quicknet", 16): 0.95, ("quicknet", 32): 0.95, ("binarynet", 8): 0.5}
"""Least agreement where signs turn: random binary networks are chaotic, BinaryNet's dense layers most of all."""

CASES = [(name, cut) for name, (_, cuts) in NETWORKS.items() for cut in cuts]


def images(count: int, seed: int) -> np.ndarray:
    """Smooth random pictures [count, 32, 32, 3]: noise enlarged from 8x8."""
    small = np.random.default_rng(seed).integers(0, 256, (count, 8, 8, 3), np.uint8)
    return small.repeat(4, axis=1).repeat(4, axis=2)


def as_input(pixels: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1


def trained(name: str) -> WithHead:
    """A network with statistics of data, gamma and beta of both signs."""
    torch.manual_seed(len(name))
    network = WithHead(NETWORKS[name][0]())
    for module in network.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            module.momentum = None
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.5, 0.5)
    network.train()
    with torch.no_grad():
        network(as_input(images(64, 7)))
    return network.eval()


def agreement(a: np.ndarray, b: np.ndarray) -> float:
    """Mean cosine between features, each centered over the images."""
    a, b = a - a.mean(0), b - b.mean(0)
    return float(np.mean((a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))))


@pytest.mark.parametrize(("name", "cut"), CASES)
@pytest.mark.parametrize("q_f", [8, 16, 32])
def test_programs_follow_the_float_network(name: str, cut: str, q_f: int) -> None:
    """The same layers frozen and learnable, at every width of activations."""
    least = LEAST.get((name, q_f), 0.9 if q_f == 8 else 0.98)
    network, pixels = trained(name), images(64, 7)
    program = compile_program(network, pixels, cut=f"body.{cut}", widths=Widths(q_f, 16, max(q_f, 16), 8))
    reference = ReferenceNetwork(program, 16, max(q_f, 16))
    codes = reference.frozen_forward(pixels)
    tensors = reference.learnable_forward(codes)
    index = program.layers[-1].output
    tensor = program.tensors[index]
    found = ((tensors[index] - tensor.zero_point) * tensor.scale).transpose(0, 3, 1, 2).reshape(len(pixels), -1)
    with torch.no_grad():
        expected = network.flatten(network.body(as_input(pixels))).double().numpy()
    assert agreement(found, expected) > least

    options = {"q_bin": 16, "q_nonbin": max(q_f, 16), "classes": 2, "cwr": True, "learning_rates": [(0, 0)] * 5}
    native = engine.Network(program_image(program), 3, options)
    np.testing.assert_array_equal(native.encode(pixels[:3]), reference.pack_codes(codes[:3]))
    native.forward(native.encode(pixels[:3]))
    dtype = f"<i{tensor.bits // 8}"
    np.testing.assert_array_equal(np.frombuffer(native.activation(index, 3), dtype), tensors[index][:3].ravel())


def test_a_frozen_relu_is_no_layer() -> None:
    """Its input saturates where it does; behind the cut it masks gradients."""
    network = trained("mobilenet")
    kinds = [layer.kind for layer in compile_program(network, images(8, 1), cut="body.3").layers]
    assert "clamp" not in kinds
    assert kinds.count("depthwise_convolution") == 2
    kinds = [layer.kind for layer in compile_program(network, images(8, 1), cut="body.1").layers]
    assert kinds.count("clamp") == 3


def chain(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))


def test_errors_name_the_module_and_the_cure() -> None:
    first = nn.Conv2d(3, 8, 3)
    cases = [
        (chain(first, nn.ZeroPad2d(1), nn.ReLU()), "0", "1: pads for a layer that has no window"),
        (chain(first, nn.ZeroPad2d(1), nn.MaxPool2d(2), nn.Identity()), "3", "2: reads a border of 0, which may win"),
        (chain(first, nn.ZeroPad2d(4), nn.AvgPool2d(3), nn.Identity()), "3", "2: has windows that lie wholly"),
        (chain(first, nn.ConstantPad2d(1, 2.0), nn.Conv2d(8, 8, 3)), "2", "2: reads a border of 2"),
        (chain(first, SamePad2d(3, 1), nn.Conv2d(8, 8, 3, padding=1), nn.Identity()), "3", "2: pads what is padded"),
        (chain(first, SamePad2d(3, 1), nn.Conv2d(8, 8, 3)), "1", "1: is no place for a cut"),
        (chain(first, nn.Conv2d(8, 8, 3, padding_mode="reflect", padding=1)), "1", "1: pads by reflect"),
        (chain(first, Sign(), BinaryConv2d(8, 8), nn.Hardtanh(), nn.Identity()), "0", "3: clamps the sums"),
        (chain(first, nn.Conv2d(8, 8, 3, groups=8), nn.Identity()), "0", "1: learns, but no batch norm"),
    ]
    for network, cut, message in cases:
        with pytest.raises(CompileError, match=message):
            compile_program(network, images(4, 0), cut=cut)
