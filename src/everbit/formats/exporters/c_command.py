"""The command `everbit export c`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from everbit.data.root_option import Root
from everbit.learner.settings import STRATEGIES
from everbit.quantize.widths import IN_WORDS

DEMO = "fashion_demo"


def c_command(
    model: Annotated[
        str, typer.Argument(help="An .everbit file, a network of the zoo, a backbone, or a file that can be imported.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write; `make` in it builds.")],
    classes: Annotated[int, typer.Option(help="Classes it learns, and has memory for.", min=1)] = 2,
    replay_per_class: Annotated[int, typer.Option(help="Latents kept of one class.", min=1)] = 10,
    images: Annotated[
        int, typer.Option(help="Images of each class to learn from; half are stored as latents, half as images.", min=2)
    ] = 8,
    tests: Annotated[int, typer.Option(help="Images of each class to test with.", min=1)] = 8,
    batch: Annotated[str, typer.Option(help="New and replayed patterns of a mini-batch.")] = "4:12",
    bits: Annotated[str | None, typer.Option(help=f"{IN_WORDS}; default the model's.")] = None,
    cut: Annotated[str | None, typer.Option(help="Module after which the device learns; default the usual.")] = None,
    width: Annotated[float | None, typer.Option(help="Multiplier of a zoo network's filters.")] = None,
    epochs: Annotated[int, typer.Option(help="Passes over each experience.", min=1)] = 5,
    strategy: Annotated[str, typer.Option(help=f"One of {', '.join(STRATEGIES)}.")] = "lr",
    data: Annotated[str, typer.Option(help="Data set that the images are from, or folder:PATH.")] = DEMO,
    root: Root = None,
    seed: Annotated[int, typer.Option(help="Of every shuffle and draw.", min=0)] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was made as JSON.")] = False,
) -> None:
    """Write a model as a C project that learns on a device: constant arrays, a fixed arena, the engine's sources."""
    from everbit.data.datasets import load
    from everbit.formats.exporters.c import export_c
    from everbit.formats.exporters.compiled import compiled
    from everbit.learner.settings import Settings, parse_batch
    from everbit.quantize.widths import Widths

    batch_new, batch_replayed = parse_batch(batch)
    settings = Settings(
        strategy=strategy,
        classes=classes,
        replay_per_class=replay_per_class,
        batch_new=batch_new,
        batch_replayed=batch_replayed,
        seed=seed,
    )
    dataset = load(data, root)
    widths = None if bits is None else Widths.parse(bits)
    program, note = compiled(model, dataset.train_images, widths, cut=cut, width=width)
    if note:
        Console(stderr=True, highlight=False).print(note, soft_wrap=True)
    made = export_c(
        program,
        Path(model).stem,
        out,
        dataset,
        settings,
        bits,
        images=images,
        tests=tests,
        epochs=epochs,
    )
    facts = {
        "folder": str(out),
        "model": made.model.name,
        "program_bytes": len(made.model.program),
        "arena_bytes": made.model.arena,
        "memory": made.memory,
        "digest": f"{made.model.digest:016x}",
        "right": made.model.right,
        "tests": len(made.model.tests[1]),
    }
    if as_json:
        typer.echo(json.dumps(facts))
        return
    arena, right, count = made.model.arena, made.model.right, len(made.model.tests[1])
    Console(highlight=False).print(
        f"{out}: {made.model.name}, {len(made.model.program):,} bytes of constants; a learner of {arena[4]:,} bytes on "
        f"a 32-bit processor, {arena[8]:,} on a 64-bit one\n`make run` in it learns {classes} classes, gets {right} "
        f"of {count} test images right, and prints the digest {made.model.digest:016x}",
        soft_wrap=True,
    )
