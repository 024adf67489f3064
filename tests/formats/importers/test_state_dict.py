"""State dicts with published names against networks written by those names."""

from __future__ import annotations

import collections
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from everbit.compile.compiler import compile_program
from everbit.errors import FormatError, UnsupportedError
from everbit.formats.importers import ImportedNetwork, load_network
from everbit.formats.importers.normalization import fold_normalization
from everbit.nn import BinaryConv2d
from everbit.zoo.cuts import DEFAULT_CUTS
from formats.importers.published_states import NETWORKS, computed, published

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
DEVIATION = torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)


def images(count: int = 4, side: int = 64) -> Tensor:
    """Pixels 0..255, float [N, 3, H, W]."""
    return torch.from_numpy(np.random.default_rng(1).integers(0, 256, (count, 3, side, side)).astype(np.float32))


def saved(state: dict[str, object], folder: Path, name: str = "network.pth.tar") -> Path:
    torch.save(state, folder / name)
    return folder / name


def imported(state: dict[str, object], folder: Path) -> ImportedNetwork:
    return load_network(saved(state, folder))


@pytest.mark.parametrize("name", NETWORKS)
def test_the_network_is_the_published_one(name: str, tmp_path: Path) -> None:
    architecture, width, stem, _ = NETWORKS[name]
    state = published(name)
    found = imported(state, tmp_path)
    assert (found.architecture, found.width, found.classes, found.stem) == (architecture, width, 5, stem)
    pixels = images(side=32 if stem == "cifar" else 64)
    expected = computed(name, state, (pixels / 255 - MEAN) / DEVIATION)
    with torch.no_grad():
        logits = found.network(pixels / 127.5 - 1)
    # A sign of a sum next to 0 may turn with the rounding of the images.
    close = (logits - expected).abs() < 1e-3
    assert close.float().mean() > 0.7, (logits, expected)


def test_nesting_prefixes_and_old_files(tmp_path: Path) -> None:
    state = published("bireal")
    nested = {"epoch": 3, "state_dict": collections.OrderedDict((f"module.{k}", v) for k, v in state.items())}
    torch.save(nested, tmp_path / "old", _use_new_zipfile_serialization=False)
    save_file({k: v.contiguous() for k, v in state.items()}, tmp_path / "network.safetensors")
    pixels = images() / 127.5 - 1
    logits = [
        load_network(path).network(pixels)
        for path in (saved(nested, tmp_path), tmp_path / "old", tmp_path / "network.safetensors")
    ]
    assert torch.equal(logits[0], logits[1]) and torch.equal(logits[0], logits[2])


def test_binary_weights_keep_signs_and_mean_size(tmp_path: Path) -> None:
    """Shipped weights are no +-1; a weight of 0 counts as +1, never as 0, and lowers the scale."""
    state = published("bireal")
    weight = state["layer1.0.binary_conv.weights"]
    weight[:5] = torch.tensor([[0.0], [-0.0], [1.5], [-2.0], [1e-9]])
    layer = imported(state, tmp_path).network.get_submodule("stage1.block1.conv")
    assert isinstance(layer, BinaryConv2d)
    signs = layer.binary_weight() / layer.alpha().view(-1, 1, 1, 1)
    assert signs.flatten()[:5].tolist() == [1.0, 1.0, 1.0, -1.0, 1.0]
    assert set(signs.round(decimals=4).unique().tolist()) == {-1.0, 1.0}
    torch.testing.assert_close(layer.alpha(), weight.view(8, -1).abs().mean(dim=1))


def test_a_filter_of_zeros_gives_zero(tmp_path: Path) -> None:
    state = published("bireal")
    state["layer1.0.binary_conv.weights"][:72] = 0.0
    found = imported(state, tmp_path)
    pixels = images(2)
    expected = computed("bireal", state, (pixels / 255 - MEAN) / DEVIATION)
    with torch.no_grad():
        torch.testing.assert_close(found.network(pixels / 127.5 - 1), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["bireal", "react", "reactnet a", "torchvision mobilenet v2"])
def test_imported_networks_compile(name: str, tmp_path: Path) -> None:
    found = imported(published(name), tmp_path)
    pixels = images(8).permute(0, 2, 3, 1).numpy().astype(np.uint8)
    assert found.architecture is not None
    program = compile_program(found.network, pixels, cut=DEFAULT_CUTS[found.architecture])
    assert program.layers[1].name == "stem.normalize"


