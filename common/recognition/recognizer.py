"""The one face of recognisers, in torch and exported, whichever family a model is of."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, Protocol

from common.recognition.decoding import DecodingOptions
from common.recognition.output.transcripts import Transcript
from common.recognition.sources.recordings import Source
from common.text.vocabulary import Language

if TYPE_CHECKING:
    from common.text.language import Spelling

OnError = Literal["stop", "skip"]


class SpeechRecognizer(Protocol):
    """What commands, the server and users rely on; options beyond these are each family's own.

    A recogniser that follows audio while it comes also has `session`.
    """

    sample_rate: int
    """Samples a second of the arrays that it hears; files of any rate are resampled."""
    languages: tuple[str, ...]
    """Languages that it writes, as far as the model says; empty where it does not."""
    chunk_seconds: float
    """Longest stretch, in seconds, that its network hears at once; longer recordings are cut."""

    def decoder(self, options: DecodingOptions | None = None, *, like: Any = None) -> Any:
        """What `transcribe` decodes with. `like`: one of this method, with the same language model, which is not read
        again. Raises ConfigError for words or files that cannot be used."""

    def spelling(self, language: Language | None = None) -> "Spelling":
        """What writes references and transcripts alike, so that errors can be counted; by default in letters of any
        language, as models of pieces need it."""
        from common.text.language import Spelling  # which takes as long to import as all else

        return Spelling(None, language=language or "auto", unknown_letters="latin")

    def transcribe(self, recordings: Iterable[Source], **options: Any) -> list[Transcript]:
        """As `stream`, whose options it takes, all at once."""
        return list(self.stream(recordings, **options))

    def stream(
        self,
        recordings: Iterable[Source],
        *,
        batch_size: int = 8,
        chunk_seconds: float = 30.0,
        decoder: Any = None,
        on_error: OnError = "stop",
    ) -> Iterator[Transcript]:
        """Transcripts of files, utterances of a manifest or float32 [N] at `sample_rate`, in order, as they come.

        `chunk_seconds` is by default that of the model. With on_error="skip" what cannot be read gives a transcript
        with `error` set; otherwise its AudioError is raised.
        """
