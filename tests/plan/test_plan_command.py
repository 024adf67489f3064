"""`everbit plan`: table, JSON, picture, mistakes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner, Result

from c_api.conftest import FIXTURES
from everbit._engine import red_zone
from everbit.cli import app
from everbit.plan.memory import PURPOSES
from everbit.plan.operations import KINDS, PHASES

SMALL = ("birealnet18.everbit", "--target", "stm32h7", "--ram", "2MB", "--bits", "8,1,16,1", "--bits", "8,8,16,1")

pytestmark = pytest.mark.skipif(red_zone != 0, reason="the plan of a sanitized engine has red zones")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["plan", *map(str, arguments)])


def plan(*arguments: object) -> str:
    shown = run(*arguments)
    assert shown.exit_code == 0, shown.output
    return shown.stdout


def test_the_table_says_what_is_exact() -> None:
    shown = plan(*SMALL, "--battery", 1000)
    rows = [line for line in shown.splitlines() if re.match(r" \S", line)]
    assert max(map(len, rows)) <= 100
    for words in (
        "stage4.block1",
        "8,1,16,1",
        "arena",
        "exact, to the byte",
        "estimate: the engine as GCC 12 builds it",
        "from instructions counted by",
        "checked: ",
        "assumed: ",
        "STM32H743 datasheet",
        "battery",
    ):
        assert words in shown, words


def test_json_has_everything() -> None:
    result: dict[str, Any] = json.loads(plan(*SMALL, "--battery", 1000, "--per-hour", 2, "--json"))
    assert result["target"]["name"] == "stm32h7"
    assert result["limits"] == {"ram": 2_000_000, "flash": 2 * 2**20}
    assert result["options"]["experiences_per_hour"] == 2
    assert result["options"]["battery"] == {"ampere_hours": 1.0, "volts": 3.7}
    assert [choice["widths"] for choice in result["choices"]] == ["8,1,16,1", "8,8,16,1"]
    for choice in result["choices"]:
        exact = choice["exact"]
        assert tuple(exact["by_purpose"]) == PURPOSES
        assert sum(exact["by_purpose"].values()) == exact["arena"]
        assert tuple(exact["operations"]) == PHASES
        assert all(tuple(kinds) == KINDS for kinds in exact["operations"].values())
        assumed = choice["needs"]["of_which_assumed"]
        assert choice["needs"]["ram"] == exact["arena"] + assumed["stack"] + assumed["variables"]
        assert choice["needs"]["flash"] == exact["program"] + assumed["code"]
        (estimate,) = choice["estimates"]
        assert estimate["joules"]["forward"] == pytest.approx(
            estimate["seconds"]["forward"] * result["target"]["active_watts"]
        )
        assert estimate["lifetime_hours"] > 0
    for speed in result["target"]["speeds"]:
        assert set(speed) == {"name", "implementation", "calibration", "off_by_at_most", "checks"}
        for check in speed["checks"]:
            assert check["error"] == pytest.approx(check["predicted"] / check["published"] - 1)


def test_both_implementations_are_shown_on_a_pi() -> None:
    result = json.loads(plan(FIXTURES / "plain.everbit", "--json"))
    assert [speed["name"] for speed in result["target"]["speeds"]] == ["V24", "everbit"]
    assert all(choice["fits"] for choice in result["choices"])
    assert all(one["lifetime_hours"] is None for choice in result["choices"] for one in choice["estimates"])


def test_the_picture(tmp_path: Path) -> None:
    path = tmp_path / "map.svg"
    plan(*SMALL, "--map", path)
    root = ElementTree.parse(path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    text = " ".join("".join(element.itertext()) for element in root.iter() if element.tag.endswith("}text"))
    for words in (
        "everbit plan birealnet18",
        "weights that learn",
        "replay memory",
        "shared by layers",
        "scratch",
        "flash",
    ):
        assert words in text
    left, right = 0.0, float(root.get("width", 0))
    top, bottom = 0.0, float(root.get("height", 0))
    for element in root.iter():
        if element.tag.endswith("}rect"):
            x, y, width, height = (float(element.get(name, 0)) for name in ("x", "y", "width", "height"))
            assert left <= x <= x + width <= right + 0.02
            assert top <= y <= y + height <= bottom + 0.02


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nothing",), "unknown model 'nothing'"),
        (("birealnet18.everbit", "--target", "pi9"), "unknown target 'pi9'"),
        (("birealnet18.everbit", "--target", "stm32l4", "--ram", "1KiB"), "nothing fits 1,024 bytes of RAM"),
        (("birealnet18.everbit", "--ram", "much"), "memory 'much' is no size"),
        (("birealnet18.everbit", "--batch", "4"), "batch '4' is no pair of numbers"),
        (("birealnet18.everbit", "--bits", "8,3,16,1"), "q_bin is 3 bits"),
        (("birealnet18.everbit", "--map", "map.png"), "ends in .svg"),
        (("vgg_small", "--stem", "imagenet"), "vgg_small has no stem 'imagenet'"),
    ],
)
def test_a_mistake_is_said_in_one_sentence(arguments: tuple[str, ...], words: str) -> None:
    failed = run(*arguments)
    assert failed.exit_code == 1
    assert words in failed.stderr
    assert "Traceback" not in failed.output
