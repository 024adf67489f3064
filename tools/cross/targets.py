"""The processors that the selftest is built for, and how each is run."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
TOOLCHAINS = REPOSITORY / "tools" / "cross"
BUILD = REPOSITORY / "build" / "cross"

_AN386 = ("qemu-system-arm", "-machine", "mps2-an386", "-nographic", "-semihosting", "-kernel")


@dataclass(frozen=True)
class Target:
    """One build of the selftest.

    isas: its instruction sets. compiler: "" for this machine's own. emulator: the words before the program. packages:
    Debian's, for compiler and emulator. options: of CMake. bare: no operating system, so that the program takes no
    argument, and must hold no soft-float symbol. optional: an instruction set that the processor lacks is skipped.
    """

    name: str
    isas: tuple[str, ...]
    compiler: str = ""
    emulator: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    bare: bool = False
    optional: bool = False

    @property
    def folder(self) -> Path:
        return BUILD / self.name

    @property
    def program(self) -> Path:
        return self.folder / "engine" / "selftest" / "everbit_selftest"

    def build(self, goal: str = "all") -> None:
        """Configures and builds, or only what changed. Raises CalledProcessError with the compiler's words."""
        toolchain = [f"-DCMAKE_TOOLCHAIN_FILE={TOOLCHAINS / self.name}.cmake"] if self.compiler else []
        configure = ["cmake", "-S", str(REPOSITORY), "-B", str(self.folder), *toolchain, *self.options]
        for command in (configure, ["cmake", "--build", str(self.folder), "--parallel", "2", "--target", goal]):
            subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, isa: str) -> subprocess.CompletedProcess[str]:
        """The selftest on one instruction set; see engine/selftest/main.cc for its exit status."""
        command = [*self.emulator, str(self.program), *([] if self.bare else [isa])]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)


_ARM64 = {
    "compiler": "aarch64-linux-gnu-g++",
    "emulator": ("qemu-aarch64", "-cpu", "max", "-L", "/usr/aarch64-linux-gnu"),
    "packages": ("g++-aarch64-linux-gnu", "qemu-user"),
}
_CORTEX_M = {
    "compiler": "arm-none-eabi-g++",
    "emulator": _AN386,
    "packages": ("gcc-arm-none-eabi", "libnewlib-arm-none-eabi", "libstdc++-arm-none-eabi-newlib", "qemu-system-arm"),
}

NATIVE = {
    "x86_64": ("scalar", "avx2", "avx512", "amx"),
    "aarch64": ("scalar", "neon", "neon_dotprod"),
    "armv7l": ("scalar", "neon"),
}
"""Instruction sets of this machine's family by its name; others have scalar kernels alone."""


def native_target(machine: str) -> Target:
    """The selftest on this machine; `machine` as platform.machine() names it."""
    return Target("native", NATIVE.get(machine, ("scalar",)), packages=("cmake", "g++", "make"), optional=True)


CROSS_TARGETS = (
    Target("aarch64", ("scalar", "neon", "neon_dotprod"), **_ARM64),
    Target("aarch64-integers", ("scalar",), **_ARM64),
    Target(
        "armv7",
        ("scalar", "neon"),
        compiler="arm-linux-gnueabihf-g++",
        emulator=("qemu-arm", "-L", "/usr/arm-linux-gnueabihf"),
        packages=("g++-arm-linux-gnueabihf", "qemu-user"),
    ),
    Target(
        "riscv64",
        ("scalar",),
        compiler="riscv64-linux-gnu-g++",
        emulator=("qemu-riscv64", "-L", "/usr/riscv64-linux-gnu"),
        packages=("g++-riscv64-linux-gnu", "qemu-user"),
    ),
    Target("cortex-m4", ("scalar, dsp",), **_CORTEX_M, bare=True),
    Target("cortex-m0plus", ("scalar",), **_CORTEX_M, options=("-DEVERBIT_SELFTEST_BYTES=131072",), bare=True),
)
"""cortex-m0plus has 128 KiB, as such parts may have; QEMU runs its code on a Cortex-M4."""
