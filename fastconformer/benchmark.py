"""Memory, time and errors of long recordings: `python -m fastconformer.benchmark MODEL MANIFEST --minutes 1 10 60`.

Utterances of the manifests are joined, again from the first where there are too few, to recordings of these lengths,
and each is transcribed by a process of its own. A row per length goes to benchmarks/results/transducer_length.jsonl:
the processor's seconds, peak memory beside the samples, and word error rates of the whole and of its utterances alone.
"""

import multiprocessing
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import torch
from tyro.conf import Positional, arg

from common import config
from common.audio import waveform
from common.benchmark import RESULTS, append_row, process_peak_mib
from common.data.manifest import ManifestError, Utterance, read_sources
from common.devices.precision import InferencePrecision
from common.recognition.metrics import ErrorCount, word_errors
from common.runs.checkpoint import CheckpointError
from common.text.normalize import normalize_english
from fastconformer.hearing.long_audio import ChunkOptions
from fastconformer.recognizer import Head, Recognizer, load

WARM_UP_SECONDS = 120
"""Length of the recording that is transcribed first, so that memory of the first use does not count for one length."""


@dataclass(frozen=True, kw_only=True)
class LengthConfig:
    """Recordings of several lengths, and the model that transcribes them."""

    model: Annotated[Path, Positional, arg(metavar="MODEL")]
    """A .nemo archive, a folder of transformers, or a checkpoint of this repository."""
    manifests: Annotated[tuple[Path, ...], Positional, arg(metavar="MANIFEST")]
    """Manifests, file lists or corpus folders with transcripts."""
    root: Path | None = None
    """Folder that relative paths in manifests start from; by default that of the manifest."""
    minutes: tuple[float, ...] = (1.0, 10.0, 60.0)
    """Lengths of the recordings, in minutes."""
    chunk_seconds: float = ChunkOptions.chunk_seconds
    """Seconds of a chunk; recordings are encoded in chunks."""
    left_seconds: float = ChunkOptions.left_seconds
    """Seconds of context before each chunk."""
    right_seconds: float = ChunkOptions.right_seconds
    """Seconds of context after each chunk."""
    local_attention: tuple[int, int] | None = None
    """Frames before and after a frame that attention sees; by default what the model says."""
    normalize_seconds: float = 0.0
    """Window that features are normalised over, around each frame; 0 for all that is encoded at once."""
    head: Head = "auto"
    """Head that decodes in hybrid models: transducer or ctc; by default the transducer."""
    batch_size: int = 8
    """Chunks that are encoded at once."""
    repeats: int = 3
    """Processes that transcribe each length, one after the other; a row has the medians of their times and peaks."""
    device: str = "auto"
    """Device: auto, cpu, cuda or cuda:N."""
    precision: InferencePrecision = "fp32"
    """Arithmetic of the encoder."""
    results: Path = RESULTS
    """Folder of the file that rows are appended to."""

    def __post_init__(self) -> None:
        if not self.manifests:
            raise ValueError("nothing to transcribe; name manifests or corpus folders after the model")
        if min((*self.minutes, self.batch_size, self.repeats)) <= 0 or not self.minutes:
            told = f"minutes = {self.minutes}, batch_size = {self.batch_size}, repeats = {self.repeats}"
            raise ValueError(f"{told}: expected above 0")


class LengthMeasurement(NamedTuple):
    """What one length took."""

    seconds: float
    """Length of the audio."""
    processor_seconds: float
    peak_mib: float
    """Memory of the process, less the samples."""
    text: str


