"""The report on a compiled program as a table and as JSON; the table fits 100 columns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from everbit.zoo.summary_table import shape_text

if TYPE_CHECKING:
    from everbit.compile.report import CostReport


def report_json(report: CostReport, unseen: bool) -> dict[str, object]:
    """Its fields; an exact layer has null decibels. unseen: whether calibration did not see the images."""
    layers = [
        asdict(layer) | {"decibels": round(layer.decibels, 2) if math.isfinite(layer.decibels) else None}
        for layer in report.layers
    ]
    return {"images": report.images, "unseen": unseen, "same_class": report.same_class, "layers": layers}


def report_table(report: CostReport, unseen: bool) -> Group:
    """A row a layer, and under it what becomes of the classes."""
    with_classes = any(layer.same_class is not None for layer in report.layers)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("layer", overflow="fold")
    table.add_column("kind", no_wrap=True)
    for heading in ("output", "bits", "from", "to", "signal to\nerror (dB)"):
        table.add_column(heading, justify="right", no_wrap=True)
    if with_classes:
        table.add_column("same\nclass", justify="right", no_wrap=True)
    for layer in report.layers:
        row = [layer.name, layer.kind.replace("_convolution", " conv").replace("_", " "), shape_text(layer.shape)]
        decibels = "exact" if layer.decibels == math.inf else f"{layer.decibels:.1f}"
        row += [str(layer.bits), f"{layer.low:.4g}", f"{layer.high:.4g}", decibels]
        table.add_row(*row, *([] if layer.same_class is None else [f"{layer.same_class:.1%}"]))
    seen = "that calibration did not see" if unseen else "of the calibration"
    title = f"The frozen part on the engine against the float network, {report.images} images {seen}"
    return Group(Text(title, style="bold"), table, *map(Text, _legend(report, with_classes)))


def _legend(report: CostReport, with_classes: bool) -> Iterator[str]:
    yield "from, to: what the integers can stand for. 20 dB: errors of a tenth of the values; 40 dB: a hundredth."
    if with_classes:
        yield "same class: as the float network, where layers up to this one are integers and the rest is float."
    if report.same_class is not None:
        yield f"The whole program gives {report.same_class:.1%} of the images the float network's class."
