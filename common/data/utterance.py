"""An utterance: a piece of a recording, and what was said in it."""

from dataclasses import dataclass, field
from pathlib import Path

from common.files.stores import Stored


@dataclass(frozen=True, kw_only=True, slots=True)
class Utterance:
    """A piece of speech and what was said in it."""

    id: str
    """Name in messages and results."""
    audio: Path | Stored
    """The recording: a file, or a part of one, as of a shard."""
    seconds: float
    """Duration of the piece, at its original speed."""
    text: str
    """Transcript as the corpus gives it, not normalised; "" where there is none."""
    speaker: str = ""
    """Name of the speaker, "" where it is not known."""
    offset_seconds: float | None = None
    """Where the piece starts in the recording; None: it is the whole recording, whatever `seconds` says."""
    speeds: tuple[tuple[float, Path], ...] = ()
    """The same recording at other speeds: (0.9, path of the copy that is slower and longer by 1/0.9)."""
    word_ends: tuple[float, ...] = ()
    """Where its words end, in seconds from its start; empty where that is not known."""
    has_text: bool = field(default=True, compare=False)
    """Whether it is known what was said: "" is nothing then."""
    wanted: tuple[tuple[str, str], ...] = ()
    """What a model of several languages is to write, by NeMo's keys; see `common.data.lists.entries.WANTED`."""

    def piece(self, speed: float = 1.0) -> dict[str, float]:
        """What audio.read is to be told to read no more than the piece, of a copy recorded at `speed`."""
        if self.offset_seconds is None:
            return {}
        return {"offset_seconds": self.offset_seconds / speed, "seconds": self.seconds / speed}
