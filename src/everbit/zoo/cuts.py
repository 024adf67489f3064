"""Where each network of the zoo is usually cut. Needs no torch."""

from __future__ import annotations

DEFAULT_CUTS = {"birealnet18": "stage4.block1", "reactnet18": "stage4.block1", "vgg_small": "block5"}
"""The module whose output is the latent, by the network's name (V24: (4,4,512), of VGG-Small (8,8,512), at width 1)."""
