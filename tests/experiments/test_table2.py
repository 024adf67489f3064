"""V24's Table 2 reproduced: measured beside LiteRT where that is installed, and written. Speed is not judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from everbit.experiments.reproductions.pages import write_outcome
from everbit.experiments.reproductions.scales import SCALES
from everbit.experiments.reproductions.tables import TABLES


def test_it_is_measured_drawn_and_written(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    outcome = TABLES["table2"](SCALES["quick"])
    if outcome.missing:
        pytest.skip(outcome.missing)
    content = write_outcome("table2", outcome, "everbit reproduce table2", tmp_path)
    milliseconds = {part: float(value) for part, value in content["table"]["rows"]}
    assert milliseconds["everbit"] > 0 and milliseconds["peer"] > 0
    speedup = milliseconds["peer"] / milliseconds["everbit"]
    assert content["verdicts"][0]["margin"] == pytest.approx(speedup - 2, abs=0.05)
    assert (tmp_path / "table2.svg").is_file() and "Not made here" not in (tmp_path / "table2.html").read_text()
