"""Fixtures of the engine's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from everbit import engine


@pytest.fixture(params=["scalar", "avx2", "avx512"])
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every instruction set of the engine, one after the other; those this processor lacks are reported as skipped."""
    if request.param not in engine.available_isas():
        pytest.skip(f"this processor has no {request.param}: its kernels were not tested")
    before = engine.active_isa()
    engine.select_isa(request.param)
    yield request.param
    engine.select_isa(before)
