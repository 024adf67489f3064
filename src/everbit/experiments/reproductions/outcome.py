"""What came of a reproduction, before it is drawn and written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from everbit.experiments.reproductions.claims import Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Table:
    """Rows of text under their headings."""

    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Outcome:
    """One table or figure: the paper's claim, verdicts on it, our numbers.

    paper: what it shows there. numbers: all of ours, as JSON. table: those a reader wants. draw: makes the figure.
    notes: what a reader has to know to judge it. missing: why it could not be made here, empty where it was.
    """

    title: str
    paper: str
    verdicts: list[Verdict]
    numbers: dict[str, Any]
    table: Table
    draw: Callable[[], Figure] | None = None
    notes: tuple[str, ...] = ()
    missing: str = ""
