"""The compiled program against the network it came from, and the errors of what cannot be compiled."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from everbit import engine
from everbit.compile.compiler import compile_program
from everbit.compile.image import program_image
from everbit.compile.program import Program
from everbit.errors import CompileError, ImageError
from everbit.nn.binary import BinaryConv2d, LearnedBias, RPReLU, Sign
from everbit.quantize.widths import Widths
from everbit.zoo.birealnet import BiRealBlock
from everbit.zoo.cuts import DEFAULT_CUTS
from everbit.zoo.reactnet import ReActBlock
from everbit.zoo.registry import build
from everbit.zoo.stem import build_stem
from reference.network import ReferenceNetwork

ZOO = ("birealnet18", "reactnet18", "vgg_small")


def images(count: int = 48, seed: int = 0, side: int = 32) -> np.ndarray:
    """Smooth random pictures: noise enlarged from 8x8, so that neighbours resemble each other."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (count, side // 4, side // 4, 3), np.uint8)
    return small.repeat(4, axis=1).repeat(4, axis=2)


def trained_statistics(network: nn.Module, seed: int = 1, side: int = 32) -> nn.Module:
    """Batch norms as training leaves them: statistics of data, gamma and beta of both signs."""
    torch.manual_seed(seed)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.5, 0.5)
        if isinstance(module, LearnedBias):
            nn.init.uniform_(module.bias, -0.3, 0.3)
        if isinstance(module, RPReLU):
            for bias in (module.bias_in, module.bias_out):
                nn.init.uniform_(bias, -0.3, 0.3)
    network.train()
    with torch.no_grad():
        network(torch.from_numpy(images(64, 7, side)).permute(0, 3, 1, 2).float() / 127.5 - 1)
    return network.eval()


def features(network: nn.Module, pixels: np.ndarray) -> np.ndarray:
    """What the network's head reads."""
    seen = []
    handle = network.head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        network(torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1)
    handle.remove()
    return seen[0].double().numpy()


def engine_features(program: Program, pixels: np.ndarray) -> np.ndarray:
    widths = {"q_bin": 8, "q_nonbin": max(16, program.q_f)}
    options = widths | {"classes": 2, "cwr": True, "learning_rates": [(0, 0)] * 5}
    network = engine.Network(program_image(program), len(pixels), options)
    network.forward(network.encode(pixels))
    index = program.layers[-1].output
    tensor = program.tensors[index]
    raw = np.frombuffer(network.activation(index, len(pixels)), f"<i{tensor.bits // 8}")
    values = (raw.astype(np.float64) - tensor.zero_point) * tensor.scale
    shape = (len(pixels), tensor.height, tensor.width, tensor.channels)
    return values.reshape(shape).transpose(0, 3, 1, 2).reshape(len(pixels), -1)


def agreement(a: np.ndarray, b: np.ndarray) -> float:
    """Mean cosine between features, each centred over the images."""
    a, b = a - a.mean(0), b - b.mean(0)
    return float(np.mean((a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))))


class Small(nn.Module):
    """A stem, two blocks and a head: deep random binary networks are chaotic, this one is not."""

    def __init__(self, block: type[nn.Module]) -> None:
        super().__init__()
        self.stem = build_stem("cifar", 32)
        self.block1 = block(32, 48, 2)
        self.block2 = block(48, 48, 1)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.head = nn.Linear(48, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.flatten(self.pool(self.block2(self.block1(self.stem(x))))))


@pytest.mark.parametrize("block", [BiRealBlock, ReActBlock])
@pytest.mark.parametrize("cut", ["stem", "block1", "block2"])
@pytest.mark.parametrize(("q_f", "least"), [(32, 0.96), (16, 0.97), (8, 0.93)])
def test_program_follows_the_float_network(block: type[nn.Module], cut: str, q_f: int, least: float) -> None:
    """The same layers frozen and learnable: what differs is rounding, and the signs that rounding turns."""
    network = trained_statistics(Small(block))
    pixels = images(64, 7)
    program = compile_program(network, pixels, cut=cut, widths=Widths(q_f, 16, 32, 8))
    assert agreement(engine_features(program, pixels), features(network, pixels)) > least


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("latent", [1, 2, 4, 8])
def test_every_zoo_network_compiles_and_matches_the_reference(name: str, latent: int) -> None:
    network = trained_statistics(build(name, width=0.0625))
    program = compile_program(network, images(), cut=DEFAULT_CUTS[name], widths=Widths(8, 8, 16, latent))
    pixels = images(3, 5)
    reference = ReferenceNetwork(program, 8, 16)
    options = {"q_bin": 8, "q_nonbin": 16, "classes": 2, "cwr": True, "learning_rates": [(0, 0)] * 5}
    native = engine.Network(program_image(program), 3, options)
    np.testing.assert_array_equal(native.encode(pixels), reference.pack_codes(reference.frozen_forward(pixels)))


@pytest.mark.parametrize("cut", ["stem", "stage1.block2", "stage2.block1", "stage3.block4", "stage4.block3", "stage4"])
def test_any_block_can_be_the_cut(cut: str) -> None:
    network = trained_statistics(build("birealnet18", width=0.0625))
    program = compile_program(network, images(16), cut=cut)
    assert program.layers[program.latent_index].name
    assert engine_features(program, images(2)).shape == (2, 32)


