"""Statistics of a network or program as tables in the terminal; they fit 100 columns."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console, Group
from rich.table import Table

from everbit.experiments.byte_size import byte_size
from everbit.zoo.statistics import LayerStatistics, totals

PREFIXES = ((10**9, "G"), (10**6, "M"), (10**3, "k"))


PIPE_WIDTH = 100
"""Columns of a table that goes to a file or another program."""


def table_console() -> Console:
    """Standard output: as wide as the terminal, PIPE_WIDTH columns where it is none."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


def short_number(count: int) -> str:
    """Four digits and a prefix: 1849688064 -> 1.850 G; small numbers as they are, nothing for 0."""
    for unit, prefix in PREFIXES:
        if count >= unit:
            value = count / unit
            return f"{value:.{3 if value < 10 else 2 if value < 100 else 1}f} {prefix}"
    return str(count or "")


def shape_text(shape: Sequence[int]) -> str:
    """Height x width x channels, or of a row the channels alone."""
    height, width, channels = shape
    return str(channels) if height == width == 1 else f"{height}x{width}x{channels}"


def summary_table(title: str, layers: Sequence[LayerStatistics]) -> Group:
    """The layers with their parameters and multiply-adds, and the totals."""
    bits = sorted({width for layer in layers for width in layer.parameters})
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=0)
    table.add_column("layer", overflow="fold")
    for heading in ("input\nbits", "output", *(f"{width}-bit\nx 1" for width in bits), "memory\n(kB)"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("1-bit\nMACs", justify="right", no_wrap=True)
    table.add_column("other\nMACs", justify="right", no_wrap=True)
    for layer, following in zip(layers, (*layers[1:], None), strict=True):
        table.add_row(
            layer.name,
            str(layer.input_bits),
            shape_text(layer.output_shape),
            *(f"{layer.parameters[width]:,}" if width in layer.parameters else "" for width in bits),
            f"{layer.bytes / 1000:.2f}" if layer.parameters else "",
            short_number(layer.binary_macs),
            short_number(layer.other_macs),
            end_section=following is None or following.learnable != layer.learnable,
        )
    total = totals(layers)
    table.add_row(
        "total",
        "",
        "",
        *(f"{total.parameters[width]:,}" for width in bits),
        f"{total.bytes / 1000:.2f}",
        short_number(total.binary_macs),
        short_number(total.other_macs),
        style="bold",
    )
    return Group(table, _totals_table(layers))


def _totals_table(layers: Sequence[LayerStatistics]) -> Table:
    """The sums that larq prints under its table."""
    total = totals(layers)
    table = Table(box=None, show_header=False, padding=(0, 1))
    table.add_column()
    table.add_column(justify="right")
    rows = {
        "parameters": f"{total.count:,}",
        "trainable parameters": f"{total.trainable:,}",
        "non-trainable parameters": f"{total.count - total.trainable:,}",
        "model size": byte_size(round(total.bytes)),
        "float-32 equivalent": byte_size(total.float_bytes),
        "compression ratio": f"{total.compression:.2f}",
        "multiply-adds (MACs)": short_number(total.macs),
        "ratio of binary MACs": f"{total.binary_ratio:.4f}",
    }
    if total.stored != total.count:
        rows["as stored, 4 a batch-norm channel"] = f"{total.stored:,}"
    for name, value in rows.items():
        table.add_row(name, value)
    return table
