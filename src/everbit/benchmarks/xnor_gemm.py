"""The xor-popcount matrix product against what the processor could do on registers alone."""

from __future__ import annotations

from math import prod
from typing import Any

from everbit._engine import XnorGemm, run_xnor_limit
from everbit.benchmarks.measurements import NotMeasuredError
from everbit.benchmarks.timing import ONE_THREAD, compared, interleaved
from everbit.engine import active_isa

SHAPES = ((3136, 576, 64), (784, 1152, 128), (196, 2304, 256), (49, 4608, 512))
"""Rows, K in bits, columns: QuickNet's four sections at 224 x 224; the second is also the shape peers are quoted at."""

CALLS = 40
"""Of the kernel, for one time that is long enough to take."""


def measure(repeats: int, threads: int) -> dict[str, object]:
    """Share of the limit, by shape and the lowest; one thread, whatever `threads` says.

    Raises NotMeasuredError where no limit is known for the instruction set.
    """
    if not run_xnor_limit(0):
        raise NotMeasuredError(f"no limit is known for {active_isa()}")
    shapes = {"x".join(map(str, shape)): _share(shape, repeats) for shape in SHAPES}
    return {
        "xnor_gemm_fraction_of_limit": min(shape["fraction_of_limit"] for shape in shapes.values()),
        "xnor_gemm": shapes,
    }


def _share(shape: tuple[int, int, int], repeats: int) -> dict[str, Any]:
    kernel = XnorGemm(*shape)
    products = prod(shape) * CALLS
    work = {"kernel": lambda: kernel.run(CALLS), "limit": lambda: run_xnor_limit(products // 64)}
    times = interleaved(work, repeats, ONE_THREAD)
    result = compared(times, "limit", "kernel")
    speed = {name: round(products / (time["median"] * 1e-3) / 1e12, 4) for name, time in result["milliseconds"].items()}
    return {"fraction_of_limit": result.pop("ratio"), "tera_binary_mac_per_second": speed, **result}
