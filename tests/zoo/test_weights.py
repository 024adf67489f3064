from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from everbit.errors import ConfigurationError, FormatError, OutputError
from everbit.nn.binary import BinaryWeight
from everbit.zoo import packaged, weights
from everbit.zoo.cuts import NETWORKS
from everbit.zoo.registry import BUILDERS, build
from everbit.zoo.weights import (
    BATCH_NORMS,
    VERSION,
    Description,
    load_weights,
    pretrained,
    read_description,
    save_weights,
)

DESCRIPTION = Description(
    architecture="birealnet18",
    width=0.125,
    classes=5,
    stem="cifar",
    data="tiny_imagenet",
    epochs=1,
    planned_epochs=2,
    batch=8,
    learning_rate=0.003,
    precision="float32",
    top1=0.25,
    seconds=60.0,
)


def trained_looking(name: str, width: float = 0.125, classes: int = 5) -> nn.Module:
    """A network whose tensors all differ from their initial values."""
    torch.manual_seed(3)
    model = build(name, width=width, classes=classes)
    for module in model.modules():
        if isinstance(module, BATCH_NORMS):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
            if module.affine:
                nn.init.normal_(module.weight)
    return model.eval()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "backbone.safetensors"
    save_weights(trained_looking("birealnet18"), file, DESCRIPTION)
    return file


@pytest.mark.parametrize("name", BUILDERS)
def test_loaded_network_computes_the_stored_function(tmp_path: Path, name: str) -> None:
    model, first, second = trained_looking(name), tmp_path / "first", tmp_path / "second"
    stem, (height, width, channels) = next(iter(NETWORKS[name].stems.items()))
    description = dataclasses.replace(DESCRIPTION, architecture=name, stem=stem)
    save_weights(model, first, description)
    loaded = load_weights(first)
    assert not loaded.training
    for path, module in model.named_modules():
        if isinstance(module, BinaryWeight):
            twin = loaded.get_submodule(path)
            alpha = module.alpha().half().float()
            assert torch.equal(twin.alpha(), alpha)
            alpha = alpha.view(-1, *[1] * (module.weight.dim() - 1))
            assert torch.equal(twin.weight, torch.where(module.weight >= 0, 1.0, -1.0) * alpha)
    save_weights(loaded, second, description)
    assert first.read_bytes() == second.read_bytes()
    images = torch.rand(4, channels, min(height, 64), min(width, 64)) * 2 - 1
    assert torch.equal(loaded(images), load_weights(second)(images))
    save_weights(model, second, description, drop_head=True)
    assert torch.equal(load_weights(first).head(load_weights(second)(images)), loaded(images))


def test_rounding_barely_moves_the_outputs(tmp_path: Path) -> None:
    model = trained_looking("vgg_small")
    save_weights(model, tmp_path / "file", dataclasses.replace(DESCRIPTION, architecture="vgg_small"))
    images = torch.rand(4, 3, 32, 32) * 2 - 1
    bits = [nn.Sequential(net.stem, net.block2.sign)(images) for net in (model, load_weights(tmp_path / "file"))]
    assert (bits[0] != bits[1]).float().mean() < 1e-3


def test_half_width_is_under_one_megabyte(tmp_path: Path) -> None:
    description = dataclasses.replace(DESCRIPTION, width=0.5, classes=200)
    save_weights(build("birealnet18", width=0.5, classes=200), tmp_path / "file", description)
    assert (tmp_path / "file").stat().st_size < 1_000_000


def test_without_a_head_the_network_gives_features(tmp_path: Path) -> None:
    model = trained_looking("birealnet18")
    save_weights(model, tmp_path / "file", DESCRIPTION, drop_head=True)
    assert read_description(tmp_path / "file") == (DESCRIPTION, False)
    loaded = load_weights(tmp_path / "file")
    images = torch.rand(2, 3, 32, 32) * 2 - 1
    save_weights(model, tmp_path / "whole", DESCRIPTION)
    whole = load_weights(tmp_path / "whole")
    assert torch.equal(whole.head(loaded(images)), whole(images))


