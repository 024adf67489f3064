"""The command `everbit import`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from everbit.compile.compile_command import calibration_images, report_program
from everbit.data.root_option import Root
from everbit.errors import ConfigurationError
from everbit.quantize.widths import IN_WORDS

if TYPE_CHECKING:
    from everbit.formats.importers import ImportedNetwork

CALIBRATION_IMAGES = 256
"""Most images an imported network is calibrated on, unless the user says otherwise: its images may be large."""


@dataclass(frozen=True)
class Request:
    """What the user asked for."""

    file: Path
    out: Path
    images: str | None
    root: Path | None
    cut: str | None
    bits: str
    count: int
    as_json: bool


def import_command(
    file: Annotated[Path, typer.Argument(help="The network's file, recognized by its content (docs/import.md).")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The file to write: .everbit, or .safetensors for a network of the zoo.")
    ],
    images: Annotated[
        str | None, typer.Option(help="Calibration images: a data set's name, or a folder of image files.")
    ] = None,
    root: Root = None,
    cut: Annotated[
        str | None, typer.Option(help="Module after which the device learns, such as add_59; input: all of it.")
    ] = None,
    bits: Annotated[str, typer.Option(help=f"{IN_WORDS}.")] = "8,16,16,1",
    count: Annotated[int, typer.Option(help="Most calibration images.", min=1)] = CALIBRATION_IMAGES,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was made as JSON.")] = False,
) -> None:
    """Import a network of another framework, as a model that a learner runs or as a backbone of the zoo."""
    write = WRITERS.get(out.suffix)
    if write is None:
        raise ConfigurationError(f"cannot write {out}: give a name that ends in {' or '.join(WRITERS)}")
    from everbit.formats.importers import load_network

    write(load_network(file), Request(file, out, images, root, cut, bits, count, as_json))


def _write_program(imported: ImportedNetwork, request: Request) -> None:
    from everbit.compile.compiler import compile_program
    from everbit.formats.importers.default_cut import default_cut
    from everbit.formats.importers.patterns import calibration_patterns
    from everbit.formats.importers.statistics import measure_statistics
    from everbit.formats.model_file import save_program
    from everbit.quantize.widths import Widths
    from everbit.zoo.cuts import usual_cuts

    widths = Widths.parse(request.bits)
    if request.images is None:
        _note("calibrated on built-in patterns: give --images of the kind the device will see for better accuracy")
        calibration = calibration_patterns(request.count, imported.input_shape)
    else:
        calibration = calibration_images(request.images, request.root, request.count, imported.input_shape)
    measure_statistics(imported.network, imported.folded_norms, calibration)
    facts: dict[str, object] = {"network": imported.architecture or request.file.stem, "source": imported.source}
    program = compile_program(
        imported.network,
        calibration,
        cut=request.cut or default_cut(imported),
        widths=widths,
        keep_classifier=True,
        labels=imported.labels,
        metadata=facts | {"calibration": Path(request.images).name if request.images else "patterns"},
        usual_cuts=usual_cuts(imported.architecture),
    )
    save_program(program, request.out)
    report_program(program, request.out, request.as_json)


def _write_backbone(imported: ImportedNetwork, request: Request) -> None:
    from everbit.formats.importers.normalization import fold_normalization
    from everbit.zoo.weights import Description, save_weights

    if imported.architecture is None:
        raise ConfigurationError(
            f"{request.file} ({imported.source}) is no network of the zoo, which a backbone must be: "
            f"write {request.out.with_suffix('.everbit')} instead"
        )
    if fold_normalization(imported.network):
        _note("its normalization of images is folded into the first layer: outputs differ a little at the border")
    description = Description(
        architecture=imported.architecture,
        width=imported.width,
        classes=imported.classes,
        stem=imported.stem,
        data=f"imported from {request.file.name} ({imported.source})",
        epochs=0,
        planned_epochs=0,
        batch=0,
        learning_rate=0.0,
        precision="float16",
        top1=0.0,
        seconds=0.0,
    )
    save_weights(imported.network, request.out, description)
    made = {
        "file": str(request.out),
        "bytes": request.out.stat().st_size,
        "network": imported.architecture,
        "width": imported.width,
        "classes": imported.classes,
    }
    if request.as_json:
        typer.echo(json.dumps(made))
        return
    Console().print(
        f"{request.out}: {made['bytes']:,} bytes, {imported.architecture} of width {imported.width:g} "
        f"with {imported.classes} classes"
    )


def _note(text: str) -> None:
    """A line on stderr, so that JSON stays alone on stdout."""
    Console(stderr=True, highlight=False).print(text, soft_wrap=True)


WRITERS: dict[str, Callable[[ImportedNetwork, Request], None]] = {
    ".everbit": _write_program,
    ".safetensors": _write_backbone,
}
"""What writes a file, by the end of its name."""
