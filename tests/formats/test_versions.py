"""Files of every released version are read, and compute what they did when it was released."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everbit.learner.learner import Learner
from formats.version_facts import EXPECTED, FACTS, fixed_images

FIXTURES = Path(__file__).parent / "fixtures"
VERSIONS = sorted(path.name for path in FIXTURES.iterdir())
EXPECTATIONS: dict[str, dict[str, Any]] = {
    version: json.loads((FIXTURES / version / EXPECTED).read_text()) for version in VERSIONS
}
FILES = [(version, name) for version in VERSIONS for name in EXPECTATIONS[version]]


@pytest.mark.parametrize(("version", "name"), FILES)
def test_a_file_is_what_it_was(version: str, name: str) -> None:
    path, expected = FIXTURES / version / name, dict(EXPECTATIONS[version][name])
    found = json.loads(json.dumps(FACTS[path.suffix](path)))
    if path.suffix == ".safetensors":  # a float network: its sums may be rounded in another order
        np.testing.assert_allclose(found.pop("logits"), expected.pop("logits"), rtol=1e-4, atol=1e-4)
    assert found == expected


@pytest.mark.parametrize(("version", "name"), [(v, n) for v, n in FILES if n.endswith(".learner")])
def test_a_learner_goes_on(version: str, name: str, tmp_path: Path) -> None:
    learner = Learner.load(FIXTURES / version / name)
    images, known = fixed_images(learner.image_shape), learner.classes_
    learner.partial_fit(images, ["new", known[0], "new", known[-1]], epochs=1).save(tmp_path / name)
    again = Learner.load(tmp_path / name)
    assert (again.state, again.classes_) == (learner.state, [*known, "new"])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_has_files_of_every_kind(version: str) -> None:
    files = EXPECTATIONS[version]
    assert set(files) == {path.name for path in (FIXTURES / version).iterdir()} - {EXPECTED}
    assert {Path(name).suffix for name in files} == set(FACTS)
    models = [facts for name, facts in files.items() if name.endswith(".everbit")]
    assert {bool(facts["classes"]) for facts in models} == {False, True}
