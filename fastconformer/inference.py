"""Transcribes recordings: `python -m fastconformer.inference MODEL a.flac b.wav folder/ manifest.jsonl …`.

Takes files of any format that libsndfile reads, at any sample rate, mono or stereo; folders, with all that is in them;
manifests and corpora, whose word error rate is the last line. What cannot be transcribed is one line each and makes the
exit status 1; all else is transcribed nevertheless. Run by torchrun, the processes share the recordings.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from common import config
from common.devices import distributed
from common.devices.fastest import Choice
from common.recognition.output.transcripts import Transcript
from common.recognition.sources.recordings import Source
from common.recognition.transcribing import status, write_all
from common.runs.checkpoint import CheckpointError
from common.text.vocabulary import Language
from fastconformer.attending import AttentionRecognizer
from fastconformer.hearing.long_audio import ChunkOptions
from fastconformer.hearing.prompted.asking import AskingConfig
from fastconformer.hearing.recordings import Confidence
from fastconformer.recognizer import Head, Recognizer, load
from fastconformer.transducer.decoder import check_labels


@dataclass(frozen=True, kw_only=True)
class InferenceConfig(AskingConfig):
    """What to transcribe, with which model, and where the result goes."""

    model: Annotated[Path, Positional, arg(metavar="MODEL")]
    """Model: a .nemo archive, a folder of transformers, a checkpoint of this repository, or a name of the hub."""
    head: Head = "auto"
    """Head that decodes in hybrid models: transducer, attention or ctc; by default not ctc."""
    max_symbols: int = 10
    """Most pieces that a transducer emits at one frame."""
    language: Language = "english"
    """Language of the texts that are compared. english: numbers and symbols are spelled out; none: letters stay."""
    ema: bool | None = None
    """Whether the averaged weights of our checkpoints are used; by default where there are any."""
    device: str = "auto"
    """Device: auto, cpu, cuda or cuda:N."""
    precision: Choice | Literal["int8"] = "fp32"
    """Arithmetic of the encoder, and of decoders' matrices on a GPU; all else is fp32. auto: the fastest on this
    machine within 2 % of fp32, never int8. int8: on a CPU alone, fastest with AVX-512 VNNI."""
    chunk_seconds: float = ChunkOptions.chunk_seconds
    """Seconds of a chunk; long recordings are encoded in chunks, and decoded as one."""
    left_seconds: float = ChunkOptions.left_seconds
    """Seconds of context before each chunk, encoded with it but not decoded again."""
    right_seconds: float = ChunkOptions.right_seconds
    """Seconds of context after each chunk, encoded with it but decoded with the next one."""
    whole_seconds: float = ChunkOptions.whole_seconds
    """Longest recording that is encoded whole, in seconds."""
    normalize_seconds: float = 0.0
    """Seconds around each frame that its features are normalised over; 0 for all that is encoded at once. Some 2 to 5
    seconds help models of single sentences with recordings of several voices."""
    confidence: Confidence = "probability"
    """Measure of the confidence in words: the probabilities of their pieces, or the entropies of the distributions that
    the pieces were chosen from."""

    @property
    def chunks(self) -> ChunkOptions:
        """How long recordings are encoded."""
        return ChunkOptions(
            chunk_seconds=self.chunk_seconds, left_seconds=self.left_seconds, right_seconds=self.right_seconds,
            whole_seconds=self.whole_seconds,
        )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.chunks
        if not self.normalize_seconds >= 0:
            raise ValueError(f"normalize_seconds = {self.normalize_seconds}: expected seconds, at least 0")
        check_labels(self.max_symbols)


def main(cfg: InferenceConfig) -> int:
    """Transcribes as `cfg` says; returns the exit status. Raises CheckpointError and ConfigError."""
    with distributed.start(cfg.device) as world:
        found = cfg.find()
        if found is None:
            return 0
        asr = load(
            cfg.model, device=str(world.device), precision=cfg.precision, ema=cfg.ema, head=cfg.head,
            confidence=cfg.confidence, normalize_seconds=cfg.normalize_seconds,
            decoder_precision=cfg.decoder_precision, max_symbols=cfg.max_symbols,
        )  # fmt: skip
        heard = _heard(asr, cfg.sources(found, world), cfg)
        compared = asr.spelling(cfg.language)
        written = write_all(found, heard, cfg, world, spelled=compared, heard=compared)
        return status(found, written, world)


def _heard(
    asr: Recognizer | AttentionRecognizer, sources: Iterable[Source], cfg: InferenceConfig
) -> Iterator[Transcript]:
    """The transcripts of the sources. Raises ConfigError for options that are of models of another kind."""
    if isinstance(asr, AttentionRecognizer):
        yield from cfg.heard(asr, sources)
        return
    cfg.refuse()
    yield from asr.stream(
        sources,
        batch_size=cfg.batch_size,
        **asdict(cfg.chunks),
        decoder=asr.decoder(cfg.decoding) if cfg.decoding.searches else None,
        on_error="skip",
    )


if __name__ == "__main__":
    config.run(main, InferenceConfig, __doc__, CheckpointError)
