"""The commands `everbit reproduce ...`, one for each table or figure of the papers."""

from __future__ import annotations

from everbit.lazy_commands import lazy_group

REPRODUCTIONS = {"table1": ("everbit.experiments.table1_command", "table1_command")}

reproduce = lazy_group("reproduce", REPRODUCTIONS, "Reproduce the papers' tables and figures (docs/method.md).")
