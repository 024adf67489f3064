"""The compiled engine and its instruction set.

`EVERBIT_ISA=scalar|avx2|avx512|neon` in the environment forces one; otherwise the fastest this processor has is used. All of them
compute the same bits.
"""

from __future__ import annotations

import os

from everbit import _engine
from everbit.errors import ConfigurationError

Network = _engine.Network
NativeLearner = _engine.Learner
check_program = _engine.check_program


def available_isas() -> list[str]:
    """Instruction sets this processor can run, `scalar` first."""
    return list(_engine.available_isas())


def active_isa() -> str:
    """The instruction set in use."""
    return str(_engine.active_isa())


def select_isa(name: str) -> None:
    """Uses another instruction set from now on. Raises ConfigurationError where the processor lacks it."""
    if not _engine.select_isa(name):
        raise ConfigurationError(
            f"instruction set {name!r} is not available here: EVERBIT_ISA may be {', '.join(available_isas())}, or unset"
        )


if os.environ.get("EVERBIT_ISA"):
    select_isa(os.environ["EVERBIT_ISA"])
