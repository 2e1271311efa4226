"""What commands ask of models with an attention decoder, in torch and exported: languages, times, context."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from common.config import ConfigError
from common.recognition.output.transcripts import Transcript
from common.recognition.sources.recordings import Source
from common.recognition.transcribing import TranscriptionConfig
from fastconformer.attention.config import DecoderPrecision, Times

if TYPE_CHECKING:
    from fastconformer.hearing.prompted.recognizer import PromptedRecognizer


@dataclass(frozen=True, kw_only=True)
class AskingConfig(TranscriptionConfig):
    """What to transcribe or to translate, with which model, and where the result goes."""

    USUAL: ClassVar = TranscriptionConfig.USUAL | {
        "Attention decoders": ("source_language", "target_language", "times")
    }
    source_language: str | None = None
    """Language that is spoken, as a code such as de, or auto to identify that of each recording; for models with an
    attention decoder, as the next ones. Keys of a manifest (source_lang, target_lang, pnc, decodercontext) come
    first."""
    target_language: str | None = None
    """Language that is written; by default the one that is spoken."""
    punctuation: bool = True
    """Whether an attention decoder writes capitals and punctuation, if its pieces have any."""
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

    def heard(
        self, asr: "PromptedRecognizer", sources: Iterable[Source], *, chunk_seconds: float | None = None
    ) -> Iterator[Transcript]:
        """The transcripts of the sources. Raises ConfigError for what this model cannot be asked for."""
        try:
            yield from asr.stream(
                sources,
                source_language=self.source_language,
                target_language=self.target_language,
                punctuation=self.punctuation,
                times=self.times,
                context=self.context,
                batch_size=self.batch_size,
                chunk_seconds=chunk_seconds,
                decoder=asr.decoder(self.decoding, length_penalty=self.length_penalty, ctc_weight=self.ctc_weight),
                on_error="skip",
            )
        except ValueError as error:
            raise ConfigError(f"{self.model}: {error}") from None

    def refuse(self) -> None:
        """Raises ConfigError where something is asked for that only attention decoders have."""
        own = ("source_language", "target_language", "punctuation", "times", "context", "length_penalty", "ctc_weight")
        if asked := [name for name in own if getattr(self, name) != getattr(AskingConfig, name)]:
            raise ConfigError(f"{self.model}: {', '.join(asked)}: for attention decoders; this is a model without")
