"""The command `everbit summary`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from everbit.errors import ConfigurationError
from everbit.zoo.cuts import NETWORKS, Shape

if TYPE_CHECKING:
    from everbit.zoo.statistics import LayerStatistics


def _of_the_zoo(
    name: str, width: float, classes: int | None, stem: str | None
) -> tuple[str, Shape, list[LayerStatistics]]:
    import torch

    from everbit.zoo.network_statistics import NetworkStatistics
    from everbit.zoo.registry import build

    with torch.device("meta"):
        network = build(name, width, classes, stem)
    shape = NETWORKS[name].stems[stem or NETWORKS[name].stem]
    return f"{name}, width {width:g}", shape, NetworkStatistics(network, shape).layers


def _of_a_backbone(path: Path) -> tuple[str, Shape, list[LayerStatistics]]:
    from everbit.zoo.network_statistics import NetworkStatistics
    from everbit.zoo.weights import load_weights, read_description

    description, _ = read_description(path)
    shape = NETWORKS[description.architecture].stems[description.stem]
    title = f"{path}: {description.architecture}, width {description.width:g}"
    return title, shape, NetworkStatistics(load_weights(path), shape).layers


def _of_a_program(path: Path) -> tuple[str, Shape, list[LayerStatistics]]:
    from everbit.formats.model_file import load_program
    from everbit.zoo.program_statistics import program_statistics

    program = load_program(path)
    return f"{path}: compiled", program.input_shape, program_statistics(program)


def _of_a_file(path: Path) -> tuple[str, Shape, list[LayerStatistics]]:
    if path.suffix == ".everbit":
        return _of_a_program(path)
    from everbit.zoo.weights import is_backbone

    if path.suffix != ".safetensors" and not is_backbone(path):
        raise ConfigurationError(
            f"{path} is no backbone and no .everbit file: give one of these or a network of the zoo, and make one of a "
            "foreign network by `everbit import`"
        )
    return _of_a_backbone(path)


def summary_command(
    model: Annotated[str, typer.Argument(help="A network of the zoo, a backbone file, or an .everbit file.")],
    width: Annotated[float | None, typer.Option(help="Multiplier of the filters; default 1.")] = None,
    classes: Annotated[int | None, typer.Option(help="Outputs of the head; default by the stem.")] = None,
    stem: Annotated[str | None, typer.Option(help="First layers: cifar or imagenet; default the network's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print layers and totals as JSON.")] = False,
) -> None:
    """Show a network layer by layer: parameters by bits, memory, multiply-adds.

    A batch norm counts two numbers a channel, as it runs.
    """
    from everbit.zoo.statistics import statistics_json
    from everbit.zoo.summary_table import shape_text, summary_table, table_console

    if model in NETWORKS:
        title, shape, layers = _of_the_zoo(model, 1.0 if width is None else width, classes, stem)
    else:
        path = Path(model)
        if not path.is_file():
            names = ", ".join(NETWORKS)
            raise ConfigurationError(f"unknown model {model!r}: give the path of a file, or one of {names}")
        if (width, classes, stem) != (None, None, None):
            raise ConfigurationError(f"{model} is a file with its own width, classes and stem: leave these options out")
        title, shape, layers = _of_a_file(path)
    if as_json:
        typer.echo(json.dumps({"model": model, "input_shape": list(shape), **statistics_json(layers)}))
        return
    table_console().print(summary_table(f"{title}, {shape_text(shape)} pixels", layers))
