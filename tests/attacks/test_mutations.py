"""Thousands of mutated program images: each is refused or learns; none crashes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("seed", range(4))
def test_mutated_images_are_refused_or_learn(seed: int) -> None:
    count = 5000
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(TESTS / "attacks" / "mutate_images.py"), str(seed), str(count)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    refused, learned = map(int, done.stdout.split())
    assert refused + learned == count
    assert min(refused, learned) > count // 5
