"""Downloads from a server on this machine: whole, resumed, changed, cut short, absent."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from data.archives.archive_server import ArchiveServer, serving
from everbit.data.archives import download
from everbit.data.archives.download import Archive, fetch
from everbit.errors import ConfigurationError, DataError, OutputError

CONTENT = bytes(range(256)) * 4000
ARCHIVES = [
    Archive("a.bin", "https://nowhere.invalid/a.bin", name, hashlib.new(name, CONTENT).hexdigest())
    for name in ("md5", "sha256")
]
ARCHIVE = ARCHIVES[1]


@pytest.fixture
def server() -> Iterator[ArchiveServer]:
    with serving({"a.bin": CONTENT}) as running:
        yield running


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda archive: archive.algorithm)
def test_a_whole_download(server: ArchiveServer, tmp_path: Path, archive: Archive) -> None:
    reports: list[tuple[str, int, int | None]] = []
    folder = tmp_path / "new" / "folder"
    assert fetch(archive, folder, server.address + "/", lambda *report: reports.append(report))
    assert [path.name for path in folder.iterdir()] == ["a.bin"]
    assert (folder / "a.bin").read_bytes() == CONTENT
    assert reports[-1] == ("a.bin", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in reports] == sorted(done for _, done, _ in reports)
    assert not fetch(archive, folder, server.address)
    assert server.asked == [("a.bin", None)]


def test_an_archive_put_there_by_hand_is_verified(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(CONTENT)
    assert not fetch(ARCHIVE, tmp_path)
    (tmp_path / "a.bin").write_bytes(CONTENT[:-1])
    with pytest.raises(DataError, match=r"a.bin is not https://nowhere.invalid/a.bin, or damaged: delete it"):
        fetch(ARCHIVE, tmp_path)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT[:-1]


def test_a_broken_transfer_goes_on(server: ArchiveServer, tmp_path: Path) -> None:
    server.cut = 400_000
    for done in (400_000, 800_000):
        with pytest.raises(DataError, match=rf"stopped after {done} of 1024000 bytes.*goes on where it stopped"):
            fetch(ARCHIVE, tmp_path, server.address)
        assert (tmp_path / "a.bin.partial").stat().st_size == done
    assert fetch(ARCHIVE, tmp_path, server.address)
    assert server.asked == [("a.bin", None), ("a.bin", "bytes=400000-"), ("a.bin", "bytes=800000-")]
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]


def test_a_server_without_parts_starts_over(server: ArchiveServer, tmp_path: Path) -> None:
    server.ranges = False
    (tmp_path / "a.bin.partial").write_bytes(b"x" * 500)
    assert fetch(ARCHIVE, tmp_path, server.address)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


def test_a_partial_file_that_is_complete(server: ArchiveServer, tmp_path: Path) -> None:
    (tmp_path / "a.bin.partial").write_bytes(CONTENT)
    assert fetch(ARCHIVE, tmp_path, server.address)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("partial", [b"", b"x" * 1000, b"x" * len(CONTENT), b"x" * (len(CONTENT) + 5)])
def test_other_content_is_refused_and_not_kept(server: ArchiveServer, tmp_path: Path, partial: bytes) -> None:
    if partial:
        (tmp_path / "a.bin.partial").write_bytes(partial)
    else:
        server.files["a.bin"] = CONTENT[:-1] + b"!"
    with pytest.raises(DataError, match=r"is not what its authors published.*sha256 .*, published"):
        fetch(ARCHIVE, tmp_path, server.address)
    assert not list(tmp_path.iterdir())


def test_a_missing_file(server: ArchiveServer, tmp_path: Path) -> None:
    del server.files["a.bin"]
    with pytest.raises(DataError, match=r"cannot get .*/a.bin \(Not Found\).*get a.bin elsewhere, put it into"):
        fetch(ARCHIVE, tmp_path, server.address)
    assert not list(tmp_path.iterdir())


def test_no_server(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(DataError, match="when the network and the server are there"):
            fetch(ARCHIVE, tmp_path, f"http://127.0.0.1:{taken.getsockname()[1]}")


def test_a_silent_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "SECONDS", 0.05)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(DataError, match=r"cannot get .*timed out"):
            fetch(ARCHIVE, tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}")


def test_a_mirror_that_is_no_address_and_a_folder_that_is_none(server: ArchiveServer, tmp_path: Path) -> None:
    for mirror in ("file:///etc", "archives", ""):
        with pytest.raises(ConfigurationError, match="is no address"):
            fetch(ARCHIVE, tmp_path, mirror)
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="choose another --root"):
        fetch(ARCHIVE, tmp_path / "file", server.address)