def test_one_bit_latents_keep_the_mean_of_each_side() -> None:
    network = trained_statistics(build("birealnet18", width=0.0625))
    program = compile_program(network, images(), cut="stage4.block1")
    layer = program.layers[program.latent_index]
    tensor = program.tensors[layer.output]
    assert np.all(layer.arrays["threshold"] == tensor.zero_point), "the next layer is a sign without bias"
    assert np.all(layer.arrays["low"] < layer.arrays["threshold"])
    assert np.all(layer.arrays["high"] >= layer.arrays["threshold"])


def test_a_learned_bias_moves_the_threshold_of_the_latent() -> None:
    network = trained_statistics(build("reactnet18", width=0.0625))
    program = compile_program(network, images(), cut="stage4.block1")
    layer = program.layers[program.latent_index]
    tensor = program.tensors[layer.output]
    bias = network.get_submodule("stage4.block2").bias.bias.detach().double().numpy()
    np.testing.assert_allclose((layer.arrays["threshold"] - tensor.zero_point) * tensor.scale, -bias, atol=tensor.scale)


@pytest.mark.parametrize("name", ZOO)
def test_stored_bits_are_the_bits_the_next_sign_sees(name: str) -> None:
    """The binary convolution behind a one-bit latent sees exactly its own bits (docs/method.md 1.4).

    That holds also in channels that calibration found one-sided.
    """
    network = trained_statistics(build(name, width=0.0625))
    program = compile_program(network, images(2), cut=DEFAULT_CUTS[name])
    pixels = images(6, 9)
    reference = ReferenceNetwork(program, 8, 16)
    codes = reference.frozen_forward(pixels)
    tensors = reference.learnable_forward(codes)
    cut = program.layers[program.latent_index].output
    sign = next(layer for layer in program.layers if layer.kind == "sign" and layer.inputs == (cut,))
    np.testing.assert_array_equal(tensors[sign.output] > 0, codes == 1)


def test_a_dead_channel_keeps_its_bias() -> None:
    """Batch norms with gamma 0 or nearly: the channel is its beta."""
    network = trained_statistics(Small(BiRealBlock))
    with torch.no_grad():
        network.stem.bn.weight[:2] = torch.tensor([0.0, 1e-9])
        network.stem.bn.bias[:2] = torch.tensor([1.0, -0.5])
    program = compile_program(network, images(), cut="block1")
    reference = ReferenceNetwork(program, 8, 16)
    stem = next(layer for layer in program.layers if layer.kind == "convolution")
    tensor = program.tensors[stem.output]
    values = (reference.frozen_activations(images(2))[stem.output] - tensor.zero_point) * tensor.scale
    np.testing.assert_allclose(values[..., 0], 1.0, atol=tensor.scale)
    np.testing.assert_allclose(values[..., 1], -0.5, atol=tensor.scale)


def chain(*layers: nn.Module) -> nn.Module:
    """A network of few layers with a cut after `0` and a head."""
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))


def test_errors_name_the_module_and_the_cure() -> None:
    cases = [
        (chain(nn.Conv2d(3, 8, 3, groups=1, dilation=2), nn.Identity()), "1", "0: has different strides"),
        (chain(nn.Conv2d(3, 8, 3), nn.GELU(), nn.Identity()), "2", "1: GELU has no lowering rule"),
        (chain(nn.Conv2d(3, 8, 3), BinaryConv2d(8, 8)), "0", "1: reads real values; put a Sign"),
        (chain(nn.Conv2d(3, 8, 3), Sign(), BinaryConv2d(8, 8), Sign(), nn.Identity()), "0", "3: reads the sums"),
        (chain(nn.Conv2d(3, 8, 3), Sign(), nn.Identity()), "1", "3: reads signs; put a BinaryConv2d"),
    ]
    for network, cut, message in cases:
        with pytest.raises(CompileError, match=message):
            compile_program(network, images(4), cut=cut)


def test_a_cut_must_exist_and_carry_everything() -> None:
    network = build("birealnet18", width=0.0625)
    with pytest.raises(
        CompileError, match=r"no module 'stage9' to cut after: names like it are stage4, .*; its usual cuts are a, b; `"
    ):
        compile_program(network, images(4), cut="stage9", usual_cuts=("a", "b"))
    assert compile_program(network, images(4), cut="flatten").latent_shape == (1, 1, 32)
    with pytest.raises(CompileError, match=r"cannot cut after stage2\.block2\.bn.*also reads"):
        compile_program(network, images(4), cut="stage2.block2.bn")


def test_calibration_needs_images() -> None:
    network = build("birealnet18", width=0.0625)
    gray = np.zeros((4, 32, 32, 1), np.uint8)
    for wrong in (np.zeros((0, 32, 32, 3), np.uint8), np.zeros((4, 32, 32, 3)), np.zeros((32, 32, 3), np.uint8), gray):
        with pytest.raises(ImageError, match="calibration images"):
            compile_program(network, wrong, cut="stage4.block1")
