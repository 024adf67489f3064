"""Fixtures of the engine's tests."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator

import pytest

from cross.targets import CROSS_TARGETS, Target, native_target
from everbit import engine

NATIVE = native_target(platform.machine())


@pytest.fixture(params=NATIVE.isas)
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every instruction set of this family, one after the other; those this processor lacks are reported as skipped."""
    if request.param not in engine.available_isas():
        pytest.skip(f"this processor has no {request.param}: its kernels were not tested")
    before = engine.active_isa()
    engine.select_isa(request.param)
    yield request.param
    engine.select_isa(before)


def built(target: Target, goal: str = "all") -> Target:
    """A target that stands built; the test is skipped where its compiler is missing."""
    for program in ("cmake", target.compiler or "c++"):
        if not shutil.which(program):
            pytest.skip(f"{program} is missing, so {target.name} was not tested: `make test-cross` installs it")
    target.build(goal)
    return target


@pytest.fixture(scope="session")
def native() -> Target:
    """This machine's selftest."""
    return built(NATIVE)


@pytest.fixture(params=[target for target in CROSS_TARGETS if target.bare], ids=lambda target: target.name)
def microcontroller(request: pytest.FixtureRequest) -> Target:
    """The selftest of each processor without floating point."""
    return built(request.param)


@pytest.fixture
def arm64_integers() -> Target:
    """The selftest that may touch no floating-point register."""
    return built(next(target for target in CROSS_TARGETS if target.name == "aarch64-integers"))
