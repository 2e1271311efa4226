"""A small speech corpus out of nothing: sentences of a grammar, spoken by espeak-ng in many voices.

Every utterance is a pure function of (config, subset, its number): the corpus is bitwise the same for any number of
worker processes. No sentence and no voice variant of one subset occurs in another.
"""

import json
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soxr

from common.audio import espeak, waveform
from common.data.texts.paired import pairs
from common.data.texts.sentences import QUESTIONS, Language, Subset, sentences

# Variants of espeak-ng that a listener understands at once. Left out: robots, whispers, echoes, Klatt synthesis, and
# variants that are nearly a held-out one (f5 is f2, f4 is f3, rob is robert), so that those are speakers of their own.
_VARIANTS: dict[Subset, dict[str, str]] = {
    "train": {
        "F": "f1 Andrea Annie aunty linda steph shelby grandma anika",
        "M": "m1 m3 m4 m5 m7 Alex Andy Denis Diogo Gene Mario Mike Nguyen Storm antonio gustave max quincy ed",
    },
    "dev": {"F": "f3 belinda", "M": "m8 paul"},
    "test": {"F": "f2", "M": "m6 pedro robert sandro"},
}
_FOLDERS: dict[Subset, str] = {"train": "train-clean", "dev": "dev-clean", "test": "test-clean"}
_UTTERANCES_PER_CHAPTER = 25
_SPARE_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class SyntheticConfig:
    """What the corpus contains. The defaults give about 4.7 hours of training speech."""

    train_utterances: int = 6600
    """Utterances to train on (2.5 s each on average)."""
    dev_utterances: int = 100
    """Utterances to choose a checkpoint by: other sentences, other voices."""
    test_utterances: int = 200
    """Utterances to report on: other sentences, other voices again."""
    seed: int = 0
    """Seed of sentences, speakers and noise."""
    language: Language = "en"
    """Language of the sentences: en or de."""
    accents: tuple[str, ...] = ()
    """Languages of espeak-ng that the speakers take in turns, such as en-gb-x-rp, en-us-nyc, en-gb-scotland; (): en-us
    for English, otherwise the language."""
    speakers_per_variant: int = 3
    """Speakers per voice of espeak-ng; each has a rate, a pitch and an intonation of its own."""
    words_per_minute: tuple[int, int] = (150, 200)
    """Speaking rate of the slowest and of the fastest speaker, in words per minute; an utterance differs from its
    speaker's habit by up to 8 %."""
    snr_db: tuple[float, float] = (20.0, 40.0)
    """Signal-to-noise ratio in decibels, from the least to the greatest: coloured noise, from white to brown, is added
    to every utterance."""
    peak_db: tuple[float, float] = (-20.0, -1.0)
    """Peak level relative to full scale in decibels, from the least to the greatest."""
    silence_seconds: tuple[float, float] = (0.05, 0.25)
    """Seconds of silence (with its noise) before and after the speech, from the least to the most."""
    sample_rate: int = 16000
    """Sample rate of the LibriSpeech folder, in Hz. An LJSpeech folder has espeak's own 22,050 Hz."""

    def __post_init__(self) -> None:
        for name in ("words_per_minute", "snr_db", "peak_db", "silence_seconds"):
            low, high = getattr(self, name)
            if low > high:
                raise ValueError(f"SyntheticConfig: {name} goes from {low} to {high}; the first must not be the larger")
        if self.peak_db[1] > 0:
            raise ValueError(f"SyntheticConfig: peak_db is {self.peak_db[1]}; above 0 the samples would clip")
        if self.speakers_per_variant < 1:
            raise ValueError(
                f"SyntheticConfig: speakers_per_variant is {self.speakers_per_variant}; expected at least one"
            )
        if not self.accents:
            object.__setattr__(self, "accents", ("en-us" if self.language == "en" else self.language,))

    @property
    def counts(self) -> dict[Subset, int]:
        """Utterances of each subset."""
        return {"train": self.train_utterances, "dev": self.dev_utterances, "test": self.test_utterances}


class SyntheticSpeaker(NamedTuple):
    """Somebody who reads: `id` is the LibriSpeech folder's name."""

    id: int
    sex: str
    voice: espeak.EspeakVoice


class _Task(NamedTuple):
    """One utterance to speak, with all that it depends on."""

    id: str
    path: Path
    sentence: str
    voice: espeak.EspeakVoice
    seed: tuple[int, ...]


class _Spoken(NamedTuple):
    task: _Task
    seconds: float
    words: list[espeak.WordTime]


Progress = Callable[[int, int], None]


