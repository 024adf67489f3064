"""The results of a sweep as a table on the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table


def sweep_table(results: list[dict[str, Any]]) -> Table:
    """A row for each configuration; accuracies are means over the class orders."""
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("data", "model", "learner", "bits"):
        table.add_column(heading, overflow="fold")
    for heading in ("a class", "final accuracy", "replay bytes"):
        table.add_column(heading, justify="right")
    for result in results:
        c, runs = result["configuration"], result["runs"]
        final = f"{result['mean_final_accuracy']:.1%}"
        spread = f" ± {100 * result['std_final_accuracy']:.1f}" if len(runs) > 1 else ""
        model = Path(c["model"]).name
        kept, replayed = str(c["replay_per_class"]), f"{runs[0]['replay_bytes']:,}"
        table.add_row(c["data"], model, c["learner"], c["bits"], kept, final + spread, replayed)
    return table
