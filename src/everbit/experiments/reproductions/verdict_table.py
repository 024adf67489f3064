"""The verdicts on a reproduction as a table on the terminal."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.table import Table

HOLDS = {True: "[green]holds[/]", False: "[red]fails[/]"}


def verdict_table(content: dict[str, Any]) -> Table:
    """content: of a reproduction's JSON."""
    table = Table(title=f"{content['name']}: {content['title']}", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("the claim", overflow="fold")
    table.add_column("ours", overflow="fold")
    table.add_column("")
    table.add_column("by", justify="right", no_wrap=True)
    for verdict in content["verdicts"]:
        by = f"{verdict['margin']:+.1f} {verdict['unit']}" if verdict["margin"] else ""
        table.add_row(verdict["claim"], verdict["ours"], HOLDS[verdict["holds"]], by)
    return table
