"""The command `everbit sweep`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def sweep_command(
    scenario: Annotated[str, typer.Argument(help="A scenario of `everbit experiment`.")],
    data: Annotated[list[str], typer.Option(help="Data set. May be repeated, as all up to --replay-per-class.")],
    model: Annotated[list[str], typer.Option(help="A network of the zoo, or the path of an .everbit file.")],
    bits: Annotated[list[str] | None, typer.Option(help="Bit widths F,BIN,NONBIN,LATENT.")] = None,
    learner: Annotated[list[str] | None, typer.Option(help="A learner of `everbit experiment`.")] = None,
    replay_per_class: Annotated[list[int] | None, typer.Option(min=1, help="Latents kept of a class.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Class orders: seeds 0 to N - 1.")] = 3,
    images_per_class: Annotated[int | None, typer.Option(min=1, help="At most, for training; default all.")] = None,
    test_images_per_class: Annotated[int | None, typer.Option(min=1, help="At most, for a quick look.")] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the images of an experience.")] = 5,
    root: Annotated[Path | None, typer.Option(help="Folder of the data sets; default EVERBIT_DATA.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default one a processor.")] = None,
    ray: Annotated[str | None, typer.Option(help="Address of a Ray cluster to run on instead.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the results here.")] = None,
    cache: Annotated[Path, typer.Option(help="Folder of finished and unfinished runs.")] = Path("out/experiments"),
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Run an experiment for every combination of data sets, models, widths, learners and replay memories.

    Runs are spread over processes, or over a Ray cluster. Each is kept in the cache after each experience: the same
    command goes on where a killed one stopped, what a lost worker was at is done again, and nothing is done twice.
    """
    from itertools import product

    from rich.console import Console

    from everbit.experiments.configuration import Configuration
    from everbit.experiments.executors import executor_of
    from everbit.experiments.output_folder import writable_folder
    from everbit.experiments.sweep import Job, sweep_configurations
    from everbit.experiments.sweep_progress import shown_sweep
    from everbit.experiments.sweep_table import sweep_table
    from everbit.quantize.widths import Widths
    from everbit.whole_file import replacing

    configurations = [
        Configuration(
            scenario=scenario,
            data=one_data,
            model=one_model,
            bits=Widths.parse(one_bits),
            learner=one_learner,
            replay_per_class=one_replay,
            images_per_class=images_per_class,
            test_images_per_class=test_images_per_class,
            epochs=epochs,
        )
        for one_data, one_model, one_learner, one_bits, one_replay in product(
            data, model, learner or ["lr"], bits or ["8,16,16,1"], replay_per_class or [30]
        )
    ]
    if json_file is not None:
        writable_folder(json_file.parent, [json_file.name])
    folder = writable_folder(cache, [])
    console = Console(stderr=True, quiet=quiet)
    jobs = [Job(configuration, seed, root) for configuration in configurations for seed in range(seeds)]
    with shown_sweep(console, jobs) as finished:
        executor = executor_of(workers, ray)
        results = sweep_configurations(configurations, range(seeds), executor, folder, root=root, finished=finished)
    Console().print(sweep_table(results))
    if json_file is not None:
        with replacing(json_file) as partial:
            partial.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        console.print(f"{json_file} written", highlight=False, markup=False, soft_wrap=True)
