"""Options of `everbit experiment`, most of them of `everbit sweep` too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from everbit.errors import ConfigurationError
from everbit.learner.settings import PRESETS, Settings, preset_options


def of_presets(option: str, word: Callable[[Any], str]) -> str:
    """What an option is in each preset, in a help text."""
    return ", ".join(f"{word(getattr(Settings.preset(name), option))} of {name}" for name in PRESETS)


def chosen_settings(
    preset: str, epochs: int | None, shared_replay: bool | None, replay_per_class: int | None
) -> dict[str, Any]:
    """A preset's options, but for those that are given. Raises ConfigurationError for an unknown preset."""
    given = {"epochs": epochs, "shared_replay": shared_replay, "replay_per_class": replay_per_class}
    return {**preset_options(preset), **{name: value for name, value in given.items() if value is not None}}


def parse_learning_rates(pairs: list[str] | None) -> dict[str, float]:
    """{"head": 0.05} of ["head=0.05"]. Raises ConfigurationError for anything else."""
    rates = {}
    for pair in pairs or []:
        kind, _, value = pair.partition("=")
        try:
            rates[kind] = float(value)
        except ValueError:
            raise ConfigurationError(f"learning rate {pair!r} is not KIND=VALUE: write for example head=0.05") from None
    return rates


Weights = Annotated[Path | None, typer.Option(help="Backbone file for the network, not the package's.")]
Width = Annotated[float, typer.Option(help="Multiplier of the network's filters.")]
ImageSize = Annotated[
    int | None, typer.Option(help="Pixels a side of the network's images; default those its stem is made for.")
]
Cut = Annotated[
    str | None, typer.Option(help="Module whose output is the latent, or input; default the network's usual one.")
]
Experiences = Annotated[int | None, typer.Option(min=1, help="Number of experiences; default the usual.")]
Seeds = Annotated[int, typer.Option(min=1, help="Class orders: seeds 0 to N - 1.")]
ImagesPerClass = Annotated[int | None, typer.Option(min=1, help="At most, for training; default all.")]
TestImagesPerClass = Annotated[int | None, typer.Option(min=1, help="At most, for a quick look.")]
Preset = Annotated[str, typer.Option(help=f"Settings that go together: {', '.join(PRESETS)}; others override them.")]
Epochs = Annotated[
    int | None,
    typer.Option(
        min=1, help=f"Passes over the images of an experience; default the preset's: {of_presets('epochs', str)}."
    ),
]
LATENTS_KEPT = f"Latents kept of a class; default the preset's: {of_presets('replay_per_class', str)}"
SharedReplay = Annotated[
    bool | None,
    typer.Option(
        "--shared-replay/--own-replay",
        help="Whether classes seen share all places; default the preset's: "
        f"{of_presets('shared_replay', lambda shared: 'shared' if shared else 'own')}.",
    ),
]
CountReplayed = Annotated[
    bool, typer.Option("--count-replayed/--count-new", help="Whether CWR* counts replayed patterns.")
]
LearningRate = Annotated[
    list[str] | None, typer.Option(help="KIND=VALUE; kinds: head, binary, norm, bias, weight. May be repeated.")
]
Rounding = Annotated[str, typer.Option(help="Of the updates: nearest or stochastic.")]
Augment = Annotated[
    bool, typer.Option("--augment/--no-augment", help="Crop and flip each training image once, as it arrives.")
]
Cache = Annotated[Path, typer.Option(help="Folder of finished and unfinished runs.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
