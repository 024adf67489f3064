#!/usr/bin/env python3
"""Writes engine/selftest/golden_vectors.h: `python tools/make_selftest.py` from the top of the repository.

Run it again whenever docs/arithmetic.md, the program image or the table of layers changes. Golden digests come from the
NumPy reference in tests/reference; only the bytes of a learner's state, whose layout is the engine's own, come from the
scalar engine.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY / "tools")]

import numpy as np  # noqa: E402

from everbit.compile.image import program_image  # noqa: E402
from everbit.compile.operations import PARAMETER_KINDS  # noqa: E402
from everbit.compile.program import Program  # noqa: E402
from everbit.whole_file import replacing  # noqa: E402
from golden import learning_runs as runs  # noqa: E402
from golden import network_vectors as networks  # noqa: E402
from golden.kernel_vectors import KERNEL_VECTORS  # noqa: E402

HEADER = REPOSITORY / "engine" / "selftest" / "golden_vectors.h"
LINE = 140
CONSTANTS = {
    "NetworkClasses": networks.CLASSES,
    "RunClasses": runs.CLASSES,
    "ReplaySlots": runs.REPLAY_SLOTS,
    "ReplayPerClass": runs.REPLAY_PER_CLASS,
    "ExperiencePatterns": runs.EXPERIENCE_PATTERNS,
    "BatchNew": runs.BATCH_NEW,
    "BatchReplayed": runs.BATCH_REPLAYED,
    "Epochs": runs.EPOCHS,
}


def _joined(words: list[str]) -> Iterator[str]:
    """Words in lines of the style's length."""
    line = " "
    for word in words:
        if len(line) + len(word) + 2 > LINE:
            yield line
            line = " "
        line += f" {word},"
    yield line


def _image(name: str, program: Program) -> Iterator[str]:
    image = program_image(program)
    words = np.frombuffer(image.ljust(-(-len(image) // 8) * 8, b"\0"), "<u8")
    yield f"alignas(64) inline constexpr uint64_t {name}[] = {{  // {len(image)} bytes"
    yield from _joined([str(word) if word < 10 else hex(word) for word in words.tolist()])
    yield "};"


def _lines() -> Iterator[str]:
    rates = ", ".join(f"{{{rate.mantissa}, {rate.exponent}}}" for rate in map(networks.RATES.get, PARAMETER_KINDS))
    yield "// Written by tools/make_selftest.py; not to be edited. Digests: engine/digest.h."
    yield "#pragma once"
    yield ""
    yield '#include "vectors.h"'
    yield ""
    yield "namespace everbit::selftest {"
    yield ""
    yield from (f"inline constexpr int32_t k{name} = {value};" for name, value in CONSTANTS.items())
    yield f"inline constexpr int32_t kNetworkLabels[] = {{{', '.join(map(str, networks.LABELS))}}};"
    yield f"inline constexpr Scale kRates[kParameterKinds] = {{{rates}}};"
    yield "inline constexpr Experience kExperiences[] = {"
    yield from (f"    {{{len(labels)}, {{{', '.join(map(str, labels))}}}}}," for labels in runs.EXPERIENCES)
    yield "};"
    yield ""
    yield "inline constexpr KernelVector kKernelVectors[] = {"
    yield from (f"    {vector.initializer()}" for vector in KERNEL_VECTORS)
    yield "};"
    for kind, plural, vectors in (
        ("NetworkVector", "kNetworkVectors", networks.network_vectors()),
        ("LearningRun", "kLearningRuns", runs.learning_runs()),
    ):
        yield ""
        for index, vector in enumerate(vectors):
            yield from _image(f"k{kind}{index}", vector.program)
        yield f"inline constexpr {kind} {plural}[] = {{"
        yield from (f"    {vector.initializer(f'k{kind}{index}')}" for index, vector in enumerate(vectors))
        yield "};"
    yield ""
    yield "}  // namespace everbit::selftest"


def header() -> str:
    """The text of the generated header."""
    return "\n".join(_lines()) + "\n"


if __name__ == "__main__":
    with replacing(HEADER) as path:
        Path(path).write_text(header())
    print(f"{HEADER}: {HEADER.stat().st_size} bytes")
