"""The result of an experiment as other tools read it: a CSV file, and TensorBoard's event files.

Both are written from the whole result, so that a run which was stopped and resumed is in them once.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from everbit.errors import OutputError
from everbit.experiments.metrics import average_accuracy, backward_transfer, forgetting
from everbit.whole_file import replacing

SCALARS = (
    "accuracy",
    "average_accuracy",
    "forgetting",
    "backward_transfer",
    "seconds",
    "replay_bytes",
    "learner_bytes",
)
"""What is logged after each experience: accuracy on the whole test set, the metrics of everbit.experiments.metrics over
the experiences so far, seconds since the run began, bytes at the end of the run. `accuracy_J`, on the classes of
experience J, comes on top."""


def experience_rows(run: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One row after each experience of a run: seed, experience from 0, SCALARS, and a row of the accuracy matrix."""
    matrix = run["accuracy_matrix"]
    for index in range(len(matrix)):
        so_far = matrix[: index + 1]
        yield {
            "seed": run["seed"],
            "experience": index,
            "accuracy": run["accuracy_after"][index],
            "average_accuracy": average_accuracy(so_far),
            "forgetting": forgetting(so_far),
            "backward_transfer": backward_transfer(so_far),
            "seconds": run["seconds_after"][index],
            "replay_bytes": run["replay_bytes"],
            "learner_bytes": run["learner_bytes"],
            **{f"accuracy_{column}": accuracy for column, accuracy in enumerate(matrix[index])},
        }


def write_csv(result: dict[str, Any], path: Path) -> None:
    """A row for each seed and experience, accuracies as fractions. Raises OutputError where it cannot be written."""
    configuration = result["configuration"]
    named = {name: configuration[name] for name in ("scenario", "data", "model", "learner", "bits")}
    rows = [{**named, **row} for run in result["runs"] for row in experience_rows(run)]
    with replacing(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def require_tensorboard() -> None:
    """Raises ModuleNotFoundError where what writes event files is not installed: before the work, not after it."""
    import torch.utils.tensorboard  # noqa: F401


def write_tensorboard(result: dict[str, Any], folder: Path) -> None:
    """Curves over the experiences, one run `NAME/seed S` for each seed; NAME tells the configuration.

    What an earlier call wrote of the same configuration is replaced. Raises OutputError where it cannot be written.
    """
    configuration = result["configuration"]
    digest = hashlib.sha256(json.dumps(configuration, sort_keys=True).encode()).hexdigest()[:8]
    name = "{scenario}-{data}-{learner}-".format(**configuration) + digest
    for run in result["runs"]:
        target = folder / name / f"seed{run['seed']}"
        partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
        try:
            _write_events(run, partial)
            shutil.rmtree(target, ignore_errors=True)
            partial.rename(target)
        except OSError as error:
            raise OutputError(f"cannot write {target} ({error}): free space, or choose another folder") from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _write_events(run: dict[str, Any], folder: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder)) as writer:
        for row in experience_rows(run):
            for name, value in row.items():
                if name not in ("seed", "experience"):
                    tag = f"by experience/{name}" if name not in SCALARS else name
                    writer.add_scalar(tag, value, row["experience"])
