"""How far a sweep got, as a bar on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from everbit.experiments.sweep import Finished, Job


@contextmanager
def shown_sweep(console: Console, jobs: Sequence[Job]) -> Iterator[Finished]:
    """A watcher that moves a bar, with the time left, while the block runs; a quiet console shows none."""
    columns = (
        TextColumn("{task.fields[done]} of {task.fields[jobs]} runs"),
        BarColumn(),
        TextColumn("{task.fields[last]}"),
    )
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    hidden = console.quiet or not jobs
    with Progress(*columns, *times, console=console, disable=hidden, transient=True, speed_estimate_period=3600) as bar:
        task = bar.add_task("", total=sum(job.cost for job in jobs), done=0, jobs=len(jobs), last="")
        done = 0

        def show(job: Job, run: dict[str, Any]) -> None:
            nonlocal done
            done += 1
            c = job.configuration
            last = f"{c.model} {c.data} {c.learner} {c.bits} seed {job.seed}: {run['final_accuracy']:.1%}"
            bar.update(task, advance=job.cost, done=done, last=last)

        yield show
