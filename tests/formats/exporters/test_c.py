"""Exported C projects build alone with make, and learn what Python's learner does: every kind of layer."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from c_api.conftest import FIXTURES
from cross.targets import REPOSITORY
from everbit import Learner, Settings, cli
from everbit._engine import digest, red_zone
from everbit.data.datasets import load
from everbit.errors import ConfigurationError
from everbit.formats.exporters.c import export_c
from everbit.formats.exporters.c.arrays import text_of
from everbit.formats.model_file import load_program
from everbit.zoo.packaged import packaged_backbone

PROGRAMS = sorted(path.stem for path in FIXTURES.glob("*.everbit"))
SHARED = REPOSITORY / "build" / "cross" / "exported"
"""One folder for all models: what was built of the engine serves every one of them."""

pytestmark = pytest.mark.skipif(red_zone != 0, reason="the plan of a sanitized engine has red zones")


def run(model: object, folder: Path, *options: object) -> Result:
    return CliRunner().invoke(cli.app, ["export", "c", str(model), "-o", str(folder), *map(str, options)])


def export(model: object, folder: Path, *options: object) -> dict[str, Any]:
    """The command's own facts."""
    shown = run(model, folder, "--json", *options)
    assert shown.exit_code == 0, shown.output
    return dict(json.loads(shown.stdout))


