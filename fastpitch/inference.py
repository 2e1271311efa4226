"""Says phrases: `python -m fastpitch.inference phrases.tsv --fastpitch FastPitch.pt --vocoder hifigan.pt -o spoken`.

Takes phrase files (.txt, a phrase a line, or .tsv with a header, see fastpitch/front/phrases.py), other files of text,
such as .md or .ssml, each of which is said as a whole, - for standard input, and texts themselves; all may hold SSML
and {HH AH0 L OW1}. Writes 16-bit files with the names given, in the order given, or, with `-o -`, raw samples to
standard output while they are spoken. What cannot be said is reported in one line each, naming the line, and makes the
exit status 1; all else is said nevertheless.
"""

import dataclasses
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from tyro.conf import Positional, arg

from common import config
from common.audio import waveform
from common.audio.waveform import AudioError
from common.config import ConfigError
from common.devices.fastest import Choice
from common.features import LogMel
from common.recognition.output import writing
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from common.text.pronunciation import pronounce
from common.text.readings import read_readings
from fastpitch.front.control import Control, ControlError
from fastpitch.front.inputs import InputPhrase, find_phrases, written_anew
from fastpitch.front.phrases import Phrase
from fastpitch.front.planning import PlannedSentence
from fastpitch.front.ssml import SENTENCE_SECONDS, SsmlError
from fastpitch.front.symbols import EncodedText, TextError, TextProcessor
from fastpitch.speaking import report, sound, times
from fastpitch.speaking.delivery import DeliveryConfig, LoudnessError, Stream, delivered
from fastpitch.speaking.report_page import Line
from fastpitch.speaking.runtime import Mode, accelerate, accelerate_vocoder
from fastpitch.speaking.sentences import SpokenSentence, SynthesisError
from fastpitch.speaking.synthesizer import Spoken, Synthesizer, load
from fastpitch.speaking.times import TimesFormat
from fastpitch.speaking.voicing import Voice, VoicingConfig
from fastpitch.vocoders.vocoder import VocoderError, load_vocoder

STREAM = Path("-")


@dataclass(frozen=True, kw_only=True)
class InferenceConfig:
    """What to say, with which model and vocoder, how, and where the sound goes."""

    USUAL: ClassVar = {
        "Voice": ("fastpitch", "vocoder", "speaker"),
        "Prosody": ("pace", "pitch_shift_hz", "energy"),
        "Output": ("output", "times", "report"),
        "Machine": ("device", "precision"),
    }
    inputs: Annotated[tuple[str, ...], Positional, arg(metavar="INPUT")]
    """Phrase files, files of text, texts in quotes, or - for standard input."""
    fastpitch: Path | None = None
    """Checkpoint of the acoustic model: of this repository or of DeepLearningExamples' FastPitch 1.1; or a voice's
    name. Without one, only the mel spectrograms and recordings that a phrase file names are vocoded."""
    vocoder: Annotated[Path | None, arg(aliases=["--hifigan", "--waveglow"])] = None
    """Checkpoint of the vocoder: HiFi-GAN, inverse STFT or WaveGlow; or a voice's name. Without one, only mel
    spectrograms are saved."""
    output: Annotated[Path, arg(aliases=["-o"])] = Path("output")
    """Folder of the sound files; - for raw samples to standard output while they are spoken: 16 bits, little-endian,
    one channel."""
    report: Path | None = None
    """File of an HTML page with sound, spectrogram, pitch and alignment of every phrase; without a name, report.html in
    the output folder."""
    save_mels: bool = False
    """Whether the mel spectrogram [frames, mel bins] of every phrase is written too, as .npy beside the sound."""
    times: tuple[TimesFormat, ...] = ()
    """Formats of files beside the sound with the times of words, phonemes and marks: json, srt, vtt, textgrid."""
    delivery: Annotated[DeliveryConfig, arg(name="")] = field(default_factory=DeliveryConfig)
    speaker: int = 0
    """Number of the speaker of phrases that name none."""
    control: Annotated[Control, arg(name="")] = field(default_factory=Control)
    voicing: Annotated[VoicingConfig, arg(name="")] = field(default_factory=VoicingConfig)
    p_arpabet: float | None = None
    """Probability that a word is read by its phonemes, not its letters; by default as the model was trained."""
    lexicon: Path | None = None
    """File of pronunciations that come before all others, in CMUdict's format."""
    readings: Path | None = None
    """File of readings that come before all others, TOML or JSON: words (SQL = "sequel") and units (kn = "knot")."""
    unknown_characters: Literal["error", "skip"] | None = None
    """Treatment of a character that the model has no symbol for, such as an emoji. skip: its phrase is said without it,
    which is logged; error: its phrase is not said. By default skip."""
    ema: bool | None = None
    """Whether the averaged weights are used; by default where there are any."""
    device: str = "auto"
    """Device: auto, cpu, cuda or cuda:N."""
    precision: Choice = "fp32"
    """Arithmetic of the networks. auto: for each, the fastest on this machine within 2 % of fp32."""
    mode: Mode = "eager"
    """Execution of the networks: as written, compiled, or replayed as CUDA graphs."""

    def __post_init__(self) -> None:
        if not self.inputs:
            raise ValueError("nothing to say; name phrase files, or write texts in quotes")
        if self.vocoder is None and not (self.save_mels and self.fastpitch):
            raise ValueError("no vocoder; name one with --vocoder, or only save mel spectrograms with --save_mels true")
        if self.times and self.vocoder is None:
            raise ValueError("times are those of sound; name a vocoder with --vocoder")
        if self.is_stream and (self.times or self.save_mels or self.report):
            told = "name a folder for times, mel spectrograms and the report"
            raise ValueError(f"--output - writes samples alone; {told}")

    @property
    def is_stream(self) -> bool:
        """Whether samples go to standard output."""
        return self.output == STREAM


