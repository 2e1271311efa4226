"""Transcribes recordings with an exported model, without torch: `python -m trt.run MODEL.onnx a.flac folder/ …`.

    python -m trt.run jasper.onnx talk.flac --format srt
    python -m trt.run jasper.onnx recordings/ --format json --output all.jsonl
    python -m trt.run canary.onnx a.flac --source_language de --target_language en --format srt
    python -m trt.run jasper.onnx a.flac --decoding.language_model 4-gram.arpa.gz --decoding.hot_words "new york"

Takes what `inference` takes: files of any format that libsndfile reads, folders, manifests, corpora, whose word error
rate is the last line. It needs onnxruntime, numpy, soundfile, soxr and tyro. What cannot be transcribed is one line
each and makes the exit status 1; all else is transcribed nevertheless.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from common import config
from common.recognition.transcribing import status, write_all
from common.text.vocabulary import Language
from fastconformer.hearing.prompted.asking import AskingConfig
from trt.facts import ModelError
from trt.runtime import loading
from trt.runtime.recognizer import Recognizer


@dataclass(frozen=True, kw_only=True)
class RunConfig(AskingConfig):
    """What to transcribe, with which exported model, and where the result goes."""

    model: Annotated[Path, Positional, arg(metavar="MODEL")]
    """Model: a file of trt.export that takes samples, or, on a GPU, an engine that trt.build made of it."""
    language: Language | None = None
    """Language of the reference texts for the word error rate; by default what the model says."""
    save_logits: Path | None = None
    """Folder for one .npz per recording: log_probs [frames, labels], times [frames] in seconds, labels, the blank among
    them. Only for models that write characters."""
    chunk_seconds: float | None = None
    """Seconds of a chunk; longer recordings are recognised in overlapping chunks. By default those of the model."""
    threads: int = 0
    """Threads of the network; 0 for one per core."""
    runtime: loading.Runtime = "onnxruntime"
    """Runtime of an ONNX file: onnxruntime, or openvino with the extra of that name, on some processors faster;
    openvino_bf16 computes the network, not its features, in bfloat16, where the processor has it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.chunk_seconds is not None and self.chunk_seconds <= 0:
            raise ValueError(f"chunk_seconds = {self.chunk_seconds}: expected above 0")


def main(cfg: RunConfig) -> int:
    """Transcribes as `cfg` says; returns the exit status. Raises ModelError and ConfigError."""
    found = cfg.find(folder=cfg.save_logits)
    if found is None:
        return 0
    asr: Any = loading.load(
        cfg.model, threads=cfg.threads, runtime=cfg.runtime, decoder_precision=cfg.decoder_precision
    )
    if cfg.save_logits is not None and not isinstance(asr, Recognizer):
        raise config.ConfigError(f"save_logits: {cfg.model} writes pieces; expected a model of characters")
    saved: dict[str, Any] = {}
    if hasattr(asr, "prompt_for"):
        heard = cfg.heard(asr, cfg.sources(found), chunk_seconds=cfg.chunk_seconds)
    else:
        cfg.refuse()
        options: dict[str, Any] = {"decoder": asr.decoder(cfg.decoding)}
        if isinstance(asr, Recognizer):
            options["keep_log_probs"] = cfg.save_logits is not None
            saved = {"save_logits": cfg.save_logits, "labels": asr.labels}
        heard = asr.stream(
            cfg.sources(found),
            batch_size=cfg.batch_size,
            chunk_seconds=cfg.chunk_seconds,
            on_error="skip",
            **options,
        )
    compared = asr.spelling(cfg.language) if found.has_references else str
    written = write_all(found, heard, cfg, spelled=compared, heard=compared, **saved)
    return status(found, written)


if __name__ == "__main__":
    config.run(main, RunConfig, __doc__, ModelError)
