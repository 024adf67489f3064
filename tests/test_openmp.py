"""The engine's threads give way, and the environment is left as it was."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import os
before = dict(os.environ)
import everbit
from everbit import engine
assert dict(os.environ) == before, set(os.environ) ^ set(before)
print(engine.active_isa())
"""


def imported(**environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**clean, **environment}, capture_output=True, text=True, check=True
    )
    return run.stdout + run.stderr


def test_the_environment_is_left_as_it_was() -> None:
    assert imported().strip()


def test_the_threads_spin_for_a_short_while() -> None:
    """OpenMP itself says what it was told when it was loaded."""
    assert "GOMP_SPINCOUNT = '3000'" in imported(OMP_DISPLAY_ENV="VERBOSE")


def test_a_choice_of_the_user_counts() -> None:
    assert "GOMP_SPINCOUNT = '77'" in imported(OMP_DISPLAY_ENV="VERBOSE", GOMP_SPINCOUNT="77")
    assert "OMP_WAIT_POLICY = 'PASSIVE'" in imported(OMP_DISPLAY_ENV="VERBOSE", OMP_WAIT_POLICY="passive")
