"""Times of several contenders, taken in turns, so that a change of the machine's speed meets them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter, process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

Clock = Callable[[], float]

ONE_THREAD: Clock = process_time
"""Processor time: what one thread works, without the time in which other programs have the processor."""

MORE_THREADS: Clock = perf_counter
"""Time on the wall, for work that several threads share."""

Times = dict[str, NDArray[np.float64]]
"""Seconds of each contender, one a repeat."""


def clock_for(threads: int) -> Clock:
    """The clock for work on so many threads."""
    return ONE_THREAD if threads == 1 else MORE_THREADS


def interleaved(contenders: Mapping[str, Callable[[], object]], repeats: int, clock: Clock) -> Times:
    """Runs each contender once untimed, then all of them in turns, `repeats` times."""
    for run in contenders.values():
        run()
    rounds = [[_seconds(run, clock) for run in contenders.values()] for _ in range(repeats)]
    return dict(zip(contenders, np.array(rounds).T, strict=True))


def several(run: Callable[[], object], times: int) -> Callable[[], None]:
    """One call after another, as they come in use: caches are warm and threads awake from the second on."""

    def repeated() -> None:
        for _ in range(times):
            run()

    return repeated


def _seconds(run: Callable[[], object], clock: Clock) -> float:
    start = clock()
    run()
    return clock() - start


def ratio(times: Times, above: str, below: str) -> float:
    """Median time of one contender over that of another."""
    return round(float(np.median(times[above]) / np.median(times[below])), 4)


def ratio_quartiles(times: Times, above: str, below: str) -> list[float]:
    """First and third quartile of the ratio within a round: how much one repeat can be trusted."""
    return [round(float(value), 4) for value in np.percentile(times[above] / times[below], (25, 75))]


def milliseconds(times: Times) -> dict[str, dict[str, float]]:
    """Median and quartiles of each contender, in milliseconds."""
    names = ("quartile_1", "median", "quartile_3")
    return {
        contender: {
            name: round(float(value) * 1e3, 5)
            for name, value in zip(names, np.percentile(seconds, (25, 50, 75)), strict=True)
        }
        for contender, seconds in times.items()
    }


def compared(times: Times, above: str, below: str) -> dict[str, Any]:
    """A ratio with its spread and the times it comes from."""
    return {
        "ratio": ratio(times, above, below),
        "ratio_quartiles": ratio_quartiles(times, above, below),
        "milliseconds": milliseconds({name: times[name] for name in (above, below)}),
    }
