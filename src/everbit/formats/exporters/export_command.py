"""The commands `everbit export ...`, one for each kind of file."""

from __future__ import annotations

from everbit.lazy_commands import lazy_group

KINDS = {"onnx": ("everbit.formats.exporters.onnx_command", "onnx_command")}

export = lazy_group("export", KINDS, "Export a network as a file of another framework (docs/export.md).")
