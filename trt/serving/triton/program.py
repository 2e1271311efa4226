"""Triton as a process of its own, from the wheel nvidia-pytriton, which carries the server and its Python back end."""

import contextlib
import http.client
import importlib.util
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from common.published import hub
from fastpitch.front.control import Edits
from trt.facts import ModelError
from trt.serving.speaking.speech import AT_ONCE
from trt.serving.triton.asking import MODEL, VOICE
from trt.serving.triton.folder import Folder
from trt.serving.triton.pbtxt import Block, python_model, tensor, text_of

REPOSITORY = Path(__file__).parents[3]
START_SECONDS = 120.0
STOP_SECONDS = 10.0
SERVERS = range(10_000, 32_000)  # ports below those that systems give to clients
HOST = "127.0.0.1"  # without keys it must not be reached from elsewhere
# Becomes the command that it is given, which gets SIGTERM (15) when this process dies (1 is PR_SET_PDEATHSIG).
LAUNCHER = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); os.execvp(sys.argv[1], sys.argv[1:])"


class EngineAbsentError(ModelError):
    """A Triton that is not installed, or that cannot run here."""


class Wheel(NamedTuple):
    """Where the wheel's parts are."""

    program: Path
    backend: Path
    stub: Path
    libraries: Path


class Served(NamedTuple):
    """What Triton is to serve, and how."""

    model: Path
    batch_size: int
    threads: int
    device: str
    delay_ms: float
    max_batch: int
    voice: tuple[Path, Path] | None = None
    """Acoustic model and vocoder of a voice."""


class Triton:
    """A server on ports of this machine alone; `start` before use, `stop` after it."""

    def __init__(self, served: Served | Path, *, ports: Sequence[int] = (0, 0, 0)):
        """`served`: a recogniser, or a model repository that is there. `ports`: of HTTP, gRPC and metrics, 0 for one
        that is free.

        Raises EngineAbsentError, ModelError, and CheckpointError for a name that the hub does not know.
        """
        self._served, self._wheel = served, find_wheel()
        self._python_home, self._libraries = find_python()
        self.source = served if isinstance(served, Path) else hub.located(served.model)
        if not self.source.exists():
            raise ModelError(f"{self.source}: no such file; expected an ONNX file of trt.export, or a checkpoint")
        self.http_port, self.grpc_port, self.metrics_port = free(ports)
        self.folder: Folder | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self._is_stopped = threading.Event()

    def start(self, tell: Callable[[str], None]) -> None:
        """Starts it and waits until its model is loaded. Raises EngineAbsentError with the log's errors.

        `stop` may be called meanwhile, by another thread.
        """
        self.folder = Folder()
        try:
            self._lay_out(self.folder.path)
            self.process = self._launched(self.folder.path)
            ends = time.monotonic() + START_SECONDS
            while not self._is_ready() or self._is_stopped.is_set():
                if self.process.poll() is not None or self._is_stopped.is_set() or time.monotonic() > ends:
                    raise EngineAbsentError(f"Triton did not start: {self._problems()}")
                time.sleep(0.1)
        except BaseException as error:
            was_stopped = self._is_stopped.is_set()
            self.stop()
            if was_stopped:
                raise EngineAbsentError("Triton was stopped before it was ready") from error
            raise
        where = f"HTTP {self.http_port}, gRPC {self.grpc_port}, metrics {self.metrics_port}"
        voice = self._served.voice if isinstance(self._served, Served) else None
        beside = "" if voice is None else f", {voice[0]} with {voice[1]} as {VOICE!r}"
        tell(f"Triton runs {self.source} as {MODEL!r}{beside}, of this machine alone: {where}")

    @property
    def speaks(self) -> bool:
        """Whether it runs a voice."""
        return isinstance(self._served, Served) and self._served.voice is not None

    def runs(self) -> bool:
        """Whether the process is there."""
        return self.process is not None and self.process.poll() is None

    def stop(self) -> None:
        """Ends it, and removes its folder and shared memory."""
        self._is_stopped.set()
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:  # its own limit for requests under way was longer
                self.process.kill()
                self.process.wait()
            with contextlib.suppress(ProcessLookupError):  # its stub outlives a server that was killed
                os.killpg(self.process.pid, signal.SIGKILL)
        if self.folder is not None:
            self.folder.remove()

    def _lay_out(self, folder: Path) -> None:
        backend = folder / "backends" / "python"
        backend.mkdir(parents=True)
        for source in (*self._wheel.backend.iterdir(), self._wheel.stub):
            if source.is_file():
                shutil.copy2(source, backend / source.name)
        (backend / self._wheel.stub.name).chmod(0o755)
        if isinstance(self._served, Served):
            _write_models(self._served._replace(model=self.source), folder / "models")

    def _launched(self, folder: Path) -> "subprocess.Popen[bytes]":
        libraries = os.pathsep.join([str(self._wheel.libraries), *self._libraries])
        command = [
            *(sys.executable, "-I", "-c", LAUNCHER),
            *("env", "-u", "PYTHONPATH", f"LD_LIBRARY_PATH={libraries}", f"PYTHONHOME={self._python_home}"),
            str(self._wheel.program),
            f"--model-repository={self._served if isinstance(self._served, Path) else folder / 'models'}",
            f"--backend-directory={folder / 'backends'}",
            f"--backend-config=python,shm-region-prefix-name={folder.name}",
            *(f"--{name}-address={HOST}" for name in ("http", "grpc", "metrics")),
            f"--http-port={self.http_port}",
            f"--grpc-port={self.grpc_port}",
            f"--metrics-port={self.metrics_port}",
            f"--exit-timeout-secs={round(STOP_SECONDS) - 2}",
            "--disable-auto-complete-config",
        ]
        with (folder / "log").open("wb") as log:  # in a session of its own: Ctrl-C is for the gateway, which ends it
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    def _is_ready(self) -> bool:
        connection = http.client.HTTPConnection(HOST, self.http_port, timeout=5)
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
            connection.request("GET", "/v2/health/ready")
            return connection.getresponse().status == 200
        return False

    def _problems(self) -> str:
        assert self.folder is not None
        lines = (self.folder.path / "log").read_text(errors="replace").splitlines()
        found = [line for line in lines if line.startswith(("E", "error:"))] or lines[-3:]
        return " ".join(" ".join(found).replace("\\n", " ").split())[:800] or "it says nothing"


