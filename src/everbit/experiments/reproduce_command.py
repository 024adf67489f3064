"""The command `everbit reproduce NAME`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from everbit.data.root_option import Root


def reproduce_command(
    name: Annotated[
        str, typer.Argument(help="table1, table2, fig3 to fig10, w23-memory, r21-latents, r21-memory, presets, or all.")
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Minutes: few images, one class order.")] = False,
    full: Annotated[bool, typer.Option("--full", help="The paper's protocol: all images, five class orders.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the pages, figures and numbers.")] = Path("out/reproduce"),
    root: Root = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default one a processor.")] = None,
    ray: Annotated[str | None, typer.Option(help="Address of a Ray cluster to run on instead.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Reproduce tables and figures of the papers on the engine: numbers, figures, and a page with the paper's claims.

    Without --quick or --full, three class orders and some hundred images a class. Every run is kept in the folder: the
    same command goes on where a killed one stopped.
    """
    from rich.console import Console

    from everbit.errors import ConfigurationError
    from everbit.experiments.executors import executor_of
    from everbit.experiments.reproductions.pages import write_index, write_outcome
    from everbit.experiments.reproductions.reproduction import jobs_of, named, outcome_of
    from everbit.experiments.reproductions.scales import SCALES
    from everbit.experiments.reproductions.verdict_table import verdict_table
    from everbit.experiments.sweep import sweep
    from everbit.experiments.sweep_progress import shown_sweep
    from everbit.output_folder import writable_folder

    if quick and full:
        raise ConfigurationError("--quick and --full were both given: choose one")
    names = named(name)
    scale = SCALES["quick" if quick else "full" if full else "standard"]
    folder = writable_folder(out, (f"{each}.html" for each in names))
    cache = writable_folder(out / "runs", ())
    console = Console(stderr=True, quiet=quiet)
    jobs = jobs_of(names, scale, root)
    with shown_sweep(console, jobs) as finished:
        runs = sweep(jobs, executor_of(workers, ray), cache, finished) if jobs else []
    of_key = {job.key: run for job, run in zip(jobs, runs, strict=True)}
    command = " ".join(["everbit", *sys.argv[1:]])
    contents = []
    for each in names:
        contents.append(write_outcome(each, outcome_of(each, scale, root, of_key), command, folder))
        if contents[-1]["missing"]:
            console.print(f"{each}: {contents[-1]['missing']}", highlight=False, markup=False, soft_wrap=True)
        else:
            console.print(verdict_table(contents[-1]))
    page = write_index(contents, command, folder) if len(names) > 1 else folder / f"{names[0]}.html"
    console.print(f"{page} written", highlight=False, markup=False, soft_wrap=True)
    if as_json:
        typer.echo(json.dumps(contents if len(names) > 1 else contents[0], indent=1))