class Outcome(NamedTuple):
    """What became of a phrase: how it was said, or what was wrong with it."""

    item: InputPhrase
    spoken: Spoken | None
    problem: str = ""


def main(cfg: InferenceConfig) -> int:
    """Says all phrases as `cfg` says; returns the exit status. Raises ConfigError, CheckpointError and VocoderError."""
    items, problems = find_phrases(cfg.inputs)
    for problem in problems:
        writing.tell(problem)
    total = len(items) + len(problems)
    _check_apart(items, cfg)
    tts, voice = _model(cfg), _loaded_voice(cfg)
    if tts is not None and voice is not None:
        voice.vocoder.require(tts.features, tts.name)
    if cfg.is_stream:
        assert voice is not None
        problems += _streamed(items, tts, voice, cfg)
    else:
        writing.make_folder(cfg.output)
        if (anew := written_anew(cfg.output, items)) and cfg.vocoder is not None:
            writing.tell(anew)
        problems += _to_files(items, tts, voice, cfg, problems)
    if problems:
        writing.tell(f"error: {len(problems)} of {total} phrases could not be said")
    return 1 if problems else 0


def _check_apart(items: Sequence[InputPhrase], cfg: InferenceConfig) -> None:
    """Raises ConfigError where a file that is read would be written to."""
    suffixes = [times.SUFFIXES[name] for name in cfg.times] + [".npy"] * cfg.save_mels
    places = [cfg.report] if cfg.report is not None else []
    for path in (cfg.output / item.phrase.output for item in items):
        places += [path, *(path.with_suffix(suffix) for suffix in suffixes)]
    mels = (item.phrase.mel for item in items)
    writing.check_apart(places, (cfg.fastpitch, cfg.vocoder, cfg.lexicon, cfg.readings, *map(Path, cfg.inputs), *mels))


def _to_files(
    items: Sequence[InputPhrase],
    tts: Synthesizer | None,
    voice: Voice | None,
    cfg: InferenceConfig,
    known: Sequence[str],
) -> list[str]:
    """Writes the files of all phrases; what was wrong with some. `known` is what else the report shows."""
    problems: list[str] = []
    lines: list[Line] = []
    start = time.perf_counter()
    for number, outcome in enumerate(_outcomes(items, tts, voice, cfg)):
        try:
            lines += _written(outcome, cfg, seed=cfg.voicing.seed + number)
        except _UnsayableError as error:
            problems.append(f"{outcome.item.where}: {error}")
            writing.tell(problems[-1])
    if cfg.report is not None:
        took, title = time.perf_counter() - start, ", ".join(Path(text).name for text in cfg.inputs)
        facts = _facts(cfg, tts)
        try:
            report.write(cfg.report, lines, title=title, problems=[*known, *problems], facts=facts, took_seconds=took)
        except OSError as error:
            raise ConfigError(f"{cfg.report}: the report cannot be written: {error.strerror}") from None
    return problems


