"""Names of the hub, against a server on this machine that speaks its protocol."""

import gzip
import hashlib
import json
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from common.published import hub
from common.published.nemo import archive
from common.runs.checkpoint import CheckpointError, UnreadableError

pytest.importorskip("huggingface_hub")
COMMITS = {"main": "a" * 40, "v1": "b" * 40}


class Hub(BaseHTTPRequestHandler):
    """What the hub answers, of the files in `models` by name and revision; `asked` are the paths."""

    models: dict[str, dict[str, dict[str, bytes]]]
    asked: list[str]

    def log_message(self, *_: Any) -> None: ...

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        path = unquote(self.path.partition("?")[0])
        self.asked.append(path)
        parts = path.strip("/").split("/")
        if parts[0] == "api":
            name, rest = "/".join(parts[2:4]), parts[4:]
            revision = rest[1] if len(rest) > 1 else "main"
            if name == "owner/gated":
                return self.say(403, b"", {"X-Error-Code": "GatedRepo"})
            if name not in self.models:
                return self.say(404, b"", {"X-Error-Code": "RepoNotFound"})
            files = self.of(name, revision)
            if files is None:
                return self.say(404, b"", {"X-Error-Code": "RevisionNotFound"})
            if rest[:1] == ["tree"]:
                entries = [
                    {"type": "file", "path": f, "size": len(b), "oid": hashlib.sha1(b).hexdigest()}
                    for f, b in files.items()
                ]
                return self.say(200, json.dumps(entries).encode())
            siblings = [{"rfilename": file} for file in files]
            known = {"id": name, "sha": COMMITS.get(revision, revision), "siblings": siblings}
            return self.say(200, json.dumps(known).encode())
        name, revision, file = "/".join(parts[:2]), parts[3], "/".join(parts[4:])
        content = (self.of(name, revision) or {}).get(file)
        if content is None:
            return self.say(404, b"", {"X-Error-Code": "EntryNotFound"})
        headers = {"X-Repo-Commit": COMMITS.get(revision, revision), "ETag": f'"{hashlib.sha1(content).hexdigest()}"'}
        return self.say(200, content, headers)

    def of(self, name: str, revision: str) -> dict[str, bytes] | None:
        by_commit = {COMMITS[branch]: files for branch, files in self.models[name].items()}
        return self.models[name].get(revision, by_commit.get(revision))

    def say(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    Hub.models, Hub.asked = {}, []
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        yield server
        server.shutdown()


def publish(name: str, revision: str = "main", **files: bytes) -> None:
    Hub.models.setdefault(name, {})[revision] = {file.replace("__", "."): content for file, content in files.items()}


def test_descriptions_and_weights_in_one_form_are_downloaded_once(server):
    publish(
        "owner/model", config__json=b"{}", model__safetensors=b"w", pytorch_model__bin=b"p", flax_model__msgpack=b"f"
    )
    folder = hub.located("owner/model")
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
    before = len([path for path in Hub.asked if "/resolve/" in path])
    assert hub.located(Path("owner/model")) == folder
    assert len([path for path in Hub.asked if "/resolve/" in path]) == before


def test_a_revision_is_pinned_by_its_name(server):
    publish("owner/model", config__json=b"{}", model__safetensors=b"new")
    publish("owner/model", "v1", config__json=b"{}", model__safetensors=b"old")
    assert (hub.located("owner/model@v1") / "model.safetensors").read_bytes() == b"old"
    assert (hub.located("owner/model") / "model.safetensors").read_bytes() == b"new"
    assert (hub.located(f"owner/model@{COMMITS['v1']}") / "model.safetensors").read_bytes() == b"old"
    with pytest.raises(CheckpointError, match=r"^owner/model@v9: the hub refuses it: "):
        hub.located("owner/model@v9")


def test_a_nemo_archive_or_a_checkpoint_alone_is_the_model(server):
    publish("owner/asr", README__md=b"", asr__nemo=b"n", asr__pt=b"p")
    assert hub.located("owner/asr").read_bytes() == b"n"
    publish("owner/two", a__pt=b"", b__pt=b"")
    with pytest.raises(
        CheckpointError, match=r"^owner/two: expected config.json with weights, or one .nemo or .pt; it has 2"
    ):
        hub.located("owner/two")


def test_what_is_asked_for_besides_is_downloaded_too(server):
    publish("owner/mms", config__json=b"{}", model__safetensors=b"w", adapter__fra__safetensors=b"a")
    assert not (hub.located("owner/mms") / "adapter.fra.safetensors").exists()
    assert (hub.located("owner/mms", extra=["adapter.fra.*"]) / "adapter.fra.safetensors").read_bytes() == b"a"


@pytest.mark.parametrize("way", ["offline", "no network"])
def test_without_a_network_what_was_downloaded_before_is_used(way, server, monkeypatch):
    publish("owner/model", config__json=b"{}", model__safetensors=b"w")
    folder = hub.located("owner/model")
    if way == "offline":
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    else:
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert hub.located("owner/model") == folder
    why = "HF_HUB_OFFLINE is set" if way == "offline" else "the hub cannot be reached"
    with pytest.raises(CheckpointError, match=rf"^owner/other: no such file or folder; {why}.*not downloaded before"):
        hub.located("owner/other")


@pytest.mark.parametrize("way", ["offline", "no network"])
@pytest.mark.parametrize("knows_tree", [True, False], ids=["of today's client", "of an older client"])
def test_a_download_that_broke_off_names_what_is_missing_and_is_not_used(way, knows_tree, server, monkeypatch):
    index = json.dumps(
        {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    )
    files = {"config.json": b"{}", "model.safetensors.index.json": index.encode(), "onnx/other.json": b"{}"}
    files |= {f"model-0000{i}-of-00002.safetensors": b"w%d" % i for i in (1, 2)}
    Hub.models["owner/model"] = {"main": files}
    folder = hub.located("owner/model")
    if not knows_tree:
        for tree in folder.parents[1].glob("trees/*"):
            tree.unlink()
    if way == "offline":
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    else:
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert hub.located("owner/model") == folder, "files in folders were not wanted"
    (folder / "model-00002-of-00002.safetensors").unlink()
    broke_off = r"^owner/model: .*, and its download broke off: missing are model-00002-of-00002.safetensors$"
    with pytest.raises(CheckpointError, match=broke_off):
        hub.located("owner/model")


def test_models_that_there_are_not_or_that_are_gated_are_told(server):
    with pytest.raises(CheckpointError, match="^owner/none: no such file or folder, and no such model on the Hugging"):
        hub.located("owner/none")
    with pytest.raises(CheckpointError, match="^owner/gated: its owner lets in only those who asked"):
        hub.located("owner/gated")


def test_without_the_package_a_name_is_told_as_a_path_and_as_a_model(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(CheckpointError, match="^owner/model: no such file or folder; .*pip install huggingface_hub$"):
        hub.located("owner/model")


@pytest.mark.parametrize(
    "path",
    ["runs/best.pt", "/a/b", "./a/b", "../a/b", "a", "a/b/c", "a b/c", "asr/model.nemo", "a/", "x/y.safetensors"],
)
def test_paths_are_no_names(path):
    assert hub.located(path) == Path(path)


def test_a_folder_of_that_name_is_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner" / "model").mkdir(parents=True)
    assert hub.located("owner/model") == Path("owner/model")


def test_a_model_lies_in_an_archive_a_folder_or_a_file_whatever_it_is_named_by(tmp_path):
    for name in ("unpacked/model_config.yaml", "theirs/config.json", "theirs/model.safetensors", "ours/best.pt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    with tarfile.open(tmp_path / "packed", "w") as tar:
        tar.add(tmp_path / "unpacked", "unpacked")
    forms = {
        "packed": "archive", "gone.nemo": "archive", "unpacked": "archive", "unpacked/model_config.yaml": "archive",
        "theirs": "folder", "ours": "folder", "ours/best.pt": "file", "gone.pt": "file",
    }  # fmt: skip
    for name, form in forms.items():
        assert hub.stored(tmp_path / name) == (tmp_path / name, form)
    for name in ("config.json", "model.safetensors"):
        assert hub.stored(tmp_path / "theirs" / name) == (tmp_path / "theirs", "folder")


def test_a_packed_archive_that_ends_early_is_told_as_one(tmp_path):
    (tmp_path / "model.tar.gz").write_bytes(gzip.compress(bytes(range(256)) * 20)[:200])
    path, form = hub.stored(tmp_path / "model.tar.gz")
    assert form == "archive"
    with pytest.raises(CheckpointError, match="damaged or not a .nemo archive"), archive.opened(path):
        pass


def test_a_model_that_cannot_be_read_is_told_before_its_form_is_looked_for(tmp_path):
    with pytest.raises(UnreadableError, match=r"cannot be read: File name too long$"):
        hub.stored(tmp_path / f"{'a' * 300}.pt")
