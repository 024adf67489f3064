"""The command `everbit plan`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from everbit.learner.settings import STRATEGIES
from everbit.quantize.widths import IN_WORDS


def plan_command(
    model: Annotated[str, typer.Argument(help="A network of the zoo, a backbone, a foreign or an .everbit file.")],
    target: Annotated[str, typer.Option(help="pi3, pi4, pi5, stm32l4, stm32h7 or vega.")] = "pi4",
    ram: Annotated[str | None, typer.Option(help="RAM in one piece, such as 256KiB; default the target's.")] = None,
    flash: Annotated[str | None, typer.Option(help="Flash, such as 1MiB; default the target's.")] = None,
    cut: Annotated[
        list[str] | None, typer.Option(help="Module to cut after, or all; repeatable; default the usual ones.")
    ] = None,
    bits: Annotated[list[str] | None, typer.Option(help=f"{IN_WORDS}; repeatable; default the usual ones.")] = None,
    width: Annotated[float | None, typer.Option(help="Multiplier of the filters, of a network of the zoo.")] = None,
    stem: Annotated[str | None, typer.Option(help="First layers: cifar or imagenet; default the network's.")] = None,
    image_size: Annotated[int | None, typer.Option(help="Pixels of a side; default the network's.", min=8)] = None,
    classes: Annotated[int, typer.Option(help="Classes it learns, and has memory for.", min=1)] = 10,
    replay_per_class: Annotated[int, typer.Option(help="Latents kept of one class.", min=1)] = 30,
    batch: Annotated[str, typer.Option(help="New and replayed patterns of a mini-batch.")] = "4:12",
    images: Annotated[int, typer.Option(help="Images of one experience.", min=1)] = 60,
    epochs: Annotated[int, typer.Option(help="Passes over each experience.", min=1)] = 5,
    strategy: Annotated[str, typer.Option(help=f"One of {', '.join(STRATEGIES)}.")] = "lr",
    battery: Annotated[float | None, typer.Option(help="Charge of a battery in mAh.", min=0.001)] = None,
    volts: Annotated[float, typer.Option(help="Of the battery.", min=0.1)] = 3.7,
    per_hour: Annotated[float, typer.Option(help="Experiences an hour, for the battery.", min=0.0)] = 1.0,
    picture: Annotated[Path | None, typer.Option("--map", help="An .svg file to draw the memory map to.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Plan a learner for a device: exact bytes by purpose, estimated time, energy and battery life.

    For each cut and each set of widths; those that fit first, and the first one in detail and in the --map.
    """
    from everbit.learner.settings import Settings, parse_batch, parse_bytes
    from everbit.plan.choices import Request, choices, require_fitting
    from everbit.plan.estimate import Battery
    from everbit.plan.programs import plannable
    from everbit.plan.targets import require_target
    from everbit.quantize.widths import Widths

    on = require_target(target)
    batch_new, batch_replayed = parse_batch(batch)
    settings = Settings(
        strategy=strategy,
        classes=classes,
        epochs=epochs,
        replay_per_class=replay_per_class,
        experience_images=images,
        batch_new=batch_new,
        batch_replayed=batch_replayed,
    )
    request = Request(
        target=on,
        settings=settings,
        ram=parse_bytes(ram) or on.ram,
        flash=parse_bytes(flash) or on.flash,
        battery=None if battery is None else Battery(battery / 1000, volts),
        per_hour=per_hour,
    )
    if picture is not None and picture.suffix != ".svg":
        from everbit.errors import ConfigurationError

        raise ConfigurationError(f"cannot draw {picture}: give a name that ends in .svg")
    widths = [Widths.parse(text) for text in bits or []]
    planned = plannable(model, width, stem, image_size)
    found = choices(planned, cut or [], widths, request)
    require_fitting(found, request)
    if picture is not None:
        from everbit.plan.memory_map import memory_map
        from everbit.whole_file import replacing

        with replacing(picture) as partial:
            partial.write_text(memory_map(f"everbit plan {planned.name}", found[0], request), encoding="utf-8")
    if as_json:
        from everbit.plan.report import plan_json

        typer.echo(json.dumps(plan_json(planned, found, request)))
        return
    from everbit.plan.plan_table import plan_tables
    from everbit.zoo.summary_table import table_console

    console = table_console()
    for part in plan_tables(planned, found, request):
        # A sentence that goes elsewhere is broken there, if at all.
        console.print(part, soft_wrap=isinstance(part, str) and not console.is_terminal)
