"""All reproductions by name: the runs they need, and what comes of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from everbit.errors import ConfigurationError
from everbit.experiments.configuration import Configuration
from everbit.experiments.experiment import summarized
from everbit.experiments.reproductions.outcome import Outcome
from everbit.experiments.reproductions.scales import Scale
from everbit.experiments.reproductions.stream_outcome import not_run, stream_outcome
from everbit.experiments.reproductions.streams import STREAM_FIGURES, Panel
from everbit.experiments.reproductions.tables import TABLES
from everbit.experiments.sweep import Job

ALL = "all"
NAMES = (
    "table1",
    "table2",
    *(name for name in STREAM_FIGURES if name.startswith("fig")),
    "w23-memory",
    "r21-latents",
    "r21-memory",
    "presets",
)
"""In the order of the index."""


def named(name: str) -> tuple[str, ...]:
    """The reproductions that a name of the command line means. Raises ConfigurationError for an unknown one."""
    if name == ALL:
        return NAMES
    if name not in NAMES:
        raise ConfigurationError(f"unknown reproduction {name!r}: choose one of {', '.join(NAMES)}, or {ALL}")
    return (name,)


def jobs_of(names: Sequence[str], scale: Scale, root: Path | None) -> list[Job]:
    """Every run that the named figures need, each once."""
    jobs = [job for name in names if name in STREAM_FIGURES for job in _figure_jobs(name, scale, root)]
    return list({job.key: job for job in jobs}.values())


def outcome_of(name: str, scale: Scale, root: Path | None, runs: dict[str, dict[str, Any]]) -> Outcome:
    """One reproduction. runs: by the key of their job, all that it needs."""
    if name in TABLES:
        return TABLES[name](scale)
    figure = STREAM_FIGURES[name]
    if missing := figure.missing(root):
        return not_run(figure, missing)
    results = []
    for panel in figure.panels:
        for configuration in figure.configurations(panel, scale):
            jobs = [_job(panel, configuration, seed, root) for seed in range(scale.orders)]
            results.append(summarized(configuration, [runs[job.key] for job in jobs]))
    return stream_outcome(figure, scale, results)


def _figure_jobs(name: str, scale: Scale, root: Path | None) -> list[Job]:
    """The jobs of one class order follow one another: they share what stands before the cut."""
    figure = STREAM_FIGURES[name]
    if figure.missing(root):
        return []
    return [
        _job(panel, configuration, seed, root)
        for panel in figure.panels
        for seed in range(scale.orders)
        for configuration in figure.configurations(panel, scale)
    ]


def _job(panel: Panel, configuration: Configuration, seed: int, root: Path | None) -> Job:
    return Job(configuration, seed, root, panel.weights(root))
