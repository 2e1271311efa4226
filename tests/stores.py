"""An S3 server on this machine, and one before it that fails by schedule: errors, resets, silence, short answers."""

import contextlib
import http.client
import random
import socket
import struct
import threading
import time
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
        self.url, self.after = "", 0
        self.random, self.came = random.Random(seed), Counter[str]()

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
        connection = http.client.HTTPConnection(*self.server.behind)
        connection.request(self.command, self.path, body, dict(self.headers))
        answer = connection.getresponse()
        content = answer.read()
        self.send_response_only(503 if fault == "error" else answer.status)
        content = b"<Error><Code>SlowDown</Code></Error>" if fault == "error" else content
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        size = answer.getheader("Content-Length") if self.command == "HEAD" else len(content)
        self.send_header("Content-Length", str(size or 0))
        self.end_headers()
        if fault == "cut":
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
        elif self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _passed_on

    def log_message(self, format: str, *arguments: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    faults: Faults
    behind: tuple[str, int]

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
    threading.Thread(target=server.serve_forever, daemon=True).start()
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