@pytest.mark.parametrize("length", [0, 4, 100, -1])
def test_truncated_file(path: Path, length: int) -> None:
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(FormatError, match=r"backbone\.safetensors cannot be read as a backbone"):
        load_weights(path)


def rewrite(path: Path, metadata: dict[str, str] | None = None, **tensors: torch.Tensor | None) -> None:
    with safe_open(path, framework="pt") as file:
        stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        kept = file.metadata() if metadata is None else metadata
    merged = {**stored, **tensors}
    save_file({name: tensor for name, tensor in merged.items() if tensor is not None}, path, kept)


def facts(version: object = 1, **changes: object) -> str:
    description = {**dataclasses.asdict(DESCRIPTION), **changes}
    return json.dumps({"version": version, "has_head": True, "description": description})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (facts(version=VERSION + 1), "newer"),
        (facts(version="x"), "not supported"),
        ("{", "Expecting"),
        ("[]", "cannot be read"),
        ("{}", "version"),
        (facts(surprise=1), "surprise"),
        (facts(architecture="x"), "'x' is unknown"),
        (facts(stem="x"), "its stem 'x' is unknown"),
        (facts(width=-1), "width is -1"),
        (facts(width=0.25), "does not hold"),
    ],
)
def test_damaged_or_newer_metadata(path: Path, text: str, reason: str) -> None:
    rewrite(path, {weights.METADATA_KEY: text})
    with pytest.raises(FormatError, match=reason):
        load_weights(path)


def test_foreign_file(path: Path) -> None:
    rewrite(path, {"format": "pt"})
    with pytest.raises(FormatError, match="something else"):
        load_weights(path)


@pytest.mark.parametrize(
    ("name", "tensor", "reason"),
    [
        ("stage1.block1.conv.bits", None, "stage1.block1.conv.bits"),
        ("stage1.block1.conv.bits", torch.zeros(3, dtype=torch.uint8), "does not hold 576 bits"),
        ("stage1.block1.conv.alpha", torch.zeros(8), "positive"),
        ("head.bias", None, "missing or unknown: head.bias"),
        ("extra", torch.zeros(1), "missing or unknown: extra"),
        ("head.bias", torch.zeros(6), r"head.bias is \[6\], not \[5\]"),
    ],
)
def test_wrong_tensors(path: Path, name: str, tensor: torch.Tensor | None, reason: str) -> None:
    rewrite(path, **{name: tensor})
    with pytest.raises(FormatError, match=reason):
        load_weights(path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"there is no file .*nowhere: give the path"):
        load_weights(tmp_path / "nowhere")


def test_a_failed_write_leaves_the_old_file(path: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "folder"
    blocked.mkdir()
    (blocked / "inside").touch()
    with pytest.raises(OutputError, match="cannot write"):
        save_weights(trained_looking("birealnet18"), blocked, DESCRIPTION)
    with pytest.raises(OutputError, match="cannot write"):
        save_weights(trained_looking("birealnet18"), path / "below_a_file", DESCRIPTION)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["backbone.safetensors", "folder"]
    load_weights(path)


def test_pretrained_says_what_to_do_without_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(packaged, "WEIGHTS", tmp_path)
    with pytest.raises(ConfigurationError, match="everbit pretrain --model vgg_small"):
        pretrained("vgg_small")


def test_pretrained_loads_the_packaged_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(packaged, "WEIGHTS", tmp_path)
    save_weights(trained_looking("birealnet18"), tmp_path / "birealnet18_half.safetensors", DESCRIPTION, drop_head=True)
    assert pretrained("birealnet18")(torch.zeros(1, 3, 32, 32)).shape == (1, 64)


@pytest.mark.parametrize("path", sorted(packaged.WEIGHTS.glob("*.safetensors")), ids=lambda path: path.stem)
def test_every_packaged_backbone_loads_and_has_a_card(path: Path) -> None:
    description, has_head = read_description(path)
    assert packaged.packaged_backbone(description.architecture) == path
    assert not has_head
    height, width, channels = NETWORKS[description.architecture].stems[description.stem]
    assert pretrained(description.architecture)(torch.zeros(1, channels, height, width)).isfinite().all()
    assert path.with_suffix(".md").read_text().startswith(f"# {description.architecture}, width {description.width:g}")
