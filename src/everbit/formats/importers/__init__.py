"""Networks that people already have, from the files of other frameworks (docs/import.md)."""

from everbit.formats.importers.network import ImportedNetwork
from everbit.formats.importers.registry import load_network

__all__ = ["ImportedNetwork", "load_network"]
