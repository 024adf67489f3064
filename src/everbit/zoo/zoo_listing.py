"""What the zoo holds: counts, sizes and cuts of each network at full width, measured on the modules themselves."""

from __future__ import annotations

from typing import Any

import torch

from everbit.zoo.cuts import CLASSES, NETWORKS
from everbit.zoo.network_statistics import NetworkStatistics
from everbit.zoo.packaged import packaged_backbone
from everbit.zoo.registry import build
from everbit.zoo.statistics import totals

CONVENTIONS = {
    2: "two a batch-norm channel, nine a blurred channel",
    4: "four a batch-norm channel",
}
"""How a network's paper counts parameters."""


def _with_stem(name: str, stem: str) -> dict[str, Any]:
    """Counts of a network with one of its stems."""
    network = NETWORKS[name]
    with torch.device("meta"):
        statistics = NetworkStatistics(build(name, stem=stem), network.stems[stem])
    total = totals(statistics.layers)
    parameters = total.stored if network.norm_values == 4 else total.count
    multiplying = [layer for layer in statistics.layers if layer.binary_macs or layer.other_macs]
    return {
        "input_shape": list(network.stems[stem]),
        "classes": CLASSES[stem],
        "parameters": parameters,
        "parameters_convention": CONVENTIONS[network.norm_values],
        "binary_parameters": total.binary,
        "other_parameters": parameters - total.binary,
        "bit_widths": {
            "weights": list(total.parameters),
            "activations": sorted({layer.input_bits for layer in multiplying}),
        },
        "macs": {"binary": total.binary_macs, "other": total.other_macs},
        "latents": [{"name": cut, "shape": list(statistics.shape(cut))} for cut in network.latents],
    }


def zoo_listing() -> list[dict[str, Any]]:
    """One entry a network: the facts with its default stem, and in `stems` those with every stem."""
    entries = []
    for name, network in NETWORKS.items():
        stems = {stem: _with_stem(name, stem) for stem in network.stems}
        backbone = packaged_backbone(name)
        entries.append(
            {
                "name": name,
                "stem": network.stem,
                **stems[network.stem],
                "stems": stems,
                "pretrained": None if backbone is None else backbone.name,
                "paper": network.paper,
            }
        )
    return entries
