"""Transcripts as OpenAI's clients ask for them and expect them: json, text, verbose_json, srt, vtt."""

import json
import math
import zlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal, NamedTuple, get_args

from common.recognition.output import subtitles
from common.recognition.output.transcripts import Transcript, Word, text_of
from trt.serving.admission.forms import File, Form
from trt.serving.admission.limits import RequestError
from trt.serving.batching import Workers
from trt.serving.models import Favoured
from trt.serving.transcribing.favoured import favoured_in

Format = Literal["json", "text", "verbose_json", "srt", "vtt"]
MEDIA = {
    "json": "application/json",
    "verbose_json": "application/json",
    "text": "text/plain; charset=utf-8",
    "srt": "application/x-subrip; charset=utf-8",
    "vtt": "text/vtt; charset=utf-8",
}


TRUE, FALSE = ("true", "1"), ("false", "0")
GRANULARITIES = ("word", "segment")


class TranscriptionRequest(NamedTuple):
    """A request: the recording, and how its transcript is to be written.

    `temperature` and `chunking_strategy` of OpenAI's are checked and have no effect.
    """

    file: File
    model: str
    format: Format
    streams: bool
    granularities: tuple[str, ...]
    """Granularities of the times in verbose_json: word, segment; all where none is asked for."""
    has_log_probs: bool
    languages: tuple[str, ...]
    favoured: Favoured
    target: str = ""
    """Language of a translation, by code or name; "" for a transcript, in the language that is spoken."""


def asked(form: Form, *, is_translation: bool = False) -> TranscriptionRequest:
    """What a form asks for; a translation is one to English, where `to` names no other language.

    Raises RequestError for a form without a recording, or with values that OpenAI's has not.
    """
    if "file" not in form.files:
        known = ", ".join([*form.fields, *form.files]) or "nothing"
        raise RequestError(400, f"no file; expected a recording in the field 'file', found {known}", param="file")
    style = _last(form, "response_format", "json")
    if style not in get_args(Format):
        expected = ", ".join(get_args(Format))
        raise RequestError(400, f"response_format {style!r}: expected one of {expected}", param="response_format")
    if not _is_temperature(_last(form, "temperature", "")):
        found = _last(form, "temperature", "")[:40]
        raise RequestError(400, f"temperature {found!r}: expected a number from 0 to 1", param="temperature")
    strategy = form.fields.get("chunking_strategy[type]", [_last(form, "chunking_strategy", "auto")])[-1]
    if strategy not in ("auto", "server_vad", "") and not strategy.lstrip().startswith("{"):
        message = f"chunking_strategy {strategy[:40]!r}: expected auto or server_vad"
        raise RequestError(400, message, param="chunking_strategy")
    return TranscriptionRequest(
        file=form.files["file"],
        model=_last(form, "model", ""),
        format=style,  # type: ignore[arg-type]
        streams=_one_of(form, "stream", (*TRUE, *FALSE)) in TRUE,
        granularities=_all_of(form, "timestamp_granularities", GRANULARITIES),
        has_log_probs="logprobs" in _all_of(form, "include", ("logprobs",)),
        languages=tuple(each for name in ("language", "languages") for each in _several(form, name)),
        favoured=favoured_in(
            _several(form, "keywords"), *(_last(form, name, "") for name in ("prompt", "beam", "language_model"))
        ),
        target=(_last(form, "to", "") or "en") if is_translation else "",
    )


def written(transcript: Transcript, asked: TranscriptionRequest, language: str) -> str:
    """The transcript as it is asked for."""
    match asked.format:
        case "json":
            more = {"logprobs": log_probs(transcript.words)} if asked.has_log_probs else {}
            return _json({"text": transcript.text, "usage": usage(transcript.seconds), **more})
        case "verbose_json":
            found = verbose(transcript, language) | ({"task": "translate"} if asked.target else {})
            left_out = [f"{each}s" for each in GRANULARITIES if asked.granularities and each not in asked.granularities]
            return _json({name: value for name, value in found.items() if name not in left_out})
        case "text":
            return f"{transcript.text}\n"
        case style:
            return subtitles.render(transcript.words, style)


async def events(parts: AsyncIterator[Transcript], asked: TranscriptionRequest, workers: Workers) -> AsyncIterator[str]:
    """The transcript as server-sent events, as OpenAI's clients read them with stream=true: word by word as the parts
    of the recording are heard, and whole."""
    text, words, seconds = "", list[Word](), 0.0
    async for part in parts:
        for word in part.words:
            delta = text_of([words[-1], word])[len(words[-1].text) :] if words else word.text
            words.append(word)
            text += delta
            yield event({"type": "transcript.text.delta", "delta": delta})
        seconds = part.seconds

    def done() -> str:
        more = {"logprobs": log_probs(words)} if asked.has_log_probs else {}
        return event({"type": "transcript.text.done", "text": text, "usage": usage(seconds), **more})

    yield await workers(done)


def event(told: dict[str, Any]) -> str:
    """A server-sent event."""
    return f"data: {_json(told)}\n\n"


def _json(told: dict[str, Any]) -> str:
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def usage(seconds: float) -> dict[str, Any]:
    """What OpenAI bills: seconds of sound."""
    return {"type": "duration", "seconds": round(seconds, 3)}


def log_probs(words: Sequence[Word]) -> list[dict[str, Any]]:
    """The words as OpenAI has tokens, with the logarithms of their confidence."""
    texts = [word.text if i == 0 else f" {word.text}" for i, word in enumerate(words)]
    return [
        {"token": text, "logprob": round(math.log(max(word.confidence, 1e-9)), 4), "bytes": list(text.encode())}
        for text, word in zip(texts, words, strict=True)
    ]


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
        "usage": usage(transcript.seconds),
        "words": [_word(word) for word in transcript.words],
        "segments": segments(transcript.words),
    }


def segments(words: Sequence[Word]) -> list[dict[str, Any]]:
    """The words in groups as subtitles show them."""
    found = []
    for i, own in enumerate(subtitles.groups(words)):
        text = text_of(own)
        probability = math.prod(max(word.confidence, 1e-9) for word in own) ** (1 / len(own))
        content = text.encode()
        found.append(
            {
                "id": i,
                "seek": 0,
                "start": own[0].start,
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


def _all_of(form: Form, name: str, known: Sequence[str]) -> tuple[str, ...]:
    """All values of a field of several. Raises RequestError for others."""
    for written in (f"{name}[]", name):
        _one_of(form, written, known)
    return tuple(each.lower() for each in _several(form, name))


def _several(form: Form, name: str) -> tuple[str, ...]:
    values = [*form.fields.get(f"{name}[]", ()), *form.fields.get(name, ())]
    return tuple(value.strip() for value in values if value.strip())


def _is_temperature(value: str) -> bool:
    try:
        return not value or (len(value) < 40 and 0 <= float(value) <= 1)
    except ValueError:
        return False


def _last(form: Form, name: str, default: str) -> str:
    return form.fields.get(name, [default])[-1].strip()
