"""The models behind the gateway, each used from one file: a recogniser, and a voice of FastPitch and its vocoder.

Files of `trt.export` need no torch; checkpoints are used through the packages that train them, which are imported then.

Legend: N samples.
"""

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from common.audio.silence import Keep
from common.config import ConfigError
from common.recognition.decoding import DecodingOptions
from common.recognition.output.transcripts import Transcript
from common.recognition.sources.recordings import Source
from fastpitch.front.control import Control
from fastpitch.front.planning import PlannedSentence
from fastpitch.speaking.sentences import Said, Saying, SentenceSpeaker
from fastpitch.vocoders.spans import CHUNK_FRAMES
from trt.facts import ModelError
from trt.runtime import loading


class Favoured(NamedTuple):
    """How a request is searched: words or phrases that it favours, how many label sequences are kept (0 for the
    default), and by which language model, "" for that of all requests."""

    keywords: tuple[str, ...] = ()
    prompt: tuple[str, ...] = ()
    """Those of a prompt: what the labels cannot spell is left out."""
    beam: int = 0
    language_model: str = ""


class WantedText(NamedTuple):
    """What is to be written of a recording."""

    told: Mapping[str, str] = MappingProxyType({})
    """Languages, by NeMo's keys; nothing for models of one language."""
    decoder: Any = None
    """What decodes for this request; None: what does for all."""


class Sound(NamedTuple):
    """A recording, or a piece of one, to recognise: float32 samples, and what is to be written of it."""

    samples_N: np.ndarray
    wanted: WantedText = WantedText()


