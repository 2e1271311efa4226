"""Stores on this machine that fail by schedule: errors, resets, silence, short answers.

An S3 server with a failing one before it, and a hub as far as Hugging Face's client asks it for files of a data set.
"""

import contextlib
import functools
import http.client
import json
import random
import socket
import struct
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

FAULTS = ("error", "reset", "cut", "silence")


class Faults:
    """Which requests for parts of archives fail, each in its way: `share` of them, drawn from a seed."""

    def __init__(self, share: float = 0.0, kinds: tuple[str, ...] = FAULTS, seconds: float = 1.0, seed: int = 1):
        self.share, self.kinds, self.seconds = share, kinds, seconds
        self.url, self.after, self.statuses = "", 0, (503,)
        self.random, self.came = random.Random(seed), Counter[str]()
        self.asked: list[tuple[str, str]] = []

    def drawn(self) -> str:
        """What happens to a request: "" for nothing."""
        self.came["all"] += 1
        if self.came["all"] <= self.after or self.random.random() >= self.share:
            return ""
        kind = self.random.choice(self.kinds)
        self.came[kind] += 1
        return kind


class _Proxy(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def _passed_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        is_part = self.command == "GET" and "Range" in self.headers and ".tar" in self.path
        fault = self.server.faults.drawn() if is_part else ""
        if fault == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
            return
        if fault == "silence":
            time.sleep(self.server.faults.seconds)
            self.close_connection = True
            return
        status, headers, content = self.answer(body)
        if fault == "error":
            status, content = (
                self.server.faults.random.choice(self.server.faults.statuses),
                b"<Error><Code>SlowDown</Code></Error>",
            )
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        told = dict(headers).get("Content-Length") if self.command == "HEAD" else len(content)
        if fault == "short":  # whole by what it says of itself
            told = len(content) // 2
        self.send_header("Content-Length", str(told or 0))
        self.end_headers()
        if fault in ("cut", "short"):
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
        elif self.command != "HEAD":
            self.wfile.write(content)

    def answer(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        """Status, headers and content that come without a fault."""
        connection = http.client.HTTPConnection(*self.server.behind)
        connection.request(self.command, self.path, body, dict(self.headers))
        answer = connection.getresponse()
        return answer.status, answer.getheaders(), answer.read()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _passed_on

    def log_message(self, format: str, *arguments: object) -> None:
        pass


class _Hub(_Proxy):
    """Answers what `huggingface_hub` asks of a data set me/corpus."""

    def answer(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        path, root = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path), self.server.folder
        self.server.faults.asked.append((path, self.headers.get("Range", "")))
        of_repository, found = path.partition("/datasets/me/corpus")[::2]
        if of_repository == "/api":
            kind, _, rest = found.strip("/").partition("/")
            if kind == "tree":
                folder = root / rest.partition("/")[2]
                if not folder.is_dir():
                    return self.told(None)
                files = folder.rglob("*") if "recursive=true" in self.path.lower() else folder.iterdir()
                return self.told([self.described(file) for file in sorted(files)])
            if kind == "paths-info":
                names = urllib.parse.parse_qs(body.decode()).get("paths", [])
                return self.told([self.described(root / name) for name in names if (root / name).exists()])
            names = [file.relative_to(root).as_posix() for file in sorted(root.rglob("*")) if file.is_file()]
            about = {"id": "me/corpus", "sha": "0" * 40, "private": False, "tags": []}
            return self.told(about | {"siblings": [{"rfilename": name} for name in names]})
        file = root / found.partition("/resolve/main/")[2]
        if not file.is_file() or of_repository:
            return self.told(None)
        content = file.read_bytes()
        if not (asked := self.headers.get("Range")):
            return 200, [("Content-Length", str(len(content)))], content
        first, _, last = asked.removeprefix("bytes=").partition("-")
        part = content[int(first) : int(last) + 1]
        return (206, [("Content-Range", f"bytes {asked[6:]}/{len(content)}")], part) if part else (416, [], b"")

    def described(self, file: Path) -> dict[str, object]:
        name = file.relative_to(self.server.folder).as_posix()
        kind, size = ("directory", 0) if file.is_dir() else ("file", file.stat().st_size)
        return {"type": kind, "path": name, "size": size, "oid": "0" * 40}

    def told(self, found: object) -> tuple[int, list[tuple[str, str]], bytes]:
        if found is None:
            return 404, [("X-Error-Code", "EntryNotFound"), ("X-Error-Message", "Entry not found")], b""
        return 200, [("Content-Type", "application/json")], json.dumps(found).encode()

    do_GET = do_HEAD = do_POST = _Proxy._passed_on


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    faults: Faults
    behind: tuple[str, int]
    folder: Path

    def handle_error(self, request: object, client_address: object) -> None:
        pass


@contextlib.contextmanager
def s3(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[Faults]:
    """An S3 server with the files of `folder` at `url`, for this process and its children; what fails is settable."""
    s3fs = pytest.importorskip("s3fs")
    moto = pytest.importorskip("moto.server")
    behind = moto.ThreadedMotoServer(port=0, verbose=False)
    behind.start()
    server = _Server(("127.0.0.1", 0), _Proxy)
    server.faults, server.behind = Faults(), behind.get_host_and_port()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    bucket = f"corpus-{server.server_address[1]}"  # moto has one memory for all servers of a process
    server.faults.url = f"s3://{bucket}"
    endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    for name, value in (("AWS_ACCESS_KEY_ID", "x"), ("AWS_SECRET_ACCESS_KEY", "x"), ("AWS_ENDPOINT_URL", endpoint)):
        monkeypatch.setenv(name, value)
    try:
        store = s3fs.S3FileSystem(endpoint_url=endpoint, key="x", secret="x", skip_instance_cache=True)
        store.mkdir(bucket)
        for path in folder.rglob("*"):
            if path.is_file():
                store.put(str(path), f"{bucket}/{path.relative_to(folder).as_posix()}")
        yield server.faults
    finally:
        server.shutdown()
        server.server_close()
        behind.stop()


@contextlib.contextmanager
def hub(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[Faults]:
    """A hub whose data set me/corpus has the files of `folder`, for this process and its children."""
    huggingface_hub = pytest.importorskip("huggingface_hub")
    from huggingface_hub import hf_file_system

    server = _Server(("127.0.0.1", 0), _Hub)
    server.faults, server.folder = Faults(), folder
    server.faults.url, server.faults.statuses = "hf://datasets/me/corpus", (500, 429)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    for name, value in (("ENDPOINT", endpoint), ("HUGGINGFACE_CO_URL_TEMPLATE",
                        endpoint + "/{repo_id}/resolve/{revision}/{filename}")):  # fmt: skip
        monkeypatch.setattr(huggingface_hub.constants, name, value)  # which were read when it was imported
    asked = functools.partial(hf_file_system.http_backoff, max_retries=0)  # it waits a second before it asks again
    monkeypatch.setattr(hf_file_system, "http_backoff", asked)
    try:
        yield server.faults
    finally:
        server.shutdown()
        server.server_close()