def learn(folder: Path, *words: str) -> dict[str, str]:
    """Builds and runs a project; what it prints, by name."""
    done = subprocess.run(
        ["make", "-s", "-j2", "-C", folder, *words, "run"], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr, done.stderr  # not one warning
    assert done.stdout.splitlines()[-1] == "the same as where it was exported"
    return dict(line.strip().split(": ") for line in done.stdout.splitlines() if ": " in line)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_learns_the_same_and_takes_what_was_planned(name: str) -> None:
    facts = export(FIXTURES / f"{name}.everbit", SHARED, "--images", 4, "--tests", 2, "--batch", "3:5")
    printed = learn(SHARED, "CFLAGS=-Werror", "CXXFLAGS=-Werror -Wno-error=unused-parameter")
    assert printed["digest"] == facts["digest"]
    assert printed["arena"] == printed["learner"] == f"{facts['arena_bytes']['8']} bytes"
    for purpose in ("state", "experience", "fixed", "shared"):
        assert printed[purpose] == f"{facts['memory']['8'][purpose]} bytes"


@pytest.mark.parametrize(
    "options", [("--bits", "8,1,16,1"), ("--strategy", "cwr"), ("--classes", 3, "--seed", 2**64 - 1)]
)
def test_options_reach_the_device(options: tuple[object, ...]) -> None:
    facts = export(FIXTURES / "classes.everbit", SHARED, "--images", 3, "--epochs", 2, *options)
    assert learn(SHARED)["digest"] == facts["digest"]


def test_a_packaged_model_learns_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    facts = export("birealnet18", SHARED, "--images", 4, "--tests", 4)
    assert learn(SHARED)["digest"] == facts["digest"]
    assert facts["right"] == facts["tests"] == 8


@pytest.mark.parametrize(
    ("options", "random"),
    [
        (("quicknet",), False),
        (("birealnet18", "--cut", "stage4.block3"), False),
        (("vgg_small", "--width", 0.125, "--cut", "block6", "--bits", "8,1,16,1"), True),
        (("mobilenet_v2", "--width", 0.25, "--bits", "8,16,16,8"), True),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_network_of_the_zoo_is_compiled_and_learns_the_same(options: tuple[object, ...], random: bool) -> None:
    pytest.importorskip("torch")
    shown = run(options[0], SHARED, "--json", "--images", 4, "--tests", 4, *options[1:])
    assert shown.exit_code == 0, shown.output
    assert ("weights of" in shown.stderr) is random
    assert learn(SHARED)["digest"] == json.loads(shown.stdout)["digest"]


def test_a_backbone_is_compiled() -> None:
    pytest.importorskip("torch")
    by_name = export("reactnet18", SHARED, "--images", 2, "--tests", 1)
    assert export(packaged_backbone("reactnet18"), SHARED, "--images", 2, "--tests", 1)["digest"] == by_name["digest"]


def test_the_digest_is_that_of_python_s_learner(tmp_path: Path) -> None:
    """Both experiences again, by the public interface."""
    dataset = load("fashion_demo")
    program = load_program(FIXTURES / "plain.everbit")
    made = export_c(program, "plain", tmp_path, dataset, Settings(classes=2), images=4)
    learner = Learner(program, Settings(classes=2, experience_images=4))
    fitted = dataset.fitted(program.input_shape)
    chosen = [np.flatnonzero(fitted.train_labels == label)[:4] for label in (0, 1)]
    for half in (slice(0, 2), slice(2, 4)):
        numbers = np.stack([column[half] for column in chosen], axis=1).reshape(-1)
        learner.partial_fit(np.asarray(fitted.train_images[numbers]), fitted.train_labels[numbers])
    assert made.model.digest == digest(learner.state)


def test_a_project_builds_with_cmake_too(tmp_path: Path) -> None:
    facts = export(FIXTURES / "plain.everbit", tmp_path / "project")
    build = tmp_path / "build"
    for command in (["cmake", "-S", tmp_path / "project", "-B", build], ["cmake", "--build", build, "--parallel", "2"]):
        subprocess.run(command, check=True, capture_output=True)
    assert facts["digest"] in subprocess.run([build / "learn"], check=True, capture_output=True, text=True).stdout


def test_nothing_is_written_twice(tmp_path: Path) -> None:
    export(FIXTURES / "plain.everbit", tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    export(FIXTURES / "plain.everbit", tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    export(FIXTURES / "plain.everbit", tmp_path, "--seed", 1)
    changed = {path.name for path, time in before.items() if path.is_file() and path.stat().st_mtime_ns != time}
    assert changed == {"model.h", "model.c"}


def test_sources_of_another_version_go(tmp_path: Path) -> None:
    export(FIXTURES / "plain.everbit", tmp_path)
    (tmp_path / "engine" / "learner" / "moved_since.cc").write_text("#error the project compiles every file\n")
    before = {path for path in tmp_path.rglob("*") if path.name != "moved_since.cc"}
    export(FIXTURES / "plain.everbit", tmp_path)
    assert set(tmp_path.rglob("*")) == before


def test_a_model_with_channels_of_its_own(tmp_path: Path) -> None:
    """Images of neither one nor three channels are made of gray ones."""
    from reference.program_builder import ProgramBuilder

    make = ProgramBuilder(np.random.default_rng(0), 8)
    make.latent(make.frozen_convolution(make.input(6, 5, 2), 4), 1)
    made = export_c(make.finish(), "two", tmp_path, load("fashion_demo"), Settings(classes=2), images=2, tests=1)
    assert made.model.images[0].shape == (2, 60)


def test_the_numbers_of_a_32_bit_processor_are_smaller(tmp_path: Path) -> None:
    memory = export(FIXTURES / "plain.everbit", tmp_path)["memory"]
    assert memory["4"]["fixed"] < memory["8"]["fixed"]
    same = ("state", "experience", "shared", "handle", "replay")
    assert [memory["4"][name] for name in same] == [memory["8"][name] for name in same]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--batch", "4"), "NEW:REPLAYED"),
        (("--batch", "0:4"), "batch_new"),
        (("--classes", 11), "fashion_demo has 10 classes"),
        (("--images", 10**6), "images of"),
        (("--bits", "8,16,16,4"), "bit widths"),
        (("--strategy", "best"), "unknown strategy"),
        (("--data", "no_such"), "unknown data set"),
        (("--cut", "input"), "leave --cut and --width out"),
    ],
)
def test_mistakes(options: tuple[object, ...], words: str, tmp_path: Path) -> None:
    shown = run(FIXTURES / "plain.everbit", tmp_path / "out", *options)
    assert shown.exit_code == 1
    assert words in shown.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ("no_such", (), "unknown model"),
        (packaged_backbone("quicknet"), ("--width", 0.25), "leave --width out"),
        ("quicknet", ("--cut", "nowhere"), "nowhere"),
    ],
)
def test_mistakes_about_networks(model: object, options: tuple[object, ...], words: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    shown = run(model, tmp_path / "out", *options)
    assert shown.exit_code == 1
    assert words in shown.stderr
    assert not (tmp_path / "out").exists()


def test_one_image_of_a_class_is_too_few(tmp_path: Path) -> None:
    program = load_program(FIXTURES / "plain.everbit")
    with pytest.raises(ConfigurationError, match="at least 2"):
        export_c(program, "plain", tmp_path, load("fashion_demo"), Settings(classes=2), images=1)


@pytest.mark.parametrize("text", ['"', "\\", "??=", "é", "a\nb", "%s", "\x7f0"])
def test_any_label_is_a_c_string(text: str, tmp_path: Path) -> None:
    (tmp_path / "text.c").write_text(
        f"#include <stdio.h>\nint main(void) {{ fputs({text_of(text)}, stdout); return 0; }}\n"
    )
    subprocess.run(["cc", "-std=c99", "-Wall", "-Werror", tmp_path / "text.c", "-o", tmp_path / "text"], check=True)
    assert subprocess.run([tmp_path / "text"], check=True, capture_output=True).stdout == text.encode()


def test_the_project_names_no_float() -> None:
    folder = REPOSITORY / "src" / "everbit" / "formats" / "exporters" / "c" / "project"
    sources = [path for path in folder.rglob("*") if path.suffix in (".c", ".h")]
    assert len(sources) >= 4
    for path in sources:
        code = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        assert not re.findall(r"\b(?:float|double|malloc|printf)\b", code), path
