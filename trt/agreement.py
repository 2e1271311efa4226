"""Words of an exported recogniser beside those of another: `python -m trt.agreement int8.onnx fp32.onnx test.jsonl`.

    python -m trt.agreement int8.onnx fp32.onnx test.jsonl --noise_db 10

Transcribes recordings with both files, as they are or with white noise, and counts the words of the second that the
first finds too. Recordings of manifests and corpora have texts, of which both get their word error rate. A row goes to
benchmarks/results/trt_agreement.jsonl.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from tyro.conf import Positional, arg

from common import benchmark, config
from common.benchmark import RESULTS
from common.recognition.metrics import word_errors
from common.recognition.output.writing import tell
from common.recognition.sources.inputs import find_recordings
from common.recognition.sources.recordings import read_ahead
from common.text.language import Language, Spelling
from trt.facts import ModelError
from trt.quantisation.reduced import noisy
from trt.runtime import loading


@dataclass(frozen=True, kw_only=True)
class AgreementConfig:
    """Which files are compared, and on what."""

    model: Annotated[Path, Positional, arg(metavar="MODEL")]
    """The file in fewer bits, or for another runtime."""
    exact: Annotated[Path, Positional, arg(metavar="EXACT")]
    """The same model in float32."""
    inputs: Annotated[tuple[Path, ...], Positional, arg(metavar="INPUT")]
    """Audio files, folders of them, manifests, corpus folders, text files with one path per line."""
    root: Path | None = None
    """Folder that relative paths in manifests start from; by default that of the manifest."""
    clips: int = 200
    """Recordings that are taken at most."""
    noise_db: float = math.inf
    """Signal to noise ratio of white noise that is added, in decibels; none by default."""
    language: Language = "auto"
    """Language of the texts that are compared."""
    runtime: loading.Runtime = "onnxruntime"
    """Runtime of the first file; the second has ONNX Runtime."""
    threads: int = 1
    """Threads of the networks."""
    name: str = ""
    """What the row calls the model; by default the name of the file."""
    results: Path = RESULTS
    """Folder of the file that the row is appended to."""

    def __post_init__(self) -> None:
        if not self.inputs:
            raise ValueError("nothing to transcribe; name audio files, folders or manifests after the models")


def main(cfg: AgreementConfig) -> dict[str, Any]:
    """Compares, appends the row and prints it; returns it. Raises ModelError and AudioError."""
    models = [
        loading.load(cfg.model, threads=cfg.threads, runtime=cfg.runtime),
        loading.load(cfg.exact, threads=cfg.threads),
    ]
    named = find_recordings(cfg.inputs, root=cfg.root)
    for problem in named.problems:
        tell(problem)
    items, rate = named.items[: cfg.clips], models[1].sample_rate
    recordings = read_ahead([item.source for item in items], rate, on_error="stop")
    samples = [noisy(recording.samples_N[:], cfg.noise_db, seed) for seed, recording in enumerate(recordings)]
    ours, theirs = ([transcript.text for transcript in model.stream(samples)] for model in models)
    count = word_errors(theirs, ours)
    row = {
        "config": cfg.name or cfg.model.stem,
        "noise_db": None if math.isinf(cfg.noise_db) else cfg.noise_db,
        "noise": "none" if math.isinf(cfg.noise_db) else f"at {cfg.noise_db:g} dB",
        "precision": models[0].network.facts.get("precision", "fp32"),
        "runtime": cfg.runtime,
        "quantisation": models[0].network.facts.get("int8"),
        "clips": len(items),
        "words": count.length,
        "agreeing": round(1 - count.rate, 4),
    }
    if all(item.reference is not None for item in items):
        spelled = Spelling(None, language=cfg.language, unknown_letters="latin")
        references = [spelled(item.reference or "") for item in items]
        for kind, texts in (("wer", ours), ("exact_wer", theirs)):
            row[kind] = round(100 * word_errors(references, [spelled(text) for text in texts]).rate, 2)
    row = benchmark.append_row("trt_agreement", row, device=torch.device("cpu"), folder=cfg.results)
    rates = f", {row['wer']} % of all words wrong and {row['exact_wer']} %" if "wer" in row else ""
    noise = "" if math.isinf(cfg.noise_db) else f" {row['noise']}"
    print(f"{cfg.model}: {row['agreeing']:.1%} of the {row['words']} words of {cfg.exact}{noise}{rates}")
    return row


if __name__ == "__main__":
    config.run(main, AgreementConfig, __doc__, ModelError, ValueError, OSError)
