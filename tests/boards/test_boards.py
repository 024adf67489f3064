"""Exported projects on boards under QEMU, bare metal: the host's digest, the planned bytes, no heap and no float."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from c_api.conftest import FIXTURES
from cross.soft_float import soft_float_symbols
from everbit._engine import red_zone
from everbit.compile.compiler import compile_program
from everbit.data.datasets import load
from everbit.formats.exporters.c import export_c
from everbit.learner.settings import Settings
from everbit.zoo.registry import build
from formats.exporters.test_c import SHARED, export, learn

STACK_BYTES = 16384
BOARDS = ("mps2-an386", "mps2-an500", "mps3-an547")
SMALL = ("--images", 2, "--tests", 2, "--batch", "2:3")
MODELS = {
    "plain": (FIXTURES / "plain.everbit", SMALL),
    "known classes": (FIXTURES / "classes.everbit", SMALL),
    "16-bit latents": (FIXTURES / "wide.everbit", SMALL),
    "32-bit gradients": (FIXTURES / "plain.everbit", (*SMALL, "--bits", "8,32,32,1")),
    "packaged": ("birealnet18", (*SMALL, "--epochs", 1, "--bits", "8,1,16,1")),
}

pytestmark = pytest.mark.skipif(red_zone != 0, reason="the plan of a sanitized engine has red zones")


@dataclass(frozen=True)
class Built:
    """A project that was built for a board: its program, its symbols' sizes, what `make size` and a run print."""

    program: Path
    facts: dict[str, Any]
    symbols: dict[str, int]
    size: str
    printed: dict[str, str]


def need(*programs: str) -> None:
    for program in programs:
        if not shutil.which(program):
            pytest.skip(f"{program} is missing, so boards were not tested: `make test-cross` installs it")