def _streamed(items: Sequence[InputPhrase], tts: Synthesizer | None, voice: Voice, cfg: InferenceConfig) -> list[str]:
    """Says all phrases to standard output, each sentence when the one before has been said; what went wrong."""
    problems: list[str] = []
    try:
        stream = Stream(voice.sample_rate, cfg.delivery, seed=cfg.voicing.seed)
    except LoudnessError as error:
        raise ConfigError(str(error)) from None
    writing.tell(f"raw samples: signed 16-bit little-endian, 1 channel, {stream.sample_rate} Hz")
    pause = sound.silence(1000 * SENTENCE_SECONDS, voice.sample_rate)
    try:
        for number, item in enumerate(items):
            plan = _planned(item.phrase, tts, voice, cfg)
            if isinstance(plan, str):
                problems.append(f"{item.where}: {plan}")
                writing.tell(problems[-1])
                continue
            try:
                chunks = voice.stream(plan) if isinstance(plan, Tensor) else _required(tts).stream_pieces(plan, voice)
                for samples_N in chain([pause] if number else [], chunks):
                    sys.stdout.buffer.write(stream.chunk(samples_N))
                    sys.stdout.buffer.flush()
            except SynthesisError as error:
                problems.append(f"{item.where}: {error}")
                writing.tell(problems[-1])
        sys.stdout.buffer.write(stream.chunk(np.zeros(0, np.float32), last=True))
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # whoever listens has heard enough
        sys.stdout = None
    return problems


def _required(tts: Synthesizer | None) -> Synthesizer:
    assert tts is not None, "a plan without a model"
    return tts


class _UnsayableError(ValueError):
    """Why a phrase cannot be said."""


def _outcomes(
    items: Sequence[InputPhrase], tts: Synthesizer | None, voice: Voice | None, cfg: InferenceConfig
) -> Iterator[Outcome]:
    """What becomes of every phrase, in order; some batches of them at a time."""
    window = 4 * cfg.voicing.batch_size
    for first in range(0, len(items), window):
        some = items[first : first + window]
        plans = [_planned(item.phrase, tts, voice, cfg) for item in some]
        spoken = iter(_said([plan for plan in plans if isinstance(plan, list)], tts, voice, cfg))
        for item, plan in zip(some, plans, strict=True):
            if isinstance(plan, str):
                yield Outcome(item, None, plan)
            elif isinstance(plan, list):
                yield Outcome(item, next(spoken))
            else:
                assert voice is not None
                yield Outcome(item, _vocoded(plan, voice))


def _planned(
    phrase: Phrase, tts: Synthesizer | None, voice: Voice | None, cfg: InferenceConfig
) -> list[PlannedSentence] | Tensor | str:
    """The sentences of a phrase, or the mel spectrogram [M, T] that it names, or why there is neither."""
    try:
        if phrase.mel is not None:
            return read_mel(phrase.mel, voice)
        if tts is None:
            return "a text, and no model to say it; name one with --fastpitch"
        return tts.plan(
            phrase.text,
            speaker=cfg.speaker if phrase.speaker is None else phrase.speaker,
            control=phrase.control.within(cfg.control),
            words=phrase.words,
            symbols=phrase.symbols,
        )
    except (TextError, SsmlError, ControlError, AudioError, VocoderError) as error:
        return " ".join(str(error).split())


def read_mel(path: Path, voice: Voice | None) -> Tensor:
    """A mel spectrogram [M, T] from .npy (published: [T, M]) or .pt ([M, T]), or that of a recording.

    Raises VocoderError for what is none that the vocoder takes, and AudioError for a recording that cannot be read.
    """
    if voice is None:
        raise VocoderError(f"{path}: a mel spectrogram, and no vocoder for it; name one with --vocoder")
    if path.suffix not in (".npy", ".pt"):
        features = voice.vocoder.features
        samples_N = waveform.read(path, sample_rate=features.sample_rate).samples
        with torch.inference_mode():
            log_mel = LogMel(features).eval()
            mel_BMT, frames_B = log_mel(torch.from_numpy(samples_N)[None], torch.tensor([len(samples_N)]))
        return mel_BMT[0, :, : int(frames_B[0])]
    try:
        if path.suffix == ".npy":
            values = torch.from_numpy(np.load(path, allow_pickle=False)).float()
        else:
            values = checkpoint.load_tensor(path).float()
    except (OSError, ValueError, RuntimeError, EOFError, TypeError) as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else "not a tensor of numbers"
        raise VocoderError(f"{path}: {reason}; expected a mel spectrogram") from None
    bins, dims = voice.vocoder.features.mel_bins, list(values.shape)
    if len(dims) != 2 or bins not in dims:
        raise VocoderError(f"{path}: of shape {dims}; {voice.vocoder.name} takes mel spectrograms of {bins} bins")
    is_transposed = dims[1] == bins and (dims[0] != bins or path.suffix == ".npy")
    mel_MT = values.T if is_transposed else values
    if not bool(mel_MT.isfinite().all()):
        raise VocoderError(f"{path}: holds values that are NaN or infinite")
    return mel_MT


