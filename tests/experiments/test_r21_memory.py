"""R21's system in memory: what the command counts is what a learner takes, and it fits."""

from __future__ import annotations

import pytest

from everbit.experiments.reproductions.r21_memory import (
    CASES,
    LATENTS,
    LIMIT,
    Case,
    case_memory,
    case_program,
    r21_memory_outcome,
)
from everbit.experiments.reproductions.scales import SCALES

CLAIMED = [case for case in CASES if case.claimed]


@pytest.mark.parametrize("case", CLAIMED, ids=[case.name for case in CLAIMED])
def test_a_whole_system_takes_less_than_64_mb(case: Case) -> None:
    program = case_program(case)
    use = case_memory(program, case)
    assert sum(use.values()) < LIMIT
    assert min(use.values()) > 0
    assert use["replay memory"] >= LATENTS * program.latent_bytes


def test_the_page_has_a_row_and_a_verdict_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    binary = CASES[-1:]
    monkeypatch.setattr("everbit.experiments.reproductions.r21_memory.CASES", binary)
    outcome = r21_memory_outcome(SCALES["quick"])
    assert [verdict.holds for verdict in outcome.verdicts] == [True]
    assert len(outcome.table.rows) == 1 and len(outcome.table.rows[0]) == len(outcome.table.headings)
    assert outcome.draw is not None and outcome.draw().axes
