"""`everbit bench`: the fields of its JSON, what it says where something is missing, and its errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from everbit import cli, engine
from everbit.benchmarks import bench_command, training_memory, training_step
from everbit.benchmarks.goals import GOALS
from everbit.benchmarks.measurements import MEASUREMENTS
from everbit.zoo.memory.measure import can_measure

PROMISED = {
    "xnor_gemm_fraction_of_limit",
    "conv3x3_56x56x64_speedup_vs_torch_fp32",
    "learn_step_speedup_vs_torch_fp32",
    "frozen_forward_speedup_vs_torch_fp32",
    "threads_2_over_1",
    "learner_peak_bytes",
    "planned_bytes",
    "learner_peak_over_planned",
    "learner_heap_growth_bytes",
    "learn_step_cost_vs_classes",
    "learn_step_cost_vs_experiences",
}
FOREIGN = {"quicknet_speedup_vs_lce", "quicknet_speedup_vs_litert_int8_mobilenetv2", "table2_speedup"}
"""Figures that need programs and networks of others."""
OF_TRAINING = {field for measurement in MEASUREMENTS.values() if measurement.training for field in measurement.fields}


def bench(folder: Path, *arguments: str) -> dict[str, Any]:
    """Runs the command with the fewest repeats and reads what it wrote."""
    path = folder / "made" / "bench.json"
    shown = CliRunner().invoke(cli.app, ["bench", *arguments, "--repeats", "3", "--json", str(path)])
    assert shown.exit_code == 0, shown.output
    result: dict[str, Any] = json.loads(path.read_text())
    return result


@pytest.mark.usefixtures("small_measurements")
def test_engine_measures_everything(tmp_path: Path) -> None:
    result = bench(tmp_path, "engine")
    assert set(result) >= PROMISED
    assert set(result["learn_step_speedup_vs_torch_fp32"]) == {"q16", "q8", "qbin1"}
    assert set(result["goals"]) == {name for name in GOALS if name.split(".")[0] not in FOREIGN | OF_TRAINING}
    assert result["machine"]["isa"] == engine.active_isa()
    assert result["machine"]["versions"]["torch"]
    assert (result["repeats"], result["threads"], result["clock"]) == (3, 1, "processor time")
    assert {name for name in PROMISED if result[name] is None} == set(result["missing"])
    assert set(result["missing"]) <= {"threads_2_over_1"}


@pytest.mark.usefixtures("small_measurements")
def test_peers_measures_what_has_a_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERBIT_DATA", str(tmp_path))
    result = bench(tmp_path, "peers")
    assert {field for field in PROMISED if field in result} == {field for field in PROMISED if "vs_torch" in field}
    assert not OF_TRAINING & set(result)
    assert set(result["missing"]) == FOREIGN
    for reason in result["missing"].values():
        assert any(part in reason for part in (str(tmp_path), "everbit[peers]"))


@pytest.mark.skipif(not can_measure(), reason="this system does not tell a process's peak memory")
def test_training_measures_memory_and_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_memory, "TRAINED", {"mlp_b100": ("mlp", 100, "adam")})
    monkeypatch.setattr(training_step, "BATCH", 2)
    result = bench(tmp_path, "training")
    memory = result["mlp_b100"]
    assert memory["measured_reduction"] == pytest.approx(memory["standard_peak_mib"] / memory["peak_mib"])
    assert memory["measured_reduction"] > 1.5
    assert memory["plan_error"] < 0.5
    step = result["training_step"]["milliseconds"]
    ratio = step["torch"]["median"] / step["everbit"]["median"]
    assert result["binarynet_b100_step_speedup_vs_torch_standard"] == pytest.approx(ratio, rel=1e-3)
    prototype = training_step.PROTOTYPE_SECONDS / (step["everbit"]["median"] / 1000)
    assert result["binarynet_b100_step_speedup_vs_w23_prototype"] == pytest.approx(prototype, rel=1e-3)


def test_networks_of_others(tmp_path: Path, research_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every figure is there, or the reason why not."""
    monkeypatch.setenv("EVERBIT_DATA", str(research_data))
    for name in ("quicknet_forward", "table2"):
        result = bench(tmp_path, "peers", "--only", name)
        for field in MEASUREMENTS[name].fields:
            assert (result[field] or 0) > 0 or field in result["missing"]


