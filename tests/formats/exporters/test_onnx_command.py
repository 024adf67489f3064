"""`everbit export onnx`: networks of the zoo, backbones and foreign files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from typer.testing import CliRunner, Result

from everbit import cli
from everbit.formats.importers import load_network
from everbit.zoo.packaged import packaged_backbone, packaged_model
from everbit.zoo.registry import build
from everbit.zoo.weights import load_weights
from formats.exporters.running import random_images, run_onnx
from formats.importers.test_lce_operators import residual

PACKAGED = packaged_backbone("birealnet18")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.app, ["export", "onnx", *map(str, arguments)])


def made(out: Path, network: torch.nn.Module, shape: tuple[int, int, int]) -> dict[str, str]:
    """Facts in a written file, once it computes what the network does."""
    images = random_images(shape)
    with torch.no_grad():
        expected = network(torch.from_numpy(images)).numpy()
    np.testing.assert_allclose(run_onnx(out.read_bytes(), images), expected, rtol=1e-4, atol=1e-4)
    return {entry.key: entry.value for entry in onnx.load(out).metadata_props}


def test_a_network_of_the_zoo(tmp_path: Path) -> None:
    # Without binary sums: those of random weights often lie on a threshold, where rounding alone decides.
    out, options = tmp_path / "folder" / "net.onnx", ("--width", "0.25", "--classes", "7", "--stem", "cifar")
    shown = run("mobilenet_v1", "-o", out, *options, "--seed", "5", "--json")
    assert shown.exit_code == 0, shown.output
    assert "the weights of mobilenet_v1 are random" in shown.stderr
    facts = json.loads(shown.stdout)
    expected = {"file": str(out), "bytes": out.stat().st_size, "network": "mobilenet_v1", "input": "image", "opset": 17}
    assert facts == facts | expected | {"input_shape": [3, 32, 32], "output": "logits", "outputs": 7}
    torch.manual_seed(5)
    stored = made(out, build("mobilenet_v1", 0.25, 7, "cifar").eval(), (32, 32, 3))
    assert stored == stored | {"network": "mobilenet_v1", "width": "0.25", "weights": "random, seed 5"}


def test_stem_and_message(tmp_path: Path) -> None:
    shown = run("quicknet_small", "-o", tmp_path / "a.onnx", "--width", "0.125", "--stem", "cifar")
    assert shown.exit_code == 0, shown.output
    assert "of opset 17; image [N, 3, 32, 32] to logits [N, 10]" in " ".join(shown.stdout.split())


def test_a_backbone(tmp_path: Path) -> None:
    assert PACKAGED is not None
    shown = run(PACKAGED, "-o", tmp_path / "a.onnx", "--json")
    assert shown.exit_code == 0, shown.output
    assert shown.stderr == ""
    assert json.loads(shown.stdout)["output"] == "features"  # the packaged one has no head
    assert made(tmp_path / "a.onnx", load_weights(PACKAGED), (32, 32, 3))["weights"] == PACKAGED.name


def test_a_foreign_file(tmp_path: Path) -> None:
    source = residual(tmp_path)
    shown = run(source, "-o", tmp_path / "a.onnx")
    assert shown.exit_code == 0, shown.output
    imported = load_network(source)
    facts = made(tmp_path / "a.onnx", imported.network, imported.input_shape)
    assert (facts["network"], facts["weights"]) == (source.stem, f"{source.name} (tflite)")


def test_mistakes_are_named_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no network")
    out = tmp_path / "made" / "a.onnx"
    assert PACKAGED is not None
    cases: list[tuple[list[str | Path], str]] = [
        (["cnv", "-o", out.with_suffix(".onxx")], "give a name that ends in .onnx"),
        (
            ["no_such_network", "-o", out],
            "unknown model 'no_such_network': give the path of a file, or one of quicknet",
        ),
        (["cnv", "-o", out, "--stem", "imagenet"], "cnv has no stem 'imagenet'"),
        (["cnv", "-o", out, "--width", "-1"], "give a multiplier above 0"),
        (["mlp", "-o", out, "--seed", str(2**64)], "seed is 18446744073709551616: choose a whole number from 0 to"),
        ([PACKAGED, "-o", out, "--width", "1"], "leave these options out"),
        ([PACKAGED, "-o", out, "--seed", "0"], "leave these options out"),
        ([tmp_path / "text", "-o", out], "is no network file that can be imported"),
        ([packaged_model("birealnet18"), "-o", out], "is compiled to integers"),
        (["mlp", "-o", tmp_path / "text" / "a.onnx"], "choose another path"),
    ]
    for arguments, message in cases:
        shown = run(*arguments)
        assert shown.exit_code == 1, shown.output
        assert message in " ".join(shown.stderr.split()), shown.stderr
        assert not out.parent.exists()


def test_without_the_package_onnx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("onnx.", "everbit.formats.exporters.onnx"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    shown = run("mlp", "-o", tmp_path / "a.onnx")
    assert shown.exit_code == 1
    assert 'pip install "everbit[export]"' in " ".join(shown.stderr.split())
