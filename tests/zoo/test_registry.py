from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch import fx, nn

from everbit.compile.compiler import compile_program
from everbit.errors import ConfigurationError
from everbit.nn import BinaryConv2d
from everbit.zoo.cuts import NETWORKS, image_shape
from everbit.zoo.registry import BUILDERS, build


def parameters(model: nn.Module) -> int:
    """The papers' count: four numbers for each channel of a batch norm."""
    return sum(tensor.numel() for tensor in model.state_dict().values() if tensor.is_floating_point())


COUNTS = [
    ("quicknet", "imagenet", 13_239_688),
    ("quicknet_small", "imagenet", 12_661_176),
    ("quicknet_large", "imagenet", 23_355_272),
    ("birealnet18", "cifar", 11_183_562),
    ("birealnet18", "imagenet", 11_699_112),
    ("reactnet18", "cifar", 11_198_474),
    ("reactnet_a", "imagenet", 29_365_480),
    ("vgg_small", "cifar", 4_663_690),
    ("binarynet", "cifar", 14_022_016 + 4 * (128 * 2 + 256 * 2 + 512 * 2 + 1024 * 2 + 10)),
    ("cnv", "cifar", 1_542_848 + 4 * (64 * 2 + 128 * 2 + 256 * 2 + 512 * 2 + 10)),
    ("mlp", "mnist", 399_872 + 4 * (256 * 4 + 10)),
    ("mobilenet_v1", "imagenet", 4_253_864),
    ("mobilenet_v2", "imagenet", 3_538_984),
    ("efficientnet_lite0", "imagenet", 4_694_024),
]


@pytest.mark.parametrize(("name", "stem", "count"), COUNTS)
def test_parameter_counts(name: str, stem: str, count: int) -> None:
    """Those of docs/method.md, with four numbers for each channel of a batch norm."""
    with torch.device("meta"):
        assert parameters(build(name, stem=stem)) == count


@pytest.mark.parametrize(
    ("name", "first", "binary", "other"),
    [
        ("birealnet18", "stage4.block2", 7_077_888, 6144),
        ("birealnet18", "stage4.block1", 7_077_888 + 1_179_648, 6144 + 2 * 2048 + 131_072),
        ("reactnet18", "stage4.block2", 7_077_888, 18_954 - 1536 - 5130),  # paper: with the cut block's RPReLU and head
        ("vgg_small", "block6", 2_359_296, 86_026 - 2048 - 81_930),  # paper: with block5's batch norm and head
    ],
)
def test_parameters_after_the_cut(name: str, first: str, binary: int, other: int) -> None:
    """V24 Table 1."""
    with torch.device("meta"):
        model = build(name)
    parent, _, block = first.partition("block")  # "stage4." and "2", or "" and "6": one digit names a block
    inside = [
        module
        for path, module in model.named_modules()
        if path.startswith(f"{parent}block") and path.removeprefix(f"{parent}block")[0] >= block
    ]
    convolutions = [module for module in inside if isinstance(module, BinaryConv2d)]
    latent = sum(module.weight.numel() for module in convolutions)
    rest = sum(
        tensor.numel()
        for module in inside
        if not isinstance(module, BinaryConv2d)
        for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False))
        if tensor.is_floating_point()
    )
    assert (latent, rest) == (binary, other)


def images(name: str, stem: str, count: int = 2) -> torch.Tensor:
    """Random input of a network, 64 pixels for the ImageNet stem."""
    height, width, channels = NETWORKS[name].stems[stem]
    return torch.rand(count, channels, min(height, 64), min(width, 64)) * 2 - 1


@pytest.mark.parametrize(("name", "stem"), [(name, stem) for name in BUILDERS for stem in NETWORKS[name].stems])
@pytest.mark.parametrize("width", [0.25, 0.05])
def test_any_width_runs(name: str, stem: str, width: float) -> None:
    model = build(name, width=width, classes=7, stem=stem).eval()
    assert model(images(name, stem)).shape == (2, 7)


