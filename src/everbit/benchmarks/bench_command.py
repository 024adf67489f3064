"""The commands `everbit bench engine`, `peers` and `training`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from everbit.benchmarks.measurements import MEASUREMENTS

bench = typer.Typer(
    name="bench",
    no_args_is_help=True,
    add_completion=False,
    help="Measure the engine against limits, plans and peers.",
)

JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the result here as well.")]
Repeats = Annotated[int, typer.Option(min=3, help="Turns of each contender; the median counts.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads of the engine and of the peers.")]

ENGINE = [name for name, measurement in MEASUREMENTS.items() if not (measurement.foreign or measurement.training)]
PEERS = [name for name, measurement in MEASUREMENTS.items() if measurement.peer and not measurement.training]
TRAINING = [name for name, measurement in MEASUREMENTS.items() if measurement.training]
"""Measurements of each command."""


def _only(names: list[str]) -> Any:
    """The option that runs some of them alone."""
    return typer.Option(metavar="NAME", help=f"One of {', '.join(names)}. Run it alone; may be repeated.")


OnlyEngine = Annotated[list[str] | None, _only(ENGINE)]
OnlyPeers = Annotated[list[str] | None, _only(PEERS)]
OnlyTraining = Annotated[list[str] | None, _only(TRAINING)]


@bench.command("engine")
def engine_command(
    json_file: JsonFile = None, repeats: Repeats = 15, threads: Threads = 1, only: OnlyEngine = None
) -> None:
    """Measure everything the engine promises: speed against limits and peers, memory, growth.

    What needs PyTorch is left out without it, and named.
    """
    _measure(ENGINE, json_file, repeats, threads, only or [])


@bench.command("peers")
def peers_command(
    json_file: JsonFile = None, repeats: Repeats = 15, threads: Threads = 1, only: OnlyPeers = None
) -> None:
    """Measure the engine against what one would use instead, and say how to install peers that are absent."""
    from everbit.benchmarks.peers import absent_peers

    _measure(PEERS, json_file, repeats, threads, only or [], absent_peers=absent_peers())


@bench.command("training")
def training_command(
    json_file: JsonFile = None, repeats: Repeats = 15, threads: Threads = 1, only: OnlyTraining = None
) -> None:
    """Measure training from scratch: memory and time in low memory against PyTorch's."""
    _measure(TRAINING, json_file, repeats, threads, only or [])


def _measure(
    names: list[str], json_file: Path | None, repeats: int, threads: int, only: list[str], **more: object
) -> None:
    """Runs, shows and writes. Raises ConfigurationError for an unknown name, OutputError before anything runs."""
    from rich.console import Console

    from everbit.benchmarks.result import run_measurements
    from everbit.benchmarks.result_table import result_table
    from everbit.errors import ConfigurationError
    from everbit.output_folder import writable_folder
    from everbit.whole_file import replacing

    for name in only:
        if name not in names:
            raise ConfigurationError(f"unknown measurement {name!r}: choose one of {', '.join(names)}")
    if json_file is not None:
        writable_folder(json_file.parent, [json_file.name])
    console = Console(stderr=True, highlight=False)
    result = run_measurements(names, only, repeats, threads, lambda name: console.print(f"measuring {name} ..."))
    result |= more
    Console(highlight=False).print(result_table(result))
    for field, reason in result["missing"].items():  # type: ignore[attr-defined]
        console.print(f"{field}: {reason}", markup=False, soft_wrap=True)
    for peer in result.get("absent_peers") or []:  # type: ignore[attr-defined]
        console.print(f"absent: {peer['name']}; {peer['install']}", markup=False, soft_wrap=True)
    if json_file is not None:
        with replacing(json_file) as partial:
            partial.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        console.print(f"{json_file} written", markup=False, soft_wrap=True)
