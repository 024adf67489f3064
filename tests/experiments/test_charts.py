"""Geometry of the charts."""

from __future__ import annotations

from itertools import pairwise

import pytest

from everbit.experiments.byte_size import byte_size
from everbit.experiments.charts import LABEL_GAP, bars, confusion_cells, curve_chart


@pytest.mark.parametrize("ends", [(0.2, 0.2, 0.2), (0, 0, 0), (1, 1, 1), (0.3, 0.31, 0.9), (0.9, 0.1, 0.12)])
def test_end_labels_never_touch(ends: tuple[float, ...]) -> None:
    chart = curve_chart({str(index): [0.5, end] for index, end in enumerate(ends)})
    labels = sorted(curve.label_y for curve in chart.curves)
    assert all(below - above >= LABEL_GAP - 1e-9 for above, below in pairwise(labels))
    assert chart.top <= labels[0]
    assert labels[-1] <= chart.bottom


def test_points_lie_in_the_frame_at_their_values() -> None:
    chart = curve_chart({"lr_cwr": [0, 0.5, 1]})
    middle = (chart.left + chart.right) / 2
    assert chart.curves[0].points == [(chart.left, chart.bottom), (middle, 161), (chart.right, chart.top)]
    assert curve_chart({"one": [0.5]}).curves[0].points == [(chart.left, 161)]


def test_bars_are_fractions_of_the_longest() -> None:
    assert [bar.length for bar in bars({"a": 1, "b": 4})] == [0.25, 1]
    assert [bar.length for bar in bars({"a": 0})] == [0]


def test_confusion_cells_leave_out_zeros() -> None:
    assert [(cell.row, cell.column, cell.share) for cell in confusion_cells([[3, 1], [0, 2]])] == [
        (0, 0, 0.75),
        (0, 1, 0.25),
        (1, 1, 1),
    ]


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 KB"), (154_240, "154.2 KB"), (4_915_200, "4.92 MB")]
)
def test_byte_size(count: int, text: str) -> None:
    assert byte_size(count) == text
