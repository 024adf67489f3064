"""Where each network of the zoo is usually cut, and the images it takes. Needs no torch."""

from __future__ import annotations

from everbit.errors import ConfigurationError

DEFAULT_CUTS = {"birealnet18": "stage4.block1", "reactnet18": "stage4.block1", "vgg_small": "block5"}
"""The module whose output is the latent, by the network's name: (4,4,512), of VGG-Small (8,8,512), at width 1.

V24 cuts ReAct-18 at the sum inside the same block, `stage4.block1.add`.
"""

WHOLE_NETWORK = "input"
"""The name of the cut in front of everything: the latent is the image, and every layer learns."""

INPUT_SHAPE = (32, 32, 3)
"""Height, width, channels of the images that the zoo's networks are trained on."""


def require_network(name: str) -> None:
    """Raises ConfigurationError for a name that is no network of the zoo."""
    if name not in DEFAULT_CUTS:
        raise ConfigurationError(f"unknown network {name!r}: choose one of {', '.join(DEFAULT_CUTS)}")
