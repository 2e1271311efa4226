"""Transcribes recordings: `python -m fastconformer.inference MODEL a.flac b.wav folder/ manifest.jsonl …`.

Takes files of any format that libsndfile reads, at any sample rate, mono or stereo; folders, with all that is in them;
manifests and corpora, whose word error rate is the last line. What cannot be transcribed is one line each and makes the
exit status 1; all else is transcribed nevertheless. Run by torchrun, the processes share the recordings.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from common import config
from common.config import ConfigError
from common.devices import distributed
from common.devices.fastest import Choice
from common.recognition import sharding
from common.recognition.recordings import Source
from common.recognition.transcribing import TranscriptionConfig, status, write_all
from common.recognition.transcripts import Transcript
from common.runs.checkpoint import CheckpointError
from common.text.language import Language, Spelling
from fastconformer.attending import AttentionRecognizer, Times
from fastconformer.attention.step import DecoderPrecision
from fastconformer.hearing.long_audio import ChunkOptions
from fastconformer.listening import Confidence
from fastconformer.recognizer import Head, Recognizer, load
from fastconformer.transducer.decoder import check_max_symbols


@dataclass(frozen=True, kw_only=True)
class InferenceConfig(TranscriptionConfig):
    """What to transcribe, with which model, and where the result goes."""

    model: Annotated[Path, Positional, arg(metavar="MODEL")]
    """Model: a .nemo archive, a folder of transformers, a checkpoint of this repository, or a name of the hub."""
    head: Head = "auto"
    """Head that decodes in hybrid models: transducer, attention or ctc; by default not ctc."""
    source_language: str | None = None
    """Language that is spoken, as a code such as de, or auto to identify that of each recording; for models with an
    attention decoder, as the next ones. Keys of a manifest (source_lang, target_lang, pnc, decodercontext) come
    first."""
    target_language: str | None = None
    """Language that is written; by default the one that is spoken."""
    punctuation: bool = True
    """Whether an attention decoder writes capitals and punctuation."""
    times: Times = "auto"
    """Source of the times of words of an attention decoder. tokens: those that it writes, if it learned that; ctc: its
    CTC head; aligner: the CTC model that some archives hold besides; none: a word has the times of the stretch of audio
    that it is in. auto: the CTC head, where there is one."""
    context: int = 0
    """Last words of a long recording's text that an attention decoder is told before its next stretch."""
    decoder_precision: DecoderPrecision = "fp32"
    """Number format of the weights of an attention decoder on a CPU: int8 and bf16 are read faster than fp32."""
    length_penalty: float = 0.0
    """Power of the length that scores of the attention decoder's beam search are divided by."""
    ctc_weight: float = 0.0
    """Share of a CTC head beside the attention decoder in the scores of the transcripts that its beam has found."""
    max_symbols: int = 10
    """Most pieces that a transducer emits at one frame."""
    language: Language = "english"
    """Language of the texts that are compared. english: numbers and symbols are spelled out; none: letters stay."""
    ema: bool | None = None
    """Whether the averaged weights of our checkpoints are used; by default where there are any."""
    device: str = "auto"
    """Device: auto, cpu, cuda or cuda:N."""
    precision: Choice = "fp32"
    """Arithmetic of the encoder; features and heads are always fp32. auto: the fastest on this machine within 2 % of
    fp32."""
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
        check_max_symbols(self.max_symbols)


def main(cfg: InferenceConfig) -> int:
    """Transcribes as `cfg` says; returns the exit status. Raises CheckpointError and ConfigError."""
    if cfg.merge:
        return sharding.merge_parts(cfg.output)
    with distributed.start(cfg.device) as world:
        found = cfg.find()
        if found is None:
            return 0
        asr = load(
            cfg.model, device=str(world.device), precision=cfg.precision, ema=cfg.ema, head=cfg.head,
            confidence=cfg.confidence, normalize_seconds=cfg.normalize_seconds,
            decoder_precision=cfg.decoder_precision,
        )  # fmt: skip
        heard = _heard(asr, cfg.sources(found, world), cfg)
        compared = Spelling(None, language=cfg.language, unknown_letters="latin")
        written = write_all(found, heard, cfg, world, spelled=compared, heard=compared)
        return status(found, sum(bool(transcript.error) for transcript in written), world)


def _heard(
    asr: Recognizer | AttentionRecognizer, sources: Iterable[Source], cfg: InferenceConfig
) -> Iterator[Transcript]:
    """The transcripts of the sources. Raises ConfigError for options that are of models of another kind."""
    if isinstance(asr, AttentionRecognizer):
        try:
            yield from asr.stream(
                sources,
                source_language=cfg.source_language,
                target_language=cfg.target_language,
                punctuation=cfg.punctuation,
                times=cfg.times,
                context=cfg.context,
                batch_size=cfg.batch_size,
                decoder=asr.decoder(cfg.decoding, length_penalty=cfg.length_penalty, ctc_weight=cfg.ctc_weight),
                on_error="skip",
            )
        except ValueError as error:
            raise ConfigError(f"{cfg.model}: {error}") from None
        return
    if (
        cfg.source_language
        or cfg.target_language
        or cfg.times != "auto"
        or cfg.context
        or cfg.length_penalty
        or cfg.ctc_weight
    ):
        told = (
            "source_language, target_language, times, context, length_penalty and ctc_weight are for attention decoders"
        )
        raise ConfigError(f"{cfg.model}: {told}; this is a model without")
    yield from asr.stream(
        sources,
        batch_size=cfg.batch_size,
        **asdict(cfg.chunks),
        max_symbols=cfg.max_symbols,
        decoder=asr.decoder(cfg.decoding) if cfg.decoding.searches else None,
        on_error="skip",
    )


if __name__ == "__main__":
    config.run(main, InferenceConfig, __doc__, CheckpointError)
