"""The commands `everbit export ...`, one for each kind of file."""

from __future__ import annotations

from everbit.lazy_commands import lazy_group

KINDS = {
    "onnx": ("everbit.formats.exporters.onnx_command", "onnx_command"),
    "c": ("everbit.formats.exporters.c_command", "c_command"),
}

export = lazy_group(
    "export", KINDS, "Export a network for another framework (docs/export.md) or as a C project (docs/c_api.md)."
)
