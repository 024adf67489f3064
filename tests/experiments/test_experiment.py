"""`everbit experiment` on tiny data and models: its result, its errors, and that a kill at any moment is harmless."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from everbit import cli
from everbit.data.datasets import Dataset
from everbit.errors import ConfigurationError, FormatError, ImageError
from everbit.experiments.configuration import LEARNERS, Configuration
from everbit.experiments.experiment import run_experiment
from everbit.experiments.models import CompiledModel, cut_network, model_source
from everbit.experiments.run_cache import RunCache, RunProgress
from everbit.formats.model_file import save_program
from everbit.learner.learner import Learner
from everbit.quantize.widths import Widths
from experiments.small_model import small_program

CLASSES = 10
SIDE = 8  # of images and model
RUN_KEYS = {
    "seed",
    "final_accuracy",
    "accuracy_after",
    "average_accuracy",
    "forgetting",
    "backward_transfer",
    "accuracy_matrix",
    "replay_bytes",
    "learner_bytes",
    "seconds_after",
    "seconds",
}


def colored_images(per_class: int, seed: int, side: int = SIDE) -> tuple[np.ndarray, np.ndarray]:
    """Noise around one pattern of each class, uint8 [10 * per_class, side, side, 3], and the classes."""
    patterns = np.random.default_rng(0).integers(40, 216, (CLASSES, side, side, 3))
    labels = np.arange(CLASSES * per_class) % CLASSES
    noise = np.random.default_rng(seed).integers(-40, 41, (len(labels), side, side, 3))
    return (patterns[labels] + noise).astype(np.uint8), labels


def tiny_dataset(per_class: int = 12, side: int = SIDE, channels: int = 3, groups: bool = False) -> Dataset:
    train, train_labels = colored_images(per_class, 1, side)
    test, test_labels = colored_images(4, 2, side)
    track = np.arange(len(train_labels)) // CLASSES if groups else None
    names = tuple(map(str, range(CLASSES)))
    images = train[..., :channels], test[..., :channels]
    return Dataset("cifar10", images[0], train_labels, images[1], test_labels, names, track, "", pad_crop_flip=True)


def tiny_folder(folder: Path) -> Path:
    """The folder, filled with the model file small.everbit and a data set in place of CIFAR-10."""
    save_program(small_program(SIDE, 16), folder / "small.everbit")
    train, train_labels = colored_images(12, 1)
    test, test_labels = colored_images(4, 2)
    arrays = {"train_images": train, "train_labels": train_labels, "test_images": test, "test_labels": test_labels}
    np.savez(folder / "cifar10.npz", **arrays)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("experiment"))


@pytest.fixture(scope="module")
def source(folder: Path) -> CompiledModel:
    return CompiledModel(folder / "small.everbit")


def configuration(**options: Any) -> Configuration:
    return Configuration(**{"scenario": "nc", "data": "cifar10", "model": "small.everbit", "epochs": 2, **options})


def numbers(result: dict[str, Any]) -> list[dict[str, Any]]:
    """The runs without the time they took."""
    return [{key: value for key, value in run.items() if "seconds" not in key} for run in result["runs"]]


def command(folder: Path, *options: str, cache: str = "cache") -> list[str]:
    fixed = ["--data", "cifar10", "--root", str(folder), "--model", str(folder / "small.everbit")]
    return ["experiment", "nc", *fixed, "--epochs", "2", "--cache", str(folder / cache), "--quiet", *options]


@pytest.mark.parametrize(
    "learner", ["naive", "cwr", "lr", "cumulative", "ncm", "float", "float_network", "float_latents"]
)
def test_every_learner_gives_a_whole_result(source: CompiledModel, tmp_path: Path, learner: str) -> None:
    result = run_experiment(configuration(learner=learner), tiny_dataset(), source, 2, tmp_path)
    assert result.keys() == {"configuration", "runs", "mean_final_accuracy", "std_final_accuracy"}
    finals = []
    for seed, run in enumerate(result["runs"]):
        assert run.keys() == RUN_KEYS
        assert run["seed"] == seed
        assert np.shape(run["accuracy_matrix"]) == (5, 5)
        assert run["accuracy_after"] == pytest.approx(np.mean(run["accuracy_matrix"], axis=1).tolist())
        assert run["accuracy_after"][0] <= 0.2  # eight classes are unseen, and count as wrong
        assert run["final_accuracy"] == run["accuracy_after"][-1]
        assert 0 < run["seconds_after"][0] <= run["seconds_after"][-1] <= run["seconds"]
        assert run["learner_bytes"] > run["replay_bytes"] >= 0
        finals.append(run["final_accuracy"])
    assert result["mean_final_accuracy"] == pytest.approx(np.mean(finals))
    assert result["std_final_accuracy"] == pytest.approx(np.std(finals, ddof=1))
    assert json.loads(json.dumps(result)) == result


def test_classes_are_told_apart(source: CompiledModel, tmp_path: Path) -> None:
    options = configuration(learner="cwr", epochs=5, learning_rates={"head": 0.5})
    result = run_experiment(options, tiny_dataset(), source, 1, tmp_path)
    assert result["mean_final_accuracy"] > 0.6
    assert result["std_final_accuracy"] == 0.0


@pytest.mark.parametrize("groups", [False, True])
def test_new_instances(source: CompiledModel, tmp_path: Path, groups: bool) -> None:
    options = configuration(scenario="ni", experiences=3)
    result = run_experiment(options, tiny_dataset(groups=groups), source, 1, tmp_path)
    matrix = np.array(result["runs"][0]["accuracy_matrix"])
    assert matrix.shape == (3, 3)
    np.testing.assert_array_equal(matrix, np.repeat(matrix[:, :1], 3, axis=1))
    assert result["runs"][0]["accuracy_after"] == pytest.approx(matrix[:, 0].tolist())


def test_images_come_to_the_shape_of_the_model(source: CompiledModel, tmp_path: Path) -> None:
    for dataset in (tiny_dataset(side=12), tiny_dataset(channels=1)):
        result = run_experiment(configuration(test_images_per_class=1), dataset, source, 1, tmp_path)
        assert len(result["runs"]) == 1
    with pytest.raises(ImageError, match="2 channels"):
        run_experiment(configuration(), tiny_dataset(channels=2), source, 1, tmp_path)


def test_options_change_the_numbers(source: CompiledModel, tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"images_per_class": 5},
        {"test_images_per_class": 2},
        {"epochs": 3},
        {"replay_per_class": 2},
        {"count_replayed": False},
        {"learning_rates": {"head": 0.001}},
        {"augment": True},
        {"experiences": 2},
        {"bits": Widths(8, 1, 32, 1)},
    ]
    runs = [run_experiment(configuration(**change), tiny_dataset(), source, 1, tmp_path) for change in changes]
    states = [json.dumps([run["accuracy_matrix"], run["learner_bytes"]]) for (run,) in map(numbers, runs)]
    assert len(list(tmp_path.iterdir())) == len(changes)
    assert len(set(states)) >= len(changes) - 2


def test_a_finished_run_is_taken_from_the_cache(
    source: CompiledModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run_experiment(configuration(), tiny_dataset(), source, 1, tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    with monkeypatch.context() as patch:
        patch.setattr(Learner, "partial_fit", None)
        assert run_experiment(configuration(), tiny_dataset(), source, 1, tmp_path) == first
        with pytest.raises(TypeError):
            run_experiment(configuration(), tiny_dataset(per_class=11), source, 1, tmp_path)


@pytest.mark.parametrize("learner", ["lr", "cumulative", "ncm", "float"])
@pytest.mark.parametrize("when", ["learning", "saving the learner", "saving the progress"])
def test_a_run_that_was_stopped_goes_on_as_if_never_stopped(
    source: CompiledModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, learner: str, when: str
) -> None:
    options, dataset = configuration(learner=learner, augment=True), tiny_dataset()
    (tmp_path / "whole").mkdir()
    whole = run_experiment(options, dataset, source, 2, tmp_path / "whole")
    calls = 0

    def stop_at_the_third(*_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            raise KeyboardInterrupt

    def watch(seed: int, index: int, experiences: int, fraction: float, so_far: list[float]) -> None:
        if fraction == 1 and when == "learning":
            stop_at_the_third()

    if when != "learning":
        step = "_learner_file" if when == "saving the learner" else "_write"
        original = getattr(RunCache, step)

        def interrupted(*arguments: Any) -> Any:
            stop_at_the_third()
            return original(*arguments)

        monkeypatch.setattr(RunCache, step, interrupted)
    (tmp_path / "stopped").mkdir()
    stops = 0
    while True:
        try:
            result = run_experiment(options, dataset, source, 2, tmp_path / "stopped", watch)
            break
        except KeyboardInterrupt:
            stops += 1
    assert stops >= 2
    assert numbers(result) == numbers(whole)
    assert len(list((tmp_path / "stopped").iterdir())) == 2


def test_a_killed_process_goes_on_as_if_never_stopped(folder: Path, tmp_path: Path) -> None:
    whole, resumed = tmp_path / "whole.json", tmp_path / "resumed.json"
    slow = ["--epochs", "60", "--seeds", "1"]
    arguments = [sys.executable, "-m", "everbit.cli", *command(folder, *slow, cache="killed"), "--json", str(resumed)]
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not list((folder / "killed").glob("*.partial.json")):
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert not resumed.exists()
    runner = CliRunner()
    for cache, file in (("killed", resumed), ("fresh", whole)):
        shown = runner.invoke(cli.app, command(folder, *slow, "--json", str(file), cache=cache))
        assert shown.exit_code == 0, shown.output
    assert numbers(json.loads(resumed.read_text())) == numbers(json.loads(whole.read_text()))
    assert len(list((folder / "killed").iterdir())) == 1


def test_the_command_writes_json_and_prints_a_table(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "result.json"
    runner = CliRunner()
    options = ["--seeds", "2", "--images-per-class", "6", "--learning-rate", "head=0.02", "--learning-rate", "binary=0"]
    options += ["--rounding", "stochastic"]
    written = runner.invoke(cli.app, command(folder, *options, "--json", str(out)))
    assert (written.exit_code, written.stdout) == (0, "")
    result = json.loads(out.read_text())
    assert result["configuration"]["learning_rates"].items() >= {"head": 0.02, "binary": 0.0}.items()
    assert (result["configuration"]["bits"], result["configuration"]["rounding"]) == ("8,16,16,1", "stochastic")
    assert list(out.parent.iterdir()) == [out]
    shown = runner.invoke(cli.app, command(folder, *options))
    assert shown.exit_code == 0
    assert f"{100 * result['mean_final_accuracy']:.2f}" in shown.stdout


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        (["--model", "resnet50"], "unknown model 'resnet50'"),
        (["--learner", "best"], f"choose one of {', '.join(LEARNERS)}"),
        (["--data", "imagenet"], "unknown data set 'imagenet'"),
        (["--data", "cifar100"], "cifar100_q95.npz is not in"),
        (["--bits", "8,16"], "write F,BIN,NONBIN,LATENT"),
        (["--bits", "8,16,16,2"], "do not fit the model"),
        (["--rounding", "up"], "unknown rounding 'up': choose one of nearest, stochastic"),
        (["--learning-rate", "head"], "not KIND=VALUE"),
        (["--learning-rate", "tail=1"], "no parameter is of kind 'tail'"),
        (["--cut", "stage4.block1"], "leave --cut, --image-size and --weights out"),
        (["--image-size", "48"], "leave --cut, --image-size and --weights out"),
        (["--experiences", "3"], "choose one of 1, 2, 5, 10"),
        (["--json", "{folder}"], "is a folder"),
        (["--json", "{folder}/cifar10.npz/result.json"], "cannot write to the folder"),
        (["--cache", "{folder}/cifar10.npz"], "cannot write to the folder"),
    ],
)
def test_mistakes_are_named(folder: Path, options: list[str], cause: str) -> None:
    given = [option.replace("{folder}", str(folder)) for option in options]
    shown = CliRunner().invoke(cli.app, command(folder, *given))
    assert shown.exit_code == 1, shown.output
    assert cause in " ".join(shown.stderr.split())


def test_an_unknown_scenario_is_named(folder: Path) -> None:
    arguments = command(folder)
    arguments[1] = "nx"
    shown = CliRunner().invoke(cli.app, arguments)
    assert shown.exit_code == 1
    assert "choose one of nc, ni" in shown.stderr


def test_options_out_of_range_are_refused() -> None:
    for wrong in ({"epochs": 0}, {"images_per_class": 0}, {"replay_per_class": 0}, {"learning_rates": {"head": -1.0}}):
        with pytest.raises(ConfigurationError):
            configuration(**wrong)


def test_augmentation_needs_images_that_may_be_flipped(source: CompiledModel, tmp_path: Path) -> None:
    dataset = tiny_dataset()
    object.__setattr__(dataset, "pad_crop_flip", False)
    with pytest.raises(ConfigurationError, match="must not be flipped"):
        run_experiment(configuration(augment=True), dataset, source, 1, tmp_path)


def test_a_damaged_cache_is_named(tmp_path: Path) -> None:
    cache = RunCache(tmp_path, {"a": 1})
    assert cache.result() is None
    assert cache.progress() is None
    cache.save_progress(RunProgress([[1.0]], [2.0]), Learner(small_program()))
    for path in tmp_path.glob("*.json"):
        path.write_text("{")
    with pytest.raises(FormatError, match="delete it"):
        cache.progress()
    assert RunCache(tmp_path, {"a": 2}).progress() is None


def test_a_network_of_the_zoo_is_compiled_for_each_class_order(tmp_path: Path) -> None:
    import torch

    from everbit.zoo.registry import build
    from everbit.zoo.weights import Description, save_weights

    torch.manual_seed(0)
    weights = tmp_path / "backbone.safetensors"
    facts = Description("birealnet18", 0.125, 4, "cifar", "cifar10", 1, 1, 8, 0.1, "float32", 0.25, 1.0)
    save_weights(build("birealnet18", 0.125, 4), weights, facts, drop_head=True)
    source = model_source("birealnet18", Widths(), width=0.125, weights=weights)
    cache = tmp_path / "cache"
    cache.mkdir()
    options = configuration(model="birealnet18", width=0.125, epochs=1)
    result = run_experiment(options, tiny_dataset(per_class=3), source, 1, cache)
    assert result["runs"][0]["replay_bytes"] == 300 * (4 * 4 * 64 // 8 + 2) + 10 * 4
    elsewhere = model_source("birealnet18", Widths(), width=0.125, weights=weights, cut="stage4.block2")
    assert elsewhere.digest != source.digest
    with pytest.raises(ConfigurationError, match="not birealnet18 at"):
        model_source("birealnet18", Widths(), weights=weights)
    larger = configuration(model="birealnet18", width=0.125, epochs=1, image_size=64)
    source = model_source("birealnet18", Widths(), width=0.125, weights=weights, image_size=64)
    assert source.input_shape == (64, 64, 3)
    result = run_experiment(larger, tiny_dataset(per_class=3), source, 1, cache)
    assert result["runs"][0]["replay_bytes"] == 300 * (8 * 8 * 64 // 8 + 2) + 10 * 4
    assert result["configuration"]["image_size"] == 64


def test_programs_of_one_stream_share_what_stands_before_the_cut() -> None:
    sources = [model_source("birealnet18", Widths(latent=bits)) for bits in (1, 8)]
    pixels = colored_images(1, 3, 32)[0]
    cut_network.cache_clear()
    programs = [source.program(pixels) for source in (*sources, sources[0])]
    assert cut_network.cache_info().misses == 1
    assert [program.latent_bits for program in programs] == [1, 8, 1]
    sources[0].program(pixels[1:])
    assert cut_network.cache_info().misses == 2
