"""What one would use instead of the engine."""

from __future__ import annotations

from importlib.util import find_spec

_EXTRA = 'pip install "everbit[peers]"'

PEERS = {
    "torch": ("PyTorch", 'pip install "everbit[train]"'),
    "larq_compute_engine": ("Larq Compute Engine", _EXTRA),
    "ai_edge_litert": ("LiteRT", _EXTRA),
}
"""Name and installation of each peer, by the module it is imported as."""


def absent_peers() -> list[dict[str, str]]:
    """Name and installation of every peer that is not here."""
    return [
        {"name": name, "install": install} for module, (name, install) in PEERS.items() if find_spec(module) is None
    ]
