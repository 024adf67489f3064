"""Fetching a file over HTTP: verified, resumed where it stopped, whole or not at all."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from everbit import __version__
from everbit.errors import ConfigurationError, DataError, OutputError

SECONDS = 30
"""How long a silent server is waited for."""
CHUNK = 2**18

Report = Callable[[str, int, int | None], None]
"""Called with a file's name, the bytes that are there, and their number in all where it is known."""


@dataclass(frozen=True)
class Archive:
    """A file as its authors publish it. digest: of its content, in hexadecimal, by algorithm md5 or sha256."""

    file: str
    url: str
    algorithm: str
    digest: str


def fetch(archive: Archive, folder: Path, mirror: str | None = None, report: Report | None = None) -> bool:
    """Brings an archive into a folder; False where it was there already, put by whomever.

    mirror: the address under which the archive's file name is asked for, instead of its own. What has come so far is
    kept in FILE.partial, and a later call goes on from there. Raises DataError where the server cannot be reached or
    sends something else, OutputError where the folder cannot be written.
    """
    path = folder / archive.file
    url = archive.url if mirror is None else f"{mirror.rstrip('/')}/{archive.file}"
    if not url.startswith(("http://", "https://")):
        raise ConfigurationError(f"mirror {mirror!r} is no address: write http://HOST/FOLDER or https://HOST/FOLDER")
    try:
        if path.exists():
            _verify(archive, path, f"{path} is not {url}, or damaged: delete it, or put the right file there")
            return False
        folder.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.partial")
        _receive(url, partial, archive.file, report or (lambda file, done, total: None))
        try:
            _verify(archive, partial, f"{url} is not what its authors published, or came damaged: try again later")
        except DataError:
            partial.unlink()
            raise
        os.replace(partial, path)
    except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
        reason = getattr(error, "reason", error) or error
        raise DataError(
            f"cannot get {url} ({reason}): run the command again when the network and the server are there, it goes "
            f"on where it stopped; or get {archive.file} elsewhere, put it into {folder.absolute()}, and run it again"
        ) from error
    except OSError as error:
        raise OutputError(f"cannot write {path} ({error.strerror}): free space, or choose another --root") from error
    return True


def _receive(url: str, partial: Path, file: str, report: Report) -> None:
    """Adds what is missing to the partial file. Raises DataError where the server stops early."""
    start = partial.stat().st_size if partial.exists() else 0
    headers = {"User-Agent": f"everbit/{__version__}"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != 416:  # the server has no byte beyond those that are here
            raise
        error.close()
        return
    with response:
        if response.status != 206:
            start = 0
        length = response.headers.get("Content-Length")
        total = None if length is None else start + int(length)
        done = start
        with partial.open("ab" if start else "wb") as out:
            while chunk := response.read(CHUNK):
                out.write(chunk)
                done += len(chunk)
                report(file, done, total)
            out.flush()
            os.fsync(out.fileno())
    if total is not None and done < total:
        raise ConnectionError(f"it stopped after {done} of {total} bytes")


def _verify(archive: Archive, path: Path, complaint: str) -> None:
    """Raises DataError unless the file is the archive."""
    digest = hashlib.new(archive.algorithm, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != archive.digest:
        raise DataError(f"{complaint} ({archive.algorithm} {digest.hexdigest()}, published {archive.digest})")
