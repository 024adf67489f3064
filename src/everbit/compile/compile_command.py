"""The command `everbit compile`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console

from everbit.errors import DataError

IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp")


def calibration_images(source: str, root: Path | None, count: int, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """Up to `count` images, uint8 [N, *shape]: spread over a data set's training images, or the image files of a folder.

    Raises DataError where there are none.
    """
    from everbit.data.datasets import load
    from everbit.data.images import as_images

    folder = Path(source)
    if folder.is_dir():
        paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_ENDINGS)
        if not paths:
            raise DataError(f"there is no image in {folder}: put some {', '.join(IMAGE_ENDINGS)} files there")
        return as_images(paths[:: max(1, len(paths) // count)][:count], shape)
    images = load(source, root).resized(*shape[:2]).train_images
    return images[:: max(1, len(images) // count)][:count]


def compile_command(
    model: Annotated[str, typer.Argument(help="A network of the zoo, such as birealnet18.")],
    images: Annotated[str, typer.Option(help="Calibration images: a data set's name, or a folder of image files.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The .everbit file to write.")],
    root: Annotated[Path | None, typer.Option(help="Folder of the data set's file.")] = None,
    weights: Annotated[Path | None, typer.Option(help="Backbone file; without it the package's.")] = None,
    cut: Annotated[str | None, typer.Option(help="Module after which the device learns, such as stage4.block1.")] = None,
    bits: Annotated[str, typer.Option(help="Widths F,BIN,NONBIN,LATENT.")] = "8,16,16,1",
    count: Annotated[int, typer.Option(help="Most calibration images.", min=1)] = 1024,
) -> None:
    """Compile a pretrained network to an integer program that a learner runs."""
    from everbit.compile.compiler import compile_program
    from everbit.formats.model_file import save_program
    from everbit.quantize.widths import Widths
    from everbit.zoo.cuts import DEFAULT_CUTS, INPUT_SHAPE, require_network
    from everbit.zoo.weights import load_weights, packaged_weights

    require_network(model)
    calibration = calibration_images(images, root, count, INPUT_SHAPE)
    network = load_weights(weights or packaged_weights(model))
    program = compile_program(
        network,
        calibration,
        cut=cut or DEFAULT_CUTS[model],
        widths=Widths.parse(bits),
        metadata={"network": model, "calibration": Path(images).name},
    )
    save_program(program, out)
    height, width, channels = program.latent_shape
    learnable = len(program.layers) - program.latent_index - 1
    Console().print(
        f"{out}: {out.stat().st_size:,} bytes, {len(program.layers)} layers, {learnable} of them learn; "
        f"a latent of {height}x{width}x{channels} takes {height * width * channels * program.latent_bits // 8:,} bytes"
    )
