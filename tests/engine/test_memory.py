"""Small programs on the engine's headers: the address sanitizer sees who leaves a block, and no size wraps."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cross.targets import REPOSITORY
from everbit import _engine

START = """
#include "learner/memory_guard.h"
using namespace everbit;
alignas(64) static uint8_t memory[4096];

int main() {
"""
BLOCKS = """
  Block blocks[3];
  blocks[0] = {100, 0, 2};  // scratch of the moments 0 to 2
  blocks[1] = {100, 1, 3};
  blocks[2] = {200, 3, 3};  // may lie where the first does
  const size_t bytes = place_blocks(blocks, 3);
  const auto at = [&](int i) { return memory + blocks[i].offset; };
  volatile uint8_t value = 1;
  {
    const MemoryGuard guard(memory, bytes, 2);
    guard.open(blocks[0]);
    guard.open(blocks[2]);
"""
REGION = """
  Region region{memory};
  int32_t* first = region.take<int32_t>(5);
  int32_t* second = region.take<int32_t>(16);
  volatile int32_t value = 1;
"""
CLOSE = "} for (size_t i = 0; i < bytes; ++i) memory[i] = value;"  # everything is open again
SOUND = {
    "blocks": BLOCKS + "for (int i = 0; i < 100; ++i) at(0)[i] = value;" + CLOSE,
    "region": REGION + "for (int i = 0; i < 5; ++i) first[i] = value; second[0] = second[15] = value;",
    "region again": REGION + "Region again{memory}; again.take<int32_t>(40)[39] = value;",
    "whole region": "Region region{memory, 0, 0}; region.take<uint8_t>(1)[63] = 1;",
}
BEYOND = {
    "end of a block": BLOCKS + "at(0)[100] = value;" + CLOSE,
    "end in words": BLOCKS + "reinterpret_cast<volatile int64_t*>(at(0))[12] = value;" + CLOSE,
    "block not open": BLOCKS + "at(1)[0] = value;" + CLOSE,
    "block of another moment": BLOCKS + "at(2)[150] = value;" + CLOSE,
    "end of a piece": REGION + "first[5] = value;",
    "end of a whole piece": REGION + "second[16] = value;",
    "piece of none": REGION + "*region.take<int32_t>(0) = value;",
}
SIZES = """
  Region region;
  region.take<int64_t>(SIZE_MAX / 8 + 1);
  if (region.used != kUnaddressable) return 1;
  region.take<uint8_t>(1);
  if (region.used != kUnaddressable) return 2;
  Region half;
  half.take<uint8_t>(SIZE_MAX / 2);
  if (half.used == kUnaddressable) return 3;
  half.take<uint8_t>(SIZE_MAX / 2);
  if (half.used != kUnaddressable) return 4;
  Block blocks[3];
  blocks[0] = {SIZE_MAX / 2, 0, 1};
  blocks[1] = {SIZE_MAX / 2, 1, 2};
  blocks[2] = {1, 0, 2};
  if (place_blocks(blocks, 3) != kUnaddressable) return 5;
  for (Block& block : blocks) block.placed = false;
  blocks[1].first = 2;  // they no longer meet
  const size_t bytes = place_blocks(blocks, 3);
  if (bytes == kUnaddressable || bytes <= SIZE_MAX / 2 || blocks[1].offset != 0) return 6;
  blocks[0] = {SIZE_MAX - 3, 0, 1};
  if (place_blocks(blocks, 1) != kUnaddressable) return 7;
"""


def run(body: str, folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.cc").write_text(START + body + "  return 0;\n}\n")
    sources = [folder / "program.cc", REPOSITORY / "engine" / "learner" / "memory_plan.cc"]
    command = ["c++", "-std=c++17", *flags, "-I", REPOSITORY / "engine", *sources, "-o", folder / "program"]
    subprocess.run(command, check=True)
    environment = {"ASAN_OPTIONS": "detect_leaks=0"}
    return subprocess.run([folder / "program"], capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("name", SOUND)
def test_what_stays_inside_is_let_pass(name: str, tmp_path: Path) -> None:
    done = run(SOUND[name], tmp_path, "-fsanitize=address")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", BEYOND)
def test_what_goes_beyond_is_stopped(name: str, tmp_path: Path) -> None:
    done = run(BEYOND[name], tmp_path, "-fsanitize=address")
    assert done.returncode != 0
    assert "AddressSanitizer: use-after-poison" in done.stderr


@pytest.mark.parametrize("flags", [(), ("-fsanitize=address",)], ids=["ordinary", "sanitized"])
def test_sizes_that_no_processor_can_address(flags: tuple[str, ...], tmp_path: Path) -> None:
    """Pieces, blocks and sums of them saturate where they would wrap to a small size."""
    assert run(SIZES, tmp_path, *flags).returncode == 0


def test_ordinary_builds_have_no_red_zones(tmp_path: Path) -> None:
    body = "Region region{memory}; region.take<uint8_t>(1); return region.used == kAlignment ? 0 : 1;"
    assert run(body, tmp_path).returncode == 0


def test_the_sanitizers_meet_an_engine_built_for_them() -> None:
    """`make test-sanitized` would prove nothing if another installation of the package came first."""
    assert _engine.red_zone == (64 if "libasan" in os.environ.get("LD_PRELOAD", "") else 0)