@pytest.mark.parametrize("name", BUILDERS)
def test_the_facts_are_of_the_network(name: str) -> None:
    with torch.device("meta"):
        paths = dict(build(name, width=0.1).named_modules())
    assert set(NETWORKS[name].latents) <= paths.keys()
    assert list(BUILDERS) == list(NETWORKS)


@pytest.mark.parametrize(("name", "cut"), [(name, cut) for name in BUILDERS for cut in NETWORKS[name].latents])
def test_every_network_compiles(name: str, cut: str) -> None:
    stem = NETWORKS[name].stem
    torch.manual_seed(1)
    network = build(name, width=0.125, classes=3, stem=stem)
    with torch.no_grad():
        network.train()(images(name, stem, 8))
    pixels = ((images(name, stem, 8).permute(0, 2, 3, 1) + 1) * 127.5).numpy().astype(np.uint8)
    program = compile_program(network, pixels, cut=cut)
    assert program.layers[program.latent_index].name.startswith(cut)
    assert program.layers[-1].kind != "latent"


def test_imagenet_stem_quarters_the_map() -> None:
    model = build("reactnet18", width=0.125, classes=3, stem="imagenet").eval()
    assert model.stem(torch.zeros(1, 3, 64, 64)).shape == (1, 8, 16, 16)
    assert model(torch.zeros(1, 3, 64, 64)).shape == (1, 3)


class LayerTracer(fx.Tracer):
    def is_leaf_module(self, module: nn.Module, path: str) -> bool:
        return module.__module__.startswith(("torch.nn", "everbit.nn")) and not isinstance(module, nn.Sequential)


@pytest.mark.parametrize("name", ["birealnet18", "reactnet18"])
def test_each_block_has_one_sum_of_its_name(name: str) -> None:
    graph = LayerTracer().trace(build(name, width=0.125))
    sums = [node for node in graph.nodes if node.op == "call_function"]
    paths = [list(node.meta["nn_module_stack"])[-1] for node in sums]
    assert paths == [f"stage{stage}.block{block}.add" for stage in range(1, 5) for block in range(1, 5)]


def test_errors_say_what_would_work() -> None:
    with pytest.raises(ConfigurationError, match="choose one of quicknet, quicknet_small, "):
        build("resnet")
    with pytest.raises(ConfigurationError, match="birealnet18 has no stem 'mnist': choose one of cifar, imagenet"):
        build("birealnet18", stem="mnist")
    with pytest.raises(ConfigurationError, match="vgg_small has no stem"):
        build("vgg_small", stem="imagenet")
    for width in (0, -1, 1e9, float("inf"), float("nan")):
        with pytest.raises(
            ConfigurationError,
            match=rf"width is {re.escape(format(width, 'g'))}: give a multiplier above 0 and up to 16",
        ):
            build("birealnet18", width=width)
    with pytest.raises(ConfigurationError, match="classes is 0"):
        build("birealnet18", classes=0)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_that_pool_their_last_map_take_images_of_any_size(name: str) -> None:
    stem = NETWORKS[name].stem
    height = NETWORKS[name].stems[stem][0]
    assert image_shape(name, stem) == image_shape(name, stem, height) == NETWORKS[name].stems[stem]
    if NETWORKS[name].one_size:
        with pytest.raises(ConfigurationError, match="pixels alone"):
            image_shape(name, stem, 64)
        return
    for size in (16, 72, 2048):
        with pytest.raises(ConfigurationError, match="choose a multiple of 32 up to 1024 pixels"):
            image_shape(name, stem, size)
    network = build(name, width=0.0625, classes=2).eval()
    for size in (32, 96):
        with torch.no_grad():
            assert network(torch.zeros(1, *image_shape(name, stem, size)[::-1])).shape == (1, 2)
