"""The command `everbit evaluate`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from everbit.data.root_option import Root

if TYPE_CHECKING:
    from everbit.learner.learner import Learner

SPLITS = ("test", "train")
SQLITE = b"SQLite format 3\0"


def evaluate_command(
    model: Annotated[str, typer.Argument(help="An .everbit file, a packaged model's name, or a .learner file.")],
    data: Annotated[str, typer.Option(help="Data set: cifar10, mnist, tiny_imagenet, ...")],
    root: Root = None,
    split: Annotated[str, typer.Option(help="test or train.")] = "test",
    count: Annotated[int | None, typer.Option(help="Most images, spread over the split.", min=1)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Accuracy of the classes that a model or a saved learner knows, on a data set's images."""
    from everbit.data.datasets import load
    from everbit.data.lazy_images import view
    from everbit.errors import ConfigurationError
    from everbit.learner.evaluation import class_numbers, evaluate

    if split not in SPLITS:
        raise ConfigurationError(f"unknown split {split!r}: choose one of {', '.join(SPLITS)}")
    learner, learned = _opened(model)
    if not learner.classes_:
        raise ConfigurationError(f"{model} knows no classes: compile it with --keep-classifier, or let a learner learn")
    dataset = load(data, root)
    numbers = class_numbers(learner.classes_, dataset.class_names, all_of_them=not learned)
    images, labels = getattr(dataset, f"{split}_images"), getattr(dataset, f"{split}_labels")
    step = 1 if count is None else max(1, len(images) // count)
    chosen = np.arange(len(images))[::step][:count]
    images, labels = view(images, chosen), labels[chosen]
    columns = (TextColumn("{task.completed} of {task.total} images"), BarColumn(), TextColumn("{task.fields[state]}"))
    with Progress(*columns, console=Console(stderr=True), disable=quiet or as_json, transient=True) as bar:
        task = bar.add_task("", total=len(images), state="")

        def show(done: int, accuracy: float) -> None:
            bar.update(task, completed=done, state=f"top-1 {accuracy:.2%}")

        found = evaluate(learner, images, labels, numbers, show)
    speed = found.images / found.seconds
    if as_json:
        result = {"model": model, "data": data, "split": split, "images": found.images, "classes": len(numbers)}
        typer.echo(json.dumps(result | {"top1": found.top1, "top5": found.top5, "images_per_second": speed}))
        return
    top5 = "" if found.top5 is None else f", top-5 {found.top5:.2%}"
    known = (
        f"{len(numbers)} classes"
        if len(numbers) == len(dataset.class_names)
        else (f"{len(numbers)} of the {len(dataset.class_names)} classes")
    )
    Console().print(
        f"top-1 {found.top1:.2%}{top5} of {found.images} {split} images of {data} "
        f"({known} known, {speed:.0f} images/s)",
        soft_wrap=True,
    )


def _opened(model: str) -> tuple[Learner, bool]:
    """A learner that classifies with a model's classes, or a saved one; and whether it is a saved one."""
    from everbit.learner.learner import Learner
    from everbit.learner.settings import Settings
    from everbit.zoo.packaged import packaged_model

    path = packaged_model(model)
    if path.is_file() and path.read_bytes().startswith(SQLITE):
        return Learner.load(path), True
    # It will learn nothing: no room for what learning takes.
    return Learner.open(path, settings=Settings("cwr", classes=1, experience_images=1, batch_new=1)), False
