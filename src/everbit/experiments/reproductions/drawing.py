"""Figures for the page and for print: colors that color-blind readers tell apart, and a line style for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLORS = ("#0072B2", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#E69F00", "#7F7F7F")
"""Okabe and Ito's palette, its yellow, too light on paper, replaced by gray."""
MARKERS = "osD^vPX*"
LINES = ("-", "--", "-.", ":")
FONT = 9

Results = Mapping[str, Mapping[str, Any]]
"""Results of experiments by series."""


def draw_curves(results: Results) -> Figure:
    """Accuracy after each experience, and where each series ends."""
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    over_time, at_end = figure.subplots(1, 2, width_ratios=(3, 2))
    for index, (label, result) in enumerate(results.items()):
        after = 100 * np.array([run["accuracy_after"] for run in result["runs"]])
        places = np.arange(1, after.shape[1] + 1)
        over_time.plot(
            places,
            after.mean(axis=0),
            color=COLORS[index % len(COLORS)],
            linestyle=LINES[index // len(LINES) % len(LINES)],
            marker=MARKERS[index % len(MARKERS)],
            markersize=4,
            linewidth=1.4,
            label=label,
        )
    over_time.set_xlabel("experiences learned", fontsize=FONT)
    over_time.set_ylabel("accuracy on all classes, %", fontsize=FONT)
    over_time.set_xticks(places)
    over_time.set_ylim(bottom=0)
    over_time.legend(fontsize=FONT - 2, frameon=False)
    _finals(at_end, results)
    at_end.set_xlabel("accuracy at the end, %", fontsize=FONT)
    for axes in (over_time, at_end):
        _plain(axes)
    return figure


def draw_finals(panels: Mapping[str, Results]) -> Figure:
    """Where each series ends, one panel beside the other."""
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    height = 0.6 + 0.24 * max(len(results) for results in panels.values())
    figure = Figure(figsize=(8, rows * (height + 0.35)), layout="constrained")
    places = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes, (name, results) in zip(places, panels.items(), strict=False):
        _finals(axes, results)
        axes.set_title(name, fontsize=FONT, loc="left")
        _plain(axes)
    for axes in places[len(panels) :]:
        axes.set_axis_off()
    figure.supxlabel("accuracy on all classes at the end, %", fontsize=FONT)
    return figure


def draw_bars(names: list[str], groups: Mapping[str, list[float]], unit: str) -> Figure:
    """Groups of bars side by side, a number of each name in every group."""
    figure = Figure(figsize=(8, 0.8 + 0.28 * len(names) * len(groups)), layout="constrained")
    axes = figure.subplots()
    height = 0.8 / len(groups)
    hatches = ("", "///", "...", "xx")
    for index, (group, values) in enumerate(groups.items()):
        places = np.arange(len(names)) + index * height
        drawn = axes.barh(places, values, height * 0.9, color=COLORS[index], hatch=hatches[index], label=group)
        axes.bar_label(drawn, fmt="{:.3g}", fontsize=FONT - 2, padding=2)
    axes.set_yticks(np.arange(len(names)) + 0.4 - height / 2, names, fontsize=FONT - 1)
    axes.invert_yaxis()
    axes.set_xlabel(unit, fontsize=FONT)
    axes.legend(fontsize=FONT - 2, frameon=False)
    _plain(axes)
    return figure


def _finals(axes: Axes, results: Results) -> None:
    labels = list(results)
    for index, result in enumerate(results.values()):
        finals = 100 * np.array([run["final_accuracy"] for run in result["runs"]])
        color = COLORS[index % len(COLORS)]
        axes.plot(finals, np.full(len(finals), index), "|", color=color, markersize=9, alpha=0.6)
        spread = finals.std(ddof=1) if len(finals) > 1 else 0.0
        marker = MARKERS[index % len(MARKERS)]
        axes.errorbar(
            finals.mean(), index, xerr=spread, fmt=marker, color=color, markersize=5, capsize=3, linewidth=1.2
        )
    axes.set_yticks(range(len(labels)), labels, fontsize=FONT - 1)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.margins(x=0.15)


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.tick_params(labelsize=FONT - 1)
    axes.set_axisbelow(True)
