"""`everbit import`: foreign files to model files and backbones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner, Result

from everbit import cli
from everbit.formats.importers import load_network
from everbit.formats.model_file import load_program
from everbit.learner.learner import Learner
from everbit.learner.settings import Settings
from everbit.zoo.weights import load_weights, read_description
from formats.importers.published_states import published
from formats.importers.quicknet_weights import quicknet_layers, write_keras
from formats.importers.test_lce_operators import residual


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of 6 image files."""
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    for number in range(6):
        Image.fromarray(rng.integers(0, 256, (20, 24, 3), np.uint8)).save(folder / f"{number}.png")
    return folder


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.app, ["import", *map(str, arguments)])


def test_a_lite_file_becomes_a_model_that_learns(tmp_path: Path, pictures: Path) -> None:
    out = tmp_path / "model.everbit"
    shown = run(residual(tmp_path), "-o", out, "--images", pictures, "--cut", "add_3", "--bits", "8,8,16,1", "--json")
    assert shown.exit_code == 0, shown.output
    made = json.loads(shown.stdout)
    assert (made["file"], made["latent_shape"], made["latent_bytes"]) == (str(out), [8, 8, 20], 160)
    facts = load_program(out).metadata
    assert (facts["network"], facts["source"], facts["calibration"]) == ("residual", "tflite", pictures.name)
    learner = Learner.open(out, widths="8,8,16,1", settings=Settings(classes=8))
    files = sorted(pictures.iterdir())
    learner.partial_fit(files[:4], ["a", "b", "a", "b"], epochs=1)
    assert len(learner.predict(files)) == 6


def test_without_images_patterns_calibrate(tmp_path: Path) -> None:
    out = tmp_path / "model.everbit"
    shown = run(residual(tmp_path), "-o", out, "--count", "8")
    assert shown.exit_code == 0, shown.output
    assert "give --images of the kind the device will see" in shown.stderr
    assert shown.stdout.startswith(str(out))
    program = load_program(out)
    assert (program.metadata["calibration"], program.metadata["cut"]) == ("patterns", "input")


def test_a_network_of_the_zoo_becomes_a_backbone(tmp_path: Path) -> None:
    torch.save(published("bireal cifar"), tmp_path / "network.pth.tar")
    out = tmp_path / "backbone.safetensors"
    shown = run(tmp_path / "network.pth.tar", "-o", out, "--json")
    assert shown.exit_code == 0, shown.output
    assert "folded into the first layer" in shown.stderr
    made = json.loads(shown.stdout)
    assert (made["network"], made["width"], made["classes"]) == ("birealnet18", 0.125, 5)
    description, has_head = read_description(out)
    assert has_head and description.data == "imported from network.pth.tar (Bi-Real-net)"
    x = torch.rand(2, 3, 32, 32) * 2 - 1
    imported = load_network(tmp_path / "network.pth.tar").network
    assert load_weights(out)(x).shape == imported(x).shape == (2, 5)


def test_keras_weights_become_both(tmp_path: Path) -> None:
    path = write_keras(quicknet_layers("quicknet_small", divide=16), tmp_path / "weights.h5")
    for name in ("model.everbit", "backbone.safetensors"):
        shown = run(path, "-o", tmp_path / name, "--count", "2")
        assert shown.exit_code == 0, shown.output
    program = load_program(tmp_path / "model.everbit")
    assert (program.metadata["network"], program.metadata["cut"]) == ("quicknet_small", "transition3.blur")
    x = torch.rand(1, 3, 64, 64) * 2 - 1
    with torch.no_grad():
        difference = (load_weights(tmp_path / "backbone.safetensors")(x) - load_network(path).network(x)).abs().max()
    assert difference < 0.5  # a backbone's real weights have 16 bits, and signs turn


def test_mistakes_are_named_before_anything_is_written(tmp_path: Path, pictures: Path) -> None:
    lite, out = residual(tmp_path), tmp_path / "made"
    (tmp_path / "text").write_text("no network")
    cases: list[tuple[list[str | Path], str]] = [
        ([tmp_path / "absent", "-o", out / "model.onnx"], "give a name that ends in .everbit or .safetensors"),
        ([tmp_path / "absent", "-o", out / "model.everbit"], "cannot read"),
        ([tmp_path / "text", "-o", out / "model.everbit"], "is no network file that can be imported"),
        ([lite, "-o", out / "backbone.safetensors"], "is no network of the zoo, which a backbone must be"),
        ([lite, "-o", out / "model.everbit", "--cut", "add_9"], "no module 'add_9' to cut after"),
        ([lite, "-o", out / "model.everbit", "--bits", "8"], "are not four numbers"),
        ([lite, "-o", out / "model.everbit", "--images", out], "unknown data set"),
    ]
    for arguments, message in cases:
        shown = run(*arguments)
        assert shown.exit_code == 1, shown.output
        assert message in " ".join(shown.stderr.split()), shown.stderr
        assert not out.exists()


@pytest.mark.parametrize(
    ("name", "data", "accuracy"),
    [("bnn_pynq_cnvW1A1_cifar10", "cifar10", 0.7937), ("bnn_pynq_lfcW1A1_mnist", "mnist", 0.9834)],
)
def test_finn_s_networks_keep_their_accuracy(
    research_data: Path, tmp_path: Path, name: str, data: str, accuracy: float
) -> None:
    """Imported, written, read and evaluated, on all 10,000 test images, to the last one."""
    root, out = ("--root", str(research_data)), tmp_path / "model.everbit"
    shown = run(research_data / f"{name}.npz", "-o", out, "--images", data, *root, "--count", "64")
    assert shown.exit_code == 0, shown.output
    evaluated = CliRunner().invoke(cli.app, ["evaluate", str(out), "--data", data, *root, "--json"])
    assert evaluated.exit_code == 0, evaluated.output
    result = json.loads(evaluated.stdout)
    assert (result["images"], result["top1"]) == (10_000, accuracy)
