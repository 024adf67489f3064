"""`everbit zoo`."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from everbit.cli import app
from everbit.zoo.cuts import NETWORKS

PARAMETERS = {
    "quicknet": 13_234_088,
    "quicknet_large": 23_342_248,
    "birealnet18": 11_183_562,
    "reactnet18": 11_198_474,
    "vgg_small": 4_663_690,
}
"""As the papers count them."""


def test_json_has_every_fact() -> None:
    shown = CliRunner().invoke(app, ["zoo", "--json"])
    assert shown.exit_code == 0, shown.output
    models = {model["name"]: model for model in json.loads(shown.output)["models"]}
    assert list(models) == list(NETWORKS)
    assert {name: models[name]["parameters"] for name in PARAMETERS} == PARAMETERS
    assert models["birealnet18"]["stems"]["imagenet"]["parameters"] == 11_699_112
    for name, model in models.items():
        assert model["binary_parameters"] + model["other_parameters"] == model["parameters"]
        assert [latent["name"] for latent in model["latents"]] == list(NETWORKS[name].latents)
        assert model["input_shape"] == list(NETWORKS[name].stems[model["stem"]])
        assert "arXiv" in model["paper"]
    assert models["quicknet"]["macs"] == {"binary": 1_849_688_064, "other": 29_651_712}
    assert models["quicknet"]["bit_widths"] == {"weights": [1, 32], "activations": [1, 32]}
    assert models["mobilenet_v2"]["bit_widths"] == {"weights": [32], "activations": [32]}
    assert models["vgg_small"]["latents"][0] == {"name": "block5", "shape": [8, 8, 512]}
    assert models["birealnet18"]["pretrained"] == "birealnet18_half.safetensors"
    assert models["cnv"]["pretrained"] is None


def test_the_table_fits_100_columns_and_cuts_nothing_off() -> None:
    shown = CliRunner().invoke(app, ["zoo"])
    assert shown.exit_code == 0, shown.output
    lines = shown.output.splitlines()
    assert max(map(len, lines)) <= 100
    assert "…" not in shown.output
    (quicknet,) = (line.split() for line in lines if line.startswith(" quicknet "))
    assert quicknet[:9] == ["quicknet", "224x224x3", "13.23", "M", "94.7%", "1.850", "G", "29.65", "M"]
