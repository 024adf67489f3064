"""The command `everbit zoo`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table


def zoo_table(entries: list[dict[str, Any]]) -> Table:
    """The networks of `zoo_listing` as a table of at most 100 columns."""
    from rich import box
    from rich.table import Table

    from everbit.zoo.summary_table import shape_text, short_number

    table = Table(box=box.SIMPLE_HEAD, padding=0)
    table.add_column("network", no_wrap=True)
    table.add_column("image", justify="right", no_wrap=True)
    for heading in ("para-\nmeters", "of one\nbit", "1-bit\nMACs", "other\nMACs"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("cut after", no_wrap=True)
    table.add_column("latent", justify="right", no_wrap=True)
    table.add_column("pre-\ntrained", no_wrap=True)
    for entry in entries:
        table.add_row(
            entry["name"],
            shape_text(entry["input_shape"]),
            short_number(entry["parameters"]),
            f"{entry['binary_parameters'] / entry['parameters']:.1%}" if entry["binary_parameters"] else "",
            short_number(entry["macs"]["binary"]),
            short_number(entry["macs"]["other"]),
            "\n".join(latent["name"] for latent in entry["latents"]),
            "\n".join(shape_text(latent["shape"]) for latent in entry["latents"]),
            "" if entry["pretrained"] is None else "yes",
        )
    return table


def zoo_command(
    as_json: Annotated[bool, typer.Option("--json", help="Print everything known as JSON.")] = False,
) -> None:
    """List the networks: parameters, multiply-adds, where each may be cut, and which have weights in the package.

    At full width, with the default stem and its classes; `everbit summary NETWORK` shows the layers.
    """
    from everbit.zoo.summary_table import table_console
    from everbit.zoo.zoo_listing import zoo_listing

    entries = zoo_listing()
    if as_json:
        typer.echo(json.dumps({"models": entries}))
        return
    table_console().print(zoo_table(entries))
