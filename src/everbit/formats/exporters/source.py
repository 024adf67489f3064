"""The network that is to be exported: by its name in the zoo, or from a file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from everbit.errors import ConfigurationError
from everbit.formats.importers import load_network
from everbit.whole_number import seed_number
from everbit.zoo.cuts import NETWORKS
from everbit.zoo.registry import build
from everbit.zoo.weights import is_backbone, load_weights, read_description


@dataclass(frozen=True)
class Source:
    """A network in evaluation mode.

    network: takes float [N, C, H, W], images/127.5 - 1. input_shape: height, width, channels. facts: about the network,
    `network` is its name. output: what it returns, "logits", or "features" where it has no head.
    """

    network: nn.Module
    input_shape: tuple[int, int, int]
    facts: dict[str, str]
    output: str = "logits"


def network_of_the_zoo(name: str, width: float, classes: int | None, stem: str | None, seed: int) -> Source:
    """A new network of the zoo, its weights random by `seed`; other options as everbit.zoo.registry.build.

    Raises ConfigurationError.
    """
    seed = seed_number(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = build(name, width, classes, stem).eval()
    shape = NETWORKS[name].stems[stem or NETWORKS[name].stem]
    return Source(network, shape, {"network": name, "width": f"{width:g}", "weights": f"random, seed {seed}"})


def network_of_a_file(path: Path) -> Source:
    """The network of a backbone, or of a file that can be imported. Raises FormatError, UnsupportedError."""
    if path.suffix == ".everbit":
        raise ConfigurationError(
            f"{path} is compiled to integers: give the backbone or the foreign file that it was compiled from"
        )
    if is_backbone(path):
        description, has_head = read_description(path)
        shape = NETWORKS[description.architecture].stems[description.stem]
        facts = {"network": description.architecture, "width": f"{description.width:g}", "weights": path.name}
        return Source(load_weights(path), shape, facts, "logits" if has_head else "features")
    imported = load_network(path)
    facts = {"network": imported.architecture or path.stem, "weights": f"{path.name} ({imported.source})"}
    if imported.labels is not None:
        facts["labels"] = json.dumps(imported.labels)
    return Source(imported.network, imported.input_shape, facts)
