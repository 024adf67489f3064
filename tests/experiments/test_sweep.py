"""Sweeps on tiny data and models: every run once, whatever dies, the same numbers wherever they are made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from everbit.cli import app
from everbit.errors import ConfigurationError, DataError
from everbit.experiments.configuration import Configuration
from everbit.experiments.executors import LocalProcesses, RayCluster
from everbit.experiments.experiment import run_experiment
from everbit.experiments.models import CompiledModel
from everbit.experiments.run_cache import RunCache
from everbit.experiments.sweep import Job, sweep, sweep_configurations
from experiments.dying_job import DyingJob
from experiments.test_experiment import numbers, tiny_dataset, tiny_folder

SEEDS = range(2)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and a data set."""
    return tiny_folder(tmp_path_factory.mktemp("sweep"))


def configurations(root: Path, **options: Any) -> list[Configuration]:
    common = {"scenario": "nc", "data": "cifar10", "model": str(root / "small.everbit"), "epochs": 2, **options}
    return [Configuration(**common), Configuration(**common, learner="cwr")]


@pytest.fixture(scope="module")
def expected(root: Path, tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """The runs as one process makes them."""
    source, cache = CompiledModel(root / "small.everbit"), tmp_path_factory.mktemp("cache")
    results = [run_experiment(c, tiny_dataset(), source, len(SEEDS), cache) for c in configurations(root)]
    return [numbers(result) for result in results]


def test_processes_give_what_one_gives(root: Path, tmp_path: Path, expected: list[list[dict[str, Any]]]) -> None:
    seen = []
    results = sweep_configurations(
        configurations(root), SEEDS, LocalProcesses(2), tmp_path, root=root, finished=lambda job, run: seen.append(job)
    )
    assert [numbers(result) for result in results] == expected
    assert len(seen) == len({job.key for job in seen}) == 4
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json"] * 4


def test_what_a_lost_process_was_at_is_done_again(
    root: Path, tmp_path: Path, expected: list[list[dict[str, Any]]]
) -> None:
    jobs = [Job(c, seed, root) for c in configurations(root) for seed in SEEDS]
    dying = DyingJob(jobs[1], tmp_path / "died")
    seen: list[str] = []
    runs = sweep(
        [jobs[0], dying, *jobs[2:]],  # type: ignore[list-item]
        LocalProcesses(2),
        tmp_path,
        lambda job, run: seen.append(job.key),
    )
    assert dying.mark.exists()
    assert numbers({"runs": runs}) == expected[0] + expected[1]
    assert len(seen) == len(set(seen)) == 4


def test_a_sweep_goes_on_after_a_kill(root: Path, tmp_path: Path, expected: list[list[dict[str, Any]]]) -> None:
    fixed = ["--data", "cifar10", "--root", str(root), "--model", str(root / "small.everbit"), "--epochs", "2"]
    swept = ["--learner", "lr", "--learner", "cwr", "--seeds", "2"]
    options = [*swept, "--cache", str(tmp_path / "runs"), "--workers", "1"]
    command = [sys.executable, "-m", "everbit.cli", "sweep", "nc", *fixed, *options, "--json", str(tmp_path / "r.json")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list((tmp_path / "runs").glob("*.json")):
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    first = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*[!l].json")}
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert shown.stdout.count("8,16,16,1") == 2
    results = json.loads((tmp_path / "r.json").read_text())
    assert [numbers(result) for result in results] == expected
    finished = {path: time_ns for path, time_ns in first.items() if not path.name.endswith(".partial.json")}
    assert all(path.stat().st_mtime_ns == time_ns for path, time_ns in finished.items())


def test_the_base_install_sweeps(root: Path, tmp_path: Path) -> None:
    """Without PyTorch, whose place here takes a module that is not to be found."""
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(name='torch')")
    command = [sys.executable, "-m", "everbit.cli", "sweep", "nc", "--data", "cifar10", "--root", str(root)]
    command += ["--model", str(root / "small.everbit"), "--epochs", "1", "--seeds", "1", "--workers", "1"]
    command += ["--cache", str(tmp_path / "runs"), "--quiet"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    shown = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (shown.returncode, shown.stderr) == (0, "")


def test_processes_that_cannot_begin_are_not_taken_for_a_lack_of_memory(root: Path, tmp_path: Path) -> None:
    """Here for a script that each of them runs again."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys; from everbit.cli import app\n"
        f"app(['sweep', 'nc', '--data', 'cifar10', '--root', {str(root)!r}, '--model', "
        f"{str(root / 'small.everbit')!r}, '--seeds', '1', '--workers', '1', '--cache', {str(tmp_path / 'runs')!r}])"
    )
    shown = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert shown.returncode == 1
    for cause in ("take fewer --workers", 'needs `if __name__ == "__main__":`'):
        assert cause in shown.stderr.splitlines()[-1]


def test_options_reach_every_configuration(root: Path, tmp_path: Path) -> None:
    command = ["sweep", "nc", "--data", "cifar10", "--root", str(root), "--model", str(root / "small.everbit")]
    command += ["--seeds", "1", "--workers", "1", "--cache", str(tmp_path / "runs"), "--quiet"]
    swept = ["--learner", "lr", "--learner", "cwr", "--preset", "accurate", "--epochs", "1"]
    swept += ["--learning-rate", "head=0.5", "--experiences", "2", "--count-new"]
    shown = CliRunner().invoke(app, [*command, *swept, "--json", str(tmp_path / "r.json")])
    assert shown.exit_code == 0, shown.output
    found = [result["configuration"] for result in json.loads((tmp_path / "r.json").read_text())]
    assert [(c["learner"], c["epochs"], c["shared_replay"]) for c in found] == [("lr", 1, True), ("cwr", 1, True)]
    assert all(c["learning_rates"]["head"] == 0.5 and not c["count_replayed"] for c in found)
    assert all(c["experiences"] == 2 for c in found)
    assert CliRunner().invoke(app, [*command, "--cut", "block1"]).exit_code == 1


def test_mistakes_reach_the_user(root: Path, tmp_path: Path) -> None:
    job = Job(configurations(root)[0], 0, tmp_path / "nowhere")
    with pytest.raises(DataError, match="nowhere"):
        sweep([job], LocalProcesses(1), tmp_path)
    shown = CliRunner().invoke(app, ["sweep", "nc", "--data", "cifar10", "--model", "none", "--cache", str(tmp_path)])
    assert shown.exit_code == 1
    assert "unknown model 'none'" in shown.stderr


def test_two_processes_never_work_on_one_run(tmp_path: Path) -> None:
    """The second waits for the first one's result."""
    program = (
        "import sys, time; from pathlib import Path; from everbit.experiments.run_cache import RunCache\n"
        "cache = RunCache(Path(sys.argv[1]), {'a': 1})\n"
        "with cache.locked():\n"
        "    found = cache.result()\n"
        "    if found is None:\n"
        "        time.sleep(0.5); cache.finish({'by': sys.argv[2]})\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path), str(n)]) for n in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert RunCache(tmp_path, {"a": 1}).result() is not None
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(find_spec("ray") is None, reason='Ray is not installed: pip install "everbit[ray]"')
def test_ray_gives_what_one_process_gives(root: Path, tmp_path: Path, expected: list[list[dict[str, Any]]]) -> None:
    for turn in range(2):  # the second takes all from the cache
        results = sweep_configurations(configurations(root), SEEDS, RayCluster("local"), tmp_path, root=root)
        assert [numbers(result) for result in results] == expected, turn
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json"] * 4
    with pytest.raises(DataError, match="nowhere"):
        sweep([Job(configurations(root)[0], 0, tmp_path / "nowhere")], RayCluster("local"), tmp_path)
    with pytest.raises(ConfigurationError, match="no Ray cluster answers"):
        sweep([Job(configurations(root)[0], 0, root)], RayCluster("127.0.0.1:1"), tmp_path)
