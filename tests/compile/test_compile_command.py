"""`everbit compile`: the packaged backbone, cut where the user says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from everbit import cli
from everbit.learner.learner import Learner
from everbit.learner.settings import Settings


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of 8 image files."""
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    for number in range(8):
        small = rng.integers(0, 256, (8, 8, 3), np.uint8)
        Image.fromarray(small.repeat(4, axis=0).repeat(4, axis=1)).save(folder / f"{number}.png")
    return folder


def run(pictures: Path, out: Path, *options: str) -> Result:
    return CliRunner().invoke(
        cli.app, ["compile", "birealnet18", "--images", str(pictures), "--out", str(out), *options]
    )


def test_the_whole_network_learns_behind_its_input(pictures: Path, tmp_path: Path) -> None:
    shown = run(pictures, tmp_path / "whole.everbit", "--cut", "input", "--bits", "8,8,16,8", "--json")
    assert shown.exit_code == 0, shown.output
    made = json.loads(shown.stdout)
    assert (made["latent_shape"], made["latent_bytes"]) == ([32, 32, 3], 32 * 32 * 3)
    assert made["learnable_layers"] == made["layers"] - 2  # all but the input and the latent
    learner = Learner.open(tmp_path / "whole.everbit", widths="8,8,16,8", settings=Settings(classes=2))
    learner.partial_fit(sorted(pictures.iterdir())[:4], ["a", "b", "a", "b"], epochs=1)
    assert set(learner.predict(sorted(pictures.iterdir()))) <= {"a", "b"}


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        (["--cut", "stage2.block2.bn"], "cut at stage2.block1.add in front of it or at stage2.block2.add behind it"),
        (["--cut", "stage5"], "; its usual cuts are stage4.block1, stage3.block1; `everbit summary` lists layers"),
        (["--cut", "stage4.block1.sign"], "cut at stage3.block4.add in front of it"),
        (["--bits", "32,8,16,1"], "gradients need at least as many bits as activations"),
        (["--bits", "8,64,16,1"], "choose one of 1, 4, 8, 16, 32"),
        (["--image-size", "16"], "the image size is 16: choose a multiple of 32 up to 1024 pixels"),
        (["--calibration", "median"], "unknown calibration 'median': choose one of minmax, percentile, mse"),
    ],
)
def test_mistakes_are_named(pictures: Path, tmp_path: Path, options: list[str], cause: str) -> None:
    shown = run(pictures, tmp_path / "none.everbit", *options)
    assert shown.exit_code == 1, shown.output
    assert cause in " ".join(shown.stderr.split())
    assert not list(tmp_path.iterdir())


def test_the_file_s_name_says_what_it_is(pictures: Path, tmp_path: Path) -> None:
    shown = run(pictures, tmp_path / "m.txt")
    assert shown.exit_code == 1
    assert "m.txt: give a name that ends in .everbit" in " ".join(shown.stderr.split())
    assert not list(tmp_path.iterdir())


def test_images_of_another_size(pictures: Path, tmp_path: Path) -> None:
    shown = run(pictures, tmp_path / "larger.everbit", "--image-size", "64", "--json")
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout)["latent_shape"] == [8, 8, 256]
    assert Learner.open(tmp_path / "larger.everbit").image_shape == (64, 64, 3)


def test_the_report_shows_what_each_layer_costs(pictures: Path, tmp_path: Path) -> None:
    """Of 8 pictures calibration takes every second; the report runs the others."""
    options = ("--cut", "stage2", "--count", "4", "--calibration", "mse", "--report")
    shown = run(pictures, tmp_path / "a.everbit", *options)
    assert shown.exit_code == 0, shown.output
    assert "4 images that calibration did not see" in shown.stdout
    assert max(len(line) for line in shown.stdout.splitlines() if ".everbit" not in line) <= 100
    for row in ("stem.bn", "stage1.block4.add", "stage2.block4.add"):
        assert any(line.split()[:1] == [row] for line in shown.stdout.splitlines()), row
    assert "stage3" not in shown.stdout

    made = json.loads(run(pictures, tmp_path / "b.everbit", *options, "--json").stdout)
    assert (tmp_path / "a.everbit").read_bytes() == (tmp_path / "b.everbit").read_bytes()
    report = made["report"]
    assert (report["images"], report["unseen"], report["same_class"]) == (4, True, None)
    stem = report["layers"][0]
    assert (stem["name"], stem["kind"], stem["bits"]) == ("stem.bn", "convolution", 8)
    assert stem["decibels"] > 20
    assert all(layer["same_class"] is None for layer in report["layers"]), "the packaged backbone has no classes"

    every = json.loads(run(pictures, tmp_path / "c.everbit", "--cut", "stage2", "--report", "--json").stdout)
    assert (every["report"]["images"], every["report"]["unseen"]) == (8, False)
