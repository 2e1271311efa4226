"""What a run leaves behind and shows: nvlog.json in DLLogger's format, TensorBoard events, terminal lines, a bar.

`nvlog.json` has one line `DLLL {json}` per event, with the step as (), (epoch,), or (epoch, iteration, iterations), so
that parsers written for DLLogger read it.
"""

import contextlib
import io
import json
import os
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from common.files.json_text import parsed
from common.interruption import discard_output

Step = tuple[int, ...]

_UNITS = {"loss": "{:7.3f}", "wer": "{:6.2%}", "cer": "{:6.2%}", "throughput": "{:6.1f}", "took": "{:5.2f} s"}
_UNITS |= {"lrate": "{:.2e}", "grad_norm": "{:.2e}"}


class _Nowhere(io.StringIO):
    """Takes text and keeps none."""

    def write(self, text: str) -> int:
        """Drops `text`."""
        return len(text)


class ScalarEvents:
    """Numbers over steps in a file of TensorBoard's, in a `folder` of their own.

    Each call writes them out. torch's SummaryWriter would do so in a thread, whose errors nobody can handle.
    """

    def __init__(self, folder: Path):
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder.mkdir(exist_ok=True)  # not its parents: a run directory that was removed does not come back
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        self._event, self._records = Event, RecordWriter((folder / name).open("wb"))
        self._write(file_version="brain.Event:2")

    def add(self, values: Mapping[str, float], step: int) -> None:
        """Writes `values` of a step. Raises OSError."""
        self._write(step=step, summary={"value": [{"tag": name, "simple_value": v} for name, v in values.items()]})

    def close(self) -> None:
        """Ends the file. Raises OSError."""
        self._records.close()

    def _write(self, **event: Any) -> None:
        self._records.write(self._event(wall_time=time.time(), **event).SerializeToString())
        self._records.flush()


class RunLogger:
    """Writes the events of one run into `folder`; does nothing in processes that are not `enabled`.

    TensorBoard events go to one folder per phase (`train`, `dev`, `dev_ema`), under tags like `loss` and `wer`.
    """

    def __init__(self, folder: Path, *, enabled: bool = True, tensorboard: bool = True, stream: TextIO | None = None):
        self.folder, self.enabled = folder, enabled
        self.throughput_unit = "samples/s"
        """What throughput is counted in, shown behind it on the terminal."""
        self._start = time.time()
        self._stream = stream or sys.stdout or _Nowhere()  # Python has none where it was closed: `>&-`
        self.bar: Any = None
        self._writers: dict[str, ScalarEvents] = {}
        self._tensorboard = tensorboard
        self._file: TextIO | None = None
        if enabled:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = (folder / "nvlog.json").open("a", encoding="utf-8")
            self._end_line_cut_short()

    def parameters(self, values: Mapping[str, Any]) -> None:
        """Logs the settings of the run."""
        self._write("LOG", "PARAMETER", values)

    def log(self, phase: str, step: Step, values: Mapping[str, float], *, global_step: int) -> None:
        """Logs `values` of `phase` (train, dev, dev_ema, train_avg) to the file, TensorBoard and the terminal."""
        if not self.enabled:
            return
        self._write("LOG", step, {f"{phase}_{name}": value for name, value in values.items()})
        if self._tensorboard:
            if phase not in self._writers:
                self._writers[phase] = ScalarEvents(self.folder / phase)
            self._writers[phase].add(values, global_step)
        where = "" if phase == "train" else f"{phase.replace('_', ' ')} | "
        self.line(step, where + _described(values, self.throughput_unit))

    def event(self, message: str) -> None:
        """Logs a message: a checkpoint taken over, an utterance skipped."""
        if self.enabled:
            self._write("LOG", [], {"event": message})
            self.line((), message)

    def line(self, step: Step, text: str) -> None:
        """Prints one `DLL <time> - …` line, above the progress bar where there is one."""
        if not self.enabled:
            return
        where = _where(step)
        line = f"DLL {time.strftime('%Y-%m-%d %H:%M:%S')} - {where}{text}"
        try:
            if self.bar is not None:
                self.bar.write(line, file=self._stream)
            else:
                print(line, file=self._stream, flush=True)
        except OSError:
            self._leave_terminal()

    def progress(self, total: int, done: int) -> None:
        """Shows a progress bar with the remaining time, if the output is a terminal."""
        if self.enabled and self._stream.isatty():
            from tqdm import tqdm

            try:
                self.bar = tqdm(
                    total=total, initial=done, unit="step", dynamic_ncols=True, leave=False, file=self._stream
                )
            except OSError:
                self._leave_terminal()

    def advance(self) -> None:
        """Moves the progress bar by one step."""
        try:
            if self.bar is not None:
                self.bar.update()
        except OSError:
            self._leave_terminal()

    def close(self) -> None:
        """Flushes and closes everything. What cannot be flushed is lost: the run must not end with that error."""
        for opened in (*self._writers.values(), self.bar, self._file):
            with contextlib.suppress(OSError):
                if opened is not None:
                    opened.close()
        self._writers, self.bar, self._file = {}, None, None

    def _leave_terminal(self) -> None:
        """Nobody reads any more: `head` left, the terminal was closed, a disk is full. The run's files say all."""
        if self.bar is not None:
            self.bar.disable = True  # else it says good-bye to the terminal when it is deleted
        self.bar = None
        if self._stream is sys.stdout:
            discard_output()
        self._stream = _Nowhere()

    def _end_line_cut_short(self) -> None:
        """A run that was killed while it wrote must not spoil the first line of this one."""
        assert self._file is not None
        path = self.folder / "nvlog.json"
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            if size and file.read() != b"\n":
                self._file.write("\n")

    def _write(self, kind: str, step: Any, data: Mapping[str, Any]) -> None:
        if self._file is None:
            return
        now = time.time()
        record = {
            "timestamp": str(now * 1000),
            "datetime": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now)) + f".{int(now % 1 * 1e6):06d}",
            "elapsedtime": str(now - self._start),
            "type": kind,
            "step": step,
            "data": data,
        }
        self._file.write(f"DLLL {json.dumps(record, default=str)}\n")
        self._file.flush()


def read_events(path: Path) -> list[dict[str, Any]]:
    """The records of an `nvlog.json`; lines cut short where a run was killed are left out."""
    events = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("DLLL "):
            with contextlib.suppress(ValueError):
                events.append(parsed(line.removeprefix("DLLL ")))
    return events


def _where(step: Step) -> str:
    if not step:
        return ""
    if len(step) == 1:
        return f"epoch {step[0]:4d} | "
    return f"epoch {step[0]:4d} | iter {step[1]:4d}/{step[2]} | "


def _described(values: Mapping[str, float], throughput_unit: str) -> str:
    parts = [f"{name} {_UNITS.get(name, '{:g}').format(value)}" for name, value in values.items()]
    return " | ".join(f"{part} {throughput_unit}" if part.startswith("throughput ") else part for part in parts)
