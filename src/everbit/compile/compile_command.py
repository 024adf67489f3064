"""The command `everbit compile`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console

from everbit.errors import ConfigurationError, DataError

if TYPE_CHECKING:
    from everbit.compile.program import Program

CALIBRATION_IMAGES = 1024
"""Most images a program is calibrated on, unless the user says otherwise."""

IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp")


def calibration_images(source: str, root: Path | None, count: int, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """Up to `count` images, uint8 [N, *shape]: spread over a data set's training images, or the files of a folder.

    Raises DataError where there are none.
    """
    from everbit.data.datasets import load
    from everbit.data.images import as_images, fit_images

    folder = Path(source)
    if folder.is_dir():
        paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_ENDINGS)
        if not paths:
            raise DataError(f"there is no image in {folder}: put some {', '.join(IMAGE_ENDINGS)} files there")
        return as_images(paths[:: max(1, len(paths) // count)][:count], shape)
    images = load(source, root).train_images
    return fit_images(images[:: max(1, len(images) // count)][:count], shape)


def compile_command(
    images: Annotated[str, typer.Option(help="Calibration images: a data set's name, or a folder of image files.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The .everbit file to write.")],
    model: Annotated[str, typer.Argument(help="A network of the zoo, such as birealnet18.")] = "birealnet18",
    root: Annotated[Path | None, typer.Option(help="Folder of the data set's file.")] = None,
    weights: Annotated[Path | None, typer.Option(help="Backbone file; without it the package's.")] = None,
    cut: Annotated[
        str | None, typer.Option(help="Module after which the device learns, such as stage4.block1; input: all of it.")
    ] = None,
    bits: Annotated[str, typer.Option(help="Widths F,BIN,NONBIN,LATENT (docs/compile.md).")] = "8,16,16,1",
    count: Annotated[int, typer.Option(help="Most calibration images.", min=1)] = CALIBRATION_IMAGES,
    keep_classifier: Annotated[
        bool, typer.Option("--keep-classifier", help="Keep the network's own classes: the model knows them at once.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was made as JSON.")] = False,
) -> None:
    """Compile a pretrained network to an integer program that a learner runs."""
    from everbit.compile.compiler import compile_program
    from everbit.formats.model_file import save_program
    from everbit.quantize.widths import Widths
    from everbit.zoo.cuts import DEFAULT_CUTS, require_network
    from everbit.zoo.weights import load_weights, packaged_weights, read_description

    network = require_network(model)
    path = weights or packaged_weights(model)
    description, has_head = read_description(path)
    if description.architecture != model:
        raise ConfigurationError(
            f"{path} holds {description.architecture}, not {model}: name that network, or give other --weights"
        )
    if keep_classifier and not has_head:
        raise ConfigurationError(f"{path} holds no classifier to keep: give --weights that have their head")
    calibration = calibration_images(images, root, count, network.stems[description.stem])
    program = compile_program(
        load_weights(path),
        calibration,
        cut=cut or DEFAULT_CUTS[model],
        widths=Widths.parse(bits),
        keep_classifier=keep_classifier,
        metadata={"network": model, "width": description.width, "calibration": Path(images).name},
    )
    save_program(program, out)
    report_program(program, out, as_json)


def report_program(program: Program, out: Path, as_json: bool) -> None:
    """Prints what a written model file holds, as a line or as JSON."""
    height, width, channels = program.latent_shape
    made = {
        "file": str(out),
        "bytes": out.stat().st_size,
        "layers": len(program.layers),
        "learnable_layers": len(program.layers) - program.latent_index - 1,
        "latent_shape": [height, width, channels],
        "latent_bytes": program.latent_bytes,
        "classes": len(program.head.labels),
    }
    if as_json:
        typer.echo(json.dumps(made))
        return
    Console().print(
        f"{out}: {made['bytes']:,} bytes, {made['layers']} layers, {made['learnable_layers']} of them learn; "
        f"a latent of {height}x{width}x{channels} takes {program.latent_bytes:,} bytes"
    )
