"""Runs measurements and gathers what they found, what they should reach, and what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from everbit.benchmarks.goals import GOALS, figures
from everbit.benchmarks.machine import describe_machine
from everbit.benchmarks.measurements import MEASUREMENTS, NotMeasuredError
from everbit.benchmarks.timing import ONE_THREAD, clock_for

Result = dict[str, object]

UNKNOWN = "this system does not tell"
"""Why a figure is null that a measurement could not read."""


def run_measurements(
    names: Iterable[str], only: Iterable[str], repeats: int, threads: int, watcher: Callable[[str], None]
) -> Result:
    """Runs those of `names` that are in `only`, or all of them where that is empty.

    The result has `machine`, `repeats`, `threads` and `clock`; every field of the chosen measurements at the top level,
    null where it could not be measured, with the reason in `missing`; the details behind each; and `goals`. watcher:
    called with the name of each measurement before it starts.
    """
    chosen = list(only)
    result: Result = {"machine": describe_machine(), "repeats": repeats, "threads": threads}
    result["clock"] = "processor time" if clock_for(threads) is ONE_THREAD else "wall time"
    missing: dict[str, str] = {}
    for name in names:
        if chosen and name not in chosen:
            continue
        measurement = MEASUREMENTS[name]
        watcher(name)
        try:
            found = measurement.run(repeats, threads)
            missing.update(cast(dict[str, str], found.pop("missing", {})))
            result |= {**dict.fromkeys(measurement.fields), **found}
        except NotMeasuredError as error:
            result |= dict.fromkeys(measurement.fields)
            missing |= dict.fromkeys(measurement.fields, str(error))
        missing |= {field: UNKNOWN for field in measurement.fields if result[field] is None and field not in missing}
    return {**result, "missing": missing, "goals": _judged(result)}


def _judged(result: Result) -> dict[str, dict[str, object]]:
    """Value, goal and whether it holds (None without a value), by the name of the goal."""
    return {
        name: {
            "value": figure,
            "goal": str(GOALS[name]),
            "holds": None if figure is None else GOALS[name].holds(figure),
        }
        for field, value in result.items()
        for name, figure in figures(field, value).items()
    }
