"""What `everbit demo` shows in the terminal: a live bar, and a table after each experience."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from everbit.data.stream import Experience
from everbit.experiments.byte_size import byte_size
from everbit.experiments.demo import DemoRun, Record, Watcher


class DemoDisplay(Watcher):
    """A watcher that draws; use it as a context manager around the run."""

    def __init__(self, run: DemoRun, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(20),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        total = len(run.stream.train_stream) * sum(_patterns_per_image(record) for record in run.records.values())
        self._task = self._bar.add_task("starting", total=total)
        self._done = 0.0

    def __enter__(self) -> DemoDisplay:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()

    def began(self, run: DemoRun, experience: Experience, record: Record) -> None:
        names = ", ".join(run.stream.class_names[label] for label in experience.classes)
        place = f"{experience.index + 1} of {len(run.stream.train_stream)}"
        self._bar.update(self._task, description=f"{place} ({names}): {record.name}")

    def stepped(self, run: DemoRun, record: Record, fraction: float) -> None:
        weight = _patterns_per_image(record)
        self._bar.update(self._task, completed=self._done + weight * fraction)
        if fraction == 1:
            self._done += weight

    def learned(self, run: DemoRun, experience: Experience) -> None:
        self._console.print(experience_table(run, experience))


def experience_table(run: DemoRun, experience: Experience) -> Table:
    """Where every learner stands after an experience: accuracies, memory, time."""
    names = run.stream.class_names
    seen = run.classes_after(experience.index)
    title = f"After experience {experience.index + 1}: {', '.join(names[label] for label in experience.classes)}"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("")
    for name in run.records:
        table.add_column(name, justify="right", style="bold" if name == "lr_cwr" else None)

    def row(label: str, value: Callable[[Record], str], style: str | None = None) -> None:
        table.add_row(label, *(value(record) for record in run.records.values()), style=style)

    def accuracy_row(label: str, classes: list[int], style: str | None = None) -> None:
        row(label, lambda record: f"{run.accuracy_on(record.predicted[-1], classes):.1%}", style)

    accuracy_row(f"all {len(names)} classes", run.class_order)
    accuracy_row(f"the {len(seen)} classes so far", seen)
    for label in seen:
        accuracy_row(f"  {names[label]}", [label], "dim" if label not in experience.classes else None)
    table.add_section()
    row("replay memory", lambda record: byte_size(record.learner.memory_use["replay"]))
    row("learner memory", lambda record: byte_size(record.learner.memory_use["total"]))
    milliseconds = 1000 / len(experience.labels)
    row("time per image learned", lambda record: f"{record.learning_seconds[-1] * milliseconds:.1f} ms")
    return table


def _patterns_per_image(record: Record) -> float:
    """Patterns trained for each new image, replayed ones included: how much of the bar a learner takes."""
    settings = record.learner.settings
    return 1 + (settings.batch_replayed / settings.batch_new if settings.rule.replay else 0)
