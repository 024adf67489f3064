"""Geometry of the report's charts: numbers in, coordinates out. The templates draw them as inline SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LABEL_GAP = 16.0
"""Least distance of two labels one above the other, in units of the drawing."""


@dataclass(frozen=True)
class Curve:
    """A line with its markers and the label at its end."""

    name: str
    points: list[tuple[float, float]]
    end: float
    label_y: float

    @property
    def path(self) -> str:
        """The value of an SVG polyline's `points`."""
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in self.points)


@dataclass(frozen=True)
class CurveChart:
    """Lines of fractions over the experiences 1, 2, ...; labels stand to the right of the plot."""

    curves: list[Curve]
    x_ticks: list[tuple[float, int]]
    y_ticks: list[tuple[float, float]]
    width: float = 400
    height: float = 356
    left: float = 44
    right: float = 290
    top: float = 14
    bottom: float = 308


def curve_chart(series: Mapping[str, Sequence[float]]) -> CurveChart:
    """Places lines of equal length, values 0..1, in one frame; end labels are moved apart where they would touch."""
    frame = CurveChart([], [], [])
    count = len(next(iter(series.values())))
    step = (frame.right - frame.left) / max(count - 1, 1)

    def x(index: int) -> float:
        return frame.left + index * step

    def y(fraction: float) -> float:
        return frame.bottom - fraction * (frame.bottom - frame.top)

    labels = _apart([y(values[-1]) for values in series.values()], frame.top, frame.bottom)
    return CurveChart(
        curves=[
            Curve(name, [(x(i), y(value)) for i, value in enumerate(values)], values[-1], label)
            for (name, values), label in zip(series.items(), labels, strict=True)
        ],
        x_ticks=[(x(index), index + 1) for index in range(count)],
        y_ticks=[(y(fraction), fraction) for fraction in (0, 0.25, 0.5, 0.75, 1)],
    )


def _apart(positions: Sequence[float], least: float, most: float) -> list[float]:
    """The positions, moved so that they lie LABEL_GAP apart within least..most, none past another."""
    order = sorted(range(len(positions)), key=lambda index: positions[index])
    moved = list(positions)
    floor = least
    for index in order:
        moved[index] = max(moved[index], floor)
        floor = moved[index] + LABEL_GAP
    ceiling = most
    for index in reversed(order):
        moved[index] = min(moved[index], ceiling)
        ceiling = moved[index] - LABEL_GAP
    return moved


@dataclass(frozen=True)
class Bar:
    """A horizontal bar; `length` is a fraction of the longest."""

    label: str
    value: int
    length: float


def bars(values: Mapping[str, int]) -> list[Bar]:
    """Bars of counts >= 0, in the order given."""
    longest = max(values.values()) or 1
    return [Bar(label, value, value / longest) for label, value in values.items()]


@dataclass(frozen=True)
class Cell:
    """A field of the confusion matrix; `share` is its part of the row, 0..1."""

    row: int
    column: int
    count: int
    share: float


def confusion_cells(counts: Sequence[Sequence[int]]) -> list[Cell]:
    """The fields of a square matrix of counts that are not 0."""
    return [
        Cell(row, column, count, count / sum(values))
        for row, values in enumerate(counts)
        for column, count in enumerate(values)
        if count
    ]
