"""The quickstart's second half: a voice is trained on synthetic speech, says new sentences, and is listened to.

FastPitch (text to mel frames) and a light vocoder (mel frames to sound) learn from the same recordings and need
nothing of each other, so they are trained at the same time, and beside the recogniser.
"""

import time
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from quickstart_together import TrainingJob, needs_training

import fastpitch
from common import config
from common.audio import waveform
from common.data.synthetic import SyntheticConfig, build_ljspeech
from common.data.texts.sentences import Language, sentences
from common.recognition.metrics import ErrorCount, character_errors
from common.runs import checkpoint
from common.runs.report_page import Number
from fastpitch import pack, train
from fastpitch.acoustic.config import Config as AcousticConfig
from fastpitch.acoustic.training import run as acoustic_run
from fastpitch.front.languages import ESPEAK_SYMBOLS
from fastpitch.speaking import report, sound
from fastpitch.speaking.synthesizer import Spoken
from fastpitch.vocoders import train as vocoder_train
from fastpitch.vocoders.config import HifiganRun
from fastpitch.vocoders.training.run import name_of
from jasper.recognizer import Recognizer

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
ACOUSTIC, VOCODER = CONFIGS / "fastpitch" / "quickstart.toml", CONFIGS / "hifigan" / "quickstart.toml"
CORPUS = {"full": SyntheticConfig(train_utterances=1200), "toy": SyntheticConfig(train_utterances=16)}
TOY = {"epochs": 1, "batch_size": 4, "tensorboard": False}
HELD_OUT = {"full": 20, "toy": 2}
EXAMPLE: dict[Language, str] = {"en": "Oliver painted the old bridge.", "de": "Oliver malte die alte Tür."}
SHOWN = 2
PACKED, CORRECTIONS = "packed", 16  # folder of the voice as it speaks, and corrections of its vocoder
Size = Literal["full", "toy"]


class Runs(NamedTuple):
    """What is trained."""

    acoustic: AcousticConfig
    vocoder: HifiganRun


class JudgedSentence(NamedTuple):
    """A sentence, and what was heard of it: "" where no sound came of it, and then no line of the report either."""

    text: str
    heard: str
    line: report.Line | None


class HeardSentences(NamedTuple):
    """All sentences that were said, the characters heard wrongly, and how long speaking took."""

    sentences: list[JudgedSentence]
    characters: ErrorCount
    took_seconds: float


def build_corpus(folder: Path, size: Size, language: Language = "en") -> Path:
    """Recordings of one voice, laid out as LJSpeech is; spoken now or before."""
    corpus = build_ljspeech(folder, replace(CORPUS[size], language=language, accents=()))
    print(f"{corpus}: {CORPUS[size].train_utterances} clips of one voice")
    return corpus


def configurations(run_dir: Path, name: str, corpus: Path, size: Size, language: Language = "en") -> Runs:
    """The runs: named configurations on this corpus; of another language than English with its sounds."""
    acoustic, vocoder = config.load(AcousticConfig, ACOUSTIC), config.load(HifiganRun, VOCODER)
    if language != "en":
        text = replace(acoustic.text, language=language, symbol_set=ESPEAK_SYMBOLS)
        acoustic = replace(acoustic, text=text, data=replace(acoustic.data, pitch_mean=(), pitch_std=()))
    runs = Runs(
        replace(acoustic, output_dir=run_dir / f"{name}-voice", data=replace(acoustic.data, root=corpus, train=(".",))),
        replace(
            vocoder,
            output_dir=run_dir / f"{name}-vocoder",
            data=replace(vocoder.data, root=corpus, train=(".",), validation=()),
        ),
    )
    return runs if size == "full" else Runs(replace(runs.acoustic, **TOY), replace(runs.vocoder, **TOY))


def left_to_train(runs: Runs, *, fresh: bool) -> list[TrainingJob]:
    """What of the voice is not trained yet; fresh ones are deleted. Raises ConfigError at runs of other settings."""
    acoustic, vocoder = runs
    left = []
    if needs_training(acoustic, acoustic_run.NAME, fresh=fresh):
        log = acoustic.output_dir / "terminal.log"
        left.append(TrainingJob("FastPitch", train.main, acoustic, log, acoustic.epochs, share=0.43))
    if needs_training(vocoder, name_of(vocoder), fresh=fresh):
        log = vocoder.output_dir / "terminal.log"
        left.append(TrainingJob("vocoder", vocoder_train.main, vocoder, log, vocoder.epochs, share=0.13))
    return left


def listen(runs: Runs, asr: Recognizer, size: Size, language: Language = "en") -> HeardSentences:
    """Says held-out sentences into the run directory, and has them transcribed."""
    packed = _packed(runs)
    tts, voice = fastpitch.load(packed), fastpitch.Voice(fastpitch.load_vocoder(packed))
    texts = sentences(HELD_OUT[size], subset="test", language=language)
    folder = runs.acoustic.output_dir / "spoken"
    folder.mkdir(exist_ok=True)
    start = time.perf_counter()
    spoken = list(tts.speak([tts.plan(text) for text in texts], voice))
    took = time.perf_counter() - start
    paths = [folder / f"{number:02d}.wav" for number in range(1, len(texts) + 1)]
    said = [_heard(*each, asr) for each in zip(paths, texts, spoken, strict=True)]
    return HeardSentences(said, character_errors(texts, [each.heard for each in said]), took)


def _packed(runs: Runs) -> Path:
    """The folder of the voice in half precision, whose vocoder corrects what it says and has the phases of pulses."""
    return pack.main(
        pack.PackConfig(
            name=PACKED,
            fastpitch=_newest(runs.acoustic.output_dir, acoustic_run.NAME),
            vocoder=_newest(runs.vocoder.output_dir, name_of(runs.vocoder)),
            corrections=CORRECTIONS,
            phases="pulses",
            folder=runs.acoustic.output_dir,
        )
    )


def _heard(path: Path, text: str, spoken: Spoken, asr: Recognizer) -> JudgedSentence:
    if spoken.error:
        print(f"{path.stem}: {text}: {spoken.error}")
        return JudgedSentence(text, "", None)
    samples_N = sound.to_int16(spoken.samples_N)
    waveform.write(path, samples_N, spoken.sample_rate)
    heard = asr.transcribe([path])[0].text
    return JudgedSentence(text, heard, report.line(path.name, f"{text} (heard: {heard})", samples_N, spoken))


def summarise(runs: Runs, hearing: HeardSentences, python: str, language: Language = "en") -> None:
    """Two of the sentences, all of them as a page, and where to go from here."""
    for each in hearing.sentences[:SHOWN]:
        print(f"   to be said  {each.text}\n   recognised  {each.heard}\n")
    page = runs.acoustic.output_dir / "report.html"
    lines = [each.line for each in hearing.sentences if each.line is not None]
    characters = hearing.characters
    count = f"{characters.errors} of {characters.length} characters in {len(lines)} sentences"
    report.write(
        page,
        lines,
        title="A voice, and what the recogniser of the quickstart hears",
        took_seconds=hearing.took_seconds,
        result=Number(f"{characters.rate:.2%}", "of the characters heard wrongly", count),
    )
    packed = runs.acoustic.output_dir / PACKED
    print(
        f"CER      {characters.rate:.2%} ({count})\n"
        f"Report   {page}\n"
        f"Voice    {packed}; to use it: {python} -m fastpitch.inference '{EXAMPLE[language]}' "
        f"--fastpitch {packed} --vocoder {packed}"
    )


def _newest(folder: Path, name: str) -> Path:
    return checkpoint.saved_steps(folder, name)[-1][1]
