"""Planned flash and RAM against what is linked for boards."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from c_api.conftest import FIXTURES
from everbit import Settings
from everbit._engine import red_zone
from everbit.plan.choices import STACK_BYTES, Request, choices
from everbit.plan.programs import plannable
from everbit.plan.targets import TARGETS
from everbit.quantize.widths import Widths
from formats.exporters.test_c import SHARED, export, learn

BOARDS = {"stm32l4": "mps2-an386", "stm32h7": "mps2-an500"}
WITHIN = 0.05

pytestmark = pytest.mark.skipif(red_zone != 0, reason="the plan of a sanitized engine has red zones")


@pytest.mark.parametrize("model", ["plain", "packaged"])
@pytest.mark.parametrize("target", BOARDS)
def test_a_linked_image_takes_what_was_planned(target: str, model: str) -> None:
    for program in ("arm-none-eabi-g++", "qemu-system-arm"):
        if not shutil.which(program):
            pytest.skip(f"{program} is missing, so boards were not tested: `make test-cross` installs it")
    path = "birealnet18" if model == "packaged" else FIXTURES / "plain.everbit"
    widths = "8,1,16,1"
    facts = export(path, SHARED, "--images", 2, "--tests", 1, "--batch", "2:3", "--epochs", 1, "--bits", widths)
    board = f"TARGET={BOARDS[target]}"
    learn(SHARED, board, "CFLAGS=-Werror", "CXXFLAGS=-Werror -Wno-error=unused-parameter")
    size = subprocess.run(["make", "-s", "-C", SHARED, board, "size"], check=True, capture_output=True, text=True)
    linked = {name: int(number) for name, number in re.findall(r"(flash|RAM): (\d+) bytes", size.stdout)}

    settings = Settings(classes=2, replay_per_class=10, batch_new=2, batch_replayed=3, experience_images=2, epochs=1)
    on = TARGETS[target]
    request = Request(on, settings, on.ram, on.flash, None, 1.0)
    named = "birealnet18.everbit" if model == "packaged" else str(path)
    (choice,) = choices(plannable(named), [], [Widths.parse(widths)], request)
    assert choice.memory.arena == facts["arena_bytes"]["4"]
    height, width, channels = choice.program.input_shape
    pictures = 4 * height * width * channels + 2 * choice.program.latent_bytes  # to learn from and to test with
    assert choice.flash + pictures == pytest.approx(linked["flash"], rel=WITHIN)
    assert choice.ram == pytest.approx(linked["RAM"], rel=WITHIN)
    assert choice.ram - STACK_BYTES >= choice.memory.arena
