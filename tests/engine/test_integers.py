"""Integers only, proved on what the compiler made: no floating-point register, no soft-float symbol."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cross.soft_float import SOFT_FLOAT, soft_float_symbols
from cross.targets import Target

PLANTED = """
int main(int argc, char**) {{
  volatile {kind} planted = argc;
  planted = planted * 3;
  return planted > 4 ? 0 : static_cast<int>(planted);
}}
"""


def compile_planted(target: Target, kind: str, folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """The program PLANTED with the compiler of a target -> folder/planted."""
    source = folder / "planted.cc"
    source.write_text(PLANTED.format(kind=kind))
    command = [target.compiler, *flags, str(source), "-o", str(folder / "planted")]
    return subprocess.run(command, capture_output=True, text=True)


def cortex_flags(target: Target) -> list[str]:
    return ["-mthumb", f"-mcpu={target.name}", "-mfloat-abi=soft", "--specs=rdimon.specs"]


def test_no_soft_float_symbol_on_a_microcontroller(microcontroller: Target) -> None:
    assert soft_float_symbols(microcontroller.program) == []


@pytest.mark.parametrize(
    ("kind", "symbols"),
    [
        ("float", {"__aeabi_i2f", "__aeabi_fmul", "__aeabi_fcmpgt", "__aeabi_f2iz"}),
        ("double", {"__aeabi_i2d", "__aeabi_dmul", "__aeabi_dcmpgt", "__aeabi_d2iz"}),
    ],
)
def test_a_planted_float_is_found(microcontroller: Target, kind: str, symbols: set[str], tmp_path: Path) -> None:
    done = compile_planted(microcontroller, kind, tmp_path, *cortex_flags(microcontroller))
    assert done.returncode == 0, done.stderr
    assert symbols <= set(soft_float_symbols(tmp_path / "planted"))


def test_the_same_program_in_integers_is_clean(microcontroller: Target, tmp_path: Path) -> None:
    done = compile_planted(microcontroller, "long long", tmp_path, *cortex_flags(microcontroller))
    assert done.returncode == 0, done.stderr
    assert soft_float_symbols(tmp_path / "planted") == []


def test_the_scalar_engine_needs_no_floating_point_register(arm64_integers: Target) -> None:
    commands = arm64_integers.folder / "engine" / "CMakeFiles" / "everbit_engine.dir" / "flags.make"
    assert "-mgeneral-regs-only" in commands.read_text()
    assert "HAS_NEON" not in commands.read_text()
    assert arm64_integers.program.is_file()


def test_a_planted_float_does_not_compile_without_registers(arm64_integers: Target, tmp_path: Path) -> None:
    assert compile_planted(arm64_integers, "int", tmp_path, "-mgeneral-regs-only").returncode == 0
    done = compile_planted(arm64_integers, "float", tmp_path, "-mgeneral-regs-only")
    assert done.returncode != 0
    assert "-mgeneral-regs-only" in done.stderr


FLOATING = """
__aeabi_fadd __aeabi_drsub __aeabi_cfcmple __aeabi_cdrcmple __aeabi_f2ulz __aeabi_h2f_alt __aeabi_i2f __aeabi_ui2d
__aeabi_l2f __aeabi_ul2d __aeabi_dcmpun __addsf3 __muldf3 __divtf3 __negsf2 __unorddf2 __powidf2 __floatsisf
__floatundidf __fixdfsi __fixunssfdi __extendsfdf2 __truncdfsf2
"""
WHOLE = "__aeabi_lmul __aeabi_uldivmod __aeabi_idiv0 __aeabi_memcpy __divdi3 __muldi3 __sflush_r __sfp __sfvwrite_r"


@pytest.mark.parametrize(
    ("name", "floating"), [(name, True) for name in FLOATING.split()] + [(name, False) for name in WHOLE.split()]
)
def test_names_of_soft_float(name: str, floating: bool) -> None:
    assert bool(SOFT_FLOAT.fullmatch(name)) == floating
