"""The text that says what a pretrained backbone is."""

from __future__ import annotations

from pathlib import Path

from everbit.data.datasets import SOURCES
from everbit.whole_file import replacing
from everbit.zoo.weights import Description

_CARD = """\
# {architecture}, width {width:g}

A binary backbone for learning on a device: the frozen and the learnable part of a network whose head the device
learns itself. The weights of its inner 3x3 convolutions are -1 and +1, with one scale per output channel.

| | |
|---|---|
| architecture | {architecture}, {width:g} times the base filters, {stem} stem |
| input | RGB images, 32x32 pixels, value/127.5 - 1 |
| training data | {data}, {classes} classes |
| training | {epochs} of {planned_epochs} epochs, batch {batch}, {precision} |
| optimizer | Adam, one-cycle learning rate up to {learning_rate:g} |
| top-1 on the validation images | {top1:.1%} |
| time of training | {minutes:.0f} minutes on a CPU |
| made by | `everbit pretrain --model {architecture} --width {width:g} --data {data} --epochs {planned_epochs}` |

License of the training data: {license}

## Limits

The accuracy is that of a small network on small images: enough for features that tell a few new classes apart, not for
use as a classifier of its {classes} training classes. It has not been examined for bias. It knows no images of medical,
satellite or industrial kinds; test it on your own before you rely on it.
"""


def model_card(description: Description) -> str:
    """The model card of a backbone, Markdown."""
    source = SOURCES.get(description.data)
    return _CARD.format(
        **vars(description),
        minutes=description.seconds / 60,
        license=source.license_note if source else "not known to everbit; ask the maker of the data.",
    )


def write_model_card(description: Description, path: Path) -> None:
    """Write the card to `path`, whole or not at all. Raises OutputError."""
    with replacing(path) as partial:
        partial.write_text(model_card(description), encoding="utf-8")
