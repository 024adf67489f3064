"""The command `everbit demo`."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer


def demo_command(
    out: Annotated[Path, typer.Option(help="Folder for report.html and result.json.")] = Path("out/demo"),
    model: Annotated[str, typer.Option(help="Name of a packaged model, or path of an .everbit file.")] = "birealnet18",
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same bits.")] = 0,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the images of an experience.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print result.json; tables go to stderr.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress and no tables.")] = False,
) -> None:
    """Learn ten kinds of clothing, two at a time, in integers.

    Three learners meet the same stream: naive fine-tuning, CWR* alone, and latent replay with CWR*. Images and model
    come with the package; nothing is downloaded.
    """
    from rich.console import Console

    from everbit.data.datasets import load
    from everbit.experiments.demo import run_demo, start_demo
    from everbit.experiments.demo_display import DemoDisplay
    from everbit.experiments.demo_report import demo_report
    from everbit.experiments.demo_result import demo_result
    from everbit.output_folder import writable_folder
    from everbit.whole_file import replacing

    run = start_demo(load("fashion_demo"), model, seed=seed, epochs=epochs)
    folder = writable_folder(out, ("result.json", "report.html"))
    console = Console(stderr=as_json, quiet=quiet)
    with nullcontext() if quiet else DemoDisplay(run, console) as display:
        run_demo(run, display)
    result = demo_result(run)
    contents = {"result.json": json.dumps(result, indent=1) + "\n", "report.html": demo_report(result, run.stream)}
    for name, content in contents.items():
        with replacing(folder / name) as partial:
            partial.write_text(content, encoding="utf-8")
    if as_json:
        typer.echo(contents["result.json"], nl=False)
    written = " and ".join(str(folder / name) for name in contents)
    console.print(f"{written} written, {run.seconds:.0f} s", highlight=False, markup=False, soft_wrap=True)
