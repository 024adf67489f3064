from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

from everbit.errors import ConfigurationError, OutputError
from everbit.zoo.pretrain_command import pretrain_command
from everbit.zoo.weights import export_backbone, read_description

APP = typer.Typer()
APP.command()(pretrain_command)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a cifar10.npz of 16 training and 4 test images."""
    generator = np.random.default_rng(1)
    strips = []
    for count in (16, 4):
        file = io.BytesIO()
        Image.fromarray(generator.integers(0, 256, (count * 32, 32, 3), dtype=np.uint8)).save(file, "PNG")
        strips.append(file.getvalue())
    np.savez(
        tmp_path / "cifar10.npz",
        strips=np.frombuffer(b"".join(strips), np.uint8),
        offsets=np.cumsum([0, *map(len, strips)]),
        counts=np.array([16, 4], np.int32),
        splits=np.array(["train", "test"]),
        train_labels=np.arange(16) % 10,
        test_labels=np.arange(4),
    )
    return tmp_path


def options(root: Path, **changes: str) -> list[str]:
    values = {
        "--width": "0.0625",
        "--data": "cifar10",
        "--root": str(root),
        "--epochs": "2",
        "--batch": "8",
        "--checkpoint": str(root / "run" / "net.pt"),
        "--out": str(root / "net.safetensors"),
        **changes,
    }
    return [word for pair in values.items() for word in pair]


def test_pretrain_writes_log_weights_and_card(root: Path) -> None:
    result = CliRunner().invoke(APP, options(root))
    assert result.exit_code == 0, result.output
    assert "epoch 2 of 2" in result.output
    log = [json.loads(line) for line in (root / "run" / "net.jsonl").read_text().splitlines()]
    assert [sorted(line) for line in log] == [["epoch", "loss", "seconds", "val_top1"]] * 2
    description, has_head = read_description(root / "net.safetensors")
    assert (description.data, description.classes, description.epochs, has_head) == ("cifar10", 10, 2, False)
    assert (root / "net.md").read_text().startswith("# birealnet18")


def test_quiet_shows_nothing(root: Path) -> None:
    result = CliRunner().invoke(APP, [*options(root, **{"--epochs": "1"}), "--quiet"])
    assert result.exit_code == 0
    assert result.output == ""


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--epochs", "0"),
        ("--model", "x"),
        ("--precision", "int4"),
        ("--threads", "-1"),
        ("--seed", "-1"),
        ("--seed", str(2**64)),
        ("--width", "inf"),
    ],
)
def test_wrong_options(root: Path, option: str, value: str) -> None:
    result = CliRunner().invoke(APP, options(root, **{option: value}))
    assert result.exit_code != 0
    assert isinstance(result.exception, (ConfigurationError, SystemExit))
    assert not (root / "net.safetensors").exists()


@pytest.mark.parametrize("option", ["--out", "--checkpoint"])
def test_a_file_that_cannot_be_written_is_found_before_training(root: Path, option: str) -> None:
    result = CliRunner().invoke(APP, options(root, **{option: str(root / "cifar10.npz" / "net")}))
    assert isinstance(result.exception, OutputError)
    assert "epoch 1" not in result.output


def test_another_run_is_told_by_what_differs(root: Path) -> None:
    assert CliRunner().invoke(APP, options(root)).exit_code == 0
    other = CliRunner().invoke(APP, options(root, **{"--epochs": "3", "--width": "0.125"}))
    assert "another run (epochs 2, now 3; width 0.0625, now 0.125): use the same options" in str(other.exception)


def test_the_stem_follows_the_data_and_is_an_option(root: Path) -> None:
    assert CliRunner().invoke(APP, options(root, **{"--model": "quicknet", "--epochs": "1"})).exit_code == 0
    description, _ = read_description(root / "net.safetensors")
    assert (description.architecture, description.stem) == ("quicknet", "cifar")
    assert "32x32 pixels" in (root / "net.md").read_text()
    refused = CliRunner().invoke(APP, options(root, **{"--stem": "mnist"}))
    assert isinstance(refused.exception, ConfigurationError)
    assert "birealnet18 has no stem 'mnist'" in str(refused.exception)


def test_a_teacher_is_recorded(root: Path) -> None:
    first = options(root, **{"--model": "vgg_small", "--epochs": "1"})
    assert CliRunner().invoke(APP, first).exit_code == 0
    export_backbone(root / "run" / "net.pt", root / "teacher.safetensors", drop_head=False)
    taught = options(root, **{"--epochs": "1", "--checkpoint": str(root / "taught.pt"), "--teacher": "vgg_small"})
    result = CliRunner().invoke(APP, [*taught, "--teacher-weights", str(root / "teacher.safetensors")])
    assert result.exit_code == 0, result.output
    assert read_description(root / "net.safetensors")[0].teacher == "vgg_small"
    assert "| teacher | vgg_small, 0.5 of the loss, temperature 2 |" in (root / "net.md").read_text()
    alone = CliRunner().invoke(APP, taught)
    assert "give both, or neither" in str(alone.exception)
