"""The commands `everbit data` and `everbit data get`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from everbit.data.root_option import Root

data = typer.Typer(name="data", add_completion=False)


def listing(root: Path | None) -> list[dict[str, Any]]:
    """What is known of each data set, and where it is: null where it is not there."""
    from everbit.data.archives.registry import DOWNLOADS
    from everbit.data.datasets import find
    from everbit.data.sources import SOURCES

    return [
        {
            "name": name,
            "path": None if (path := find(name, root)) is None else str(path),
            "classes": source.class_count,
            "download_megabytes": DOWNLOADS[name].megabytes if name in DOWNLOADS else None,
            "url": source.url,
            "license": source.license_note,
        }
        for name, source in SOURCES.items()
    ]


@data.callback(invoke_without_command=True)
def data_command(
    context: typer.Context,
    root: Root = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything known as JSON.")] = False,
) -> None:
    """List the data sets: which are there, where each comes from, and its terms; `get NAME` downloads one."""
    if context.invoked_subcommand is not None:
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    entries = listing(root)
    if as_json:
        typer.echo(json.dumps({"data": entries}))
        return
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for heading in ("name", "there", "download"):
        table.add_column(heading, no_wrap=True)
    table.add_column("where from, and on what terms", overflow="fold")
    for entry in entries:
        size = entry["download_megabytes"]
        table.add_row(
            entry["name"],
            "no" if entry["path"] is None else "yes",
            "" if size is None else f"{size} MB",
            f"{entry['url']}\n{entry['license']}",
        )
    Console().print(table)


@data.command("get")
def get_command(
    name: Annotated[str, typer.Argument(help="A data set of the list.")],
    root: Root = None,
    mirror: Annotated[
        str | None, typer.Option(help="Address of a folder with the archives, instead of the official ones.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Download a data set's official archives, verify their checksums, and store it as everbit reads it.

    The same command goes on with a download that was stopped. Archives that you put into ROOT/downloads/NAME are
    verified and used.
    """
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from everbit.data.archives.getting import get
    from everbit.data.datasets import SOURCES

    console = Console(stderr=True, quiet=quiet)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=quiet, transient=True) as bar:
        task_of: dict[str, Any] = {}

        def report(file: str, done: int, total: int | None) -> None:
            if file not in task_of:
                task_of[file] = bar.add_task(file)
            bar.update(task_of[file], completed=done, total=total)

        path, made = get(name, root, mirror=mirror, report=report)
    console.print(f"{path} {'is made' if made else 'is there already'}", highlight=False, markup=False, soft_wrap=True)
    console.print(SOURCES[name].license_note, highlight=False, markup=False, soft_wrap=True)
