"""Options that `everbit experiment` and `everbit sweep` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Root = Annotated[Path | None, typer.Option(help="Folder of the data sets; default EVERBIT_DATA.")]
Weights = Annotated[Path | None, typer.Option(help="Backbone file for the network, not the package's.")]
Width = Annotated[float, typer.Option(help="Multiplier of the network's filters.")]
ImageSize = Annotated[
    int | None, typer.Option(help="Pixels a side of the network's images; default those its stem is made for.")
]
Cut = Annotated[str | None, typer.Option(help="Module whose output is the latent, or input.")]
Seeds = Annotated[int, typer.Option(min=1, help="Class orders: seeds 0 to N - 1.")]
ImagesPerClass = Annotated[int | None, typer.Option(min=1, help="At most, for training; default all.")]
TestImagesPerClass = Annotated[int | None, typer.Option(min=1, help="At most, for a quick look.")]
Preset = Annotated[str, typer.Option(help="Settings that go together: v24 or accurate; others override them.")]
Epochs = Annotated[int | None, typer.Option(min=1, help="Passes over the images of an experience.")]
Cache = Annotated[Path, typer.Option(help="Folder of finished and unfinished runs.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
