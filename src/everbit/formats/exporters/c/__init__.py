"""A model as a C project: it learns on a microcontroller, without Python and without a heap (docs/c_api.md)."""

from everbit.formats.exporters.c.export import Exported, export_c

__all__ = ["Exported", "export_c"]
