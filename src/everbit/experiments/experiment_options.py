"""Options of `everbit experiment`, most of them of `everbit sweep` too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from everbit.learner.settings import PRESETS, Settings


def of_presets(option: str, word: Callable[[Any], str]) -> str:
    """What an option is in each preset, in a help text."""
    return ", ".join(f"{word(getattr(Settings.preset(name), option))} of {name}" for name in PRESETS)


Weights = Annotated[Path | None, typer.Option(help="Backbone file for the network, not the package's.")]
Width = Annotated[float, typer.Option(help="Multiplier of the network's filters.")]
ImageSize = Annotated[
    int | None, typer.Option(help="Pixels a side of the network's images; default those its stem is made for.")
]
Cut = Annotated[
    str | None, typer.Option(help="Module whose output is the latent, or input; default the network's usual one.")
]
Seeds = Annotated[int, typer.Option(min=1, help="Class orders: seeds 0 to N - 1.")]
ImagesPerClass = Annotated[int | None, typer.Option(min=1, help="At most, for training; default all.")]
TestImagesPerClass = Annotated[int | None, typer.Option(min=1, help="At most, for a quick look.")]
Preset = Annotated[str, typer.Option(help="Settings that go together: v24 or accurate; others override them.")]
Epochs = Annotated[
    int | None,
    typer.Option(
        min=1, help=f"Passes over the images of an experience; default the preset's: {of_presets('epochs', str)}."
    ),
]
SharedReplay = Annotated[
    bool | None,
    typer.Option(
        "--shared-replay/--own-replay",
        help="Whether classes seen share all places; default the preset's: "
        f"{of_presets('shared_replay', lambda shared: 'shared' if shared else 'own')}.",
    ),
]
Cache = Annotated[Path, typer.Option(help="Folder of finished and unfinished runs.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
