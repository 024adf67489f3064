"""What `everbit memory` shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich import box
from rich.table import Table

MIB = 2**20
SHOWN = MIB / 200
"""Bytes below which a line would read 0.00."""


def memory_tables(report: dict[str, Any]) -> Iterator[Table | str]:
    """The tables of a report, with what is said between them."""
    yield (
        f"{report['model']}, width {report['width']:g}, {report['stem']} images, batch {report['batch']}, "
        f"{report['optimizer']}; MiB\n"
    )
    yield _count(report)
    if report["standard"]:
        standard, proposed = (sum(v[name] for v in report["w23"]) for name in ("standard", "proposed"))
        yield f"standard / proposed: {standard / proposed:.2f}"
    yield ""
    yield _plan(report)
    measured = report.get("measured")
    if measured is not None:
        yield (
            f"measured: {_mib(measured['peak_bytes'])} MiB, {measured['seconds']:.2f} s a step; "
            f"the plan is {report['planned_over_measured']:.1%} of it"
        )
    if "measured_standard" in report:
        standard = report["measured_standard"]
        yield (
            f"PyTorch, float32: {_mib(standard['peak_bytes'])} MiB, {standard['seconds']:.2f} s a step; "
            f"{report['measured_reduction']:.2f} times as much memory"
        )


def _mib(size: float) -> str:
    return f"{size / MIB:.2f}"


def _table(columns: list[str], rows: list[tuple[str, list[float]]], total: list[float]) -> Table:
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column == columns[0] else "right", no_wrap=True)
    for name, sizes in rows:
        table.add_row(name, *map(_mib, sizes), end_section=name == rows[-1][0])
    table.add_row("total", *map(_mib, total))
    return table


def _count(report: dict[str, Any]) -> Table:
    columns = ["standard", "proposed"] if report["standard"] else ["proposed"]
    rows = [(variable["name"], [variable[column] for column in columns]) for variable in report["w23"]]
    return _table(
        ["as W23 counts", *columns], rows, [sum(sizes) for sizes in zip(*(row[1] for row in rows), strict=True)]
    )


def _plan(report: dict[str, Any]) -> Table:
    plan = dict(report["planned"])
    total = plan.pop("total")
    rows = [(name, [size]) for name, size in sorted(plan.items(), key=lambda item: -item[1]) if size >= SHOWN]
    return _table(["as everbit plans it, at the fullest moment", "low memory"], rows, [total])
