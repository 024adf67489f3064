"""The network whose answers another one learns from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from everbit.errors import ConfigurationError, FormatError
from everbit.zoo.cuts import NETWORKS, Shape, require_network
from everbit.zoo.weights import is_backbone, load_weights, read_description


@dataclass(frozen=True)
class Teacher:
    """A trained network with its head, in evaluation mode.

    input_shape: height, width and channels of its images. digest: SHA-256 of its file.
    """

    network: nn.Module
    input_shape: Shape
    digest: str

    @torch.no_grad()
    def logits(self, images: Tensor) -> Tensor:
        """Its logits, [N, classes], for images [N, C, H, W] in [-1, 1] of any size, which are brought to its own."""
        height, width, channels = self.input_shape
        fitted = functional.interpolate(images, (height, width), mode="bilinear", align_corners=False)
        logits: Tensor = self.network(fitted.expand(-1, channels, -1, -1))
        return logits

    @property
    def classes(self) -> int:
        """Number of its logits."""
        height, width, channels = self.input_shape
        return self.logits(torch.zeros(1, channels, height, width)).shape[1]


def load_teacher(name: str, weights: Path) -> Teacher:
    """The network `name` of the zoo with weights from a backbone file, or from a state dict with published names.

    Raises ConfigurationError where the file holds another network or no head, FormatError where it cannot be read.
    """
    require_network(name)
    try:
        digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    except OSError as error:
        raise FormatError(f"cannot read the teacher's weights {weights} ({error.strerror}): check the path") from error
    network, found, shape = _backbone(weights) if is_backbone(weights) else _state_dict(weights)
    if found != name:
        raise ConfigurationError(f"{weights} holds {found}, not {name}: name that teacher, or give other weights")
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return Teacher(network.eval().requires_grad_(False), shape, digest)


def _backbone(path: Path) -> tuple[nn.Module, str, Shape]:
    description, has_head = read_description(path)
    if not has_head:
        raise ConfigurationError(
            f"{path} holds no head, and a teacher answers with its logits: export it with its head, or choose another"
        )
    return load_weights(path), description.architecture, NETWORKS[description.architecture].stems[description.stem]


def _state_dict(path: Path) -> tuple[nn.Module, str, Shape]:
    imported = import_module("everbit.formats.importers").load_network(path)
    return imported.network, imported.architecture or imported.source, imported.input_shape
