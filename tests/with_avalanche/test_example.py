"""The example of docs/avalanche.md runs as it stands."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

pytest.importorskip("avalanche", reason='Avalanche is not installed: pip install "everbit[avalanche]"')

EXAMPLE = Path(__file__).parents[2] / "examples" / "avalanche_strategy.py"


def test_the_example_learns(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLE))
    accuracy = re.search(r"final accuracy (\d\.\d+)", capsys.readouterr().out)
    assert accuracy is not None and float(accuracy[1]) > 0.3
