"""`everbit summary`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from everbit.cli import app
from everbit.zoo.cuts import NETWORKS
from everbit.zoo.packaged import packaged_backbone, packaged_model

BACKBONE, COMPILED = str(packaged_backbone("birealnet18")), str(packaged_model("birealnet18"))


def summary(*arguments: str) -> str:
    shown = CliRunner().invoke(app, ["summary", *arguments])
    assert shown.exit_code == 0, shown.output
    return shown.output


def test_quicknet_s_totals_are_larq_s() -> None:
    result = json.loads(summary("quicknet", "--json"))
    assert result["input_shape"] == [224, 224, 3]
    total = result["totals"]
    assert total["parameters"] == 13_234_088
    assert total["parameters_by_bits"] == {"1": 12_533_760, "32": 700_328}
    assert total["macs"]["binary"] == 1_849_688_064
    assert total["bytes"] == 12_533_760 / 8 + 4 * 700_328
    assert total["trainable_parameters"] + total["non_trainable_parameters"] == 13_234_088
    layers = {layer["name"]: layer for layer in result["layers"]}
    assert layers["section1.block1.conv"] == {
        "name": "section1.block1.conv",
        "kind": "BinaryConv2d",
        "input_bits": 1,
        "output_shape": [56, 56, 64],
        "parameters_by_bits": {"1": 36_864},
        "bytes": 4608.0,
        "macs": {"binary": 115_605_504, "other": 0},
    }


@pytest.mark.parametrize("model", [*NETWORKS, BACKBONE, COMPILED])
def test_tables_fit_100_columns(model: str) -> None:
    lines = summary(model).splitlines()
    assert max(map(len, lines[1:])) <= 100  # the first line has the path
    assert not any("…" in line for line in lines)
    assert any(line.strip().startswith("ratio of binary MACs") for line in lines)


def test_options_are_of_the_network() -> None:
    half = json.loads(summary("birealnet18", "--width", "0.5", "--classes", "7", "--stem", "imagenet", "--json"))
    assert half["input_shape"] == [224, 224, 3]
    assert half["layers"][-1]["output_shape"] == [1, 1, 7]
    assert half["totals"]["parameters_by_bits"]["1"] == 2_746_368


def test_a_backbone_and_its_program_have_the_same_binary_weights() -> None:
    backbone, program = (json.loads(summary(model, "--json")) for model in (BACKBONE, COMPILED))
    for result in (backbone, program):
        assert result["input_shape"] == [32, 32, 3]
        assert result["totals"]["parameters_by_bits"]["1"] == 2_746_368
        assert result["totals"]["macs"]["binary"] == 136_839_168
    assert [layer["learnable"] for layer in program["layers"]].count(True) > 5
    assert "learnable" not in backbone["layers"][0]


def test_a_compiled_model_needs_no_torch() -> None:
    code = f"import sys; sys.modules['torch'] = None; sys.argv = ['everbit', 'summary', {COMPILED!r}]; "
    code += "from everbit.cli import main; main()"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "2,746,368" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["no_such_model"], "unknown model 'no_such_model': give the path of a file, or one of quicknet,"),
        (["vgg_small", "--stem", "imagenet"], "vgg_small has no stem 'imagenet'"),
        (["{folder}/text.everbit"], "damaged or no model file"),
        (["{folder}/text.safetensors"], "cannot be read as a backbone"),
        (["{folder}/text.learner"], "is no backbone and no .everbit file: give one of these"),
        ([COMPILED, "--width", "1"], "is a file with its own width"),
    ],
)
def test_mistakes(arguments: list[str], cause: str, tmp_path: Path) -> None:
    for ending in ("everbit", "safetensors", "learner"):
        (tmp_path / f"text.{ending}").write_text("text")
    shown = CliRunner().invoke(app, ["summary", *(part.format(folder=tmp_path) for part in arguments)])
    assert shown.exit_code == 1
    assert cause in shown.output
