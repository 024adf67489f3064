"""Turns, ratios and spread, on a clock that the test moves."""

from __future__ import annotations

import numpy as np

from everbit.benchmarks.timing import MORE_THREADS, ONE_THREAD, clock_for, compared, interleaved


class Clock:
    """Stands still but for the work of contenders."""

    def __init__(self) -> None:
        self.now = 0.0
        self.order: list[str] = []

    def __call__(self) -> float:
        return self.now

    def work(self, name: str, *seconds: float) -> None:
        self.order.append(name)
        self.now += seconds[(self.order.count(name) - 1) % len(seconds)]


def test_contenders_take_turns_after_one_untimed_run() -> None:
    clock = Clock()
    work = {"ours": lambda: clock.work("ours", 99, 1, 3, 2), "peer": lambda: clock.work("peer", 77, 8)}
    times = interleaved(work, 3, clock)
    assert clock.order == ["ours", "peer"] * 4
    assert {name: seconds.tolist() for name, seconds in times.items()} == {"ours": [1, 3, 2], "peer": [8, 77, 8]}


def test_a_ratio_is_of_medians_and_its_spread_of_rounds() -> None:
    times = {"ours": np.array([1.0, 2.0, 4.0]), "peer": np.array([8.0, 12.0, 8.0]), "other": np.ones(3)}
    assert compared(times, "peer", "ours") == {
        "ratio": 4.0,
        "ratio_quartiles": [4.0, 7.0],
        "milliseconds": {
            "peer": {"quartile_1": 8000.0, "median": 8000.0, "quartile_3": 10000.0},
            "ours": {"quartile_1": 1500.0, "median": 2000.0, "quartile_3": 3000.0},
        },
    }


def test_several_threads_are_timed_on_the_wall() -> None:
    assert [clock_for(threads) for threads in (1, 2, 8)] == [ONE_THREAD, MORE_THREADS, MORE_THREADS]