@pytest.mark.usefixtures("small_measurements")
def test_on_two_threads(tmp_path: Path) -> None:
    result = bench(tmp_path, "peers", "--only", "binary_convolution", "--threads", "2")
    assert result["conv3x3_56x56x64_speedup_vs_torch_fp32"] > 0
    assert (result["threads"], result["clock"]) == (2, "wall time")


@pytest.mark.usefixtures("small_measurements")
def test_one_measurement_alone(tmp_path: Path) -> None:
    result = bench(tmp_path, "engine", "--only", "learner_memory")
    assert result["learner_peak_bytes"] == result["planned_bytes"]
    assert result["learner_heap_growth_bytes"] in (0, None)
    assert all(detail["same_state_in_both_colors"] for detail in result["learner_memory"].values())
    assert set(result["goals"]) == {"learner_peak_over_planned", "learner_heap_growth_bytes"}
    assert "xnor_gemm_fraction_of_limit" not in result


@pytest.mark.usefixtures("small_measurements")
@pytest.mark.parametrize("isa", engine.available_isas())
def test_the_limit_of_every_instruction_set(isa: str, tmp_path: Path) -> None:
    before = engine.active_isa()
    engine.select_isa(isa)
    try:
        result = bench(tmp_path, "engine", "--only", "xnor_gemm")
    finally:
        engine.select_isa(before)
    assert (result["xnor_gemm_fraction_of_limit"] is None) == ("xnor_gemm_fraction_of_limit" in result["missing"])


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from everbit.benchmarks import learner_memory
learner_memory.IMAGES, learner_memory.EXPERIENCES = 64, 2
from everbit.cli import main
main()
"""


@pytest.mark.parametrize("command", ["engine", "peers"])
def test_without_torch(command: str, tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    chosen = {"engine": ["learn_step", "thread_scaling", "learner_memory"], "peers": ["learn_step"]}[command]
    only = [argument for name in chosen for argument in ("--only", name)]
    shown = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, "bench", command, *only, "--json", str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    result = json.loads(path.read_text())
    reason = 'needs PyTorch: pip install "everbit[train]"'
    expected = {field: reason for name in chosen if name != "learner_memory" for field in MEASUREMENTS[name].fields}
    assert result["missing"] == expected
    assert all(result[field] is None for field in expected)
    assert f"learn_step_speedup_vs_torch_fp32: {reason}" in shown.stderr
    assert ("PyTorch" in str(result.get("absent_peers"))) == (command == "peers")
    assert (result.get("learner_peak_over_planned") == 1) == (command == "engine")


@pytest.mark.parametrize("command", ["engine", "peers", "training"])
def test_help_lists_what_the_command_measures(command: str) -> None:
    """As the error for an unknown name does."""
    refused = CliRunner().invoke(cli.app, ["bench", command, "--only", "speed"])
    names = refused.stderr.split("choose one of ")[1].strip()
    (only,) = (o for o in typer.main.get_command(bench_command.bench).commands[command].params if o.name == "only")
    assert only.help == f"One of {names}. Run it alone; may be repeated."


@pytest.mark.parametrize("command", ["engine", "peers", "training"])
@pytest.mark.parametrize(
    ("arguments", "code", "cause"),
    [
        (["--only", "speed"], 1, "unknown measurement 'speed': choose one of"),
        (["--json", "{file}/bench.json"], 1, "cannot write to the folder"),
        (["--json", "{folder}"], 1, "is a folder"),
        (["--repeats", "2"], 2, "Invalid value for '--repeats'"),
        (["--threads", "0"], 2, "Invalid value for '--threads'"),
    ],
)
def test_a_mistake_is_found_before_anything_runs(
    command: str, arguments: list[str], code: int, cause: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    filled = [part.format(file=tmp_path / "file", folder=tmp_path) for part in arguments]
    shown = CliRunner().invoke(cli.app, ["bench", command, *filled])
    assert shown.exit_code == code
    assert cause in shown.output
    assert "measuring" not in shown.output
