"""The commands `everbit reproduce ...`, one for each table or figure of the papers."""

from __future__ import annotations

from typing import ClassVar

import typer

from everbit.lazy_commands import CommandTable, LazyCommands


class Reproductions(LazyCommands):
    """The table of reproductions."""

    table: ClassVar[CommandTable] = {
        "table1": ("everbit.experiments.table1_command", "table1_command"),
    }


reproduce = typer.Typer(
    name="reproduce",
    cls=Reproductions,
    no_args_is_help=True,
    add_completion=False,
    help="Reproduce the papers' tables and figures (docs/method.md).",
)


@reproduce.callback()
def _group() -> None:
    """A group needs a callback of its own where it holds no command directly."""
