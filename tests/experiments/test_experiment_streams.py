"""`everbit experiment` on every kind of stream and data set, with tiny images and models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from data.core50_layout import write_core50
from everbit import cli
from everbit.data import lazy_images
from everbit.data.torch_sets import from_torch
from everbit.experiments.configuration import Configuration
from everbit.experiments.experiment import run_experiment
from everbit.experiments.models import CompiledModel
from everbit.formats.model_file import save_program
from experiments.small_model import small_program

SIDE = 8


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, CIFAR-10 and a folder of pictures, drawn, and CORe50 with 550 frames."""
    root = tmp_path_factory.mktemp("streams")
    save_program(small_program(SIDE, 50), root / "small.everbit")
    patterns = np.random.default_rng(0).integers(0, 256, (10, SIDE, SIDE, 3), np.uint8)
    labels = np.arange(60) % 10
    arrays = {
        "train_images": patterns[labels],
        "train_labels": labels,
        "test_images": patterns,
        "test_labels": labels[:10],
    }
    np.savez(root / "cifar10.npz", **arrays)
    for label, number in np.ndindex(4, 6):
        path = root / "pictures" / f"class{label}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(patterns[label]).save(path)
    sessions, objects = (axis.ravel() for axis in np.meshgrid(np.arange(1, 12), np.arange(1, 51), indexing="ij"))
    frames = np.zeros((len(objects), 128, 128, 3), np.uint8)
    frames[..., 0] = 5 * objects[:, None, None]
    write_core50(root, frames, objects, sessions)
    return root


def run(root: Path, scenario: str, data: str, *options: str) -> dict[str, Any]:
    """The result of the command, of one seed."""
    fixed = ["--root", str(root), "--model", str(root / "small.everbit"), "--epochs", "1", "--seeds", "1", "--quiet"]
    out = root / "result.json"
    arguments = ["experiment", scenario, "--data", data, *fixed, "--cache", str(root / "cache"), "--json", str(out)]
    shown = CliRunner().invoke(cli.app, [*arguments, *options])
    assert shown.exit_code == 0, shown.output
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def test_class_order(root: Path) -> None:
    order = "9,8,7,6,5,4,3,2,1,0"
    result = run(root, "nc", "cifar10", "--class-order", order)
    assert result["configuration"]["class_order"] == list(range(9, -1, -1))
    assert np.shape(result["runs"][0]["accuracy_matrix"]) == (5, 5)
    refused = ["experiment", "ni", "--data", "cifar10", "--root", str(root), "--model", str(root / "small.everbit")]
    for scenario, wrong, message in (
        ("ni", order, "leave class_order out"),
        ("nc", "1,1", "0 to 9 once"),
        ("nc", "a", "3,1,2,0"),
    ):
        refused[1] = scenario
        shown = CliRunner().invoke(cli.app, [*refused, "--class-order", wrong, "--cache", str(root / "cache")])
        assert shown.exit_code == 1
        assert message in shown.output


def test_joint_and_a_folder_of_pictures(root: Path) -> None:
    joint = run(root, "joint", "cifar10", "--learner", "cwr")
    assert np.shape(joint["runs"][0]["accuracy_matrix"]) == (1, 1)
    pictures = run(root, "nc", f"folder:{root / 'pictures'}", "--experiences", "2")
    assert np.shape(pictures["runs"][0]["accuracy_matrix"]) == (2, 2)
    again = run(root, "nc", str(root / "pictures"), "--experiences", "2")["runs"][0]
    times = ("seconds", "seconds_after")
    first = pictures["runs"][0]
    assert {key: again[key] for key in again if key not in times} == {
        key: first[key] for key in first if key not in times
    }


@pytest.mark.parametrize(("scenario", "experiences"), [("nc", 9), ("ni", 8), ("nicv2_79", 79)])
def test_core50(root: Path, scenario: str, experiences: int) -> None:
    result = run(root, scenario, "core50", "--learner", "naive", "--test-images-per-class", "1")
    assert len(result["runs"][0]["accuracy_after"]) == experiences


def test_lazy_images_give_the_numbers_of_images_in_memory(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lazy_images, "AT_ONCE", 7)
    with np.load(root / "cifar10.npz") as archive:
        arrays = dict(archive)
    pairs = {
        split: list(zip(arrays[f"{split}_images"], arrays[f"{split}_labels"].tolist(), strict=True))
        for split in ("train", "test")
    }
    dataset = from_torch(pairs["train"], pairs["test"], name="cifar10")
    configuration = Configuration("nc", "cifar10", "small.everbit", epochs=1)
    source = CompiledModel(root / "small.everbit")
    found = run_experiment(configuration, dataset, source, 1, tmp_path)["runs"][0]
    expected = run(root, "nc", "cifar10")["runs"][0]
    for key in ("accuracy_matrix", "final_accuracy", "learner_bytes"):
        assert found[key] == expected[key]
