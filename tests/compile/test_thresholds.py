"""Frozen layers with binary weights and the signs behind them, exactly as the float network has them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from everbit import engine
from everbit.compile.compiler import compile_program
from everbit.compile.image import program_image
from everbit.compile.lowering import ByChannel
from everbit.compile.program import Program
from everbit.compile.rules.thresholds import thresholds
from everbit.errors import CompileError
from everbit.nn import BinaryConv2d, BinaryLinear, FloorQuantize, LearnedBias, Sign
from everbit.quantize.widths import Widths
from reference.network import ReferenceNetwork

SIDE = 14

Norm = Callable[[nn.Module], None]


def pictures(count: int, seed: int, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, SIDE, SIDE, channels), np.uint8)


def as_input(pixels: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1


def norms_of_data(network: nn.Module, seed: int) -> nn.Module:
    """Batch norms with statistics of data; gammas of both signs, some 0; betas that move the threshold."""
    torch.manual_seed(seed)
    for module in network.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            module.momentum = None
            nn.init.uniform_(module.weight, -1.5, 1.5)
            nn.init.uniform_(module.bias, -0.5, 0.5)
            with torch.no_grad():
                module.weight[:2] = 0
                module.bias[:2] = torch.tensor([0.25, -0.25])
        if isinstance(module, LearnedBias):
            nn.init.uniform_(module.bias, -0.5, 0.5)
    with torch.no_grad():
        network.train()(as_input(pictures(32, seed + 1)))
    return network.eval()


def compiled(network: nn.Module, cut: str, q_f: int = 8) -> Program:
    return compile_program(network, pictures(8, 1), cut=cut, widths=Widths(q_f, 1, max(q_f, 16), 1))


def bits_of(program: Program, pixels: np.ndarray) -> np.ndarray:
    """What a program's 1-bit latent stores of images, [N, C, H, W] of +-1, from the engine and the reference alike."""
    options = {"q_bin": 1, "q_nonbin": 32, "classes": 2, "cwr": True, "learning_rates": [(0, 0)] * 5}
    stored = engine.Network(program_image(program), len(pixels), options).encode(pixels)
    reference = ReferenceNetwork(program, 1, 32)
    codes = reference.frozen_forward(pixels)
    np.testing.assert_array_equal(stored, reference.pack_codes(codes))
    return (2 * codes - 1).transpose(0, 3, 1, 2)


def kinds(program: Program) -> list[str]:
    return [layer.kind for layer in program.layers[: program.latent_index]]


def cnv() -> nn.Sequential:
    """The layers of FINN's CNV, few channels: a rounded image, then binary weights and signs alone."""
    return nn.Sequential(
        FloorQuantize(7),
        BinaryConv2d(3, 9, 3, padding=0, scale=False),
        nn.BatchNorm2d(9),
        Sign(),
        BinaryConv2d(9, 17, 3, padding=0, scale=False),
        nn.BatchNorm2d(17),
        nn.MaxPool2d(2),
        Sign(),
        BinaryConv2d(17, 12, 3, padding=1, scale=False),
        nn.MaxPool2d(2),
        nn.BatchNorm2d(12),
        Sign(),
        nn.Flatten(),
        BinaryLinear(12 * 4, 70, scale=False),
        nn.BatchNorm1d(70),
        Sign(),
        BinaryLinear(70, 10, scale=False),
    )


@pytest.mark.parametrize("q_f", [8, 16, 32])
@pytest.mark.parametrize("cut", ["3", "7", "11", "15"])
def test_a_network_of_signs_is_exact_at_every_sign(cut: str, q_f: int) -> None:
    network = norms_of_data(cnv(), 3)
    program = compiled(network, cut, q_f)
    pixels = pictures(64, 2)
    with torch.no_grad():
        expected = network[: int(cut) + 1](as_input(pixels)).numpy()
    found = bits_of(program, pixels)
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)


def test_its_sums_are_exact_too() -> None:
    network = norms_of_data(cnv(), 3)
    program = compiled(network, "15")
    pixels = pictures(64, 2)
    options = {"q_bin": 1, "q_nonbin": 16, "classes": 2, "cwr": True, "learning_rates": [(0, 0)] * 5}
    native = engine.Network(program_image(program), len(pixels), options)
    native.forward(native.encode(pixels))
    sums = np.frombuffer(native.activation(program.layers[-1].output, len(pixels)), np.int16).reshape(64, 10)
    with torch.no_grad():
        np.testing.assert_array_equal(sums, network(as_input(pixels)).numpy())


def test_batch_norms_before_signs_are_no_layers() -> None:
    """But for the first affine, which rounds the image, and one that turns sums a pool reads."""
    assert kinds(compiled(norms_of_data(cnv(), 3), "15")).count("affine") == 2
    network = norms_of_data(cnv(), 3)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.weight.data.abs_()
    assert kinds(compiled(network, "15")).count("affine") == 1


def first_layers(scale: bool, *before: nn.Module) -> nn.Sequential:
    """A first layer of binary weights on real values, its sums in 16 or 32 bits."""
    return nn.Sequential(
        *before, BinaryConv2d(3, 8, 5, scale=scale), nn.MaxPool2d(2), nn.BatchNorm2d(8), nn.Hardtanh(), Sign()
    )