def build_librispeech(
    folder: Path, config: SyntheticConfig | None = None, *, workers: int | None = None, progress: Progress | None = None
) -> Path:
    """Write `folder`/LibriSpeech as the data set is distributed, and return that path.

    Subsets `train-clean`, `dev-clean`, `test-clean` hold `<speaker>/<chapter>/<speaker>-<chapter>-<number>.flac` and
    `.trans.txt`; SPEAKERS.TXT names the voices. Besides, `<subset>.word_times.jsonl` has one line per utterance:
    {"id": ..., "seconds": ..., "words": [[word, start_seconds, end_seconds], ...]}.

    A folder that is already complete with the same config is left as it is. `workers` is the number of processes (None:
    one per core, at most 16); `progress` is called with (done, all).
    Raises FileExistsError where the folder holds anything else, EspeakError where espeak-ng does not work, RuntimeError
    where processes cannot be started, as from a script without `if __name__ == "__main__":`.
    """
    config = config or SyntheticConfig()

    def write(root: Path) -> None:
        tasks = {subset: _librispeech_tasks(root, subset, count, config) for subset, count in config.counts.items()}
        spoken = _speak_all(
            [task for each in tasks.values() for task in each], _render_noisy, config, workers, progress
        )
        for subset, each in tasks.items():
            _write_word_times(root / f"{_FOLDERS[subset]}.word_times.jsonl", spoken[: len(each)])
            spoken = spoken[len(each) :]
            _write_transcripts(each)
        _write_speakers(root / "SPEAKERS.TXT", config)

    return _build_once(Path(folder) / "LibriSpeech", {"layout": "librispeech", **_described(config)}, write)


