"""Objects compiled for one instruction set share nothing with the rest.

Two files that define the same inline function each bring a copy, and the linker keeps one of them for all: a copy with
AVX-512 in it would then run on processors that lack it. So every symbol such an object shows bears its set's name.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from cross.targets import REPOSITORY, Target
from engine.conftest import NATIVE

KERNELS = REPOSITORY / "engine" / "kernels"


def kernel_objects(target: Target, isa: str) -> list[Path]:
    """The objects of one instruction set."""
    folder = target.folder / "engine" / "CMakeFiles" / "everbit_engine.dir" / "kernels"
    return sorted(folder.glob(f"*/{isa}.cc.o"))


def shared_symbols(path: Path, isa: str) -> list[str]:
    """Symbols an object defines for others to see, or to merge, that do not bear its set's name."""
    listed = subprocess.run(["nm", "-C", "--defined-only", path], check=True, capture_output=True, text=True).stdout
    symbols = [line.split(" ", 2)[1:] for line in listed.splitlines()]
    seen = [name for kind, name in symbols if kind.isupper() or kind in "uvw"]
    return [name for name in seen if not re.search(rf"_{isa}\b", name)]


@pytest.mark.parametrize("isa", NATIVE.isas[1:])
def test_no_object_of_an_instruction_set_shares_a_symbol(native: Target, isa: str) -> None:
    objects = kernel_objects(native, isa)
    assert {path.parent.name for path in objects} == {path.parent.name for path in KERNELS.glob(f"*/{isa}.cc")}
    shared = {path.parent.name: shared_symbols(path, isa) for path in objects}
    assert shared == {path.parent.name: [] for path in objects}


PLANTED = {
    "inline": "inline int planted(int v) { return v + 1; } int kernel_avx2(int v) { return planted(v); }",
    "template": "template <int N> int planted() { return N; } int kernel_avx2() { return planted<1>(); }",
    "another set": "int kernel_avx2(int v) { return v + 1; } int kernel_avx512(int v) { return v + 2; }",
    "variable": "int kernel_avx2(int v) { return v + 1; } inline int planted = 3; int* at_avx2() { return &planted; }",
}
SOUND = {
    "static": "static inline int own(int v) { return v + 1; } int kernel_avx2(int v) { return own(v); }",
    "nameless": "namespace { template <int N> int own() { return N; } } int kernel_avx2() { return own<1>(); }",
    "namespace": "namespace own_avx2 { template <int N> int own() { return N; } int all() { return own<1>(); } }",
}


@pytest.mark.parametrize(
    ("source", "shared"), [(text, True) for text in PLANTED.values()] + [(text, False) for text in SOUND.values()]
)
def test_a_planted_symbol_is_found(native: Target, source: str, shared: bool, tmp_path: Path) -> None:
    (tmp_path / "planted.cc").write_text(source)
    command = ["c++", "-std=c++17", "-O0", "-c", tmp_path / "planted.cc", "-o", tmp_path / "planted.o"]
    subprocess.run(command, check=True)
    assert bool(shared_symbols(tmp_path / "planted.o", "avx2")) == shared
