"""The compiled engine, its instruction set and its threads.

`EVERBIT_ISA=scalar|avx2|avx512|amx|neon|neon_dotprod` in the environment forces one; otherwise the fastest this
processor has is used. All of them compute the same bits. `EVERBIT_THREADS` is how many threads a learner may use, 1
where it is unset; the bits do not depend on it.
"""

from __future__ import annotations

import os

from everbit import _engine
from everbit.errors import ConfigurationError

Network = _engine.Network
NativeLearner = _engine.Learner
Sampler = _engine.Sampler

MOST_THREADS = 256


def check_program(image: bytes) -> None:
    """Raises ValueError, with what is wrong, unless the bytes are a sound program image."""
    _require_isa()
    _engine.check_program(image)


def available_isas() -> list[str]:
    """Instruction sets this processor can run, `scalar` first."""
    return list(_engine.available_isas())


def active_isa() -> str:
    """The instruction set in use."""
    _require_isa()
    return str(_engine.active_isa())


def select_isa(name: str) -> None:
    """Uses another instruction set from now on. Raises ConfigurationError where the processor lacks it."""
    if not _engine.select_isa(name):
        raise ConfigurationError(
            f"instruction set {name!r} is not available here: "
            f"EVERBIT_ISA may be {', '.join(available_isas())}, or unset"
        )


def threads() -> int:
    """How many threads a learner that starts now may use. Raises ConfigurationError for a senseless EVERBIT_THREADS."""
    wanted = os.environ.get("EVERBIT_THREADS") or "1"
    if not wanted.isdecimal() or not 1 <= int(wanted) <= MOST_THREADS:
        raise ConfigurationError(
            f"EVERBIT_THREADS is {wanted!r}: set it to a number from 1 to {MOST_THREADS}, or unset it"
        )
    return int(wanted)


def require_environment() -> None:
    """Raises ConfigurationError for a senseless EVERBIT_ISA or EVERBIT_THREADS.

    Whoever reads a learner's file asks first: what goes wrong later is then the file's fault.
    """
    _require_isa()
    threads()


def _require_isa() -> None:
    """Raises what EVERBIT_ISA got wrong: at first use, not at import of the package, where nobody could catch it."""
    wanted = os.environ.get("EVERBIT_ISA")
    if wanted and wanted not in available_isas():
        select_isa(wanted)


if os.environ.get("EVERBIT_ISA", "") in available_isas():
    select_isa(os.environ["EVERBIT_ISA"])
