"""The packaged image set is what its script makes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import everbit.data.datasets

PACKAGED = Path(everbit.data.datasets.__file__).with_name("fashion_demo.npz")
SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "make_fashion_demo.py"
ORIGINAL = Path("/usr/share/datasets/fashion-mnist")


def test_size_and_license() -> None:
    assert PACKAGED.stat().st_size <= 2_000_000
    license_text = PACKAGED.with_name("FASHION_MNIST_LICENSE").read_text()
    assert "Zalando SE" in license_text
    assert "MIT License" in license_text


def test_script_makes_the_packaged_file() -> None:
    if not ORIGINAL.is_dir():
        pytest.skip("Debian's package dataset-fashion-mnist is not installed")
    spec = importlib.util.spec_from_file_location("make_fashion_demo", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    made = script.make_fashion_demo(ORIGINAL)
    with np.load(PACKAGED, allow_pickle=False) as packaged:
        assert sorted(packaged.files) == sorted(made)
        for key, array in made.items():
            assert np.array_equal(packaged[key], array), key
