"""The commands `everbit export ...`, one for each kind of file."""

from __future__ import annotations

from typing import ClassVar

import typer

from everbit.lazy_commands import CommandTable, LazyCommands


class Exports(LazyCommands):
    """The table of kinds."""

    table: ClassVar[CommandTable] = {
        "onnx": ("everbit.formats.exporters.onnx_command", "onnx_command"),
    }


export = typer.Typer(
    name="export",
    cls=Exports,
    no_args_is_help=True,
    add_completion=False,
    help="Export a network as a file of another framework (docs/export.md).",
)


@export.callback()
def _group() -> None:
    """A group needs a callback of its own where it holds no command directly."""
