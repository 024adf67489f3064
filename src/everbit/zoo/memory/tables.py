"""What `everbit memory` shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.table import Table

MIB = 2**20


def memory_tables(report: dict[str, Any]) -> Iterator[Table | str]:
    """The tables of a report, with what is said between them."""
    yield (
        f"{report['model']}, width {report['width']:g}, {report['stem']} images, batch {report['batch']}, "
        f"{report['optimizer']}; MiB"
    )
    yield _count(report)
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


def _count(report: dict[str, Any]) -> Table:
    table = Table(title="As W23 counts", title_justify="left", box=None, pad_edge=False)
    table.add_column("variable")
    columns = ["standard", "proposed"] if report["standard"] else ["proposed"]
    for column in columns:
        table.add_column(column, justify="right")
    totals = dict.fromkeys(columns, 0.0)
    for variable in report["w23"]:
        table.add_row(variable["name"], *(_mib(variable[column]) for column in columns))
        for column in columns:
            totals[column] += variable[column]
    table.add_section()
    table.add_row("total", *(_mib(totals[column]) for column in columns))
    if report["standard"]:
        table.add_row("standard / proposed", "", f"{totals['standard'] / totals['proposed']:.2f}")
    return table


def _plan(report: dict[str, Any]) -> Table:
    table = Table(title="As everbit plans it, at the fullest moment", title_justify="left", box=None, pad_edge=False)
    table.add_column("variable")
    table.add_column("low memory", justify="right")
    plan = {name: size for name, size in report["planned"].items() if size}
    total = plan.pop("total")
    for name, size in plan.items():
        table.add_row(name, _mib(size))
    table.add_section()
    table.add_row("total", _mib(total))
    return table
