import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from everbit.cli import app
from everbit.zoo.memory.measure import TrainingRun, can_measure, measure

runner = CliRunner()
needs_peaks = pytest.mark.skipif(not can_measure(), reason="this system does not tell a process's peak memory")


def report(*options: str) -> dict[str, object]:
    result = runner.invoke(app, ["memory", *options, "--json"])
    assert result.exit_code == 0, result.output
    found: dict[str, object] = json.loads(result.output)
    return found


def test_counts_and_plan() -> None:
    found = report("cnv", "--batch", "50", "--optimizer", "sgd", "--width", "0.5")
    assert (found["model"], found["batch"], found["optimizer"], found["width"]) == ("cnv", 50, "sgd", 0.5)
    planned = found["planned"]
    assert isinstance(planned, dict)
    assert planned["total"] == sum(size for name, size in planned.items() if name != "total")
    assert "measured" not in found


def test_the_table_names_every_variable() -> None:
    result = runner.invoke(app, ["memory", "binarynet", "--batch", "100"])
    assert result.exit_code == 0, result.output
    for text in ("standard", "proposed", "111.33", "3.48", "87.50", "estimator masks", "total"):
        assert text in result.output


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["nonet"], "nonet"),
        (["cnv", "--optimizer", "lion"], "choose one of adam, sgd, bop"),
        (["mobilenet_v1"], "no binary layer"),
        (["cnv", "--precision", "int8"], "bfloat16"),
        (["cnv", "--stem", "imagenet"], "cifar"),
    ],
)
def test_mistakes(options: list[str], says: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "everbit.cli", "memory", *options], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert says in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


@needs_peaks
def test_measured_in_a_process_of_its_own() -> None:
    found = report("cnv", "--batch", "50", "--measure")
    measured, share, reduction = found["measured"], found["planned_over_measured"], found["measured_reduction"]
    assert isinstance(measured, dict)
    assert isinstance(share, float)
    assert isinstance(reduction, float)
    assert measured["seconds"] > 0
    assert 0.8 < share < 1.1  # `everbit bench training` holds it closer, on a quiet machine
    assert reduction > 3


@needs_peaks
def test_what_goes_wrong_in_that_process_is_told() -> None:
    from everbit.errors import EverbitError

    with pytest.raises(EverbitError, match="failed"):
        measure(TrainingRun("nonet", 1))