class Ears(NamedTuple):
    """A recogniser: its name, what it hears, and a function from recordings to transcripts, in order."""

    name: str
    sample_rate: int
    chunk_seconds: float
    """Longer recordings are recognised in chunks."""
    asr: Any
    batch_size: int
    keep: Keep | None = None
    """What cuts silence out of recordings."""
    decoder: Any = None
    """What decodes, if not greedily."""
    options: DecodingOptions = DecodingOptions()
    language_models: Mapping[str, Any] = MappingProxyType({})
    """What decodes with a language model that a request names."""

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages that it writes, where the model says."""
        return tuple(getattr(self.asr, "languages", ()))

    @property
    def is_prompted(self) -> bool:
        """Whether it is told which language is spoken, and which one to write."""
        return hasattr(self.asr, "prompt_for")

    def tells_times(self, wanted: WantedText) -> bool:
        """Whether words have times of their own."""
        return not self.is_prompted or (self.asr.has_ctc and "target_lang" not in wanted.told)

    @property
    def can_search(self) -> bool:
        """Whether words can be favoured, and a beam or a language model be asked for."""
        return hasattr(self.asr, "decoder") and not getattr(self.asr, "decodes", False)

    def decoder_of(self, language_model: str) -> Any:
        """What decodes with this one of the `language_models`; by default what does for all."""
        return self.language_models[language_model] if language_model else self.decoder

    def decoder_with(self, favoured: Favoured) -> Any:
        """What decodes so; words of the prompt that the labels cannot spell are left out.

        Raises ConfigError and ModelError for what this model cannot.
        """
        like = self.decoder_of(favoured.language_model)
        if like is not None and favoured == Favoured(language_model=favoured.language_model):
            return like
        given = self.options if like is None else like.options

        if beam := favoured.beam:
            given = replace(given, beam=beam, n_best=min(given.n_best, beam))

        def made(*words: str) -> Any:
            options = replace(given, hot_words=(*given.hot_words, *words))
            return self.asr.decoder(options) if like is None else self.asr.decoder(options, like=like)

        found = made(*favoured.keywords)
        if favoured.prompt:
            spelled = (found or self.asr.decoder(replace(given, beam=1, n_best=1))).spelled(favoured.prompt)
            found = made(*favoured.keywords, *spelled) if spelled else found
        return found

    def hear(self, sounds: Sequence[Sound]) -> list[Transcript]:
        """Transcripts, in order; what cannot be recognised has its `error` set. Those decoded alike share batches."""
        found: dict[int, Transcript] = {}
        by_decoder: dict[int, list[int]] = {}
        for i, sound in enumerate(sounds):
            by_decoder.setdefault(id(sound.wanted.decoder or self.decoder), []).append(i)
        for own in by_decoder.values():
            wanted = [sounds[i].wanted for i in own]
            found |= zip(own, self.transcribe([sounds[i].samples_N for i in own], wanted), strict=True)
        return [found[i] for i in range(len(sounds))]

    def transcribe(self, recordings: Sequence[Source], wanted: Sequence[WantedText] = ()) -> list[Transcript]:
        """Transcripts of float32 [N] at the model's sample rate, or of files, in order; `wanted` with one decoder.

        What cannot be recognised has its `error` set.
        """
        decoder = (wanted[0].decoder if wanted else None) or self.decoder
        how: dict[str, Any] = {} if decoder is None else {"decoder": decoder}
        if self.is_prompted:
            how["source_language"] = self.asr.assumed_language or self.asr.prompts.spoken()[0]
            how["wanted"] = [one.told for one in wanted or [WantedText()] * len(recordings)]
        return list(self.asr.stream(recordings, batch_size=self.batch_size, on_error="skip", **how))


class SpokenWord(NamedTuple):
    """A word as it was said: seconds from the start, its mean pitch in Hz (0 where it has no voice) and its energy."""

    text: str
    start: float
    end: float
    pitch_hz: float
    energy: float


class ServedVoice(NamedTuple):
    """A voice: FastPitch and a vocoder."""

    name: str
    sample_rate: int
    hop_samples: int
    speakers: int
    """How many there are, numbered from 0."""
    planned: Callable[..., list[PlannedSentence]]
    chunk_frames: int
    """How many frames of a spectrogram make one piece of sound."""
    next_sounds: Callable[[Sequence[Saying]], list[Said]]
    """The next piece of sound of each of several texts, made together; for what the model cannot say a ValueError."""
    sentence: Callable[[PlannedSentence], Any]
    """Symbols, frames, pitch and energy of a sentence, without its sound."""

    def plan(self, text: str, *, speaker: int, pace: float) -> list[PlannedSentence]:
        """The sentences of a text, which may be SSML. Raises ValueError for what cannot be said."""
        return self.planned(text, speaker=speaker, control=Control(pace=pace))

    def whole(self, plans: Sequence[Sequence[PlannedSentence]]) -> list[np.ndarray | Exception]:
        """The sound [N] of each text, or why it has none: made together, each as it would be alone."""
        sayings = [Saying(plan, chunk_frames=self.chunk_frames) for plan in plans]
        sounds: list[list[np.ndarray]] = [[np.zeros(0, np.float32)] for _ in plans]
        problems: dict[int, Exception] = {}
        while alive := [i for i, saying in enumerate(sayings) if i not in problems and saying.next != "end"]:
            for i, said in zip(alive, self.next_sounds([sayings[i] for i in alive]), strict=True):
                if isinstance(said, Exception):
                    problems[i] = said
                elif said is not None:
                    sounds[i].append(said)
        return [problems.get(i) or np.concatenate(own) for i, own in enumerate(sounds)]

    def samples(self, piece: PlannedSentence) -> int:
        """How many samples a sentence and its pause have, without the vocoder."""
        said = int(self.sentence(piece).frames_L.sum()) * self.hop_samples if piece.encoded.tokens else 0
        return said + round(piece.pause_ms * self.sample_rate / 1000)

    def words(self, piece: PlannedSentence) -> tuple[list[SpokenWord], float]:
        """A sentence word by word, without its sound, and its seconds with the pause after it."""
        found, seconds, pause = [], self.hop_samples / self.sample_rate, piece.pause_ms / 1000
        if not piece.encoded.tokens:
            return [], pause
        said = self.sentence(piece)
        ends_L = np.cumsum(said.frames_L) * seconds
        starts_L = ends_L - said.frames_L * seconds
        for text, first, last in said.encoded.words:
            voiced = [hz for hz in said.pitch_hz_L[first : last + 1] if hz > 0]
            pitch, energy = float(np.mean(voiced or [0.0])), float(said.energy_L[first : last + 1].mean())
            found.append(SpokenWord(text, float(starts_L[first]), float(ends_L[last]), pitch, energy))
        return found, float(said.frames_L.sum()) * seconds + pause


def load_ears(
    path: Path,
    *,
    batch_size: int = 8,
    threads: int = 0,
    device: str = "auto",
    runtime: loading.Runtime = "onnxruntime",
    precision: str = "fp32",
    decoding: DecodingOptions | None = None,
) -> Ears:
    """The recogniser in `path`: an ONNX file of trt.export, a checkpoint (.pt, .nemo) or a folder of Hugging Face's,
    of whose network `precision` is the arithmetic. NAME=PATH gives it a name.

    Raises ModelError, ConfigError for a language model or words that cannot be used, and CheckpointError for a
    checkpoint that cannot be read.
    """
    own_name, path = named(path)
    if path.suffix in (".onnx", ".engine"):  # the runtime says what it does not take
        if precision != "fp32":
            raise ModelError(
                f"{path}: precision {precision}: expected a checkpoint; an ONNX file has its own precision"
            )
        asr: Any = loading.load(path, threads=threads, runtime=runtime)
        return _ears(own_name or path.stem, asr, batch_size, decoding)
    if runtime != "onnxruntime":
        raise ModelError(f"{path}: is no ONNX file, which {runtime} wants; export it, or leave out --runtime")
    from common.published import hub
    from trt.export import families

    if not (path.exists() or hub.is_name(path)):
        raise ModelError(f"{path}: no such file; expected an ONNX file of trt.export, or a checkpoint of a recogniser")
    name = own_name or (path.name.partition("@")[0] if hub.is_name(path) else path.stem)
    path, family = families.located(path)
    if family not in ("fastconformer", "wav2vec2", "jasper"):
        raise ModelError(f"{path}: is a {family}; expected a recogniser")
    asr = importlib.import_module(family).load(path, device=device, precision=precision)
    return _ears(name, asr, batch_size, decoding)


def _ears(name: str, asr: Any, batch_size: int, decoding: DecodingOptions | None) -> Ears:
    options = decoding or DecodingOptions()
    decoder = None if options == DecodingOptions() else asr.decoder(options)
    keep = getattr(asr, "keep", None)
    return Ears(name, asr.sample_rate, asr.chunk_seconds, asr, batch_size, keep, decoder, options)


def know_language_models(ears: Sequence[Ears], files: Sequence[Path]) -> list[Ears]:
    """Recognisers whose requests may name these language models: each of those whose labels spell it. NAME=PATH gives a
    file a name, by default what is before its first dot.

    Raises ConfigError for one that no recogniser can use.
    """
    found: list[dict[str, Any]] = [{} for _ in ears]
    for file in files:
        name, path = named(file)
        name, problems = name or path.name.partition(".")[0], list[Exception]()
        if any(name in own for own in found):
            raise ConfigError(f"two language models are called {name!r}; give one a name of its own with NAME=PATH")
        for each, own in zip(ears, found, strict=True):
            try:
                own[name] = each.asr.decoder(replace(each.options, language_model=path))
            except (ConfigError, ModelError) as error:
                problems.append(error)
        if len(problems) == len(ears):
            raise ConfigError(f"language model {name!r}: {problems[0] if problems else 'no recogniser'}")
    return [each._replace(language_models=own) for each, own in zip(ears, found, strict=True)]


def named(path: Path) -> tuple[str, Path]:
    """The name and the path in NAME=PATH; "" where there is no name, as in that of a file that is there."""
    name, equals, rest = str(path).partition("=")
    return (name, Path(rest)) if equals and "/" not in name and not path.exists() else ("", path)


def load_voice(tts: Path, vocoder: Path, *, threads: int = 0, device: str = "auto") -> ServedVoice:
    """The voice of an acoustic model and a vocoder, both ONNX files of trt.export or both checkpoints.

    The acoustic model may be NAME=PATH. Raises ModelError, CheckpointError and VocoderError.
    """
    name, tts = named(tts)
    name = name or (tts.parent.name if tts.name == "packed" else tts.stem)
    if tts.suffix != vocoder.suffix and ".onnx" in (tts.suffix, vocoder.suffix):
        raise ModelError(f"{tts}, {vocoder}: expected two ONNX files of trt.export, or two checkpoints")
    own: SentenceSpeaker
    if tts.suffix == ".onnx":
        from trt.runtime import voice as exported

        own = exported.Synthesizer(tts, exported.Vocoder(vocoder, threads=threads), threads=threads)
        voice = own.voice
    else:
        import fastpitch

        own = fastpitch.load(tts, device=device)
        voice = fastpitch.Voice(fastpitch.load_vocoder(vocoder, device=device))
        voice.vocoder.require(own.features, own.name)
    assert voice is not None
    return ServedVoice(
        name=name,
        sample_rate=voice.sample_rate,
        hop_samples=voice.hop_samples,
        speakers=len(own.voices()),
        planned=own.plan,
        chunk_frames=CHUNK_FRAMES,
        next_sounds=functools.partial(own.next_sounds, voice=voice),
        sentence=own.sentence,
    )