def _said(
    plans: Sequence[list[PlannedSentence]], tts: Synthesizer | None, voice: Voice | None, cfg: InferenceConfig
) -> Iterator[Spoken]:
    if tts is None:
        return
    if voice is not None:
        yield from tts.speak(plans, voice)
        return
    for pieces in plans:
        sentences = tts.sentences(pieces, batch_size=cfg.voicing.batch_size)
        yield Spoken(np.zeros(0, np.float32), tts.features.sample_rate, tts.features.hop_samples, sentences)


def _vocoded(mel_MT: Tensor, voice: Voice) -> Spoken:
    (samples_N,) = voice.whole([mel_MT])
    none = np.zeros(0)
    sentence = SpokenSentence(EncodedText([], [], [], []), none, none, none, mel_MT)
    return Spoken(samples_N, voice.sample_rate, voice.hop_samples, [sentence])


def _written(outcome: Outcome, cfg: InferenceConfig, *, seed: int) -> list[Line]:
    """Writes the files of a phrase; the line of the report about it, if there is a report. Raises _UnsayableError."""
    phrase, spoken = outcome.item.phrase, outcome.spoken
    if spoken is None or spoken.error:
        raise _UnsayableError(outcome.problem if spoken is None else spoken.error)
    path = cfg.output / phrase.output
    try:
        said_N, rate = delivered(spoken.samples_N, spoken.sample_rate, cfg.delivery)
        samples_N = sound.to_int16(said_N, seed=seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        if cfg.vocoder is not None:
            waveform.write(path, samples_N, rate)
        if cfg.times:
            times.write(path, phrase.text, spoken, cfg.times, sample_rate=rate)
        if cfg.save_mels:
            mels = [sentence.mel_MT.cpu().numpy().T for sentence in spoken.sentences]
            np.save(path.with_suffix(".npy"), np.concatenate(mels))
    except (OSError, AudioError, LoudnessError) as error:
        raise _UnsayableError(str(error)) from None
    print(path if cfg.vocoder is not None else path.with_suffix(".npy"), flush=True)
    if cfg.report is None or not len(samples_N):
        return []
    return [report.line(phrase.output, phrase.text, samples_N, spoken, sample_rate=rate)]


def _model(cfg: InferenceConfig) -> Synthesizer | None:
    if cfg.fastpitch is None:
        return None
    tts = load(cfg.fastpitch, device=cfg.device, precision=cfg.precision, ema=cfg.ema)
    names = ("p_arpabet", "lexicon", "readings", "unknown_characters")
    reading = {name: getattr(cfg, name) for name in names if getattr(cfg, name) is not None}
    try:
        tts.text = TextProcessor(replace(tts.text.config, **reading), learned=tts.text.learned)
        if tts.text.config.lexicon is not None:
            pronounce.read_lexicon(tts.text.config.lexicon)
        if tts.text.config.readings is not None:
            read_readings(tts.text.config.readings)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    accelerate(tts.model, cfg.mode)
    return tts


def _loaded_voice(cfg: InferenceConfig) -> Voice | None:
    if cfg.vocoder is None:
        return None
    vocoder = load_vocoder(cfg.vocoder, device=cfg.device, precision=cfg.precision)
    return Voice(accelerate_vocoder(vocoder, cfg.mode), cfg.voicing)


def _facts(cfg: InferenceConfig, tts: Synthesizer | None) -> dict[str, str]:
    facts = {"model": str(cfg.fastpitch or "none"), "vocoder": str(cfg.vocoder)}
    if tts is not None:
        facts |= {"parameters": f"{tts.n_parameters:,}", "symbols": tts.text.config.symbol_set}
    own = {f.name: getattr(cfg.control, f.name) for f in dataclasses.fields(Control)}
    changed = [f"{name} {value}" for name, value in own.items() if value != getattr(Control(), name)]
    facts |= {"control": ", ".join(changed) or "none", "denoising": f"{cfg.voicing.denoising:g}"}
    precision, device = (tts.precision, str(tts.device)) if tts else (cfg.precision, cfg.device)
    return facts | {"precision": precision, "device": device, "mode": cfg.mode}


def command_line(arguments: Sequence[str]) -> InferenceConfig:
    """The configuration that flags describe; --report may stand without a value, as yes-or-no flags may."""
    given: list[str] = []
    for argument, following in pairwise([*arguments, "--"]):
        given.append(argument)
        if argument == "--report" and following.startswith("-"):
            given.append("")
    cfg = config.parse_flags(InferenceConfig, None, given, description=__doc__ or "")
    return cfg if cfg.report != Path() else replace(cfg, report=cfg.output / "report.html")


if __name__ == "__main__":
    with config.reported(CheckpointError, VocoderError, ControlError):
        sys.exit(main(command_line(sys.argv[1:])))
