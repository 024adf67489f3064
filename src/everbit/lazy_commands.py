"""Groups of commands that are imported when they are asked for, so that one does not pay for the others."""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup

CommandTable = dict[str, tuple[str, str]]
"""Module of each command, and its function or group of commands there."""


class LazyCommands(TyperGroup):
    """Finds the commands of `table` by name."""

    table: ClassVar[CommandTable] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.table:
            return None
        module, name = self.table[cmd_name]
        command = getattr(import_module(module), name)
        if not isinstance(command, typer.Typer):
            app = typer.Typer(add_completion=False)
            app.command(cmd_name)(command)
            command = app
        return _with_whole_lines(typer.main.get_command(command))


def _with_whole_lines(command: Any) -> Any:
    """The command, each paragraph of its help on one line: the terminal breaks it where it ends, not the docstring."""
    paragraphs = (command.help or "").split("\n\n")
    command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    for each in getattr(command, "commands", {}).values():
        _with_whole_lines(each)
    return command


def lazy_group(name: str, commands: CommandTable, summary: str) -> typer.Typer:
    """The group of commands `everbit NAME ...`."""
    cls = type(f"{name.capitalize()}Commands", (LazyCommands,), {"table": commands})
    group = typer.Typer(name=name, cls=cls, no_args_is_help=True, add_completion=False, help=summary)

    @group.callback()
    def _group() -> None:
        """A group needs a callback of its own where it holds no command directly."""

    return group