@pytest.fixture(scope="module", params=MODELS)
def facts(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What was exported to the shared folder."""
    model, options = MODELS[request.param]
    return export(model, SHARED, *options)


@pytest.fixture(params=BOARDS)
def built(facts: dict[str, Any], request: pytest.FixtureRequest) -> Built:
    need("arm-none-eabi-g++", "qemu-system-arm")
    target = f"TARGET={request.param}"
    printed = learn(SHARED, target, "CFLAGS=-Werror", "CXXFLAGS=-Werror -Wno-error=unused-parameter")
    program = SHARED / "build" / request.param / "learn"
    size = subprocess.run(["make", "-s", "-C", SHARED, target, "size"], check=True, capture_output=True, text=True)
    listed = subprocess.run(["arm-none-eabi-nm", "-S", program], check=True, capture_output=True, text=True).stdout
    symbols = {
        line.split()[-1]: int(line.split()[1], 16) if line.count(" ") == 3 else 0 for line in listed.splitlines()
    }
    return Built(program, facts, symbols, size.stdout, printed)


def test_a_board_learns_what_the_host_does_in_the_planned_memory(built: Built) -> None:
    planned, memory = built.facts["arena_bytes"]["4"], built.facts["memory"]["4"]
    assert built.printed["digest"] == built.facts["digest"]
    assert built.printed["learner"] == f"{planned} bytes"
    assert built.symbols["arena"] == planned
    for purpose in ("state", "experience", "fixed", "shared"):
        assert built.printed[purpose] == f"{memory[purpose]} bytes"

    assert not soft_float_symbols(built.program)
    assert not built.symbols.keys() & {"malloc", "_malloc_r", "_sbrk", "_sbrk_r", "free", "printf", "_Znwj"}

    stack = int(built.printed["stack"].split()[0])
    assert 1024 < stack < STACK_BYTES - 1024
    numbers = dict(re.findall(r"(flash|RAM): (\d+) bytes", built.size))
    assert built.facts["program_bytes"] < int(numbers["flash"])
    used = int(numbers["RAM"]) - STACK_BYTES + stack
    assert planned + stack <= used <= planned + stack + 512  # variables, and the stack of faults
    if planned > 100_000:
        assert used <= 1.05 * planned


def test_riscv_learns_what_the_host_does(facts: dict[str, Any]) -> None:
    need("riscv64-linux-gnu-g++", "qemu-riscv64")
    printed = learn(SHARED, "TARGET=riscv64", "CFLAGS=-Werror", "CXXFLAGS=-Werror -Wno-error=unused-parameter")
    assert printed["digest"] == facts["digest"]
    assert printed["learner"] == f"{facts['arena_bytes']['8']} bytes"


def test_ten_classes_learn_in_256_kib() -> None:
    """QuickNet at a quarter of its width and 64 pixels, 20 one-bit latents a class: arena, stack and variables."""
    need("arm-none-eabi-g++", "qemu-system-arm")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = build("quicknet", 0.25, 10).eval()
    dataset = load("fashion_demo").fitted((64, 64, 3))
    program = compile_program(network, np.asarray(dataset.train_images[:64]), cut="transition3.blur")
    settings = Settings(classes=10, replay_per_class=20, batch_new=1, batch_replayed=3)
    made = export_c(program, "quicknet", SHARED, dataset, settings, "8,1,16,1", images=2, tests=1, epochs=1)
    printed = learn(SHARED, "TARGET=mps2-an386", "STACK_BYTES=8192")
    assert printed["digest"] == f"{made.model.digest:016x}"
    command = ["make", "-s", "-C", SHARED, "TARGET=mps2-an386", "STACK_BYTES=8192", "size"]
    size = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    ram = re.search(r"RAM: (\d+) bytes", size)
    assert ram is not None
    assert int(ram[1]) <= 160 * 1024


def test_a_board_builds_with_cmake_too(tmp_path: Path) -> None:
    need("arm-none-eabi-g++", "qemu-system-arm", "cmake")
    made = export(FIXTURES / "plain.everbit", tmp_path / "project", *SMALL)
    build = tmp_path / "build"
    toolchain = tmp_path / "project" / "boards" / "arm-none-eabi.cmake"
    options = [f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", "-DBOARD=mps2-an386"]
    for command in (
        ["cmake", "-S", tmp_path / "project", "-B", build, *options],
        ["cmake", "--build", build, "--parallel", "2"],
    ):
        subprocess.run(command, check=True, capture_output=True)
    run = ["qemu-system-arm", "-machine", "mps2-an386", "-nographic", "-semihosting", "-kernel", build / "learn"]
    done = subprocess.run(run, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert f"digest: {made['digest']}" in done.stderr  # where QEMU puts it unless it is told otherwise


def test_a_stack_that_is_too_small_is_reported() -> None:
    """The program leaves its stack, and memory with it: the board says so instead of going on, or hanging."""
    need("arm-none-eabi-g++", "qemu-system-arm")
    export(FIXTURES / "plain.everbit", SHARED, *SMALL, "--seed", 4)
    command = ["make", "-s", "-C", SHARED, "TARGET=mps2-an386", "STACK_BYTES=1024", "run"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
    assert done.returncode != 0
    assert "stopped on a fault" in done.stdout


def test_what_differs_is_reported(tmp_path: Path) -> None:
    """One pixel of one image changed: the board says so, and its exit status."""
    need("arm-none-eabi-g++", "qemu-system-arm")
    export(FIXTURES / "plain.everbit", SHARED, *SMALL, "--seed", 3)
    model = SHARED / "model.c"
    text = model.read_text()
    head, tail = text.split("const uint8_t model_images", 1)
    first = re.search(r"\n +(\d+),", tail)
    assert first is not None
    changed = str((int(first[1]) + 128) % 256)
    model.write_text(f"{head}const uint8_t model_images{tail[: first.start(1)]}{changed}{tail[first.end(1) :]}")
    try:
        command = ["make", "-s", "-C", SHARED, "TARGET=mps2-an386", "run"]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    finally:
        model.unlink()
    assert done.returncode != 0
    assert "NOT the same as where it was exported" in done.stdout
