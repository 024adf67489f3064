"""The command line: help without torch, clean errors, exit codes."""

from __future__ import annotations

import signal
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from everbit import __version__, cli
from everbit.errors import DataError

WITHOUT_TORCH = """
import sys
from everbit.cli import main
try:
    main()
finally:
    heavy = {"torch", "matplotlib"} & set(sys.modules)
    assert not heavy, heavy
"""


def everbit(*arguments: str, code: str = "from everbit.cli import main; main()") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([name, "--help"] for name in cli.COMMANDS)])
def test_help_imports_no_torch(arguments: list[str]) -> None:
    shown = everbit(*arguments, code=WITHOUT_TORCH)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout


def test_help_names_every_command() -> None:
    shown = CliRunner().invoke(cli.app, ["--help"])
    assert all(name in shown.output for name in cli.COMMANDS)


def _commands(group: Any) -> Iterator[Any]:
    """All commands of a group, those of its groups too."""
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        yield command
        if hasattr(command, "list_commands"):
            yield from _commands(command)


@pytest.mark.parametrize("command", [*_commands(typer.main.get_command(cli.app))], ids=lambda command: command.name)
def test_help_breaks_lines_where_the_terminal_ends(command: Any) -> None:
    assert command.help
    assert not any("\n" in paragraph for paragraph in command.help.split("\n\n"))


def test_one_sentence_says_where_data_sets_lie() -> None:
    options = (option for command in _commands(typer.main.get_command(cli.app)) for option in command.params)
    sentences = [option.help for option in options if option.name == "root"]
    assert len(sentences) > 8
    assert set(sentences) == {"Folder of the data sets; default EVERBIT_DATA, else ./data."}


def test_version() -> None:
    assert CliRunner().invoke(cli.app, ["--version"]).output == f"everbit {__version__}\n"


def test_unknown_command_is_a_usage_error() -> None:
    shown = everbit("learn")
    assert shown.returncode == 2
    assert "No such command 'learn'" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["demo", "--model", "no_such_model"], "cannot read the model file no_such_model"),
        (["demo", "--out", "{file}/demo"], "cannot write to the folder"),
        (["pretrain", "--data", "no_such_set"], "unknown data set 'no_such_set'"),
    ],
)
def test_a_mistake_is_one_message(arguments: list[str], cause: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    shown = everbit(*(part.format(file=tmp_path / "file") for part in arguments), *_output(arguments, tmp_path))
    assert shown.returncode == 1
    assert shown.stdout == ""
    assert shown.stderr.startswith("Error: ")
    assert cause in shown.stderr
    assert shown.stderr.count("\n") == 1


def _output(arguments: list[str], folder: Path) -> list[str]:
    """Where a command writes, unless the arguments say so."""
    return ["--out", str(folder / "out")] if "--out" not in arguments else []


def test_square_brackets_in_a_message_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def command() -> None:
        raise DataError("the shape is [3, 4], not [red]")

    _mount(monkeypatch, command)
    shown = CliRunner().invoke(cli.app, ["mounted"])
    assert (shown.exit_code, shown.output) == (1, "Error: the shape is [3, 4], not [red]\n")


@pytest.mark.parametrize(("package", "extra"), [("torch", "train"), ("matplotlib", "experiments")])
def test_a_missing_package_names_the_extra(package: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    _mount(monkeypatch, lambda: __import__(package))
    shown = CliRunner().invoke(cli.app, ["mounted"])
    assert shown.exit_code == 1
    assert f'pip install "everbit[{extra}]"' in shown.output


def test_other_missing_modules_are_bugs(monkeypatch: pytest.MonkeyPatch) -> None:
    _mount(monkeypatch, lambda: __import__("no_such_module"))
    assert isinstance(CliRunner().invoke(cli.app, ["mounted"]).exception, ModuleNotFoundError)


def _mount(monkeypatch: pytest.MonkeyPatch, command: object) -> None:
    """Makes a function the command `mounted`."""
    module = types.ModuleType("mounted_command")
    module.command = command  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mounted_command", module)
    monkeypatch.setitem(cli.COMMANDS, "mounted", ("mounted_command", "command"))


def _heed_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_interrupted_by_the_user(tmp_path: Path) -> None:
    """With the packaged model: a small one might be done before the signal arrives."""
    out = tmp_path / "demo"
    command = [sys.executable, "-m", "everbit.cli", "demo", "--out", str(out)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # Whoever runs the tests in the background may ignore Ctrl-C, which a child would inherit.
    with subprocess.Popen(command, text=True, preexec_fn=_heed_ctrl_c, **pipes) as process:
        assert process.stdout is not None
        assert "After experience 1" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert errors == "Stopped: by Ctrl-C; files written so far are whole and stay where they are\n"
    assert list(out.iterdir()) == []
