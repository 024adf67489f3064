"""The CSV file and the event files of an experiment: what is in them, once, and whole."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from everbit import cli
from everbit.errors import OutputError
from everbit.experiments.logs import SCALARS, experience_rows, write_csv, write_tensorboard
from everbit.formats.model_file import save_program
from experiments.small_model import small_program

SIDE = 8
MATRIX = [[0.5, 0.0, 0.0], [0.25, 0.75, 0.0], [0.0, 0.5, 1.0]]


def result(seeds: int = 2) -> dict[str, Any]:
    runs = [
        {
            "seed": seed,
            "accuracy_after": [0.2, 0.4, 0.5],
            "accuracy_matrix": MATRIX,
            "replay_bytes": 100,
            "learner_bytes": 1000,
            "seconds_after": [1.5, 2.5, 4.0],
        }
        for seed in range(seeds)
    ]
    facts = {"scenario": "nc", "data": "cifar10", "model": "a,b.everbit", "learner": "lr", "bits": "8,16,16,1"}
    return {"configuration": facts, "runs": runs}


def test_rows_hold_the_metrics_so_far() -> None:
    rows = list(experience_rows(result()["runs"][1]))
    assert [row["experience"] for row in rows] == [0, 1, 2]
    assert [row["average_accuracy"] for row in rows] == [0.5, 0.5, 0.5]
    assert [row["forgetting"] for row in rows] == [0.0, 0.25, 0.375]
    assert [row["backward_transfer"] for row in rows] == [0.0, -0.25, -0.375]
    assert [row["accuracy"] for row in rows] == [0.2, 0.4, 0.5]
    assert [row["seconds"] for row in rows] == [1.5, 2.5, 4.0]
    assert [[row[f"accuracy_{column}"] for column in range(3)] for row in rows] == MATRIX
    assert all(row.keys() == {"seed", "experience", *SCALARS, "accuracy_0", "accuracy_1", "accuracy_2"} for row in rows)


def test_a_csv_file_has_a_row_for_each_seed_and_experience(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    for _ in range(2):
        write_csv(result(), path)
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert [(row["seed"], row["experience"]) for row in rows] == [(s, e) for s in "01" for e in "012"]
        assert {row["model"] for row in rows} == {"a,b.everbit"}
        assert float(rows[4]["accuracy_1"]) == 0.75
        assert list(tmp_path.iterdir()) == [path]


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    accumulators = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason='TensorBoard is not installed: pip install "everbit[experiments]"',
    )
    events = accumulators.EventAccumulator(str(folder))
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_event_files_hold_every_curve_once(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason='TensorBoard is not installed: pip install "everbit[experiments]"')
    for _ in range(2):
        write_tensorboard(result(), tmp_path)
        (run,) = tmp_path.iterdir()
        assert run.name.startswith("nc-cifar10-lr-")
        assert sorted(path.name for path in run.iterdir()) == ["seed0", "seed1"]
        for seed in run.iterdir():
            assert len(list(seed.iterdir())) == 1
            found = scalars(seed)
            assert found.keys() == set(SCALARS) | {f"by experience/accuracy_{column}" for column in range(3)}
            assert found["accuracy"] == [(step, pytest.approx(a)) for step, a in enumerate([0.2, 0.4, 0.5])]
            assert found["learner_bytes"] == [(step, 1000.0) for step in range(3)]
    other = result()
    other["configuration"]["learner"] = "ncm"
    write_tensorboard(other, tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason='TensorBoard is not installed: pip install "everbit[experiments]"')
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="choose another folder"):
        write_tensorboard(result(), tmp_path / "file")
    with pytest.raises(OutputError):
        write_csv(result(), tmp_path / "file" / "runs.csv")


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    save_program(small_program(SIDE, 16), tmp_path / "small.everbit")
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 10
    images = rng.integers(0, 256, (40, SIDE, SIDE, 3)).astype(np.uint8)
    arrays = {"train_images": images, "train_labels": labels, "test_images": images, "test_labels": labels}
    np.savez(tmp_path / "cifar10.npz", **arrays)
    files = ["--root", str(tmp_path), "--model", str(tmp_path / "small.everbit"), "--cache", str(tmp_path / "cache")]
    return ["experiment", "nc", *files, "--epochs", "1", "--seeds", "2", "--quiet"]


def test_the_command_writes_both(command: list[str], tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason='TensorBoard is not installed: pip install "everbit[experiments]"')
    files = {
        "--csv": tmp_path / "new" / "runs.csv",
        "--tensorboard": tmp_path / "curves",
        "--json": tmp_path / "a.json",
    }
    options = [str(word) for pair in files.items() for word in pair]
    for _ in range(2):  # the second time from the cache
        shown = CliRunner().invoke(cli.app, [*command, *options])
        assert shown.exit_code == 0, shown.output
        runs = json.loads(files["--json"].read_text())["runs"]
        with files["--csv"].open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert [float(row["accuracy"]) for row in rows] == [a for run in runs for a in run["accuracy_after"]]
        assert [float(row["seconds"]) for row in rows] == [s for run in runs for s in run["seconds_after"]]
        for run in runs:
            found = scalars(next(files["--tensorboard"].glob(f"*/seed{run['seed']}")))
            assert [value for _, value in found["accuracy"]] == pytest.approx(run["accuracy_after"])


def test_a_missing_tensorboard_is_named_before_the_work(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    shown = CliRunner().invoke(cli.app, [*command, "--tensorboard", str(tmp_path / "curves")])
    assert shown.exit_code == 1
    assert 'pip install "everbit[experiments]"' in shown.stderr
    assert not (tmp_path / "cache").exists()
