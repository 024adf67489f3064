"""What an importer makes of a file."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

MOST_PIXELS = 2048 * 2048
"""Most places of an image that an imported network may take."""


@dataclass(frozen=True)
class ImportedNetwork:
    """A network from elsewhere, as a PyTorch module in evaluation mode.

    network: takes float [N, C, H, W], images/127.5 - 1, and returns logits [N, classes]; it can be traced and compiled.
    input_shape: height, width, channels of the images. source: the kind of file. architecture: the zoo's name of the
    network, None where it is not the zoo's; width, stem: how the zoo builds it. labels: of the classes, None where the
    file does not name them. folded_norms: paths of batch norms that stand for a multiplier and a bias, whose statistics
    the file no longer holds (`everbit.formats.importers.statistics`).
    """

    network: nn.Module
    input_shape: tuple[int, int, int]
    classes: int
    source: str
    architecture: str | None = None
    width: float = 1.0
    stem: str = "imagenet"
    labels: tuple[str, ...] | None = None
    folded_norms: tuple[str, ...] = ()
