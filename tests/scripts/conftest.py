import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest


class Server(NamedTuple):
    """Files by name that a server on this machine has, and the ranges that it was asked for."""

    url: str
    contents: dict[str, bytes]
    ranges: list[str]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Serves with ranges, as openslr.org does."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    contents: dict[str, bytes] = {}
    ranges: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = contents.get(self.path.lstrip("/"))
            ranges.append(asked := self.headers.get("Range", ""))
            start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
            if content is None or start >= len(content):
                self.send_error(404 if content is None else 416)
                return
            self.send_response(206 if asked else 200)
            if asked:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            self.wfile.write(content[start:])

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True).start()
        yield Server(f"http://127.0.0.1:{httpd.server_port}", contents, ranges)
        httpd.shutdown()


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """Stands for python: a line for each of its arguments."""
    path = tmp_path / "python"
    path.write_text('#!/usr/bin/env bash\nprintf "%s\\n" "$@"\n')
    path.chmod(0o755)
    return path
