"""The demo on a small model and a part of its images: what it computes, writes and refuses."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from everbit.cli import app
from everbit.data.datasets import Dataset, load
from everbit.errors import FormatError, OutputError
from everbit.experiments import demo_command
from everbit.experiments.demo import UNSEEN, DemoRun, Watcher, run_demo, start_demo
from everbit.experiments.demo_report import demo_report, memory_parts
from everbit.experiments.demo_result import demo_result
from everbit.output_folder import writable_folder
from experiments.small_model import write_small_model

LEARNERS = ["naive", "cwr", "lr_cwr"]
TIMES = ("seconds", "learning_seconds_per_image", "predicting_seconds_per_image")


def few_images(train: int = 20, test: int = 10) -> Dataset:
    """The demo's set with so many images of each class."""
    dataset = load("fashion_demo")
    first = [np.flatnonzero(dataset.train_labels == label)[:train] for label in range(10)]
    tests = [np.flatnonzero(dataset.test_labels == label)[:test] for label in range(10)]
    chosen, tested = np.sort(np.concatenate(first)), np.sort(np.concatenate(tests))
    return replace(
        dataset,
        train_images=dataset.train_images[chosen],
        train_labels=dataset.train_labels[chosen],
        test_images=dataset.test_images[tested],
        test_labels=dataset.test_labels[tested],
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def run(model: Path) -> DemoRun:
    return run_demo(start_demo(few_images(), model, seed=1, epochs=1))


@pytest.fixture(scope="module")
def result(run: DemoRun) -> dict[str, Any]:
    return json.loads(json.dumps(demo_result(run)))


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(inner) for key, inner in value.items() if key not in TIMES}
    return value


def test_result_has_the_promised_keys(result: dict[str, Any]) -> None:
    assert list(result["learners"]) == LEARNERS
    for learner in result["learners"].values():
        assert len(learner["accuracy_after"]) == 5
        assert learner["final_accuracy"] == learner["accuracy_after"][-1]
        assert all(0 <= accuracy <= 1 for accuracy in learner["accuracy_after"])
    assert isinstance(result["replay_bytes"], int)
    assert isinstance(result["learner_bytes"], int)
    assert result["seconds"] > 0


def test_a_class_not_seen_yet_counts_as_wrong(run: DemoRun, result: dict[str, Any]) -> None:
    labels = run.stream.test_labels
    for record in run.records.values():
        for index, predicted in enumerate(record.predicted):
            assert set(labels[predicted == UNSEEN]) == set(range(10)) - set(run.classes_after(index))
    for learner in result["learners"].values():
        for index, accuracy in enumerate(learner["accuracy_after"]):
            share = (index + 1) / 5
            assert accuracy == pytest.approx(share * learner["seen_accuracy_after"][index])
            assert accuracy == pytest.approx(np.mean(learner["accuracy_matrix"][index]))
            assert accuracy == pytest.approx(np.mean(learner["class_accuracy_after"][index]))
        assert np.array(learner["accuracy_matrix"])[np.triu_indices(5, 1)].max() == 0


def test_confusion_matrix_counts_the_test_images(result: dict[str, Any]) -> None:
    counts = np.array(result["confusion_matrix"]["counts"])
    assert (counts.sum(axis=1) == 10).all()
    assert np.trace(counts) / counts.sum() == pytest.approx(result["learners"]["lr_cwr"]["final_accuracy"])
    assert sorted(result["class_order"]) == sorted(load("fashion_demo").class_names)


def test_replay_bytes_are_bits_labels_and_counters(result: dict[str, Any]) -> None:
    bits, labels, counters = 300 * 8 * 8 * 64 // 8, 300 * 2, 10 * 4
    assert result["replay_bytes"] == bits + labels + counters
    assert result["latents"]["bytes"] == {"1 bit": bits, "8 bit": 8 * bits, "float32": 32 * bits}
    for learner in result["learners"].values():
        assert sum(memory_parts(learner["memory"]).values()) == learner["memory"]["total"]
    assert result["learner_bytes"] == result["learners"]["lr_cwr"]["memory"]["total"]


def test_the_same_seed_gives_the_same_bits(model: Path, result: dict[str, Any]) -> None:
    again = json.loads(json.dumps(demo_result(run_demo(start_demo(few_images(), model, seed=1, epochs=1)))))
    assert without_times(again) == without_times(result)
    other = demo_result(run_demo(start_demo(few_images(), model, seed=2, epochs=1)))
    assert other["learners"]["lr_cwr"]["state_sha256"] != result["learners"]["lr_cwr"]["state_sha256"]


def test_images_are_brought_to_the_size_of_the_model(tmp_path: Path) -> None:
    run = start_demo(few_images(2, 1), write_small_model(tmp_path, side=16))
    assert run.stream.train_stream[0].images.shape == (4, 16, 16, 3)
    assert run.stream.test_images.shape == (10, 16, 16, 3)


def test_report_needs_nothing_but_itself(run: DemoRun, result: dict[str, Any]) -> None:
    report = demo_report(result, run.stream)
    assert "http" not in report
    assert "<script" not in report
    assert "url(" not in report
    assert "@import" not in report
    assert re.findall(r"<link|<iframe|<object", report) == []
    sources = re.findall(r'(?:src|href)="([^"]*)"', report)
    assert len(sources) == 10
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    for name in run.stream.class_names:
        assert name in report
    for learner in result["learners"].values():
        assert f"{100 * learner['final_accuracy']:.1f}%" in report


def test_a_name_with_markup_is_escaped(run: DemoRun, result: dict[str, Any]) -> None:
    names = ["<b>bag</b>", *result["class_order"][1:]]
    assert "<b>bag" not in demo_report({**result, "class_order": names}, run.stream)


def test_command_writes_both_files(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("everbit.data.datasets.load", lambda name: few_images(4, 2))
    arguments = ["demo", "--model", str(model), "--out", str(tmp_path / "new" / "demo"), "--epochs", "1"]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    assert "After experience 5" in shown.output
    assert sorted(path.name for path in (tmp_path / "new" / "demo").iterdir()) == ["report.html", "result.json"]
    written = (tmp_path / "new" / "demo" / "result.json").read_text()

    quiet = CliRunner().invoke(app, [*arguments, "--json", "--quiet"])
    assert without_times(json.loads(quiet.output)) == without_times(json.loads(written))


def test_unwritable_output_is_told_before_work(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("everbit.experiments.demo.run_demo", lambda *_: pytest.fail("work has started"))
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot write to the folder"):
        demo_command.demo_command(tmp_path / "file" / "demo", str(model))
    (tmp_path / "demo" / "result.json").mkdir(parents=True)
    with pytest.raises(OutputError, match="is a folder"):
        writable_folder(tmp_path / "demo", ("result.json",))


def test_unknown_model(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no_such_model"):
        start_demo(few_images(2, 1), "no_such_model")
    with pytest.raises(FormatError, match="no_such_model"):
        demo_command.demo_command(tmp_path / "demo", "no_such_model")
    assert not list(tmp_path.iterdir())


def test_a_failing_run_leaves_no_file(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(self: Watcher, *_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("everbit.experiments.demo_display.DemoDisplay.learned", stop)
    stopped = CliRunner().invoke(app, ["demo", "--model", str(model), "--out", str(tmp_path / "demo"), "--epochs", "1"])
    assert stopped.exit_code == 130
    assert list((tmp_path / "demo").iterdir()) == []