@pytest.mark.parametrize(
    "network",
    [
        first_layers(True),
        first_layers(False, FloorQuantize(8)),
        first_layers(True, FloorQuantize(3), nn.Dropout()),
        first_layers(False, FloorQuantize(7), nn.Hardtanh(-1, 127 / 128)),
        nn.Sequential(nn.Dropout(), FloorQuantize(0), BinaryConv2d(3, 8), LearnedBias(8), Sign()),
        nn.Sequential(BinaryConv2d(3, 8, 7), nn.Identity(), nn.BatchNorm2d(8), LearnedBias(8), Sign()),
        nn.Sequential(nn.Flatten(), BinaryLinear(3 * SIDE * SIDE, 9), nn.BatchNorm1d(9), Sign()),
        nn.Sequential(Sign(), BinaryConv2d(3, 8), nn.BatchNorm2d(8), nn.Hardtanh(-0.5, 0.0), Sign()),
        nn.Sequential(Sign(), BinaryConv2d(3, 8, scale=False), Sign()),
        nn.Sequential(Sign(), BinaryConv2d(3, 8, pad_value=-1), nn.BatchNorm2d(8), nn.BatchNorm2d(8), Sign()),
        nn.Sequential(Sign(), BinaryConv2d(3, 8), nn.Flatten(), nn.BatchNorm1d(8 * SIDE * SIDE), Sign()),
        nn.Sequential(Sign(), BinaryConv2d(3, 8), nn.ReLU(), nn.BatchNorm2d(8), Sign()),
        nn.Sequential(nn.BatchNorm2d(3), Sign()),
        nn.Sequential(nn.MaxPool2d(2), nn.BatchNorm2d(3), nn.MaxPool2d(2), Sign()),
        Sign(),
    ],
)
def test_signs_are_exact_behind_whatever_only_moves_them(network: nn.Module) -> None:
    norms_of_data(network, 5)
    pixels = pictures(64, 4)
    with torch.no_grad():
        expected = network(as_input(pixels)).numpy()
    channels = expected.shape[1]
    last = BinaryLinear(channels, 3) if expected.ndim == 2 else BinaryConv2d(channels, 3, 1, padding=0)
    program = compiled(nn.Sequential(network, last), "0" if isinstance(network, Sign) else f"0.{len(network) - 1}")
    np.testing.assert_array_equal(bits_of(program, pixels).reshape(expected.shape), expected)


def test_sums_take_no_more_bits_than_they_need() -> None:
    """Of bytes, rounded or not and clamped or not, 16 bits hold 128 terms; more take 32."""
    for before in ([], [FloorQuantize(7)], [FloorQuantize(7), nn.Hardtanh(-1, 127 / 128)]):
        for kernel, bits in ((5, 16), (7, 32 if not before else 16)):
            network = nn.Sequential(*before, BinaryConv2d(3, 4, kernel), nn.BatchNorm2d(4), Sign(), BinaryConv2d(4, 2))
            program = compiled(norms_of_data(network, 1), str(len(before) + 2))
            convolution = next(layer for layer in program.layers if layer.kind == "convolution")
            assert program.tensors[convolution.output].bits == bits


def test_every_byte_is_rounded_down() -> None:
    """At every number of bits the bytes of an image tell apart."""
    pixels = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1)
    for bits in range(9):
        network = nn.Sequential(FloorQuantize(bits), BinaryConv2d(1, 1, 1, padding=0, scale=False), nn.Identity())
        network[1].weight.data.fill_(1.0)
        program = compile_program(network, pixels, cut="1", widths=Widths(16, 1, 16, 16))
        reference = ReferenceNetwork(program, 1, 16)
        sums = reference.frozen_activations(pixels)[program.layers[program.latent_index].inputs[0]]
        expected = [math.floor((u / 127.5 - 1) * 2**bits) for u in range(256)]
        tensor = program.tensors[program.layers[2].output]
        assert reference.frozen_activations(pixels)[program.layers[1].output].ravel().tolist() == expected
        assert tensor.scale == 2.0**-bits
        assert sums.shape == (1, 16, 16, 1)


@pytest.mark.parametrize(
    ("network", "cut", "message"),
    [
        (nn.Sequential(FloorQuantize(9), nn.Conv2d(3, 4, 3), nn.Identity()), "1", "0: keeps 9 bits.*at most 8"),
        (nn.Sequential(nn.Conv2d(3, 4, 3), FloorQuantize(7), nn.Identity()), "1", "1: rounds what is no frozen image"),
        (nn.Sequential(FloorQuantize(7), nn.Conv2d(3, 4, 3)), "input", "0: rounds what is no frozen image"),
    ],
)
def test_rounding_has_its_place(network: nn.Module, cut: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        compile_program(network, pictures(2, 0), cut=cut)


def test_thresholds_at_the_ends() -> None:
    """Met exactly, never met, always met; at every width."""
    factor = np.array([1.0, 0.1, 0.0, 0.0, 1e-12, 1e-12, 2.0])
    offset = np.array([-5.0, -0.3, 0.0, -1e-9, -1.0, 1.0, 7.0])
    for bits, never in ((8, 128), (16, 32768), (32, 2**31 - 1)):
        least = -(2 ** (bits - 1))
        found = thresholds(ByChannel(factor, offset), bits).tolist()
        assert found == [5, 3, least, never, never, least, -3]
