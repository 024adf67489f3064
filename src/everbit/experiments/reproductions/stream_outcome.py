"""Runs the streams of a figure and holds its claims against them."""

from __future__ import annotations

from typing import Any

import numpy as np

from everbit.experiments.reproductions.drawing import draw_curves, draw_finals
from everbit.experiments.reproductions.outcome import Outcome, Table
from everbit.experiments.reproductions.scales import Scale
from everbit.experiments.reproductions.streams import StreamFigure

HEADINGS = ("network and data", "series", "final accuracy", "average", "forgetting", "replay memory")

PanelResults = dict[str, dict[str, dict[str, Any]]]
"""Results of experiments by panel and series."""


def stream_outcome(figure: StreamFigure, scale: Scale, results: list[dict[str, Any]]) -> Outcome:
    """results: of the figure's configurations, panel by panel, series by series."""
    series = list(figure.series)
    found: PanelResults = {
        panel.name: dict(zip(series, results[index * len(series) : (index + 1) * len(series)], strict=True))
        for index, panel in enumerate(figure.panels)
    }
    verdicts, rows = [], []
    for name, of_series in found.items():
        finals = {label: [run["final_accuracy"] for run in result["runs"]] for label, result in of_series.items()}
        place = f"{name}: " if len(figure.panels) > 1 else ""
        verdicts += [claim.verdict(finals, place) for claim in figure.claims]
        rows += [_row(name, label, result) for label, result in of_series.items()]
    single = len(figure.panels) == 1
    return Outcome(
        figure.title,
        figure.paper,
        verdicts,
        {"panels": found},
        Table(HEADINGS, rows),
        draw=lambda: draw_curves(next(iter(found.values()))) if single else draw_finals(found),
        notes=_notes(figure, scale),
    )


def not_run(figure: StreamFigure, reason: str) -> Outcome:
    """The outcome of a figure that lacks what it needs."""
    return Outcome(figure.title, figure.paper, [], {}, Table(HEADINGS, []), missing=reason)


def _row(panel: str, label: str, result: dict[str, Any]) -> tuple[str, ...]:
    runs = result["runs"]

    def mean(key: str) -> float:
        return 100 * float(np.mean([run[key] for run in runs]))

    spread = f" ± {100 * result['std_final_accuracy']:.1f}" if len(runs) > 1 else ""
    return (
        panel,
        label,
        f"{100 * result['mean_final_accuracy']:.1f}{spread}%",
        f"{mean('average_accuracy'):.1f}%",
        f"{mean('forgetting'):.1f}",
        f"{runs[0]['replay_bytes']:,}",
    )


def _notes(figure: StreamFigure, scale: Scale) -> tuple[str, ...]:
    amounts = []
    for data in dict.fromkeys(panel.data for panel in figure.panels):
        amount = scale.amounts.get(data)
        train = "all" if amount is None or amount.train is None else f"{amount.train} a class"
        test = "all" if amount is None or amount.test is None else f"{amount.test} a class"
        amounts.append(f"{data}: training images {train}, test images {test}")
    orders = "one class order" if scale.orders == 1 else f"{scale.orders} class orders, mean ± standard deviation"
    return (
        f"{orders}. {'; '.join(amounts)}.",
        "The test set holds all classes from the start: a class that has not come yet counts as wrong.",
        figure.networks,
    )
