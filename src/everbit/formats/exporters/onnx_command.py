"""The command `everbit export onnx`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from everbit.errors import ConfigurationError
from everbit.zoo.cuts import NETWORKS

SUFFIX = ".onnx"


def onnx_command(
    model: Annotated[str, typer.Argument(help="A network of the zoo, a backbone, or a file that can be imported.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The .onnx file to write.")],
    width: Annotated[float | None, typer.Option(help="Multiplier of the filters; default 1.")] = None,
    classes: Annotated[int | None, typer.Option(help="Outputs of the head; default by the stem.")] = None,
    stem: Annotated[str | None, typer.Option(help="First layers: cifar or imagenet; default the network's.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the random weights of a network of the zoo; default 0.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was made as JSON.")] = False,
) -> None:
    """Export a network as ONNX, in floating point, for ONNX Runtime and others.

    A network of the zoo, by its name alone, has random weights.
    """
    if out.suffix != SUFFIX:
        raise ConfigurationError(f"cannot write {out}: give a name that ends in {SUFFIX}")
    in_zoo = model in NETWORKS
    if not in_zoo and not Path(model).is_file():
        raise ConfigurationError(f"unknown model {model!r}: give the path of a file, or one of {', '.join(NETWORKS)}")
    if not in_zoo and (width, classes, stem, seed) != (None, None, None, None):
        raise ConfigurationError(
            f"{model} is a file with its own width, classes, stem and weights: leave these options out"
        )
    from everbit.formats.exporters.onnx import onnx_model, save_onnx
    from everbit.formats.exporters.source import network_of_a_file, network_of_the_zoo

    if in_zoo:
        source = network_of_the_zoo(model, 1.0 if width is None else width, classes, stem, seed or 0)
        note = f"the weights of {model} are random: give a backbone or another file for trained ones"
        Console(stderr=True, highlight=False).print(note, soft_wrap=True)
    else:
        source = network_of_a_file(Path(model))
    made = onnx_model(source.network, source.input_shape, source.output, source.facts)
    save_onnx(made, out)
    height, columns, channels = source.input_shape
    inputs, outputs = made.graph.input[0], made.graph.output[0]
    facts = {
        "file": str(out),
        "bytes": out.stat().st_size,
        "network": source.facts["network"],
        "input": inputs.name,
        "input_shape": [channels, height, columns],
        "output": outputs.name,
        "outputs": outputs.type.tensor_type.shape.dim[1].dim_value,
        "opset": made.opset_import[0].version,
        "operators": len(made.graph.node),
    }
    if as_json:
        typer.echo(json.dumps(facts))
        return
    Console(highlight=False).print(
        f"{out}: {facts['bytes']:,} bytes, {facts['operators']} operators of opset {facts['opset']}; "
        f"{inputs.name} [N, {channels}, {height}, {columns}] to {outputs.name} [N, {facts['outputs']}]",
        soft_wrap=True,
    )
