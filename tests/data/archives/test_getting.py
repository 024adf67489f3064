"""`everbit data` and `everbit data get` against a server here, with archives laid out as the official ones."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from data.archives.archive_server import serving
from data.archives.official_archives import OFFICIAL
from everbit import cli
from everbit.data.archives import registry
from everbit.data.archives.getting import get
from everbit.data.datasets import SOURCES, load
from everbit.data.scenarios import make_stream
from everbit.errors import DataError


def publish(name: str, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes these files the official ones: the checksums of the real ones are not theirs."""
    download = registry.DOWNLOADS[name]
    assert {archive.file for archive in download.archives} == set(files)
    archives = tuple(
        replace(archive, digest=hashlib.new(archive.algorithm, files[archive.file]).hexdigest())
        for archive in download.archives
    )
    monkeypatch.setitem(registry.DOWNLOADS, name, replace(download, archives=archives))


@pytest.mark.parametrize("name", OFFICIAL)
def test_from_archives_to_a_stream(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, expected = OFFICIAL[name]()
    publish(name, files, monkeypatch)
    with serving(files) as server:
        path, made = get(name, tmp_path, mirror=server.address)
        assert made
        assert get(name, tmp_path, mirror="http://127.0.0.1:1") == (path, False)
        assert len(server.asked) == len(files)
    assert not list((tmp_path / "downloads").iterdir())
    assert sorted(item.name for item in tmp_path.iterdir()) == sorted(["downloads", SOURCES[name].file])
    data = load(name, tmp_path)
    np.testing.assert_array_equal(np.asarray(data.train_images), expected["train"])
    np.testing.assert_array_equal(np.asarray(data.test_images), expected["test"])
    np.testing.assert_array_equal(data.train_labels, expected["train_labels"])
    np.testing.assert_array_equal(data.test_labels, expected["test_labels"])
    assert expected["names"] in (None, list(data.class_names))
    if "group" in expected:
        assert data.train_group is not None
        np.testing.assert_array_equal(data.train_group, expected["group"])
    stream = make_stream("nc", data)
    assert sorted(c for item in stream.train_stream for c in item.classes) == list(range(len(data.class_names)))
    if name == "core50":
        assert not list(tmp_path.rglob("escape.png"))
        assert not list(tmp_path.rglob("b.png"))


def test_every_set_that_can_be_downloaded_is_tested() -> None:
    assert set(registry.DOWNLOADS) == {*OFFICIAL, "core50_category"}
    for download in registry.DOWNLOADS.values():
        for archive in download.archives:
            assert len(archive.digest) == {"md5": 32, "sha256": 64}[archive.algorithm]
            assert archive.url.endswith(f"/{archive.file}")


def test_archives_put_there_by_hand_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, _ = OFFICIAL["cifar10"]()
    publish("cifar10", files, monkeypatch)
    folder = tmp_path / "downloads" / "cifar10"
    folder.mkdir(parents=True)
    for file, content in files.items():
        (folder / file).write_bytes(content)
    assert get("cifar10", tmp_path, mirror="http://127.0.0.1:1")[1]
    assert {path.name for path in folder.iterdir()} == set(files)


def test_an_archive_of_another_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"cifar-10-binary.tar.gz": b"no archive"}
    publish("cifar10", files, monkeypatch)
    with serving(files) as server, pytest.raises(DataError, match="hold something else than they used to"):
        get("cifar10", tmp_path, mirror=server.address)
    assert not (tmp_path / "cifar10.npz").exists()


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, _ = OFFICIAL["mnist"]()
    publish("mnist", files, monkeypatch)
    runner, root = CliRunner(), ["--root", str(tmp_path)]
    with serving(files) as server:
        shown = runner.invoke(cli.app, ["data", "get", "mnist", *root, "--mirror", server.address])
    assert shown.exit_code == 0, shown.output
    assert "mnist.npz is made" in shown.output
    assert "CC BY-SA" in shown.output
    again = runner.invoke(cli.app, ["data", "get", "mnist", *root])
    assert "is there already" in again.output
    listed = json.loads(runner.invoke(cli.app, ["data", *root, "--json"]).stdout)["data"]
    assert [entry["name"] for entry in listed] == list(SOURCES)
    there = {entry["name"] for entry in listed if entry["path"] is not None}
    assert there == {"mnist", "fashion_demo"}
    table = runner.invoke(cli.app, ["data", *root])
    assert table.exit_code == 0
    for name, source in SOURCES.items():
        assert name in table.stdout
        assert source.license_note.split()[0] in table.stdout


def test_offline_says_what_to_do(tmp_path: Path) -> None:
    shown = CliRunner().invoke(
        cli.app, ["data", "get", "mnist", "--root", str(tmp_path), "--mirror", "http://127.0.0.1:1"]
    )
    assert shown.exit_code == 1
    assert "when the network and the server are there" in shown.output
    assert "Traceback" not in shown.output
    assert not (tmp_path / "mnist.npz").exists()
    unknown = CliRunner().invoke(cli.app, ["data", "get", "imagenet"])
    assert unknown.exit_code == 1
    assert "unknown data set 'imagenet'" in unknown.output
