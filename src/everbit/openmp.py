"""How long the engine's threads wait for each other awake: the engine is loaded here, before anything asks for it.

GNU's OpenMP spins for about a millisecond at every barrier. Where each thread has a processor of its own that is as
good as any; where another program needs one, two threads take seven times as long as one, spinning in its way. A spin
of some ten microseconds costs nothing in the first case and gives way in the second (benchmarks/README.md).
"""

from __future__ import annotations

import os

_SPINS = {"GOMP_SPINCOUNT": "3000"}
_CHOICES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


def load_engine() -> None:
    """Imports the engine; OpenMP reads the environment only then, so what is set for it does not stay.

    Nothing is set where the user chose: by OMP_WAIT_POLICY or GOMP_SPINCOUNT.
    """
    chosen = any(name in os.environ for name in _CHOICES)
    settings = {} if chosen else _SPINS
    os.environ.update(settings)
    try:
        from everbit import _engine  # noqa: F401
    finally:
        for name in settings:
            del os.environ[name]
