"""Counts of parameters and multiply-adds against what is known of the networks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from everbit.compile.compiler import compile_program
from everbit.nn import BinaryConv2d, BlurPool2d, RPReLU, Sign
from everbit.zoo.cuts import NETWORKS
from everbit.zoo.network_statistics import NetworkStatistics
from everbit.zoo.program_statistics import program_statistics
from everbit.zoo.registry import build
from everbit.zoo.statistics import LayerStatistics, statistics_json, totals

# Parameters (2 a batch-norm channel), binary ones, millions of binary and of other multiply-adds.
KNOWN = [
    ("quicknet", 13_234_088, 12_533_760, 1849.7, 29.7),
    ("quicknet_small", 12_655_688, 11_980_800, 1156.1, 15.9),
    ("quicknet_large", 23_342_248, 22_634_496, 3699.4, 29.7),
    ("binarynet", 14_029_716, 14_022_016, 613.4, 3.5),
    ("cnv", 1_546_708, 1_542_848, 57.9, 1.6),
    ("mlp", 401_940, 399_872, 0.2, 0.2),
    ("mobilenet_v1", 4_231_976, 0, 0, 568.7),
    ("mobilenet_v2", 3_504_872, 0, 0, 300.8),
    ("efficientnet_lite0", 4_652_008, 0, 0, 385.2),
]


def statistics(name: str) -> NetworkStatistics:
    with torch.device("meta"):
        return NetworkStatistics(build(name), NETWORKS[name].stems[NETWORKS[name].stem])


@pytest.mark.parametrize(("name", "count", "binary", "binary_macs", "other_macs"), KNOWN)
def test_counts_of_the_zoo(name: str, count: int, binary: int, binary_macs: float, other_macs: float) -> None:
    total = totals(statistics(name).layers)
    assert (total.count, total.binary) == (count, binary)
    assert total.binary_macs / 1e6 == pytest.approx(binary_macs, abs=0.05)
    assert total.other_macs / 1e6 == pytest.approx(other_macs, abs=0.05)


@pytest.mark.parametrize(("name", "stored"), [("birealnet18", 11_183_562), ("quicknet", 13_239_688)])
def test_stored_counts_take_four_numbers_a_batch_norm_channel(name: str, stored: int) -> None:
    network = build(name)
    assert totals(statistics(name).layers).stored == stored
    assert sum(t.numel() for t in network.state_dict().values() if t.is_floating_point()) == stored
    trainable = totals(statistics(name).layers).trainable
    assert trainable == sum(parameter.numel() for parameter in network.parameters())


def test_shapes_of_latents() -> None:
    found = statistics("quicknet")
    assert [found.shape(cut) for cut in NETWORKS["quicknet"].latents] == [(7, 7, 256), (14, 14, 128)]
    assert statistics("vgg_small").shape("block5") == (8, 8, 512)
    assert statistics("mlp").shape("dense1") == (1, 1, 256)


def small() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8, affine=False),
        Sign(),
        nn.MaxPool2d(2),
        BinaryConv2d(8, 16, 3, padding=1),
        RPReLU(16),
        BinaryConv2d(16, 16, 1, padding=0),
        BlurPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 16, 5),
    )


def test_every_kind_of_layer() -> None:
    expected = [
        LayerStatistics("0", "Conv2d", 32, (16, 16, 8), {32: 224}, 224, other_macs=256 * 216),
        LayerStatistics("1", "BatchNorm2d", 32, (16, 16, 8), {32: 16}),
        LayerStatistics("2", "Sign", 32, (16, 16, 8)),
        LayerStatistics("3", "MaxPool2d", 1, (8, 8, 8)),
        LayerStatistics("4", "BinaryConv2d", 1, (8, 8, 16), {1: 1152}, 1152, binary_macs=64 * 1152),
        LayerStatistics("5", "RPReLU", 32, (8, 8, 16), {32: 48}, 48),
        LayerStatistics("6", "BinaryConv2d", 32, (8, 8, 16), {1: 256}, 256, other_macs=64 * 256),
        LayerStatistics("7", "BlurPool2d", 32, (4, 4, 16), {32: 144}, constants=144, other_macs=16 * 144),
        LayerStatistics("8", "Flatten", 32, (1, 1, 256)),
        LayerStatistics("9", "Linear", 32, (1, 1, 5), {32: 1285}, 1285, other_macs=1280),
    ]
    found = NetworkStatistics(small(), (16, 16, 3))
    assert found.layers == expected
    assert found.behind("6") == expected[7:]
    total = totals(expected)
    assert total.parameters == {1: 1408, 32: 1717}
    assert (total.bytes, total.float_bytes, total.stored) == (176 + 6868, 12_500, 3125 - 144)
    assert statistics_json(expected)["totals"]["binary_macs_ratio"] == 64 * 1152 / (
        total.binary_macs + total.other_macs
    )


def test_counting_leaves_the_network_as_it_is() -> None:
    network = small().train()
    NetworkStatistics(network, (16, 16, 3))
    assert network.training
    assert network[0].weight.device.type == "cpu"


def test_nothing_counts_nothing() -> None:
    total = totals([])
    assert (total.count, total.compression, total.binary_ratio) == (0, 1.0, 0.0)


@pytest.mark.parametrize("name", ["birealnet18", "quicknet", "mobilenet_v1"])
def test_a_program_does_the_work_of_its_network(name: str) -> None:
    """The same multiply-adds and binary weights, but for the head that a learner grows.

    Only what stands around depthwise convolutions may be more: channels that are computed several times, for the sake
    of 8 bits (docs/compile.md).
    """
    torch.manual_seed(0)
    network = build(name, width=0.125, classes=4, stem="cifar")
    with torch.no_grad():
        network.train()(torch.rand(4, 3, 32, 32))
    pixels = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), np.uint8)
    layers = program_statistics(compile_program(network, pixels, cut=NETWORKS[name].latents[0]))
    expected = NetworkStatistics(network, (32, 32, 3)).layers
    assert expected.pop().name == "head"
    found, wanted = totals(layers), totals(expected)
    assert (found.binary_macs, found.binary) == (wanted.binary_macs, wanted.binary)
    most = 1.1 if name == "mobilenet_v1" else 1
    assert wanted.other_macs <= found.other_macs <= most * wanted.other_macs
    cut = [layer.learnable for layer in layers].index(True)
    assert layers[cut - 1].kind == "latent"
    assert all(layer.learnable for layer in layers[cut:])
    assert sum(layer.trainable for layer in layers[:cut]) == 0
