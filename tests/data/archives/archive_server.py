"""A web server on this machine that serves a few files, whole, in parts, cut short or not at all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class ArchiveServer(ThreadingHTTPServer):
    """files: content by name. cut: bytes after which a transfer breaks off. ranges: whether parts may be asked for."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files, self.cut, self.ranges = files, None, True
        self.asked: list[tuple[str, str | None]] = []
        self.cut: int | None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/mirror"


class _Handler(BaseHTTPRequestHandler):
    server: ArchiveServer

    def do_GET(self) -> None:
        name = self.path.removeprefix("/mirror/")
        wanted = self.headers.get("Range")
        self.server.asked.append((name, wanted))
        if name not in self.server.files:
            self.send_error(404)
            return
        content, start = self.server.files[name], 0
        if wanted and self.server.ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                self.send_error(416)
                return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        end = len(content) if self.server.cut is None else min(len(content), start + self.server.cut)
        self.wfile.write(content[start:end])

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def serving(files: dict[str, bytes]) -> Iterator[ArchiveServer]:
    server = ArchiveServer(files)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
