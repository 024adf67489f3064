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
from golden.kernel_vectors import KERNEL_VECTORS  # noqa: E402
from golden.learning_runs import EPOCHS, EXPERIENCES, LearningRun, learning_runs  # noqa: E402
from golden.network_vectors import CLASSES, LABELS, RATES, network_vectors  # noqa: E402

HEADER = REPOSITORY / "engine" / "selftest" / "golden_vectors.h"
LINE = 140


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


def _rates() -> str:
    return ", ".join(f"{{{RATES[kind].mantissa}, {RATES[kind].exponent}}}" for kind in PARAMETER_KINDS)


def _learning_run(image: str, run: LearningRun) -> Iterator[str]:
    o = run.options
    size = len(program_image(run.program))
    yield f'    {{"{run.name}", {{{image}, {size}}},'
    yield (
        f"     {{{{{run.q_bin}, {run.q_nonbin}}}, {o.classes}, {o.replay_slots}, {o.replay_per_class}, "
        f"{max(map(len, EXPERIENCES))}, {o.batch_new}, {o.batch_replayed}, HeadRule::kCwr, true, "
        f"{str(o.count_replayed).lower()}, {o.seed}, {{{_rates()}}}}},"
    )
    yield f"     {run.learned():#018x}, {run.state():#018x}}},"


def _lines() -> Iterator[str]:
    networks, runs = network_vectors(), learning_runs()
    yield "// Written by tools/make_selftest.py; not to be edited. Digests: engine/selftest/digest.h."
    yield "#pragma once"
    yield ""
    yield '#include "vectors.h"'
    yield ""
    yield "namespace everbit::selftest {"
    yield ""
    yield "inline constexpr KernelVector kKernelVectors[] = {"
    yield from (f"    {vector.initializer()}" for vector in KERNEL_VECTORS)
    yield "};"
    yield ""
    yield f"inline constexpr int32_t kNetworkClasses = {CLASSES};"
    yield f"inline constexpr int32_t kNetworkLabels[] = {{{', '.join(map(str, LABELS))}}};"
    yield f"inline constexpr Scale kNetworkRates[kParameterKinds] = {{{_rates()}}};"
    for index, network in enumerate(networks):
        yield from _image(f"kNetworkImage{index}", network.program)
    yield "inline constexpr NetworkVector kNetworkVectors[] = {"
    for index, network in enumerate(networks):
        size = len(program_image(network.program))
        yield (
            f'    {{"{network.name}", {{kNetworkImage{index}, {size}}}, {{{network.q_bin}, {network.q_nonbin}}}, '
            f"{network.batch}, {network.seed}, {network.golden():#018x}}},"
        )
    yield "};"
    yield ""
    yield f"inline constexpr int32_t kEpochs = {EPOCHS};"
    yield "inline constexpr Experience kExperiences[] = {"
    yield from (f"    {{{len(labels)}, {{{', '.join(map(str, labels))}}}}}," for labels in EXPERIENCES)
    yield "};"
    for index, run in enumerate(runs):
        yield from _image(f"kLearningImage{index}", run.program)
    yield "inline constexpr LearningRun kLearningRuns[] = {"
    for index, run in enumerate(runs):
        yield from _learning_run(f"kLearningImage{index}", run)
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
