"""The command `everbit pretrain`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from everbit.data.root_option import Root
from everbit.errors import ConfigurationError

if TYPE_CHECKING:
    from everbit.zoo.pretrain import Position, Pretraining


def _choose_precision(name: str) -> str:
    """bfloat16 for "auto" where the CPU multiplies it in hardware."""
    import torch

    if name != "auto":
        return name
    return "bfloat16" if torch.ops.mkldnn._is_mkldnn_bf16_supported() else "float32"


def _run_with_progress(training: Pretraining, quiet: bool) -> bool:
    """Train under a progress bar, with a line for each epoch. Returns False where the run was stopped."""
    console = Console(quiet=quiet)
    columns = (TextColumn("epoch {task.fields[epoch]}"), BarColumn(), TextColumn("{task.fields[state]}"))
    total = training.recipe.epochs * training.steps
    with Progress(*columns, TimeRemainingColumn(), console=console) as bar:
        task = bar.add_task("", total=total, epoch=training.position.epoch + 1, state="")
        shown = len(training.position.history)

        def report(position: Position) -> None:
            nonlocal shown
            for entry in position.history[shown:]:
                values = f"loss {entry['loss']:.3f}  top-1 {entry['val_top1']:.1%}  {entry['seconds']:.0f} s"
                console.print(f"epoch {entry['epoch']:.0f} of {training.recipe.epochs}  {values}")
            shown = len(position.history)
            if position.step:
                speed = position.step * training.recipe.batch / position.seconds
                state = f"loss {position.loss_sum / position.step:.3f}  {speed:.0f} images/s"
                bar.update(task, epoch=position.epoch + 1, state=state)
            bar.update(task, completed=position.epoch * training.steps + position.step)

        return training.run(report)


def pretrain_command(
    model: Annotated[str, typer.Option(help="Network: a name of the zoo.")] = "birealnet18",
    width: Annotated[float, typer.Option(help="Multiplier of the filters.")] = 0.5,
    stem: Annotated[
        str | None, typer.Option(help="First layers: cifar or imagenet; default those for images of the data's size.")
    ] = None,
    data: Annotated[str, typer.Option(help="Data set: tiny_imagenet, cifar10, cifar100, ...")] = "tiny_imagenet",
    root: Root = None,
    epochs: Annotated[int, typer.Option(help="Passes over the training images.")] = 12,
    batch: Annotated[int, typer.Option(help="Images a step.")] = 128,
    learning_rate: Annotated[float, typer.Option(help="Peak of the one-cycle schedule.")] = 3e-3,
    teacher: Annotated[
        str | None, typer.Option(help="Network whose answers are learned too, such as efficientnet_lite0.")
    ] = None,
    teacher_weights: Annotated[
        Path | None, typer.Option(help="Its weights: a backbone file with a head, or a published state dict.")
    ] = None,
    teacher_share: Annotated[
        float, typer.Option(help="The teacher's part in the loss, the rest is the labels'.")
    ] = 0.5,
    temperature: Annotated[float, typer.Option(help="Softens the teacher's answers and the student's.")] = 2.0,
    precision: Annotated[str, typer.Option(help="auto, float32 or bfloat16.")] = "auto",
    optimizer: Annotated[str, typer.Option(help="adam or sgd; with --low-memory also bop.")] = "adam",
    low_memory: Annotated[
        bool, typer.Option("--low-memory", help="Keep bits between the passes: a quarter of the memory, and faster.")
    ] = False,
    compiled: Annotated[bool, typer.Option("--compiled", help="Twice as fast; needs a C++ compiler.")] = False,
    checkpoint: Annotated[Path, typer.Option(help="File to resume from, beside its log.")] = Path("pretrain.pt"),
    out: Annotated[Path | None, typer.Option(help="Write weights and model card here.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed and threads, same weights.")] = 0,
    threads: Annotated[int, typer.Option(min=0, help="CPU threads; 0 lets PyTorch choose.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Train a binary network from scratch on labeled images.

    Ctrl-C stops it after a checkpoint; the same command resumes it. Each epoch adds a line of JSON to the file beside
    the checkpoint that ends in .jsonl.
    """
    try:
        import torch
    except ImportError as error:
        raise ConfigurationError("pretraining needs PyTorch: pip install 'everbit[train]'") from error

    from everbit.data.datasets import load
    from everbit.output_folder import writable_folder
    from everbit.zoo.cuts import nearest_stem, require_network
    from everbit.zoo.distillation import Distillation
    from everbit.zoo.model_card import write_model_card
    from everbit.zoo.pretrain import Pretraining, Recipe
    from everbit.zoo.registry import build
    from everbit.zoo.teacher import load_teacher
    from everbit.zoo.weights import export_backbone

    if (teacher is None) != (teacher_weights is None):
        raise ConfigurationError("--teacher names a network and --teacher-weights its file: give both, or neither")
    facts = require_network(model, stem)
    guide = load_teacher(teacher, teacher_weights) if teacher and teacher_weights else None

    if threads:
        torch.set_num_threads(threads)
    images = load(data, root)
    stem = stem or nearest_stem(model, images.train_images.shape[1])
    images = images.fitted(facts.stems[stem])
    recipe = Recipe(
        epochs=epochs,
        batch=batch,
        learning_rate=learning_rate,
        seed=seed,
        precision=_choose_precision(precision),
        optimizer=optimizer,
        low_memory=low_memory,
        pad_crop_flip=images.pad_crop_flip,
        teacher=teacher,
        teacher_digest=guide.digest if guide else None,
        teacher_share=teacher_share,
        temperature=temperature,
    )
    classes = len(images.class_names)
    torch.manual_seed(seed)
    parts = (
        build(model, width=width, classes=classes, stem=stem),
        (np.asarray(images.train_images), images.train_labels),
        (np.asarray(images.test_images), images.test_labels),
        recipe,
        checkpoint,
        {"architecture": model, "width": width, "classes": classes, "stem": stem, "data": data},
        compiled,
    )
    training = Distillation(guide, *parts) if guide else Pretraining(*parts)
    for file in (checkpoint, out):
        if file is not None:
            writable_folder(file.parent, [file.name])
    training.resume()
    if not _run_with_progress(training, quiet):
        Console(quiet=quiet).print(f"stopped; {checkpoint} holds all so far, the same command resumes")
        raise typer.Exit(130)
    if out is not None:
        write_model_card(export_backbone(checkpoint, out), out.with_suffix(".md"))
