"""The command `everbit sweep`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from everbit.data.root_option import Root
from everbit.experiments import experiment_options as options
from everbit.quantize.widths import IN_WORDS


def sweep_command(
    scenario: Annotated[str, typer.Argument(help="A scenario of `everbit experiment`.")],
    data: Annotated[list[str], typer.Option(help="Data set. Repeat it for more.")],
    model: Annotated[
        list[str], typer.Option(help="A network of the zoo, or the path of an .everbit file. Repeat it for more.")
    ],
    bits: Annotated[list[str] | None, typer.Option(help=f"{IN_WORDS}; default 8,16,16,1. Repeat it for more.")] = None,
    learner: Annotated[
        list[str] | None, typer.Option(help="A learner of `everbit experiment`; default lr. Repeat it for more.")
    ] = None,
    replay_per_class: Annotated[
        list[int] | None, typer.Option(min=1, help=f"{options.LATENTS_KEPT}. Repeat it for more.")
    ] = None,
    experiences: options.Experiences = None,
    seeds: options.Seeds = 3,
    images_per_class: options.ImagesPerClass = None,
    test_images_per_class: options.TestImagesPerClass = None,
    width: options.Width = 0.5,
    image_size: options.ImageSize = None,
    cut: options.Cut = None,
    weights: options.Weights = None,
    preset: options.Preset = "v24",
    epochs: options.Epochs = None,
    shared_replay: options.SharedReplay = None,
    count_replayed: options.CountReplayed = True,
    learning_rate: options.LearningRate = None,
    rounding: options.Rounding = "nearest",
    augment: options.Augment = False,
    root: Root = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default one a processor.")] = None,
    ray: Annotated[str | None, typer.Option(help="Address of a Ray cluster to run on instead.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the results here.")] = None,
    cache: options.Cache = Path("out/experiments"),
    quiet: options.Quiet = False,
) -> None:
    """Run an experiment for every combination of data sets, models, widths, learners and replay memories.

    Runs are spread over processes, or over a Ray cluster. Each is kept in the cache after each experience: the same
    command goes on where a killed one stopped, what a lost worker was at is done again, and nothing is done twice.
    """
    from itertools import product

    from rich.console import Console

    from everbit.experiments.configuration import Configuration
    from everbit.experiments.executors import executor_of
    from everbit.experiments.sweep import Job, sweep_configurations
    from everbit.experiments.sweep_progress import shown_sweep
    from everbit.experiments.sweep_table import sweep_table
    from everbit.output_folder import writable_folder
    from everbit.quantize.widths import Widths
    from everbit.whole_file import replacing

    rates = options.parse_learning_rates(learning_rate)
    kept: list[int | None] = [*(replay_per_class or [])] or [None]
    configurations = [
        Configuration(
            scenario=scenario,
            data=one_data,
            model=one_model,
            bits=Widths.parse(one_bits),
            learner=one_learner,
            cut=cut,
            width=width,
            image_size=image_size,
            images_per_class=images_per_class,
            test_images_per_class=test_images_per_class,
            experiences=experiences,
            count_replayed=count_replayed,
            learning_rates=rates,
            rounding=rounding,
            augment=augment,
            **options.chosen_settings(preset, epochs, shared_replay, one_replay),
        )
        for one_data, one_model, one_learner, one_bits, one_replay in product(
            data, model, learner or ["lr"], bits or ["8,16,16,1"], kept
        )
    ]
    if json_file is not None:
        writable_folder(json_file.parent, [json_file.name])
    folder = writable_folder(cache, [])
    console = Console(stderr=True, quiet=quiet)
    jobs = [Job(configuration, seed, root, weights) for configuration in configurations for seed in range(seeds)]
    with shown_sweep(console, jobs) as finished:
        executor, places = executor_of(workers, ray), {"root": root, "weights": weights}
        results = sweep_configurations(configurations, range(seeds), executor, folder, **places, finished=finished)
    Console().print(sweep_table(results))
    if json_file is not None:
        with replacing(json_file) as partial:
            partial.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        console.print(f"{json_file} written", highlight=False, markup=False, soft_wrap=True)