def test_a_folded_normalization_differs_at_the_border_alone(tmp_path: Path) -> None:
    found = imported(published("bireal cifar"), tmp_path)
    stem, pixels = found.network.get_submodule("stem"), images(2, 32) / 127.5 - 1
    with torch.no_grad():
        before = stem(pixels)
        assert fold_normalization(found.network)
        after = found.network.get_submodule("stem")(pixels)
    inside = (..., slice(1, -1), slice(1, -1))
    torch.testing.assert_close(after[inside], before[inside], rtol=1e-4, atol=1e-4)
    assert (after - before).abs().max() > 1e-3
    assert not fold_normalization(found.network)


def without(state: dict[str, Tensor], *endings: str) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in state.items() if not name.endswith(endings)}


def test_what_is_wrong_with_a_state_dict_is_named(tmp_path: Path) -> None:
    state = published("bireal")
    name, weight = "layer2.0.binary_conv.weights", "layer2.0.bn1.weight"
    cases: list[tuple[dict[str, object], type[Exception], str]] = [
        (without(state, "running_mean", "running_var"), FormatError, "lacks bn1.running_mean: statistics of batch"),
        (without(state, "layer3.1.bn1.running_var"), FormatError, r"lacks layer3\.1\.bn1\.running_var: statistics"),
        (without(state, weight), FormatError, f"lacks {weight}: it is of another network"),
        (state | {name: state[name][:-1]}, FormatError, rf"{name} has the shape \[1151, 1\] where \[16, 8, 3, 3\]"),
        (
            state | {"extra.weight": torch.zeros(3)},
            FormatError,
            "1 tensors that its network has no place for, such as e",
        ),
        (state | {weight: state[weight].int()}, FormatError, f"{weight} holds int32, not real numbers"),
        (state | {weight: state[weight] * torch.inf}, FormatError, f"{weight} holds values that are not finite"),
        (state | {weight: torch.zeros(1).expand(16)}, FormatError, "is no plain tensor of its own values"),
        (state | {weight: "text"}, FormatError, "is no tensor"),
        (state | {"layer1.4.bn1.weight": torch.zeros(8)}, UnsupportedError, "only the 18-layer networks"),
        (state | {"fc.weight": torch.zeros(0, 64)}, FormatError, "it is damaged"),
        (
            {"a": torch.zeros(1)},
            UnsupportedError,
            "holds a network that is not known, with a: known are birealnet18 of",
        ),
        ({}, FormatError, "holds no state dict"),
    ]
    for broken, kind, message in cases:
        with pytest.raises(kind, match=message):
            imported(broken, tmp_path)


def test_only_tensors_are_ever_loaded(tmp_path: Path) -> None:
    torch.save(nn.Linear(2, 2), tmp_path / "module.pth")
    with pytest.raises(FormatError, match="objects beside tensors, which are never loaded"):
        load_network(tmp_path / "module.pth")


def test_compressed_archives_are_refused(tmp_path: Path) -> None:
    path = saved(published("bireal"), tmp_path)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "packed", "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry.filename))
    with pytest.raises(FormatError, match="is a compressed archive"):
        load_network(tmp_path / "packed")


def test_everbit_s_own_files_are_recognized(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "own", {"everbit-backbone": "{}"})
    with pytest.raises(UnsupportedError, match="is a file of everbit already"):
        load_network(tmp_path / "own")


def test_efficientnet_lite_is_the_package_s(tmp_path: Path) -> None:
    package = pytest.importorskip("efficientnet_lite_pytorch")
    reference = package.EfficientNet.from_name("efficientnet-lite0").eval()
    generator = torch.Generator().manual_seed(1)
    for module in reference.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1, generator=generator)
            module.running_var.uniform_(0.5, 2, generator=generator)
    found = imported(reference.state_dict(), tmp_path)
    pixels = images(2, 224)
    with torch.no_grad():
        torch.testing.assert_close(
            found.network(pixels / 127.5 - 1), reference((pixels - 127) / 128), rtol=1e-4, atol=1e-4
        )
    assert (found.architecture, found.input_shape) == ("efficientnet_lite0", (224, 224, 3))
