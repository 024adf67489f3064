"""The command `everbit experiment`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from everbit.data.root_option import Root
from everbit.experiments import experiment_options as options
from everbit.quantize.widths import IN_WORDS


def experiment_command(
    scenario: Annotated[
        str, typer.Argument(help="nc (new classes), ni (new instances), nicv2 (both), joint (all at once).")
    ],
    data: Annotated[str, typer.Option(help="Data set: cifar10, core50, ... or folder:PATH.")] = "cifar10",
    root: Root = None,
    model: Annotated[str, typer.Option(help="A network of the zoo, or the path of an .everbit file.")] = "birealnet18",
    weights: options.Weights = None,
    width: options.Width = 0.5,
    image_size: options.ImageSize = None,
    cut: options.Cut = None,
    bits: Annotated[str, typer.Option(help=f"{IN_WORDS}.")] = "8,16,16,1",
    learner: Annotated[
        str, typer.Option(help="naive, cwr, lr, cumulative, ncm, float, float_cwr, float_network or float_latents.")
    ] = "lr",
    seeds: options.Seeds = 3,
    images_per_class: options.ImagesPerClass = None,
    test_images_per_class: options.TestImagesPerClass = None,
    experiences: options.Experiences = None,
    class_order: Annotated[
        str | None, typer.Option(help="Order of new classes, 3,1,2,...; default one for each seed.")
    ] = None,
    preset: options.Preset = "v24",
    epochs: options.Epochs = None,
    replay_per_class: Annotated[int | None, typer.Option(min=1, help=f"{options.LATENTS_KEPT}.")] = None,
    shared_replay: options.SharedReplay = None,
    count_replayed: options.CountReplayed = True,
    learning_rate: options.LearningRate = None,
    rounding: options.Rounding = "nearest",
    augment: options.Augment = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the result here, not to the terminal.")
    ] = None,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", help="Write a row for each seed and experience here.")
    ] = None,
    tensorboard: Annotated[
        Path | None, typer.Option(help="Folder for TensorBoard: the same numbers as curves, a run for each seed.")
    ] = None,
    cache: options.Cache = Path("out/experiments"),
    quiet: options.Quiet = False,
) -> None:
    """Learn a data set as a stream of experiences and report the accuracies, for several class orders.

    Every run is kept in the cache after each experience: the same command goes on where a killed one stopped, and takes
    finished runs from there.
    """
    from rich.console import Console

    from everbit.data.datasets import load
    from everbit.data.scenarios import parse_class_order
    from everbit.experiments.configuration import Configuration
    from everbit.experiments.experiment import run_experiment
    from everbit.experiments.experiment_progress import shown_progress
    from everbit.experiments.experiment_table import experiment_table
    from everbit.experiments.logs import require_tensorboard, write_csv, write_tensorboard
    from everbit.experiments.models import model_source
    from everbit.output_folder import writable_folder
    from everbit.quantize.widths import Widths
    from everbit.whole_file import replacing

    configuration = Configuration(
        scenario=scenario,
        data=data,
        model=model,
        learner=learner,
        bits=Widths.parse(bits),
        cut=cut,
        width=width,
        image_size=image_size,
        images_per_class=images_per_class,
        test_images_per_class=test_images_per_class,
        experiences=experiences,
        class_order=None if class_order is None else parse_class_order(class_order),
        **options.chosen_settings(preset, epochs, shared_replay, replay_per_class),
        count_replayed=count_replayed,
        learning_rates=options.parse_learning_rates(learning_rate),
        rounding=rounding,
        augment=augment,
    )
    for file in (json_file, csv_file):
        if file is not None:
            writable_folder(file.parent, [file.name])
    if tensorboard is not None:
        require_tensorboard()
        writable_folder(tensorboard, [])
    source = model_source(model, configuration.bits, cut=cut, width=width, image_size=image_size, weights=weights)
    folder = writable_folder(cache, [])
    console = Console(stderr=True, quiet=quiet)
    with shown_progress(console, seeds) as watcher:
        result = run_experiment(configuration, load(data, root), source, seeds, folder, watcher)
    if csv_file is not None:
        write_csv(result, csv_file)
    if tensorboard is not None:
        write_tensorboard(result, tensorboard)
    if json_file is None:
        Console().print(experiment_table(result))
        return
    with replacing(json_file) as partial:
        partial.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    console.print(f"{json_file} written", highlight=False, markup=False, soft_wrap=True)
