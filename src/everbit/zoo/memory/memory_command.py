"""The command `everbit memory`."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console


def memory_command(
    model: Annotated[str, typer.Argument(help="Network: a name of the zoo.")],
    batch: Annotated[int, typer.Option(min=1, help="Images a step.")] = 100,
    optimizer: Annotated[str, typer.Option(help="adam, sgd or bop.")] = "adam",
    width: Annotated[float, typer.Option(help="Multiplier of the filters.")] = 1.0,
    stem: Annotated[str | None, typer.Option(help="First layers: cifar or imagenet.")] = None,
    classes: Annotated[int | None, typer.Option(min=2, help="Outputs; default those of the usual data set.")] = None,
    precision: Annotated[str, typer.Option(help="Of activations: bfloat16, float16 or float32.")] = "bfloat16",
    low_memory: Annotated[bool, typer.Option("--low-memory", help="Show low-memory training alone.")] = False,
    measure: Annotated[bool, typer.Option("--measure", help="Run steps, and say what they really took.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show what a step of training from scratch takes in memory, variable by variable.

    First as Wang et al. 2023 count it, the standard algorithm beside the proposed one; then as everbit plans low-memory
    training: what is alive at its fullest moment. --measure runs steps in processes of their own, PyTorch's beside
    everbit's.
    """
    from everbit.zoo.memory.measure import TrainingRun
    from everbit.zoo.memory.report import memory_report
    from everbit.zoo.memory.tables import memory_tables

    run = TrainingRun(model, batch, optimizer, True, width, stem, classes, precision)
    report = memory_report(run, measured=measure, standard=not low_memory)
    if as_json:
        print(json.dumps(report, indent=1))
        return
    console = Console(highlight=False)
    for part in memory_tables(report):
        console.print(part)
