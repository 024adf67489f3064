"""Many runs at once: a job is one class order of one configuration, wherever it is done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from everbit.data.datasets import Dataset, load
from everbit.experiments.configuration import Configuration, FloatKind
from everbit.experiments.experiment import identity_of, prepared_dataset, run_seed, stream_of, summarized
from everbit.experiments.models import ModelSource, model_source

FLOAT_COST = 8
"""Times that a run in PyTorch takes longer than one by the engine, roughly: for the order of the jobs and the bar."""


@dataclass(frozen=True)
class Job:
    """One run. root: folder of the data set's file. weights: a backbone file, None for the package's."""

    configuration: Configuration
    seed: int
    root: Path | None = None
    weights: Path | None = None

    @property
    def key(self) -> str:
        """The same for two jobs that are the same run."""
        c = self.configuration
        return json.dumps([c.described(), c.model, self.seed, str(self.root), str(self.weights)], sort_keys=True)

    @property
    def cost(self) -> int:
        """How long it takes, beside others."""
        return FLOAT_COST if isinstance(self.configuration.kind, FloatKind) else 1

    def run(self, cache: Path) -> dict[str, Any]:
        """Does it, or takes it from the cache, an existing folder."""
        dataset, source = self._inputs()
        return run_seed(self.configuration, dataset, source, self.seed, cache)

    def identity(self) -> dict[str, Any]:
        """What the run is known by in a cache."""
        dataset, source = self._inputs()
        return identity_of(self.configuration, stream_of(self.configuration, dataset, self.seed), source, self.seed)

    def _inputs(self) -> tuple[Dataset, ModelSource]:
        c = self.configuration
        source = model_source(c.model, c.bits, cut=c.cut, width=c.width, image_size=c.image_size, weights=self.weights)
        return prepared_dataset(c, _fitted(c.data, self.root, source.input_shape), source), source


@lru_cache(maxsize=1)
def _loaded(name: str, root: Path | None) -> Dataset:
    """Decoding takes seconds, and jobs that follow one another mostly share their data set."""
    return load(name, root)


@lru_cache(maxsize=1)
def _fitted(name: str, root: Path | None, shape: tuple[int, int, int]) -> Dataset:
    return _loaded(name, root).fitted(shape)


Finished = Callable[[Job, dict[str, Any]], None]
"""Called with each job and its run, as it is done."""


class Executor(Protocol):
    """Does jobs somewhere, several at a time."""

    def run(self, jobs: Sequence[Job], cache: Path) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields the number of each job and its run as they are done: each once, and again where it was lost."""


def sweep(
    jobs: Sequence[Job], executor: Executor, cache: Path, finished: Finished | None = None
) -> list[dict[str, Any]]:
    """The runs of all jobs, in their order; the same job is done once. Raises what the jobs raise."""
    of_key = {job.key: job for job in jobs}
    distinct = sorted(of_key.values(), key=lambda job: -job.cost)  # a long one at the end would leave processes idle
    runs: dict[str, dict[str, Any]] = {}
    for number, run in executor.run(distinct, cache):
        runs[distinct[number].key] = run
        if finished is not None:
            finished(distinct[number], run)
    return [runs[job.key] for job in jobs]


def sweep_configurations(
    configurations: Sequence[Configuration],
    seeds: Sequence[int],
    executor: Executor,
    cache: Path,
    *,
    root: Path | None = None,
    weights: Path | None = None,
    finished: Finished | None = None,
) -> list[dict[str, Any]]:
    """The result of each configuration, as `everbit experiment` gives it, all runs of all of them swept together.

    root, weights: of every job.
    """
    jobs = [Job(configuration, seed, root, weights) for configuration in configurations for seed in seeds]
    runs = sweep(jobs, executor, cache, finished)
    return [
        summarized(configuration, runs[index * len(seeds) : (index + 1) * len(seeds)])
        for index, configuration in enumerate(configurations)
    ]
