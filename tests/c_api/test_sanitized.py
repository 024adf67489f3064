"""A learner's whole life in C, two of them in two threads, under sanitizers and valgrind: nothing to report."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from c_api.conftest import FIXTURES, image_of
from cross.targets import REPOSITORY, Target
from engine.conftest import NATIVE, built

SOURCE = Path(__file__).parent / "lifecycle.c"
SANITIZED = Target("sanitized", ("scalar",), options=("-DEVERBIT_SANITIZE=ON", "-DEVERBIT_SCALAR_ONLY=ON"))
PROGRAMS = sorted(path.stem for path in FIXTURES.glob("*.everbit"))


def lives_of(program: Path, name: str, folder: Path, *before: str) -> list[str]:
    """Runs the program; the status and digest of each life. What a checker reports fails the test."""
    image = folder / f"{name}.program"
    image.write_bytes(image_of(name))
    done = subprocess.run([*before, program, image], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    lives = done.stdout.split("\n")[:3]
    assert [life.split()[0] for life in lives] == ["0"] * 3
    assert lives[0] == lives[1] != lives[2]
    return lives


def compiled(target: Target, folder: Path, *flags: str) -> Path:
    """The program, linked with a target's archive."""
    program = folder / "lifecycle"
    object_file = folder / "lifecycle.o"
    strict = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g")
    header = f"-I{REPOSITORY}/engine/include"
    subprocess.run(["cc", *strict, *flags, header, "-c", SOURCE, "-o", object_file], check=True)
    archive = target.folder / "engine" / "libeverbit.a"
    subprocess.run(["c++", *flags, object_file, archive, "-fopenmp", "-pthread", "-o", program], check=True)
    return program


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sanitized")
    return compiled(
        built(SANITIZED, "everbit_engine"), folder, "-fsanitize=address,undefined", "-fno-sanitize-recover=all"
    )


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(built(NATIVE), tmp_path_factory.mktemp("ordinary"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_under_the_sanitizers(sanitized: Path, ordinary: Path, name: str, tmp_path: Path) -> None:
    assert lives_of(sanitized, name, tmp_path) == lives_of(ordinary, name, tmp_path)


@pytest.mark.parametrize("name", ["plain", "wide", "classes"])
def test_under_valgrind(ordinary: Path, name: str, tmp_path: Path) -> None:
    """valgrind has no AVX-512: the engine takes the kernels of what it does have."""
    if not shutil.which("valgrind"):
        pytest.skip("valgrind is missing")
    checker = ("valgrind", "--quiet", "--error-exitcode=9", "--leak-check=full")
    assert lives_of(ordinary, name, tmp_path, *checker) == lives_of(ordinary, name, tmp_path)
