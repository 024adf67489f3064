"""The command line: `everbit COMMAND`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from everbit.errors import EverbitError
from everbit.lazy_commands import CommandTable, LazyCommands

COMMANDS: CommandTable = {
    "demo": ("everbit.experiments.demo_command", "demo_command"),
    "experiment": ("everbit.experiments.experiment_command", "experiment_command"),
    "data": ("everbit.data.data_command", "data"),
    "sweep": ("everbit.experiments.sweep_command", "sweep_command"),
    "pretrain": ("everbit.zoo.pretrain_command", "pretrain_command"),
    "compile": ("everbit.compile.compile_command", "compile_command"),
    "evaluate": ("everbit.learner.evaluate_command", "evaluate_command"),
    "import": ("everbit.formats.import_command", "import_command"),
    "export": ("everbit.formats.exporters.export_command", "export"),
    "zoo": ("everbit.zoo.zoo_command", "zoo_command"),
    "memory": ("everbit.zoo.memory.memory_command", "memory_command"),
    "summary": ("everbit.zoo.summary_command", "summary_command"),
    "plan": ("everbit.plan.plan_command", "plan_command"),
    "reproduce": ("everbit.experiments.reproduce_command", "reproduce_command"),
    "bench": ("everbit.benchmarks.bench_command", "bench"),
}
"""Module of each command, and its function or group of commands there; imported when it is asked for, so that one does
not pay for the others."""

EXTRAS = {
    "torch": "train",
    "matplotlib": "experiments",
    "ray": "ray",
    "tensorboard": "experiments",
    "avalanche": "avalanche",
    "h5py": "import",
    "flatbuffers": "import",
    "tflite": "import",
    "onnx": "export",
    "datasets": "data",
}
"""The extra that brings a package which the base install does without."""


class Commands(LazyCommands):
    """The commands; turns what went wrong in one into a message and an exit code."""

    table = COMMANDS

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _complain("Stopped", "by Ctrl-C; files written so far are whole and stay where they are")
            raise typer.Exit(130) from None
        except EverbitError as error:
            _complain("Error", str(error))
            raise typer.Exit(1) from error
        except ModuleNotFoundError as error:
            extra = EXTRAS.get((error.name or "").partition(".")[0])
            if extra is None:
                raise
            _complain("Error", f'this needs {error.name}, which is not installed: pip install "everbit[{extra}]"')
            raise typer.Exit(1) from error


def _complain(what: str, message: str) -> None:
    """One message on stderr; a long line is left to the terminal, so that paths can be copied."""
    from rich.console import Console
    from rich.text import Text

    text = Text.assemble((f"{what}: ", "bold red"), message)
    Console(stderr=True, highlight=False).print(text, soft_wrap=True)


def _print_version(asked: bool) -> None:
    if asked:
        from everbit import __version__

        typer.echo(f"everbit {__version__}")
        raise typer.Exit


app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_show_locals=False)


@app.callback()
def everbit(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Binary neural networks that keep learning on small devices, in integers."""


def main() -> None:
    """Entry point of the command `everbit`."""
    app(prog_name="everbit")


if __name__ == "__main__":
    main()
