"""A result as a table in the terminal."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.table import Table

VERDICTS = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}


def result_table(result: dict[str, Any]) -> Table:
    """Name, value, goal and whether it holds, of every figure that was asked for."""
    machine, threads = result["machine"], result["threads"]
    conditions = f"{machine['isa']}, {threads} {'thread' if threads == 1 else 'threads'}, median of {result['repeats']}"
    table = Table(title=machine["cpu"], caption=conditions, box=box.SIMPLE)
    table.add_column("measured", overflow="fold")
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("goal", justify="right", no_wrap=True)
    table.add_column("holds", no_wrap=True)
    for name, judged in result["goals"].items():
        value = "-" if judged["value"] is None else f"{judged['value']:.4g}"
        table.add_row(name, value, judged["goal"], VERDICTS[judged["holds"]])
    return table
