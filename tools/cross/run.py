#!/usr/bin/env python3
"""Builds the selftest for every processor, runs it, and compares the digests: `make test-cross`.

Installs what it lacks where it may (Debian, as root). Prints a table; the exit status is 0 where every vector on every
instruction set has the same digest, 1 where one differs, 2 where something is missing.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cross.soft_float import soft_float_symbols
from cross.targets import CROSS_TARGETS, Target, native_target

VECTOR = re.compile(r"  (\S.*?)  +(?:(learned|state) +)?([0-9a-f]{16})  (ok|DIFFERS from [0-9a-f]{16})")
SKIPPED = re.compile(r"(\d+) skipped$")
ROW = "{:<17} {:<13} {:>7} {:>7} {:>6}  {:<16}  {}"


def install(targets: Iterable[Target]) -> None:
    """Installs the packages of the programs that are missing. Exits with what to do where it may not."""
    programs = {target.compiler or "g++": target.packages for target in targets}
    programs |= {target.emulator[0]: target.packages for target in targets if target.emulator} | {"cmake": ("cmake",)}
    missing = sorted({name for program, names in programs.items() if not shutil.which(program) for name in names})
    if not missing:
        return
    wanted = f"apt-get install --no-install-recommends {' '.join(missing)}"
    if not shutil.which("apt-get") or os.geteuid() != 0:
        sys.exit(f"cross compilers or emulators are missing. On Debian, as root:\n  {wanted}")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update"], check=True, env=environment)
    subprocess.run([*wanted.split(), "--yes"], check=True, env=environment)


def digests(output: str) -> dict[str, str]:
    """The table of a selftest: digest by vector."""
    return {f"{name} {what}".strip(): digest for name, what, digest, _ in VECTOR.findall(output)}


class Comparison:
    """Rows of the table, and every digest against the first one seen of its vector."""

    def __init__(self) -> None:
        self.first: dict[str, tuple[str, str]] = {}
        self.failures: list[str] = []
        print(ROW.format("target", "instructions", "vectors", "skipped", "s", "state", "result"))

    def add(self, target: Target, isa: str) -> None:
        """Runs one instruction set of a target that was built, and prints its row."""
        started = time.monotonic()
        done = target.run(isa)
        seconds = f"{time.monotonic() - started:.1f}"
        if done.returncode == 2 and target.optional:
            print(ROW.format(target.name, isa, "", "", "", "", "skipped: this processor has no such instruction set"))
            return
        found = digests(done.stdout)
        skipped = SKIPPED.search(done.stdout.strip())
        where = f"{target.name} {isa}"
        problems = [line for line in done.stdout.splitlines() if "DIFFERS" in line]
        for vector, digest in found.items():
            first, by = self.first.setdefault(vector, (digest, where))
            if digest != first:
                problems.append(f"  {vector}: {digest}, but {first} on {by}")
        if done.returncode != 0 and not problems:
            problems.append(f"  exit status {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}")
        states = [digest for vector, digest in found.items() if vector.endswith(" state")]
        if not skipped or not states:
            problems.append("  the run did not come to its end")
        result = "DIFFERS" if problems else "the same bits"
        self.failures += [f"{where}: {problem.strip()}" for problem in problems]
        counts = str(len(found)), skipped[1] if skipped else "", seconds
        print(ROW.format(target.name, isa, *counts, states[0] if states else "", result), flush=True)


def main() -> int:
    targets = (native_target(platform.machine()), *CROSS_TARGETS)
    install(targets)
    comparison = Comparison()
    for target in targets:
        try:
            target.build()
        except subprocess.CalledProcessError as error:
            problems = [line for line in error.stdout.splitlines() if "rror" in line]
            comparison.failures.append("\n".join([f"{target.name} does not build:", *(problems or [error.stdout])]))
            continue
        for isa in target.isas:
            comparison.add(target, isa)
        if target.bare and (symbols := soft_float_symbols(target.program)):
            comparison.failures.append(f"{target.name} holds floating point: {', '.join(symbols)}")
    print()
    for failure in comparison.failures:
        print(failure)
    bare = ", ".join(target.name for target in targets if target.bare)
    if not comparison.failures:
        print(f"Every processor computes the same bits. No soft-float symbol in {bare}.")
    return 1 if comparison.failures else 0


if __name__ == "__main__":
    sys.exit(main())
