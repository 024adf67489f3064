"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def research_data() -> Path:
    """Folder of the research image sets (see docs/data.md); the test is skipped where it is absent."""
    root = Path(os.environ.get("EVERBIT_DATA", REPOSITORY.parent / "shared" / "data"))
    if not (root / "cifar10.npz").is_file():
        pytest.skip(f"research data not found under {root}: set EVERBIT_DATA")
    return root
