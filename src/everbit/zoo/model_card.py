"""The text that says what a pretrained backbone is."""

from __future__ import annotations

from pathlib import Path

from everbit.data.datasets import SOURCES
from everbit.whole_file import replacing
from everbit.zoo.cuts import NETWORKS
from everbit.zoo.weights import Description

_CARD = """\
# {architecture}, width {width:g}

A backbone for learning on a device: the frozen and the learnable part of a network whose head the device learns
itself. The weights of its binary layers are -1 and +1, with one scale per output channel.

| | |
|---|---|
| architecture | {architecture}, {width:g} times the base filters, {stem} stem |
| input | {colors} images, {height}x{image_width} pixels, value/127.5 - 1 |
| training data | {data}, {classes} classes |
| training | {epochs} of {planned_epochs} epochs, batch {batch}, {precision} |
| optimizer | {optimizer_name}{memory}, one-cycle learning rate up to {learning_rate:g} |
{teacher_row}| top-1 on the validation images | {top1:.1%} |
| time of training | {minutes:.0f} minutes on a CPU |
| made by | `{command}` |

License of the training data: {license}

## Limits

The accuracy is that of a small network on small images: enough for features that tell a few new classes apart, not for
use as a classifier of its {classes} training classes. It has not been examined for bias. It knows no images of medical,
satellite or industrial kinds; test it on your own before you rely on it.
"""

_COMMAND = (
    "everbit pretrain --model {architecture} --width {width:g} --stem {stem} --data {data} --epochs {planned_epochs}"
    " --batch {batch} --learning-rate {learning_rate:g}"
)
_LOW_MEMORY_OPTIONS = " --optimizer {optimizer} --low-memory"
_OPTIMIZERS = {"adam": "Adam", "sgd": "SGD", "bop": "Bop"}
_TEACHER_ROW = "| teacher | {teacher}, {teacher_share:g} of the loss, temperature {temperature:g} |\n"
_TEACHER_OPTIONS = (
    " --teacher {teacher} --teacher-weights FILE --teacher-share {teacher_share:g} --temperature {temperature:g}"
)


def model_card(description: Description) -> str:
    """The model card of a backbone, Markdown."""
    source = SOURCES.get(description.data)
    height, width, channels = NETWORKS[description.architecture].stems[description.stem]
    taught = description.teacher is not None
    facts = vars(description)
    command = _COMMAND + (_TEACHER_OPTIONS if taught else "") + (_LOW_MEMORY_OPTIONS if description.low_memory else "")
    return _CARD.format(
        **facts,
        colors="gray" if channels == 1 else "RGB",
        height=height,
        image_width=width,
        teacher_row=_TEACHER_ROW.format(**facts) if taught else "",
        optimizer_name=_OPTIMIZERS[description.optimizer],
        memory=" in low memory" if description.low_memory else "",
        command=command.format(**facts),
        minutes=description.seconds / 60,
        license=source.license_note if source else "not known to everbit; ask the maker of the data.",
    )


def write_model_card(description: Description, path: Path) -> None:
    """Write the card to `path`, whole or not at all. Raises OutputError."""
    with replacing(path) as partial:
        partial.write_text(model_card(description), encoding="utf-8")
