"""libeverbit, built and installed once."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from c_api.library import CLearner, load
from cross.targets import REPOSITORY, Target
from engine.conftest import NATIVE, built
from everbit.compile.image import program_image
from everbit.formats.model_file import load_program
from everbit.zoo.packaged import packaged_model

FIXTURES = REPOSITORY / "tests" / "formats" / "fixtures" / "0.1.0"
SMALL = "plain"


def installed_at(target: Target, folder: Path) -> Path:
    """Installs a built target into a folder."""
    subprocess.run(["cmake", "--install", target.folder, "--prefix", folder], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that libeverbit was installed into."""
    return installed_at(built(NATIVE), tmp_path_factory.mktemp("everbit"))


@pytest.fixture(scope="session")
def library(installed: Path) -> ctypes.CDLL:
    return load(installed / "lib" / "libeverbit.so")


def image_of(name: str) -> bytes:
    """The program image of a small model file, by its name, or of a packaged one."""
    path = FIXTURES / f"{name}.everbit"
    return program_image(load_program(path if path.is_file() else packaged_model(name)))


@pytest.fixture
def learner(library: ctypes.CDLL) -> CLearner:
    """A learner of three classes on a small program."""
    return CLearner(library, image_of(SMALL), classes=3, replay_slots=6, experience_patterns=4)