def build_ljspeech(
    folder: Path,
    config: SyntheticConfig | None = None,
    *,
    voice: espeak.EspeakVoice | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write `folder` as LJSpeech is distributed: one voice, no noise, `wavs/` at 22,050 Hz and `metadata.csv`.

    `metadata.csv` has `id|text as printed|text as spoken` for `train_utterances` sentences of the training subset;
    `word_times.jsonl` is as in `build_librispeech`, and so are the other arguments, errors, and the return value.
    """
    config = config or SyntheticConfig()
    voice = voice or espeak.EspeakVoice(language=config.accents[0], variant="f2", words_per_minute=160)

    def write(root: Path) -> None:
        texts = sentences(config.train_utterances, seed=config.seed, language=config.language)
        names = [f"SY{i // 100 + 1:03d}-{i % 100 + 1:04d}" for i in range(len(texts))]
        tasks = [
            _Task(name, root / "wavs" / f"{name}.wav", text, voice, (config.seed, i))
            for i, (name, text) in enumerate(zip(names, texts, strict=True))
        ]
        spoken = _speak_all(tasks, _render_clean, config, workers, progress)
        _write_word_times(root / "word_times.jsonl", spoken)
        lines = [f"{task.id}|{_as_printed(task.sentence, config.language)}|{task.sentence}\n" for task in tasks]
        (root / "metadata.csv").write_text("".join(lines), encoding="utf-8")

    return _build_once(Path(folder), {"layout": "ljspeech", **_described(config), "voice": asdict(voice)}, write)


def build_translations(
    folder: Path, config: SyntheticConfig | None = None, *, workers: int | None = None, progress: Progress | None = None
) -> Path:
    """Write `folder` with English and German speech, and return that path: one half of the utterances each.

    `train.jsonl`, `dev.jsonl` and `test.jsonl` are manifests with NeMo's keys source_lang and target_lang. Every
    recording has a line with its transcript; English ones have a second line with their German translation
    (`common.data.texts.paired`). `<subset>.word_times.jsonl`, arguments and errors are as in `build_librispeech`;
    the language of `config` has no effect.
    """
    config = config or SyntheticConfig()

    def write(root: Path) -> None:
        for subset, count in config.counts.items():
            tasks, translations = _translation_tasks(root, subset, count, config)
            spoken = _speak_all(tasks, _render_noisy, config, workers, progress)
            _write_word_times(root / f"{subset}.word_times.jsonl", spoken)
            with (root / f"{subset}.jsonl").open("w", encoding="utf-8") as file:
                for (task, seconds, _), translation in zip(spoken, translations, strict=True):
                    source: Language = "de" if task.voice.language == "de" else "en"
                    known = {"audio_filepath": str(task.path.relative_to(root)), "duration": round(seconds, 4)}
                    texts = {source: task.sentence} | ({"de": translation} if source == "en" else {})
                    for target, text in texts.items():
                        name = task.id if target == source else f"{task.id}-{target}"
                        row = {"id": name, **known, "text": text, "source_lang": source, "target_lang": target}
                        file.write(json.dumps(row | {"pnc": "no"}, ensure_ascii=False) + "\n")

    return _build_once(Path(folder), {"layout": "translations", **_described(config)}, write)


def _translation_tasks(
    root: Path, subset: Subset, count: int, config: SyntheticConfig
) -> tuple[list[_Task], list[str]]:
    """What is to be spoken, English and German in turns, and the German sentence of each."""
    tasks, german = [], []
    languages: tuple[Language, Language] = ("en", "de")
    readers = [speakers(subset, replace(config, language=language, accents=())) for language in languages]
    for i, sentences_of_pair in enumerate(pairs(count, subset=subset, seed=config.seed)):
        language, number = i % 2, i // 2
        reader, turn = readers[language][number % len(readers[language])], number // len(readers[language])
        name = f"{languages[language]}-{reader.id}-{turn:04d}"
        path = root / subset / languages[language] / str(reader.id) / f"{name}.flac"
        seed = (config.seed, reader.id, turn, language)
        tasks.append(_Task(name, path, sentences_of_pair[language], reader.voice, seed))
        german.append(sentences_of_pair[1])
    return tasks, german


def speakers(subset: Subset, config: SyntheticConfig) -> list[SyntheticSpeaker]:
    """The readers of a subset: for each of its voice variants some, every one with habits of its own."""
    first = {"train": 100, "dev": 800, "test": 900}[subset]
    pairs = [(sex, variant) for sex, names in _VARIANTS[subset].items() for variant in names.split()]
    found = []
    for i, (sex, variant) in enumerate(pairs):
        for k in range(config.speakers_per_variant):
            number = first + i * config.speakers_per_variant + k
            random = np.random.default_rng([config.seed, number])
            voice = espeak.EspeakVoice(
                language=config.accents[(i + 2 * k) % len(config.accents)],
                variant=variant,
                words_per_minute=int(random.integers(*config.words_per_minute, endpoint=True)),
                pitch=int(random.integers(30, 70, endpoint=True)),
                pitch_range=int(random.integers(30, 80, endpoint=True)),
            )
            found.append(SyntheticSpeaker(number, sex, voice))
    return found


def _librispeech_tasks(root: Path, subset: Subset, count: int, config: SyntheticConfig) -> list[_Task]:
    readers = speakers(subset, config)
    texts = sentences(count, subset=subset, seed=config.seed, language=config.language)
    tasks = []
    for i, text in enumerate(texts):
        reader, turn = readers[i % len(readers)], i // len(readers)
        chapter = reader.id * 100 + turn // _UTTERANCES_PER_CHAPTER
        name = f"{reader.id}-{chapter}-{turn % _UTTERANCES_PER_CHAPTER:04d}"
        path = root / _FOLDERS[subset] / str(reader.id) / str(chapter) / f"{name}.flac"
        tasks.append(_Task(name, path, text, reader.voice, (config.seed, reader.id, turn)))
    return tasks


def _speak_all(
    tasks: list[_Task],
    render: Callable[[SyntheticConfig, _Task], _Spoken],
    config: SyntheticConfig,
    workers: int | None,
    progress: Progress | None,
) -> list[_Spoken]:
    for folder in {task.path.parent for task in tasks}:
        folder.mkdir(parents=True, exist_ok=True)
    speak = partial(render, config)
    workers = workers or _cores()
    if workers == 1:
        return _collect(map(speak, tasks), len(tasks), progress)
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
    try:
        return _collect(pool.map(speak, tasks, chunksize=16), len(tasks), progress)
    except BrokenProcessPool:
        raise RuntimeError(
            "synthetic corpus: a process that speaks ended unexpectedly. A script that builds a corpus must do so "
            'under `if __name__ == "__main__":`, because every process imports the script; workers=1 needs no processes'
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _cores() -> int:
    """Cores that this process may use, at most 16: more would take longer to start than to speak."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(available, 16)


def _collect(results: Iterable[_Spoken], count: int, progress: Progress | None) -> list[_Spoken]:
    spoken = []
    for done, result in enumerate(results, start=1):
        spoken.append(result)
        if progress is not None:
            progress(done, count)
    return spoken


def _render_noisy(config: SyntheticConfig, task: _Task) -> _Spoken:
    """Speak as the speaker happens to today, in a room with noise, at some distance of the microphone."""
    random = np.random.default_rng(task.seed)
    voice = task.voice
    voice = espeak.EspeakVoice(
        language=voice.language,
        variant=voice.variant,
        words_per_minute=round(voice.words_per_minute * random.uniform(0.92, 1.08)),
        pitch=voice.pitch + int(random.integers(-5, 5, endpoint=True)),
        pitch_range=voice.pitch_range + int(random.integers(-10, 10, endpoint=True)),
    )
    speech = espeak.speak(task.sentence, voice)
    clean = soxr.resample(speech.samples, espeak.SAMPLE_RATE, config.sample_rate)
    before, after = (round(random.uniform(*config.silence_seconds) * config.sample_rate) for _ in range(2))
    noise = _coloured_noise(before + len(clean) + after, slope=random.uniform(0, 2), random=random)
    power = float(np.mean(np.square(clean)))
    samples = noise * np.sqrt(power / 10 ** (random.uniform(*config.snr_db) / 10))
    samples[before : before + len(clean)] += clean
    samples *= 10 ** (random.uniform(*config.peak_db) / 20) / np.abs(samples).max()
    waveform.write(task.path, samples, config.sample_rate)
    return _Spoken(task, len(samples) / config.sample_rate, _delayed(speech.words, before / config.sample_rate))


def _render_clean(_: SyntheticConfig, task: _Task) -> _Spoken:
    speech = espeak.speak(task.sentence, task.voice)
    silence = np.zeros(round(_SPARE_SECONDS * espeak.SAMPLE_RATE), np.float32)
    samples = np.concatenate([silence, 0.7 * speech.samples / np.abs(speech.samples).max(), silence])
    waveform.write(task.path, samples, espeak.SAMPLE_RATE)
    return _Spoken(task, len(samples) / espeak.SAMPLE_RATE, _delayed(speech.words, _SPARE_SECONDS))


def _coloured_noise(count: int, *, slope: float, random: np.random.Generator) -> np.ndarray:
    """Gaussian noise of unit power whose power falls with frequency ** slope: 0 is white, 1 pink, 2 brown."""
    size = 1 << (count - 1).bit_length()
    spectrum = random.standard_normal(size + 2, np.float32).view(np.complex64)  # of white noise
    spectrum *= np.maximum(np.arange(len(spectrum), dtype=np.float32), size // 256) ** (-slope / 2)
    noise = np.fft.irfft(spectrum, size)[:count]
    return noise / np.sqrt(np.mean(np.square(noise)))


def _delayed(words: list[espeak.WordTime], seconds: float) -> list[espeak.WordTime]:
    return [espeak.WordTime(word, start + seconds, end + seconds) for word, start, end in words]


def _described(config: SyntheticConfig) -> dict[str, object]:
    """What a corpus says that it contains; English ones as before there were others, so that they are recognised."""
    described = asdict(config)
    return {name: value for name, value in described.items() if (name, value) != ("language", "en")}


def _as_printed(sentence: str, language: Language) -> str:
    question = sentence.startswith(QUESTIONS[language])
    return sentence[0].upper() + sentence[1:] + ("?" if question else ".")


def _write_transcripts(tasks: list[_Task]) -> None:
    by_chapter: dict[Path, list[_Task]] = {}
    for task in tasks:
        by_chapter.setdefault(task.path.parent, []).append(task)
    for folder, chapter in by_chapter.items():
        lines = [f"{task.id} {task.sentence.upper()}\n" for task in chapter]
        (folder / f"{folder.parent.name}-{folder.name}.trans.txt").write_text("".join(lines), encoding="utf-8")


def _write_word_times(path: Path, spoken: list[_Spoken]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for task, seconds, words in spoken:
            times = [(word, round(start, 4), round(end, 4)) for word, start, end in words]
            file.write(json.dumps({"id": task.id, "seconds": round(seconds, 4), "words": times}) + "\n")


def _write_speakers(path: Path, config: SyntheticConfig) -> None:
    lines = [";ID  |SEX| SUBSET           | VOICE\n"]
    for subset, folder in _FOLDERS.items():
        for reader in speakers(subset, config):
            voice = f"{reader.voice.language}+{reader.voice.variant}"
            lines.append(f"{reader.id:<5}| {reader.sex} | {folder:<16} | {voice}\n")
    path.write_text("".join(lines), encoding="utf-8")


def _build_once(folder: Path, description: dict[str, object], write: Callable[[Path], None]) -> Path:
    """Let `write` fill a folder that appears only when it is complete, or is there already."""
    expected = json.dumps(description, indent=1)
    marker = folder / "corpus.json"
    if marker.is_file() and marker.read_text(encoding="utf-8") == expected:
        return folder
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder}: holds another corpus or other files; delete it or choose another folder")
    partial_folder = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial_folder, ignore_errors=True)
    partial_folder.mkdir(parents=True)
    write(partial_folder)
    (partial_folder / marker.name).write_text(expected, encoding="utf-8")
    if hasattr(os, "sync"):
        os.sync()  # once for all clips, of which none waits: a folder with its name must not lack any after a power cut
    partial_folder.replace(folder)
    return folder
