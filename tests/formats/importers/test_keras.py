"""Keras weights of larq's QuickNets against a network written with TensorFlow's conventions, and their errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from everbit.compile.compiler import compile_program
from everbit.errors import FormatError, UnsupportedError
from everbit.formats.importers import load_network
from everbit.nn import BinaryConv2d
from everbit.zoo.cuts import DEFAULT_CUTS
from formats.importers.quicknet_weights import PLANS, Layers, quicknet_layers, write_keras


def same(x: Tensor, kernel: int, stride: int, value: float) -> Tensor:
    """TensorFlow's border around [N, C, H, W]."""
    sides: list[int] = []
    for size in (x.shape[3], x.shape[2]):
        total = max(0, (-(-size // stride) - 1) * stride + kernel - size)
        sides += [total // 2, total - total // 2]
    return functional.pad(x, sides, value=value)


def definition(layers: Layers, x: Tensor) -> Tensor:
    """A QuickNet by its layers in order: the next one of a kind is taken as the network reaches it."""
    left = list(layers)

    def take(kind: str) -> dict[str, Tensor]:
        index = next(i for i, (name, _) in enumerate(left) if name.rstrip("_0123456789") == kind.rstrip("_0123456789"))
        return {key: torch.from_numpy(value) for key, value in left.pop(index)[1].items()}

    def conv(x: Tensor, stride: int, binary: bool = False) -> Tensor:
        kernel = take("quant_conv2d")["kernel"].permute(3, 2, 0, 1)
        if binary:
            kernel, x = torch.where(kernel >= 0, 1.0, -1.0), torch.where(x >= 0, 1.0, -1.0)
        return functional.conv2d(same(x, kernel.shape[2], stride, float(binary)), kernel, stride=stride)

    def depthwise(x: Tensor, kind: str) -> Tensor:
        kernel = take(kind)["depthwise_kernel"].permute(2, 3, 0, 1)
        return functional.conv2d(same(x, 3, 2, 0.0), kernel, stride=2, groups=len(kernel))

    def norm(x: Tensor, epsilon: float) -> Tensor:
        v = take("batch_normalization")
        return functional.batch_norm(
            x, v["moving_mean"], v["moving_variance"], v.get("gamma"), v.get("beta"), eps=epsilon
        )

    x = functional.relu(norm(conv(x, 2), 1e-3))
    x = norm(depthwise(x, "quant_depthwise_conv2d"), 1e-3)
    x = norm(conv(x, 1), 1e-3)
    while any(name.startswith("quant_conv2d") for name, _ in left):
        following = next(values for name, values in left if name.startswith("quant_conv2d"))
        if following["kernel"].shape[0] == 3:
            x = x + norm(functional.relu(conv(x, 1, binary=True)), 1e-5)
        else:
            x = functional.max_pool2d(functional.relu(x), 2, 1)
            x = norm(conv(depthwise(x, "depthwise_conv2d"), 1), 1e-5)
    v = take("quant_dense")
    assert not left
    return functional.relu(x).mean(dim=(2, 3)) @ v["kernel"] + v["bias"]


@pytest.mark.parametrize("name", PLANS)
def test_the_network_is_larq_s(name: str, tmp_path: Path) -> None:
    layers = quicknet_layers(name)
    found = load_network(write_keras(layers, tmp_path / "weights.h5"))
    assert (found.architecture, found.width, found.classes) == (name, 0.125, 7)
    x = torch.rand(3, 3, 64, 64, generator=torch.Generator().manual_seed(2)) * 2 - 1
    with torch.no_grad():
        difference = (found.network(x) - definition(layers, x)).abs().max()
    assert difference < 1e-3
    weights = [module.weight for module in found.network.modules() if isinstance(module, BinaryConv2d)]
    assert all(set(weight.unique().tolist()) == {-1.0, 1.0} for weight in weights)


@pytest.mark.parametrize(("first", "group"), [(21, ""), (9, "model_weights")])
def test_numbers_may_start_anywhere_and_models_have_a_group(first: int, group: str, tmp_path: Path) -> None:
    """One program makes several networks; and layer 10 stands behind layer 9, not behind layer 1."""
    layers = quicknet_layers("quicknet", first=first)
    shuffled = sorted(layers)
    found = load_network(write_keras(shuffled, tmp_path / "weights.h5", group))
    x = torch.rand(2, 3, 64, 64) * 2 - 1
    with torch.no_grad():
        torch.testing.assert_close(found.network(x), definition(layers, x), rtol=1e-3, atol=1e-3)


def test_a_weight_of_zero_is_one_of_plus_one(tmp_path: Path) -> None:
    layers = quicknet_layers("quicknet")
    kernel = next(values["kernel"] for name, values in layers if name == "quant_conv2d_2")
    kernel[0, 0, :2, 0] = 0.0, -0.0
    found = load_network(write_keras(layers, tmp_path / "weights.h5")).network
    assert found.get_parameter("section1.block1.conv.weight")[0, :2, 0, 0].tolist() == [1.0, 1.0]


def test_it_compiles_at_the_zoo_s_cut(tmp_path: Path) -> None:
    found = load_network(write_keras(quicknet_layers("quicknet_small"), tmp_path / "weights.h5"))
    pixels = np.random.default_rng(0).integers(0, 256, (8, 64, 64, 3), np.uint8)
    assert compile_program(found.network, pixels, cut=DEFAULT_CUTS["quicknet_small"]).latent_shape == (2, 2, 32)


def changed(name: str, change: Callable[[dict[str, np.ndarray]], object]) -> Layers:
    layers = quicknet_layers("quicknet")
    change(next(values for layer, values in layers if layer == name))
    return layers


def test_what_is_wrong_with_the_weights_is_named(tmp_path: Path) -> None:
    norm, blur, conv = "batch_normalization_3", "depthwise_conv2d_1", "quant_conv2d_5"

    def set_(key: str, value: object) -> Callable[[dict[str, np.ndarray]], object]:
        return lambda values: values.update({key: value})

    cases = [
        (changed(norm, lambda v: v.pop("moving_mean")), FormatError, f"lacks {norm}/moving_mean: statistics of batch"),
        (changed(norm, lambda v: v.pop("gamma")), FormatError, f"lacks {norm}/gamma"),
        (changed(norm, set_("moving_variance", np.full(8, -1.0, np.float32))), FormatError, "negative variance"),
        (changed(norm, set_("beta", np.full(8, np.nan, np.float32))), FormatError, "values that are not finite"),
        (changed(norm, set_("beta", np.ones(8, np.int32))), FormatError, "holds int32, not real numbers"),
        (changed(norm, set_("beta", np.ones(9, np.float32))), FormatError, r"beta has the shape \[9\] where \[8\]"),
        (changed(blur, lambda v: v["depthwise_kernel"].__imul__(1.5)), UnsupportedError, "is not the binomial filter"),
        (changed(conv, set_("kernel", np.ones((3, 3, 8, 9), np.float32))), FormatError, r"\[3, 3, 8, 9\] where \[3, 3"),
        (
            changed(conv, set_("extra", np.ones(3, np.float32))),
            FormatError,
            "no place for, such as quant_conv2d_5/extra",
        ),
        (
            quicknet_layers("quicknet")[:-3],
            UnsupportedError,
            "which is none of quicknet, quicknet_small, quicknet_large",
        ),
    ]
    for layers, kind, message in cases:
        with pytest.raises(kind, match=message):
            load_network(write_keras(layers, tmp_path / "weights.h5"))


def test_links_lead_nowhere(tmp_path: Path) -> None:
    """A file may not read others: neither by links nor by data kept outside."""
    path = write_keras(quicknet_layers("quicknet"), tmp_path / "weights.h5")
    write_keras(quicknet_layers("quicknet"), tmp_path / "other.h5")
    with h5py.File(path, "r+") as file:
        member = file["quant_dense/quant_dense"]
        del member["bias:0"]
        member["bias:0"] = h5py.ExternalLink("other.h5", "/quant_dense/quant_dense/bias:0")
    with pytest.raises(FormatError, match="a link to another place"):
        load_network(path)
    with h5py.File(path, "r+") as file:
        member = file["quant_dense/quant_dense"]
        del member["bias:0"]
        member.create_dataset("bias:0", (7,), np.float32, external=[(str(tmp_path / "raw"), 0, 28)])
    with pytest.raises(FormatError, match="holds no values of its own"):
        load_network(path)


def test_a_file_that_was_not_written_to_its_end_is_damaged(research_data: Path) -> None:
    with pytest.raises(FormatError, match="was not written to its end"):
        load_network(research_data / "peers" / "quicknet_small_random.h5")
