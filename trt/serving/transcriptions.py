"""Transcripts as OpenAI's clients ask for them and expect them: json, text, verbose_json, srt, vtt."""

import json
import math
import zlib
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

from common.recognition import subtitles
from common.recognition.transcripts import Transcript, Word
from trt.serving.forms import File, Form
from trt.serving.limits import RequestError

Format = Literal["json", "text", "verbose_json", "srt", "vtt"]
MEDIA = {"text": "text/plain; charset=utf-8", "srt": "application/x-subrip; charset=utf-8"}
MEDIA |= {"vtt": "text/vtt; charset=utf-8"}


TRUE, FALSE = ("true", "1"), ("false", "0")


class TranscriptionRequest(NamedTuple):
    """A request: the recording, and how its transcript is to be written.

    `prompt`, `temperature`, `language` and `timestamp_granularities[]` of OpenAI's are checked and have no effect.
    """

    file: File
    model: str
    format: Format
    streams: bool


def asked(form: Form) -> TranscriptionRequest:
    """What a form asks for. Raises RequestError for one without a recording, or with values that OpenAI's has not."""
    if "file" not in form.files:
        known = ", ".join([*form.fields, *form.files]) or "nothing"
        raise RequestError(400, f"no file; expected a recording in the field 'file', found {known}", param="file")
    style = _last(form, "response_format", "json")
    if style not in get_args(Format):
        expected = ", ".join(get_args(Format))
        raise RequestError(400, f"response_format {style!r}: expected one of {expected}", param="response_format")
    streams = _one_of(form, "stream", (*TRUE, *FALSE)) in TRUE
    for name in ("timestamp_granularities[]", "timestamp_granularities"):
        _one_of(form, name, ("word", "segment"))
    if not _is_temperature(_last(form, "temperature", "")):
        found = _last(form, "temperature", "")[:40]
        raise RequestError(400, f"temperature {found!r}: expected a number from 0 to 1", param="temperature")
    return TranscriptionRequest(form.files["file"], _last(form, "model", ""), style, streams)  # type: ignore[arg-type]


def written(transcript: Transcript, style: Format, language: str) -> str | dict[str, Any]:
    """The transcript in the format: text, or an object for JSON."""
    match style:
        case "json":
            return {"text": transcript.text}
        case "verbose_json":
            return verbose(transcript, language)
        case "text":
            return f"{transcript.text}\n"
        case _:
            return subtitles.render(transcript.words, style)


def events(transcript: Transcript) -> list[str]:
    """The transcript as server-sent events, as OpenAI's clients read them with stream=true: word by word, and whole."""
    told: list[dict[str, str]] = [
        {"type": "transcript.text.delta", "delta": word.text if i == 0 else f" {word.text}"}
        for i, word in enumerate(transcript.words)
    ]
    told.append({"type": "transcript.text.done", "text": transcript.text})
    return [f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in told]


def verbose(transcript: Transcript, language: str) -> dict[str, Any]:
    """Text with the times of its words, and segments of subtitles' length.

    Words have besides OpenAI's fields their `confidence`. Of the fields of segments, `avg_logprob` is of the words'
    confidence; `no_speech_prob`, `seek`, `temperature` and `tokens` have no meaning here and are 0 or empty.
    """
    return {
        "task": "transcribe",
        "language": language,
        "duration": round(transcript.seconds, 3),
        "text": transcript.text,
        "words": [_word(word) for word in transcript.words],
        "segments": segments(transcript.words),
    }


def segments(words: Sequence[Word]) -> list[dict[str, Any]]:
    """The words in groups as subtitles show them."""
    found, first = [], 0
    for i, cue in enumerate(subtitles.cues(words)):
        text = " ".join(cue.lines)
        own = words[first : first + len(text.split())]
        first += len(own)
        probability = math.prod(max(word.confidence, 1e-9) for word in own) ** (1 / len(own))
        content = text.encode()
        found.append(
            {
                "id": i,
                "seek": 0,
                "start": cue.start,
                "end": own[-1].end,
                "text": text,
                "tokens": [],
                "temperature": 0.0,
                "avg_logprob": round(math.log(probability), 4),
                "compression_ratio": round(len(content) / len(zlib.compress(content)), 4),
                "no_speech_prob": 0.0,
            }
        )
    return found


def _word(word: Word) -> dict[str, Any]:
    return {"word": word.text, "start": word.start, "end": word.end, "confidence": word.confidence}


def _one_of(form: Form, name: str, known: Sequence[str]) -> str:
    """The last value of a field, in small letters; "" where it is empty or absent. Raises RequestError for others."""
    values = [value.strip().lower() for value in form.fields.get(name, ())]
    for value in values:
        if value and value not in known:
            raise RequestError(400, f"{name} {value[:40]!r}: expected one of {', '.join(known)}", param=name)
    return values[-1] if values else ""


def _is_temperature(value: str) -> bool:
    try:
        return not value or 0 <= float(value) <= 1
    except ValueError:
        return False


def _last(form: Form, name: str, default: str) -> str:
    return form.fields.get(name, [default])[-1].strip()