def find_wheel() -> Wheel:
    """The parts of nvidia-pytriton, which is not imported: it wants numpy 1. Raises EngineAbsentError."""
    found = importlib.util.find_spec("pytriton")
    if found is None or not found.submodule_search_locations:
        raise EngineAbsentError(
            "--engine triton needs NVIDIA's Triton, of which there is a wheel: pip install --no-deps nvidia-pytriton"
        )
    package = Path(next(iter(found.submodule_search_locations)))
    inside, version = package / "tritonserver", f"{sys.version_info.major}.{sys.version_info.minor}"
    wheel = Wheel(
        program=inside / "bin" / "tritonserver",
        backend=inside / "backends" / "python",
        stub=inside / "python_backend_stubs" / version / "triton_python_backend_stub",
        libraries=package.parent / "nvidia_pytriton.libs",
    )
    for part in wheel:
        if not part.exists():
            raise EngineAbsentError(
                f"{part}: not in this wheel of nvidia-pytriton; Triton cannot run on Python {version}"
            )
    if not os.access(wheel.program, os.X_OK):
        wheel.program.chmod(0o755)
    return wheel


def find_python() -> tuple[str, list[str]]:
    """The home of a Python of this version whose library the back end's stub can load, and folders with that library.

    Raises EngineAbsentError.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    library = f"libpython{version}.so.1.0"
    own = sysconfig.get_config_var("LIBDIR") or ""
    if (Path(own) / library).exists():
        return sys.base_prefix, [own]
    for home in ("/usr", "/usr/local"):
        for folder in (f"{home}/lib/{sysconfig.get_config_var('MULTIARCH')}", f"{home}/lib"):
            if (Path(folder) / library).exists() and Path(home, "lib", f"python{version}").is_dir():
                return home, [folder]
    raise EngineAbsentError(
        f"Triton's Python back end needs {library}, which is not here; on Debian: apt-get install libpython{version}"
    )


def _write_models(own: Served, folder: Path) -> None:
    common = {"paths": [str(REPOSITORY), *site_packages()], "threads": own.threads, "device": own.device}
    heard = {"model": str(own.model.resolve()), "batch_size": own.batch_size}
    _write_model(folder / MODEL, common | heard, _config(own))
    if own.voice is not None:
        tts, vocoder = own.voice
        spoken = {"tts": str(tts.resolve()), "vocoder": str(vocoder.resolve())}
        _write_model(folder / VOICE, common | spoken, _voice_config())


def _write_model(folder: Path, settings: dict[str, object], config: Block) -> None:
    (folder / "1").mkdir(parents=True)
    shutil.copy2(Path(__file__).with_name("model.py"), folder / "1" / "model.py")
    (folder / "1" / "paths.json").write_text(json.dumps({"step": folder.name, **settings}), encoding="utf-8")
    (folder / "config.pbtxt").write_text(text_of(config), encoding="utf-8")


def _config(served: Served) -> Block:
    audio, transcript = tensor("audio", "FP32", -1, allow_ragged_batch=True), tensor("transcript", "UINT8", -1)
    return python_model(MODEL, [audio], [transcript], most=served.max_batch, delay_ms=served.delay_ms)


def _voice_config() -> Block:
    inputs = [
        tensor("tokens", "INT64", -1, allow_ragged_batch=True),
        tensor("edits", "FP32", len(Edits._fields), -1, allow_ragged_batch=True),
        tensor("speaker", "INT64", 1),
    ]
    # What is said alone does not wait for others.
    return python_model(VOICE, inputs, [tensor("sound", "FP32", -1)], most=AT_ONCE, delay_ms=0)


def site_packages() -> list[str]:
    """Folders with the packages of this Python."""
    return [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]


def free(ports: Sequence[int]) -> list[int]:
    """The numbers of these ports, 0 for any that is free. Raises EngineAbsentError for one that is taken.

    None of these is one that clients connect from: who asks a server that does not listen yet could get its own.
    """
    with contextlib.ExitStack() as stack:
        found = []
        others = iter(secrets.SystemRandom().sample(SERVERS, 100))  # none is given twice, as the system would
        for port in ports:
            place, problem = stack.enter_context(socket.socket()), ""
            place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            for number in [port] if port else others:
                try:
                    place.bind((HOST, number))
                    found.append(number)
                    break
                except OSError as error:
                    problem = str(error.strerror)
            else:
                raise EngineAbsentError(f"port {port} of {HOST}: {problem}")
        return found
