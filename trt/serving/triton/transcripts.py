"""Transcripts on their way through a tensor of bytes."""

import json
from collections.abc import Sequence

import numpy as np

from common.files.json_text import parsed
from common.recognition.output.transcripts import Transcript, Word


def content_of(transcript: Transcript) -> bytes:
    """The transcript as JSON in UTF-8."""
    record = {"text": transcript.text, "seconds": transcript.seconds, "error": transcript.error}
    return json.dumps({**record, "words": [word[:] for word in transcript.words]}, ensure_ascii=False).encode()


def rows_of(contents: Sequence[bytes]) -> np.ndarray:
    """uint8 [B, bytes] of several, made equally long by spaces, which JSON does not mind."""
    longest = max(map(len, contents))
    rows = np.frombuffer(bytearray(b"".join(content.ljust(longest) for content in contents)), np.uint8)
    return rows.reshape(len(contents), longest)


def transcript_in(content: bytes) -> Transcript:
    """What `content_of` wrote. Raises ValueError, KeyError and TypeError for what it did not."""
    found = parsed(content)
    words = [Word(*word) for word in found["words"]]
    return Transcript("array", str(found["text"]), words, float(found["seconds"]), str(found["error"]))
