"""The command `everbit compile`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console

from everbit.compile.report_table import report_json, report_table
from everbit.data.root_option import Root
from everbit.errors import ConfigurationError, DataError
from everbit.quantize.widths import IN_WORDS

if TYPE_CHECKING:
    from everbit.compile.program import Program
    from everbit.compile.report import Compilation, CostReport

Items = TypeVar("Items", list[Path], NDArray[np.int64])

CALIBRATION_IMAGES = 1024
"""Most images a program is calibrated on, unless the user says otherwise."""

REPORT_IMAGES = 64
"""Images that a report runs on the engine, layer by layer."""

SUFFIX = ".everbit"
IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp")


def calibration_images(source: str, root: Path | None, count: int, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """Up to `count` images, uint8 [N, *shape]: spread over a data set's training images, or the files of a folder.

    Raises DataError where there are none.
    """
    from everbit.data.datasets import load
    from everbit.data.images import as_images, fit_images

    paths = _image_files(source)
    if paths is not None:
        return as_images(_spread(paths, count), shape)
    images = load(source, root).train_images
    return fit_images(images[_spread(np.arange(len(images)), count)], shape)


def report_images(
    source: str, root: Path | None, calibrated_on: int, shape: tuple[int, int, int]
) -> tuple[NDArray[np.uint8], bool]:
    """Up to REPORT_IMAGES images, uint8 [N, *shape], and whether calibration_images leaves all of them out.

    They are test images of a data set; of a folder, files that calibration leaves out, or where it takes all, the same.
    """
    from everbit.data.datasets import load
    from everbit.data.images import as_images, fit_images

    paths = _image_files(source)
    if paths is None:
        images = load(source, root).test_images
        return fit_images(images[_spread(np.arange(len(images)), REPORT_IMAGES)], shape), True
    seen = set(_spread(paths, calibrated_on))
    others = [path for path in paths if path not in seen]
    return as_images(_spread(others or paths, REPORT_IMAGES), shape), bool(others)


def _image_files(source: str) -> list[Path] | None:
    """The image files of a folder, None where `source` is none. Raises DataError for a folder without any."""
    folder = Path(source)
    if not folder.is_dir():
        return None
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_ENDINGS)
    if not paths:
        raise DataError(f"there is no image in {folder}: put some {', '.join(IMAGE_ENDINGS)} files there")
    return paths


def _spread(items: Items, count: int) -> Items:
    """Up to `count` of them at even distances."""
    return items[:: max(1, len(items) // count)][:count]


def compile_command(
    images: Annotated[str, typer.Option(help="Calibration images: a data set's name, or a folder of image files.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The .everbit file to write.")],
    model: Annotated[str, typer.Argument(help="A network of the zoo, such as birealnet18.")] = "birealnet18",
    root: Root = None,
    weights: Annotated[Path | None, typer.Option(help="Backbone file; without it the package's.")] = None,
    cut: Annotated[
        str | None, typer.Option(help="Module after which the device learns, such as stage4.block1; input: all of it.")
    ] = None,
    image_size: Annotated[
        int | None, typer.Option(help="Pixels a side of the images; default those the network's stem is made for.")
    ] = None,
    bits: Annotated[str, typer.Option(help=f"{IN_WORDS}.")] = "8,16,16,1",
    count: Annotated[int, typer.Option(help="Most calibration images.", min=1)] = CALIBRATION_IMAGES,
    keep_classifier: Annotated[
        bool, typer.Option("--keep-classifier", help="Keep the network's own classes: the model knows them at once.")
    ] = False,
    calibration: Annotated[
        str, typer.Option(help="How ranges of activations follow from the images: minmax, percentile or mse.")
    ] = "minmax",
    report: Annotated[
        bool, typer.Option("--report", help="Show layer by layer what integers cost, on images not calibrated on.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was made as JSON.")] = False,
) -> None:
    """Compile a pretrained network to an integer program that a learner runs."""
    from everbit.compile.compiler import compile_program
    from everbit.formats.model_file import save_program
    from everbit.quantize.widths import Widths
    from everbit.zoo.cuts import DEFAULT_CUTS, image_shape, require_network, usual_cuts
    from everbit.zoo.weights import load_weights, packaged_weights, read_description

    if out.suffix != SUFFIX:
        raise ConfigurationError(f"cannot write {out}: give a name that ends in {SUFFIX}")
    require_network(model)
    path = weights or packaged_weights(model)
    description, has_head = read_description(path)
    if description.architecture != model:
        raise ConfigurationError(
            f"{path} holds {description.architecture}, not {model}: name that network, or give other --weights"
        )
    if keep_classifier and not has_head:
        raise ConfigurationError(f"{path} holds no classifier to keep: give --weights that have their head")
    shape = image_shape(model, description.stem, image_size)
    found: list[CostReport] = []
    pictures, unseen = report_images(images, root, count, shape) if report else (None, False)

    def examine(compilation: Compilation) -> None:
        if pictures is not None:
            from everbit.compile.report import cost_report

            found.append(cost_report(compilation, pictures))

    program = compile_program(
        load_weights(path),
        calibration_images(images, root, count, shape),
        cut=cut or DEFAULT_CUTS[model],
        widths=Widths.parse(bits),
        keep_classifier=keep_classifier,
        calibration=calibration,
        metadata={"network": model, "width": description.width, "calibration": Path(images).name},
        examine=examine,
        usual_cuts=usual_cuts(model),
    )
    save_program(program, out)
    if found and not as_json:
        from everbit.zoo.summary_table import table_console

        table_console().print(report_table(found[0], unseen))
    report_program(program, out, as_json, {"report": report_json(found[0], unseen)} if found else {})


def report_program(program: Program, out: Path, as_json: bool, more: dict[str, object] | None = None) -> None:
    """Prints what a written model file holds, as a line or as JSON, which says `more` too."""
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
        typer.echo(json.dumps(made | (more or {})))
        return
    Console().print(
        f"{out}: {made['bytes']:,} bytes, {made['layers']} layers, {made['learnable_layers']} of them learn; "
        f"a latent of {height}x{width}x{channels} takes {program.latent_bytes:,} bytes"
    )
