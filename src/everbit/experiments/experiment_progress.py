"""How far an experiment got, as a bar on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from everbit.experiments.experiment import Watcher


@contextmanager
def shown_progress(console: Console, seeds: int) -> Iterator[Watcher]:
    """A watcher that moves a bar, one step an experience, while the block runs; a quiet console shows none."""
    columns = (TextColumn("seed {task.fields[seed]}"), BarColumn(), TextColumn("{task.fields[state]}"))
    with Progress(*columns, TimeElapsedColumn(), console=console, disable=console.quiet, transient=True) as bar:
        task = bar.add_task("", total=None, seed=f"0 of {seeds}", state="")

        def show(seed: int, index: int, experiences: int, fraction: float, accuracies: list[float]) -> None:
            last = f", accuracy {accuracies[-1]:.1%}" if accuracies else ""
            state = f"experience {index + 1} of {experiences}{last}"
            done = seed * experiences + index + fraction
            bar.update(task, total=seeds * experiences, completed=done, seed=f"{seed + 1} of {seeds}", state=state)

        yield show
