"""Instructions of a learn step: counted exactly, and fewer with the kernels of an instruction set."""

from __future__ import annotations

import shutil

import pytest

from c_api.conftest import FIXTURES
from everbit._engine import red_zone
from instructions.count import WAYS, build_plugin, step_instructions

MODEL = str(FIXTURES / "plain.everbit")

pytestmark = pytest.mark.skipif(red_zone != 0, reason="the plan of a sanitized engine has red zones")


def test_dsp_instructions_spare_many_others() -> None:
    for program in ("qemu-system-arm", "arm-none-eabi-g++"):
        if not shutil.which(program):
            pytest.skip(f"{program} is missing: `make test-cross` installs it")
    build_plugin()
    scalar, dsp = (next(way for way in WAYS if way.kernels == kernels) for kernels in ("scalar", "dsp"))
    counts = [step_instructions(MODEL, way) for way in (scalar, dsp, dsp)]
    assert counts[1] == counts[2]
    assert 10_000 < counts[1] < 0.8 * counts[0]