def main(cfg: LengthConfig) -> None:
    """Prints and appends a row for each length. Raises CheckpointError and ManifestError."""
    sources = [str(path.absolute()) for path in cfg.manifests]
    utterances, _ = read_sources(sources, root=cfg.root, training=False, advice="name others after the model")
    asr = _loaded(cfg)
    alone = asr.transcribe([u.audio for u in utterances], batch_size=cfg.batch_size)
    errors = [
        word_errors([normalize_english(u.text)], [normalize_english(t.text)])
        for u, t in zip(utterances, alone, strict=True)
    ]
    for minutes in cfg.minutes:
        chosen = enough(utterances, 60 * minutes)
        with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            found = [pool.apply(transcribed, (cfg, [utterances[i] for i in chosen])) for _ in range(cfg.repeats)]
        seconds = statistics.median(one.processor_seconds for one in found)
        peak = statistics.median(one.peak_mib for one in found)
        spoken = " ".join(normalize_english(utterances[i].text) for i in chosen)
        whole = word_errors([spoken], [normalize_english(found[0].text)])
        row = {
            "model": cfg.model.stem,
            "minutes": minutes,
            "n": cfg.repeats,
            "processor_seconds": round(seconds, 2),
            "times_real_time": round(found[0].seconds / seconds, 1),
            "peak_mib": round(peak, 1),
            "peaks_mib": [round(one.peak_mib, 1) for one in found],
            "wer": round(whole.rate, 5),
            "wer_alone": round(sum((errors[i] for i in chosen), ErrorCount(0, 0, 0, 0, 0)).rate, 5),
            "words": whole.length,
            "chunks": [cfg.left_seconds, cfg.chunk_seconds, cfg.right_seconds],
            "local_attention": cfg.local_attention,
            "normalize_seconds": cfg.normalize_seconds,
            "batch": cfg.batch_size,
            "precision": cfg.precision,
        }
        print(append_row("transducer_length", row, device=asr.device, folder=cfg.results))


def enough(utterances: Sequence[Utterance], seconds: float) -> list[int]:
    """Numbers of the utterances that together last about so long, from the first on, as often as it takes."""
    chosen: list[int] = []
    total = 0.0
    while total < seconds:
        chosen.append(len(chosen) % len(utterances))
        total += utterances[chosen[-1]].seconds
    return chosen


def transcribed(cfg: LengthConfig, utterances: Sequence[Utterance]) -> LengthMeasurement:
    """The utterances as one recording, transcribed in chunks by this process, which does nothing else."""
    asr = _loaded(cfg)
    rate = asr.feature_config.sample_rate
    samples_N = np.zeros(sum(round(u.seconds * rate) for u in utterances), np.float32)
    at = 0
    for utterance in utterances:
        part_N = waveform.read(utterance.audio, sample_rate=rate).samples[: len(samples_N) - at]
        samples_N[at : at + len(part_N)] = part_N
        at += len(part_N)
    warm_up_N = np.resize(samples_N[: WARM_UP_SECONDS * rate], WARM_UP_SECONDS * rate)  # resize copies what it gets
    _text(asr, cfg, warm_up_N)
    start = time.process_time()
    text = _text(asr, cfg, samples_N)
    took = time.process_time() - start
    return LengthMeasurement(len(samples_N) / rate, took, process_peak_mib() - samples_N.nbytes / 2**20, text)


def _text(asr: Recognizer, cfg: LengthConfig, samples_N: np.ndarray) -> str:
    (transcript,) = asr.transcribe(
        [samples_N],
        batch_size=cfg.batch_size,
        whole_seconds=0,
        chunk_seconds=cfg.chunk_seconds,
        left_seconds=cfg.left_seconds,
        right_seconds=cfg.right_seconds,
    )
    return transcript.text


def _loaded(cfg: LengthConfig) -> Recognizer:
    torch.set_num_threads(1)
    asr = load(
        cfg.model, device=cfg.device, precision=cfg.precision, head=cfg.head, local_attention=cfg.local_attention,
        normalize_seconds=cfg.normalize_seconds,
    )  # fmt: skip
    assert isinstance(asr, Recognizer), "chunks with context are for transducers and CTC"
    return asr


if __name__ == "__main__":
    config.run(main, LengthConfig, __doc__, CheckpointError, ManifestError)
