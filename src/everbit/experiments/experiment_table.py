"""The result of an experiment as a table on the terminal."""

from __future__ import annotations

from typing import Any

from rich.table import Table

_COLUMNS = {
    "final_accuracy": "final",
    "average_accuracy": "average",
    "forgetting": "forgetting",
    "backward_transfer": "BWT",
}


def experiment_table(result: dict[str, Any]) -> Table:
    """A row for each seed, accuracies in percent, and what they come to on average."""
    configuration, runs = result["configuration"], result["runs"]
    title = "{scenario} {data}, {learner}, {model}, bits {bits}".format(**configuration)
    mean, deviation = 100 * result["mean_final_accuracy"], 100 * result["std_final_accuracy"]
    seeds = f"{len(runs)} class order{'s' * (len(runs) > 1)}"
    table = Table(title=title, caption=f"final accuracy {mean:.2f} +- {deviation:.2f}% over {seeds}")
    table.add_column("seed", justify="right")
    table.add_column("after each experience")
    for name in (*_COLUMNS.values(), "replay bytes", "seconds"):
        table.add_column(name, justify="right")
    for run in runs:
        after = " ".join(f"{100 * accuracy:.1f}" for accuracy in run["accuracy_after"])
        values = (f"{100 * run[name]:.2f}" for name in _COLUMNS)
        table.add_row(str(run["seed"]), after, *values, f"{run['replay_bytes']:,}", f"{run['seconds']:.0f}")
    return table
