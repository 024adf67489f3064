"""The command `everbit reproduce table1`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Group


def shown_table1(result: dict[str, Any]) -> Group:
    """The result of `table1` for the terminal; at most 100 columns."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from everbit.zoo.summary_table import shape_text

    table = Table(title=result["table"], title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=0)
    for heading in ("network", "latent", "paper", "our count, its way", "exact: binary, other, constant", ""):
        table.add_column(heading, no_wrap=True, justify="left" if heading == "network" else "right")
    for row in result["rows"]:
        paper, ours, exact = row["paper"], row["paper_convention"], row["exact"]
        table.add_row(
            row["network"],
            shape_text(row["latent_shape"]),
            f"{paper['binary']:>5} {paper['other']}",
            f"{ours['binary']:,} {ours['other']:>6,}",
            f"{exact['binary']:,} {exact['other']:>7,} {exact['constant']:>6,}",
            "[green]same[/]" if row["reproduces"] else "[red]differs[/]",
        )
    notes = [f"our count, its way: {result['conventions']['paper_convention']}."]
    notes.append(f"exact: {result['conventions']['exact']}.")
    for reason in dict.fromkeys(row["reason"] for row in result["rows"] if row["reason"]):
        notes.append(f"differs: {reason}.")
    return Group(table, Text("\n".join(notes)))


def table1_command(
    as_json: Annotated[bool, typer.Option("--json", help="Print all counts as JSON.")] = False,
) -> None:
    """Parameters behind the cut of each network (V24, Table 1): the paper's figures beside counts of our modules."""
    from everbit.experiments.table1 import table1
    from everbit.zoo.summary_table import table_console

    result = table1()
    if as_json:
        typer.echo(json.dumps(result))
        return
    table_console().print(shown_table1(result))
