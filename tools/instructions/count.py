#!/usr/bin/env python3
"""Counts the instructions of a learn step: `python tools/instructions/count.py [MODEL]` from the top of the repository.

On a Cortex-M4 and on 64-bit ARM under QEMU with a plugin (counter.c), on this machine under valgrind, which knows AVX2
but neither AVX-512 nor AMX. A model is exported with one epoch and with two; what the second run has more is the steps
of one more epoch, two of them, and nothing else.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tools"))

from cross.targets import BUILD, CROSS_TARGETS, Target, native_target  # noqa: E402
from everbit.data.datasets import load  # noqa: E402
from everbit.formats.exporters.c import export_c  # noqa: E402
from everbit.formats.model_file import load_program  # noqa: E402
from everbit.learner.settings import Settings  # noqa: E402
from everbit.zoo.packaged import packaged_model  # noqa: E402

BATCH = 16
STEPS_OF_AN_EPOCH = 2
"""One of each experience: as many patterns as a mini-batch has."""

FOLDER = BUILD / "instructions"
PLUGIN = FOLDER / "counter.so"
BOARD = "mps2-an386"
QEMU = ("qemu-system-arm", "-machine", BOARD, "-display", "none", "-monitor", "none", "-serial", "none")


@dataclass(frozen=True)
class Way:
    """One way to run a step.

    prefix: of the compiler. kernels: of the exported project, or of the library that `library` has built. processor: of
    QEMU for programs of Linux; "" for a board, or for this machine, where prefix is "" too.
    """

    machine: str
    kernels: str
    prefix: str = ""
    library: Target | None = None
    processor: str = ""

    @property
    def project(self) -> Path:
        return FOLDER / f"{self.machine}-{self.kernels}".replace(" ", "-")


ARM64 = next(target for target in CROSS_TARGETS if target.name == "aarch64")
WAYS = (
    Way("Cortex-M4", "scalar", "arm-none-eabi-"),
    Way("Cortex-M4", "dsp", "arm-none-eabi-"),
    Way("64-bit ARM", "scalar", "aarch64-linux-gnu-", None, "cortex-a53"),
    Way("64-bit ARM", "neon", "aarch64-linux-gnu-", ARM64, "cortex-a53"),
    Way("64-bit ARM", "neon_dotprod", "aarch64-linux-gnu-", ARM64, "max"),
    Way("this machine", "scalar"),
    Way("this machine", "what valgrind has", library=native_target(platform.machine())),
)


def export(model: str, way: Way, epochs: int, bits: str | None) -> None:
    """A project without replay, so that every step has the same number of patterns."""
    settings = Settings(strategy="naive", classes=2, batch_new=BATCH, batch_replayed=0)
    program = load_program(packaged_model(model))
    export_c(
        program,
        Path(model).stem,
        way.project,
        load("fashion_demo"),
        settings,
        bits,
        images=BATCH,
        tests=1,
        epochs=epochs,
    )


def run(*command: str | Path, folder: Path | None = None, status: tuple[int, ...] = (0,)) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode not in status:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def counted(counts: Path) -> int:
    """What the plugin wrote, in sum."""
    return sum(int(line.split()[1]) for line in counts.read_text().splitlines())


def on_a_board(way: Way) -> int:
    """Instructions of the whole program on the board."""
    flags = "-DEVERBIT_SCALAR_ONLY" if way.kernels == "scalar" else ""
    run("make", "-s", "-j2", f"TARGET={BOARD}", f"CXXFLAGS={flags}", folder=way.project)
    counts = way.project / "counts.txt"
    console = ("-chardev", "stdio,id=console", "-semihosting-config", "enable=on,target=native,chardev=console")
    program = way.project / "build" / BOARD / "learn"
    run(*QEMU, *console, "-plugin", PLUGIN, "-d", "plugin", "-D", counts, "-kernel", program)
    return counted(counts)


def build(way: Way) -> Path:
    """The project for a system, with its own scalar kernels or with those of the library."""
    compilers = f"{way.prefix}gcc" if way.prefix else "cc", f"{way.prefix}g++" if way.prefix else "c++"
    if way.library is None:
        run("make", "-s", "-j2", f"CC={compilers[0]}", f"CXX={compilers[1]}", folder=way.project)
        return way.project / "build" / "host" / "learn"
    way.library.build("everbit_engine")
    sources = [way.project / name for name in ("main.c", "model.c", "host/console.c")]
    headers = f"-I{way.project}/engine/include", f"-I{way.project}"
    # The library's kernels need room of their own, so that main.c reports a difference from what was planned.
    run(compilers[0], "-O2", "-c", "-DMODEL_ARENA_BYTES=(64 << 20)", *headers, *sources, folder=way.project)
    objects = [way.project / f"{source.stem}.o" for source in sources]
    run(compilers[1], *objects, way.library.folder / "engine" / "libeverbit.a", "-fopenmp", "-o", way.project / "learn")
    return way.project / "learn"


def on_a_system(way: Way) -> int:
    """Instructions of the whole program under QEMU or valgrind."""
    program, counts = build(way), way.project / "counts.txt"
    status = (0,) if way.library is None else (1,)
    if way.prefix:
        emulator = ("qemu-aarch64", "-cpu", way.processor, "-L", "/usr/aarch64-linux-gnu")
        run(*emulator, "-plugin", PLUGIN, "-d", "plugin", "-D", counts, program, status=status)
        return counted(counts)
    output = run("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, status=status)
    found = re.search(r"Collected : (\d+)", output)
    if found is None:
        raise SystemExit(output)
    return int(found[1])


def step_instructions(model: str, way: Way, bits: str | None = None) -> int:
    """Instructions of one step of BATCH patterns. Raises SystemExit with what a tool said where it fails."""
    count = on_a_board if way.machine == "Cortex-M4" else on_a_system
    totals = []
    for epochs in (1, 2):
        export(model, way, epochs, bits)
        totals.append(count(way))
    return (totals[1] - totals[0]) // STEPS_OF_AN_EPOCH


def build_plugin() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    run("cc", "-O1", "-shared", "-fPIC", Path(__file__).with_name("counter.c"), "-o", PLUGIN)


def main() -> None:
    model = sys.argv[1] if len(sys.argv) > 1 else "birealnet18"
    missing = [
        name
        for name in ("qemu-system-arm", "arm-none-eabi-g++", "qemu-aarch64", "aarch64-linux-gnu-g++", "valgrind")
        if not shutil.which(name)
    ]
    if missing:
        raise SystemExit(
            f"install {', '.join(missing)}: on Debian, as root, `make test-cross` and `apt-get install valgrind`"
        )
    build_plugin()
    print(f"one step of {BATCH} patterns, {model}")
    for way in WAYS:
        print(f"{way.machine:<14} {way.kernels:<20} {step_instructions(model, way):>16,}", flush=True)


if __name__ == "__main__":
    main()
