"""The measurements on small networks and shapes: the same code, in seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from everbit.benchmarks import binary_convolution, birealnet18, learn_step_growth, learner_memory, xnor_gemm
from everbit.compile.program import Program
from experiments.small_model import small_program


@pytest.fixture
def small_measurements(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def load_small(path: Path) -> Program:
        return small_program()

    monkeypatch.setattr(birealnet18, "WIDTH", 1 / 32)
    monkeypatch.setattr(xnor_gemm, "SHAPES", ((13, 128, 9), (5, 64, 17)))
    monkeypatch.setattr(binary_convolution, "SIDE", 6)
    monkeypatch.setattr(learn_step_growth, "CLASSES", (10, 20))
    monkeypatch.setattr(learn_step_growth, "EXPERIENCES", (1, 3))
    monkeypatch.setattr(learn_step_growth, "load_program", load_small)
    monkeypatch.setattr(learner_memory, "load_program", load_small)
    _forget()
    yield
    _forget()


def _forget() -> None:
    birealnet18.random_network.cache_clear()
    birealnet18.random_program.cache_clear()
