"""What is installed: header, shared library, archive, and the files by which CMake and pkg-config find them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from c_api.conftest import image_of
from c_api.library import SIGNATURES
from cross.targets import REPOSITORY
from everbit import __version__

EXAMPLES = REPOSITORY / "examples" / "c"
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")
LEARNED = ["upright stripes: 20 of 20 right", "level stripes: 20 of 20 right"]


def run(*command: object, folder: Path | None = None, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, capture_output=True, text=True, env=os.environ | environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def moved(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The installed tree at another place: nothing in it may name the first."""
    return Path(shutil.copytree(installed, tmp_path_factory.mktemp("moved") / "tree", symlinks=True))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packaged model as a program file."""
    path = tmp_path_factory.mktemp("program") / "birealnet18.program"
    path.write_bytes(image_of("birealnet18"))
    return path


def examples_run(binaries: Path, program: Path, folder: Path, **environment: str) -> None:
    """Both examples: what one saved, the other goes on from."""
    saved = folder / "saved"
    first = run(binaries / "learn_two_classes", program, saved, **environment).splitlines()
    second = run(binaries / "learn_a_third", program, saved, **environment).splitlines()
    assert first[:2] == LEARNED
    assert second[0].split()[-1] == first[2].split()[-1]
    counts = [int(line.split()[2]) for line in second[1:]]
    assert min(counts) >= 18


def test_the_examples_build_with_find_package(moved: Path, program: Path, tmp_path: Path) -> None:
    run("cmake", "-S", EXAMPLES, "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={moved}", "-DCMAKE_C_FLAGS=-Werror")
    run("cmake", "--build", tmp_path)
    examples_run(tmp_path, program, tmp_path)


def test_the_examples_build_with_pkg_config(moved: Path, program: Path, tmp_path: Path) -> None:
    if not shutil.which("pkg-config"):
        pytest.skip("pkg-config is missing")
    for path in EXAMPLES.iterdir():
        if path.suffix in (".c", ".h") or path.name == "Makefile":
            shutil.copy(path, tmp_path)
    found = {"PKG_CONFIG_PATH": str(moved / "lib" / "pkgconfig")}
    assert run("pkg-config", "--modversion", "everbit", **found).strip() == __version__
    run("make", folder=tmp_path, CFLAGS="-Werror", **found)
    examples_run(tmp_path, program, tmp_path, LD_LIBRARY_PATH=str(moved / "lib"))


def test_the_archive_links_into_a_program_of_c(moved: Path, program: Path, tmp_path: Path) -> None:
    """With the static library, found by CMake in a project that also knows C++."""
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(user LANGUAGES C CXX)\nfind_package(everbit 0.1 REQUIRED)\n"
        f"add_executable(learn_two_classes {EXAMPLES}/learn_two_classes.c {EXAMPLES}/device.c)\n"
        "target_link_libraries(learn_two_classes PRIVATE everbit::static)\n"
    )
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={moved}")
    run("cmake", "--build", tmp_path / "build")
    assert "libeverbit" not in run("readelf", "-d", tmp_path / "build" / "learn_two_classes")
    printed = run(tmp_path / "build" / "learn_two_classes", program, tmp_path / "saved")
    assert printed.splitlines()[:2] == LEARNED


def test_another_major_version_is_not_found(moved: Path, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(user LANGUAGES C)\nfind_package(everbit 99 REQUIRED)\n"
    )
    command = ["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={moved}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and 'compatible with requested version "99"' in done.stderr


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_header_s_own_example_runs(moved: Path, program: Path, compiler: str, tmp_path: Path) -> None:
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is missing")
    comment = (moved / "include" / "everbit.h").read_text().partition("*/")[0]
    lines = [line.removeprefix(" *     ") for line in comment.splitlines() if re.match(r" \*( {5}|$)", line)]
    example = "\n".join("" if line == " *" else line for line in lines)
    (tmp_path / "example.c").write_text(example + "\n")
    libraries = f"-L{moved}/lib", "-leverbit", f"-Wl,-rpath,{moved}/lib"
    flags = [flag for flag in STRICT if flag != "-Wconversion"]
    run(compiler, *flags, f"-I{moved}/include", tmp_path / "example.c", *libraries, "-o", tmp_path / "example")
    assert run(tmp_path / "example", program) == "dark is class 0, bright is class 1\n"


@pytest.mark.parametrize("language", [STRICT, ("-std=c++11", "-x", "c++", "-Wall", "-Wextra", "-Wpedantic", "-Werror")])
def test_the_header_alone_compiles(installed: Path, language: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "alone.c").write_text("#include <everbit.h>\nint main(void) { return (int)EVERBIT_OK; }\n")
    run("gcc", *language, "-fsyntax-only", f"-I{installed}/include", tmp_path / "alone.c")


def test_the_library_shows_its_functions_and_nothing_else(installed: Path) -> None:
    listed = run("nm", "-D", "--defined-only", installed / "lib" / "libeverbit.so")
    assert {line.split()[-1] for line in listed.splitlines()} == set(SIGNATURES)
    header = (installed / "include" / "everbit.h").read_text()
    assert set(re.findall(r"^EVERBIT_API [\w *]*?\b(everbit_\w+)\(", header, flags=re.MULTILINE)) == set(SIGNATURES)


def test_the_shared_library_has_a_version(installed: Path) -> None:
    major = __version__.partition(".")[0]
    assert f"[libeverbit.so.{major}]" in run("readelf", "-d", installed / "lib" / "libeverbit.so")
    links = {path.name: path.resolve().name for path in (installed / "lib").glob("libeverbit.so*")}
    assert links == dict.fromkeys(
        ("libeverbit.so", f"libeverbit.so.{major}", f"libeverbit.so.{__version__}"), f"libeverbit.so.{__version__}"
    )


def test_the_library_asks_for_no_memory(installed: Path) -> None:
    listed = run("nm", "-D", "--undefined-only", installed / "lib" / "libeverbit.so")
    names = {line.split()[-1].partition("@")[0] for line in listed.splitlines()}
    assert not names & {"malloc", "calloc", "realloc", "free", "_Znwm", "_ZdlPv", "printf", "fopen", "write", "abort"}
