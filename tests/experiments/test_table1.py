"""V24's Table 1: every count is exact, and only the two that cannot reproduce differ."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from everbit.cli import app
from everbit.experiments.table1 import reproduces, table1

EXPECTED = {
    ("birealnet18", (4, 4, 512)): (7_077_888, 11_274),
    ("birealnet18", (8, 8, 256)): (10_158_080, 18_442),
    ("reactnet18", (4, 4, 512)): (7_077_888, 18_954),
    ("reactnet18", (8, 8, 256)): (8_388_608, 24_074),
    ("vgg_small", (8, 8, 512)): (2_359_296, 86_026),
    ("quicknet", (7, 7, 256)): (9_568_256, 35_890),
    ("quicknet", (14, 14, 128)): (11_960_320, 43_314),
    ("quicknet_large", (7, 7, 256)): (14_286_848, 39_986),
    ("quicknet_large", (14, 14, 128)): (21_397_504, 55_602),
}
"""Network and latent -> binary and other parameters in the paper's convention (docs/method.md, section 3)."""


def test_every_row_counts_what_the_method_says() -> None:
    rows = table1()["rows"]
    found = {
        (row["network"], tuple(row["latent_shape"])): tuple(
            row["paper_convention"][kind] for kind in ("binary", "other")
        )
        for row in rows
    }
    assert found == EXPECTED
    for row in rows:
        cannot = row["network"] == "birealnet18"
        assert row["reproduces"] is not cannot
        assert bool(row["reason"]) is cannot
        assert sum(row["exact"].values()) == sum(row["paper_convention"].values())


def test_exact_counts_take_real_1x1_convolutions_for_what_they_are() -> None:
    exact = {(row["network"], row["cut"]): row["exact"] for row in table1()["rows"]}
    # 4 blocks of 512 x 512 x 3 x 3; 256 x 512 real ones, gamma and beta of 5 batch norms, head; their statistics.
    assert exact["quicknet", "transition3.blur"] == {
        "binary": 4 * 512 * 512 * 9,
        "other": 256 * 512 + 5 * 2 * 512 + 512 * 50 + 50,
        "constant": 5 * 2 * 512,
    }
    assert exact["vgg_small", "block5.conv"]["binary"] == 512 * 512 * 9


@pytest.mark.parametrize(
    ("figure", "count", "same"),
    [
        ("7.0M", 7_077_888, True),
        ("7.0M", 7_100_000, False),
        ("36K", 35_890, True),
        ("36K", 34_999, False),
        ("19K", 18_954, True),
        ("19K", 11_274, False),
    ],
)
def test_a_figure_is_rounded_or_cut_off(figure: str, count: int, same: bool) -> None:
    assert reproduces(figure, count) is same


def test_the_command_shows_and_writes_what_reproduces(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["reproduce", "table1", "--out", str(tmp_path), "--json"])
    assert shown.exit_code == 0, shown.output
    content = json.loads(shown.stdout)
    assert content == json.loads((tmp_path / "table1.json").read_text())
    assert content["numbers"] == table1()
    failing = [verdict["claim"] for verdict in content["verdicts"] if not verdict["holds"]]
    assert len(failing) == 2
    assert all("birealnet18" in claim for claim in failing)
    page = (tmp_path / "table1.html").read_text()
    assert "7,077,888 binary, 18,954 other" in page
    assert {path.suffix for path in tmp_path.glob("table1.*")} == {".json", ".html", ".png", ".svg"}


def test_an_unknown_table_is_refused(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["reproduce", "table9", "--out", str(tmp_path)])
    assert shown.exit_code == 1
    assert "choose one of table1, table2, fig3" in shown.stderr
