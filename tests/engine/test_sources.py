"""What the sources under engine/ promise by their words: integers only, no allocation, no I/O, no dependency."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ENGINE = Path(__file__).resolve().parents[2] / "engine"
SOURCES = sorted(path for path in ENGINE.rglob("*") if path.suffix in (".h", ".cc"))
INCLUDES = {
    "cstddef",
    "cstdint",
    "cstring",
    "initializer_list",
    "type_traits",
    "immintrin.h",
    "arm_neon.h",
    "arm_acle.h",
}
ALSO = {
    "include/everbit.h": {"stddef.h", "stdint.h"},  # is C
    "kernels/isa.cc": {"unistd.h", "sys/syscall.h", "sys/auxv.h", "asm/hwcap.h"},  # asks the system for the processor
    "memory.h": {"sanitizer/asan_interface.h"},  # tells the address sanitizer, where there is one
    "parallel.h": {"omp.h"},
    "parallel.cc": {"pthread.h"},  # hears of a fork
    "selftest/main.cc": {"cstdio"},  # prints the table
}
"""Headers that one file alone may include, by its path."""


def code(path: Path) -> str:
    """A source without its comments and string literals."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    return re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)


def test_the_sources_are_found() -> None:
    assert len(SOURCES) > 30


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ENGINE)))
def test_integers_only(path: Path) -> None:
    """No floating type, literal, or vector instruction."""
    text = code(path)
    words = re.findall(r"\b(?:float|double|float16_t|_Float16|__bf16|long double|float_t|double_t)\b", text)
    literals = re.findall(r"(?<![\w.])(?:\d+\.\d*|\.\d+|\d+[eE][-+]?\d+)[fFlL]?(?![\w.])", text)
    instructions = re.findall(
        r"\b_mm\d*_\w+_(?:ps|pd|ss|sd|ph)\b|\b__m\d+d?\b(?<!i)(?<=d)|\bv\w+_f(?:16|32|64)\b", text
    )
    assert not words + literals + instructions


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ENGINE)))
def test_no_allocation_no_input_or_output(path: Path) -> None:
    """Memory is the caller's, sized before it starts: nothing here could take more while a learner learns."""
    text = code(path)
    included = set(re.findall(r"#include <([^>]+)>", text))
    assert included <= INCLUDES | ALSO.get(path.relative_to(ENGINE).as_posix(), set())
    assert not re.findall(
        r"\b(?:new|(?<!= )delete|malloc|calloc|realloc|free|alloca|throw|catch|printf|FILE|thread_local)\b", text
    )
