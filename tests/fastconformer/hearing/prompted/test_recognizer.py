"""Long recordings in stretches: every word is heard once, in order, in bounded memory, whatever the pauses are.

The recogniser is a stand-in: word number n is a sound of amplitude 0.1 + n / 10,000, of which it hears what is there.
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from common.text.pieces import Pieces
from fastconformer.attention.config import AttentionConfig
from fastconformer.attention.pieces import SPECIALS, PromptedPieces, of_parts
from fastconformer.attention.prompt import PromptFormat, Wanted
from fastconformer.attention.search import AttentionMemory, FoundText, Result
from fastconformer.hearing.prompted.decoding import HeardFrames
from fastconformer.hearing.prompted.gaps import JudgedPart, is_better, judged
from fastconformer.hearing.prompted.recognizer import PromptedRecognizer
from fastconformer.hearing.prompted.rounds import Rounds
from fastconformer.hearing.prompted.texts import HeardPart, TextHypothesis, hypothesis_of

RATE, WORDS = 1000, 2000
SPECIAL = (
    "<unk>", "<|nospeech|>", "<pad>", "<|endoftext|>", "<|startoftranscript|>", "<|pnc|>", "<|nopnc|>",
    "<|startofcontext|>", "<|noitn|>", "<|notimestamp|>", "<|nodiarize|>", "<|emo:undefined|>", "<|en|>", "<|de|>",
)  # fmt: skip
PIECES = of_parts(
    [
        (SPECIALS, Pieces(SPECIAL, unknown=frozenset({0}))),
        ("en", Pieces(tuple(f"▁w{i}" for i in range(WORDS)))),
        ("de", Pieces(("▁wort",))),
    ]
)


@pytest.fixture(autouse=True)
def _spelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words that are handed on are cut into pieces without a tokenizer."""
    monkeypatch.setattr(
        PromptedPieces, "encode", lambda self, text, language="": [len(SPECIAL) + int(w[1:]) for w in text.split()]
    )


@pytest.mark.parametrize(("piece", "asked"), [("▁wort", "<|nopnc|>"), ("▁Wort", "<|pnc|>"), ("?", "<|pnc|>")])
def test_capitals_and_punctuation_are_asked_for_where_pieces_can_write_them(piece, asked):
    pieces = of_parts([(SPECIALS, Pieces(SPECIAL, unknown=frozenset({0}))), ("en", Pieces((piece,)))])
    prompt = PromptFormat("canary2", pieces)
    assert asked in [pieces.labels[token] for token in prompt(Wanted(source_language="en"))]
    assert "<|nopnc|>" in [pieces.labels[token] for token in prompt(Wanted(source_language="en", punctuation=False))]


class Ears(PromptedRecognizer):
    """Hears words of which more than half is there, with times that are a little wrong, each time otherwise."""

    sample_rate, keep, seconds_per_frame, has_ctc = RATE, None, 0.08, True  # type: ignore[assignment]

    def __init__(self) -> None:
        self.pieces = PIECES
        super().__init__(AttentionConfig(layers=1, language="en"), PIECES)
        self.draw = np.random.default_rng(0)
        self.asked: list[str] = []
        self.batches: list[list[int]] = []

    def _hear(self, samples):
        self.batches.append([len(one) for one in samples])
        return HeardFrames([AttentionMemory(one) for one in samples], [len(one) // 80 for one in samples], [])

    def _steps(self):
        raise AssertionError("what is decoded here needs no network")

    def _decoded(self, frames, prompts, decoder, hot_words, *, guard):
        self.asked += [PIECES.decode(prompt) for prompt in prompts]
        return [self._said([label for label, _, _ in found(one.keys_values)]) for one in frames.heard]

    def _said(self, labels: list[int]) -> TextHypothesis:
        return TextHypothesis(labels, PIECES.decode(labels), [0.9] * len(labels), 0.0)

    def _timed(self, samples, frames, texts, asked, times):
        if times == "none":
            return [[] for _ in texts]
        wrong = self.draw.uniform(-0.04, 0.04, len(samples))
        return [
            [(max(0.0, a + off), max(0.02, b + off)) for _, a, b in found(one)]
            for one, off in zip(samples, wrong, strict=True)
        ]


def found(samples_N: np.ndarray) -> Iterator[tuple[int, float, float]]:
    """Labels and times of the words in some samples."""
    number_N = np.where(np.abs(samples_N) < 0.05, -1, np.round((np.abs(samples_N) - 0.1) * 10_000).astype(int))
    bounds = [0, *(np.flatnonzero(np.diff(number_N)) + 1), len(number_N)]
    for start, end in itertools.pairwise(bounds):
        if end > start and number_N[start] >= 0 and end - start > 0.5 * 0.31 * RATE:
            yield len(SPECIAL) + int(number_N[start]), start / RATE, end / RATE


def speech(words: range, *, pauses: int, silences: tuple[int, ...] = ()) -> np.ndarray:
    """Words of 0.31 s; a pause of 0.3 s after so many of them (none for 0), a minute of silence after some."""
    parts = []
    for number in words:
        parts.append(np.full(int(0.31 * RATE), 0.1 + number / 10_000, np.float32))
        if pauses and number % pauses == pauses - 1:
            parts.append(np.zeros(int(0.3 * RATE), np.float32))
        if number in silences:
            parts.append(np.zeros(60 * RATE, np.float32))
    return np.concatenate(parts)


@pytest.mark.parametrize("pauses", [0, 3, 40, 200], ids="a pause after {} words".format)
@pytest.mark.parametrize("context", [0, 4])
def test_every_word_is_heard_once(pauses, context):
    asr, rows = Ears(), [range(700), range(700, 710), range(0), range(800, 1700)]
    sounds = [speech(row, pauses=pauses, silences=(820, 1000)) if row else np.zeros(100, np.float32) for row in rows]
    transcripts = asr.transcribe(sounds, context=context, batch_size=4)
    for transcript, row in zip(transcripts, rows, strict=True):
        assert transcript.text.split() == [f"w{number}" for number in row]
        starts = [word.start for word in transcript.words]
        assert starts == sorted(starts)
    at = {word.text: word.start for word in transcripts[3].words}
    assert at["w1001"] - at["w1000"] == pytest.approx(60.31, abs=0.45), "times are those of the recording"


def test_without_times_of_words_stretches_do_not_overlap():
    asr = Ears()
    sound_N = speech(range(400), pauses=0)
    (transcript,) = asr.transcribe([sound_N], times="none")
    assert sum(map(sum, asr.batches)) == len(sound_N)
    said = [word.text for word in transcript.words]
    assert len(set(said)) == len(said)
    assert len(said) >= 400 - len(asr.asked), "one word at a seam at most"


def test_stretches_of_a_recording_are_rows_of_a_batch_and_the_last_words_are_handed_over():
    asr = Ears()
    sound_N = speech(range(800), pauses=3)
    asr.transcribe([sound_N], batch_size=4)
    assert max(map(len, asr.batches)) == 4
    assert all("w" not in asked for asked in asr.asked)
    own = Ears()
    own.transcribe([sound_N], batch_size=4, context=3)
    assert own.asked[0] == ""
    for before, asked in zip(own.asked, own.asked[1:], strict=False):
        last = int(asked.split()[-1][1:])
        assert asked.split() == [f"w{last - 2}", f"w{last - 1}", f"w{last}"]
        assert before == "" or int(before.split()[-1][1:]) < last


def test_memory_is_that_of_some_batches_however_long_a_recording_is(monkeypatch):
    most, whole = [], Rounds.heard
    for repeats in (1, 6):
        asr, held = Ears(), []

        def heard_now(self, spoken, held=held):
            held.append(sum(len(one.sound.samples_N) for one in spoken))
            return whole(self, spoken)

        monkeypatch.setattr(Rounds, "heard", heard_now)
        sound_N = np.tile(speech(range(1900), pauses=3), repeats)  # 10 minutes, and an hour
        (transcript,) = asr.transcribe([sound_N], batch_size=4)
        assert len(transcript.text.split()) == 1900 * repeats
        most.append(max(held))
    assert max(most) <= (4 + 1) * 35 * RATE


def test_words_handed_on_leave_half_of_the_positions_to_the_text(monkeypatch):
    ears = Ears()
    monkeypatch.setattr(ears, "attention", replace(ears.attention, positions=64))
    (whole,) = ears.transcribe([speech(range(120), pauses=3)], context=1000)
    assert [int(word.text[1:]) for word in whole.words] == list(range(120))
    lengths = [len(words.split()) for words in ears.asked]
    assert lengths[0] == 0 < max(lengths) <= 32


def test_a_recording_whose_context_is_too_long_is_one_error(monkeypatch):
    ears, said_N = Ears(), speech(range(5), pauses=3)
    monkeypatch.setattr(ears, "attention", replace(ears.attention, positions=64))
    wanted = [{"decodercontext": "w1 " * 64}, {}]
    long, short = ears.transcribe([said_N, said_N], wanted=wanted, on_error="skip")
    assert "tokens before the text: expected fewer than 64; give a shorter context" in long.error
    assert not short.error
    assert len(short.words) == 5


def test_a_network_that_gives_nan_is_an_error_of_its_recording(monkeypatch):
    monkeypatch.setattr(Ears, "_said", lambda self, labels: hypothesis_of(Result([], ()), PIECES))
    (found,) = Ears().transcribe([speech(range(5), pauses=3)])
    assert "the network gives NaN; its weights are damaged" in found.error


class Forgetful(Ears):
    """Of stretches that are longer than it learned from it writes a part, or goes round; by CTC it hears all."""

    def __init__(self, keeps, *, learned: float = 10.0, flags: tuple[str, ...] = (), with_ctc: bool = True) -> None:
        super().__init__()
        self.keeps, self.learned, self.flags, self.with_ctc = keeps, learned, flags, with_ctc
        self.has_ctc = with_ctc
        self.is_long: list[bool] = []

    def _hear(self, samples):
        heard = super()._hear(samples)
        if not self.with_ctc:
            return heard
        log_probs = []
        for sound_N in samples:
            labels = [label for label, _, _ in found(sound_N)]
            log_probs_SV = np.full((2 * len(labels) + 1, len(PIECES.labels) + 1), -9.0, np.float32)
            log_probs_SV[1::2, labels] = 0.0
            log_probs_SV[::2, -1] = 0.0
            log_probs.append(log_probs_SV)
        return heard._replace(log_probs=log_probs)

    def _decoded(self, frames, prompts, decoder, hot_words, *, guard):
        self.is_long = [len(one.keys_values) > self.learned * RATE for one in frames.heard]
        texts = super()._decoded(frames, prompts, decoder, hot_words, guard=guard)
        return [
            self._said(self.keeps(text.labels))._replace(flags=self.flags) if is_long else text
            for text, is_long in zip(texts, self.is_long, strict=True)
        ]

    def _tells_times(self, times, wanted):
        return True

    def _timed(self, samples, frames, texts, asked, times):
        placed = super()._timed(samples, frames, texts, asked, times)
        return [[] if len(some) != len(text.labels) else some for some, text in zip(placed, texts, strict=True)]


def first_third(labels):
    return labels[: len(labels) // 3]


def without_the_middle(labels):
    return labels[: len(labels) // 4] + labels[-len(labels) // 4 :]


def with_what_nobody_said(labels):
    return labels + labels[:3]


def going_round(labels):
    return labels[:2] * len(labels)


@pytest.mark.parametrize("pauses", [0, 3, 11], ids="a pause after {} words".format)
@pytest.mark.parametrize(
    ("keeps", "flags", "with_ctc"),
    [(with_what_nobody_said, (), True), (first_third, (), True), (first_third, (), False),
     (without_the_middle, (), True), (going_round, ("loop",), True), (going_round, ("limit",), False)],
)  # fmt: skip
def test_a_stretch_whose_text_leaves_words_out_or_goes_round_is_heard_again_in_parts(pauses, keeps, flags, with_ctc):
    asr = Forgetful(keeps, flags=flags, with_ctc=with_ctc)
    rows = [range(400), range(400, 415), range(500, 700)]
    transcripts = asr.transcribe([speech(row, pauses=pauses) for row in rows], batch_size=3)
    for transcript, row in zip(transcripts, rows, strict=True):
        assert transcript.text.split() == [f"w{number}" for number in row], "none is lost, doubled or invented"
        starts = [word.start for word in transcript.words]
        assert starts == sorted(starts)
        assert transcript.flags == (() if len(row) == 15 else (*flags, "gap"))
    (alone,) = Forgetful(keeps, flags=flags, with_ctc=with_ctc).transcribe([speech(rows[2], pauses=pauses)])
    assert alone.text == transcripts[2].text


@pytest.mark.parametrize("pauses", [0, 3, 11], ids="a pause after {} words".format)
def test_a_word_in_which_ctc_overruled_the_decoder_is_heard_again_in_parts(pauses):
    """In a long stretch CTC hears another word than is said, which the decoder finds improbable; in short ones none."""

    def heard_wrongly(labels):
        return [label + 1000 if label == wrong else label for label in labels]

    wrong = len(SPECIAL) + 6
    asr = Forgetful(heard_wrongly, learned=5.0)

    def hear(samples, own=asr._hear):
        frames = own(samples)
        for sound_N, log_probs_SV in zip(samples, frames.log_probs, strict=True):
            if len(sound_N) > 5.0 * RATE:
                log_probs_SV[:, [wrong, wrong + 1000]] = log_probs_SV[:, [wrong + 1000, wrong]]
        return frames

    def decoded(*given, own=asr._decoded, **named):
        texts = own(*given, **named)
        sure = lambda label: 0.01 if label == wrong + 1000 else 0.9  # noqa: E731
        return [text._replace(confidence=[sure(label) for label in text.labels]) for text in texts]

    asr._hear, asr._decoded = hear, decoded
    (transcript,) = asr.transcribe([speech(range(20), pauses=pauses)])
    assert transcript.text.split() == [f"w{number}" for number in range(20)]
    assert transcript.flags == (), "nothing had been left out"
    asr = Forgetful(heard_wrongly, learned=5.0)
    asr._hear = hear
    (sure,) = asr.transcribe([speech(range(20), pauses=pauses)])
    assert "w1006" in sure.text.split(), "of which the decoder is sure too"


def overruled(words: range, *, every: int, learned: float) -> str:
    """What is written of speech in which CTC hears another word than each of some, and the decoder doubts it, in all
    that is longer than `learned`."""
    wrong = {len(SPECIAL) + number for number in words[6::every]}
    asr = Forgetful(lambda labels: [n + 1000 if n in wrong else n for n in labels], learned=learned)

    def hear(samples, own=asr._hear):
        frames = own(samples)
        for sound_N, log_probs_SV in zip(samples, frames.log_probs, strict=True):
            for n in wrong if len(sound_N) > learned * RATE else ():
                log_probs_SV[:, [n, n + 1000]] = log_probs_SV[:, [n + 1000, n]]
        return frames

    def decoded(*given, own=asr._decoded, **named):
        sure = lambda label: 0.01 if label - 1000 in wrong else 0.9  # noqa: E731
        return [one._replace(confidence=[sure(label) for label in one.labels]) for one in own(*given, **named)]

    asr._hear, asr._decoded = hear, decoded
    return asr.transcribe([speech(words, pauses=3)])[0].text


def test_unsure_texts_that_get_better_in_parts_cost_a_recording_nothing():
    words = range(900)
    assert overruled(words, every=5, learned=4.2).split() == [f"w{number}" for number in words]


def test_what_is_no_better_in_parts_stays_as_it_was():
    asr = Forgetful(lambda labels: labels[:1] if len(labels) > 30 else [], learned=0.0)
    (whole,) = asr.transcribe([speech(range(60), pauses=3)])
    assert (whole.text, whole.flags) == ("w0", ())
    assert sum(map(sum, asr.batches)) < 5 * 60 * 0.41 * RATE, "of four levels of parts the samples, and what overlaps"


@pytest.mark.parametrize("with_ctc", [True, False])
@pytest.mark.parametrize("pauses", [0, 3])
def test_noise_whose_texts_stay_doubtful_is_heard_again_twice_at_most(pauses, with_ctc):
    asr = Forgetful(lambda labels: labels[:1], learned=0.0, with_ctc=with_ctc)
    sound_N = speech(range(600), pauses=pauses)
    asr.transcribe([sound_N])
    assert sum(map(sum, asr.batches)) < 3.2 * len(sound_N) + asr.chunk_seconds * RATE, "thrice, and what overlaps"


@pytest.mark.parametrize(("keeps", "said"), [(lambda labels: labels[:2], "w0 w1"), (lambda labels: [], "")])
def test_without_another_witness_a_few_words_in_every_part_are_no_proof_of_speech(keeps, said):
    asr = Forgetful(keeps, learned=0.0, with_ctc=False)
    (whole,) = asr.transcribe([speech(range(60), pauses=3)])
    assert (whole.text, whole.flags) == (said, ()), "loud sounds may be music, in which decoders invent words"


@pytest.mark.parametrize("with_ctc", [True, False])
@pytest.mark.parametrize(("milliseconds", "text"), [(50, ""), (100, ""), (200, "w0 w1 w2")])
def test_what_nobody_says_so_fast_is_not_written(milliseconds, text, with_ctc):
    """Decoders write whole words for a few milliseconds of sound, in which CTC heads hear them too."""
    asr = Forgetful(lambda _: list(range(len(SPECIAL), len(SPECIAL) + 3)), learned=0.0, with_ctc=with_ctc)
    if with_ctc:
        hears = np.full((7, len(PIECES.labels) + 1), -9.0, np.float32)
        hears[range(7), [-1, len(SPECIAL), -1, len(SPECIAL) + 1, -1, len(SPECIAL) + 2, -1]] = 0.0
        asr._hear = lambda samples: Ears._hear(asr, samples)._replace(log_probs=[hears] * len(samples))
    (found,) = asr.transcribe([np.full(milliseconds, 0.1, np.float32)])
    assert (found.text, len(found.words)) == (text, len(text.split()))


def test_words_for_which_ctc_hears_no_more_than_silence_are_not_written():
    """White noise: both heads hear something, and never the same. What is said before it stays."""
    asr = Forgetful(lambda labels: labels)

    def hear(samples, own=asr._hear):
        heard = own(samples)
        for row, sound_N in enumerate(samples):
            if np.abs(sound_N).max() > 0.9:
                noise = np.full((len(sound_N) // 80, len(PIECES.labels) + 1), -9.0, np.float32)
                noise[:, -1], noise[::3, len(SPECIAL) + 900] = -2.0, -1.0
                heard.log_probs[row] = noise
        return heard

    def decoded(frames, prompts, decoder, hot_words, *, guard, own=asr._decoded):
        texts = own(frames, prompts, decoder, hot_words, guard=guard)
        invented = asr._said(list(range(len(SPECIAL) + 500, len(SPECIAL) + 540)))
        is_noise = [np.abs(one.keys_values).max() > 0.9 for one in frames.heard]
        return [invented if noisy else text for noisy, text in zip(is_noise, texts, strict=True)]

    asr._hear, asr._decoded = hear, decoded
    noise_N = np.random.default_rng(0).uniform(-1.0, 1.0, 60 * RATE).astype(np.float32)
    said, noise = asr.transcribe([speech(range(30), pauses=3), noise_N])
    assert said.text.split() == [f"w{number}" for number in range(30)]
    assert (noise.text, noise.words) == ("", [])
    assert "gap" in noise.flags
    heard = sum(map(sum, asr.batches)) - len(speech(range(30), pauses=3))
    assert heard < 3.2 * len(noise_N) + asr.chunk_seconds * RATE, "thrice, and what overlaps"


@pytest.mark.parametrize(
    ("joint", "alone", "flags", "expected"),
    [
        ((["w1", "w3"], -6.0, 0.0), (["w1", "w2"], -0.5, 45.0), (), False),  # a letter, of which the decoder is sure
        ((["w1", "w3"], -2.0, 0.0), (["w1", "w2"], -0.5, 45.0), (), True),
        ((["w1", "w2"], -0.1, 25.0), (["w1", "w3"], -5.0, -9.0), (), True),  # nor is a letter of which CTC is surer
        ((["w1", "w2"], -0.1, 25.0), (["w1", "w3"], -2.0, -9.0), (), False),
        ((["w1", "w2"], -0.1, 9.0), (["w1", "w2"], -0.1, 8.0), (), False),
        ((["w1", "w2", "w3", "w4", "w5"], -12.0, 0.0), (["w1"], -0.5, 150.0), (), True),  # words that were left out
        ((["w1", "w3"], -6.0, 0.0), (["w1", "w2"], -0.5, 45.0), ("loop",), True),
        ((["w1", "w3"], -0.1, 9.0), (["w1", "w2"], -0.5, 8.0), ("loop",), False),
    ],
)
def test_a_text_by_both_has_a_bounded_say_in_each_word_in_which_it_differs(joint, alone, flags, expected):
    def part_of(words, log_prob, doubt, flags=()):
        text = TextHypothesis([], " ".join(words), [float(np.exp(log_prob))], 0.0, flags)
        return JudgedPart(HeardPart(0.0, 1.0, text), True, doubt, doubt, unsure=-log_prob)

    assert is_better([part_of(*joint)], part_of(*alone, flags)) is expected


@pytest.mark.parametrize(("ending", "expected"), [(0.001, False), (0.9, True)])
def test_a_text_that_ends_before_a_word_is_as_improbable_as_its_end(ending, expected):
    """The decoder doubts a word that CTC hears: without it a text is better where the decoder is sure of an end."""
    pieces = of_parts([(SPECIALS, Pieces(SPECIAL, unknown=frozenset({0}))), ("en", Pieces(("▁a", "▁b")))])
    log_probs_SV = np.full((8, pieces.blank + 1), -9.0, np.float32)
    log_probs_SV[::2, pieces.blank] = 0.0
    a, b = (pieces.labels.index(label) for label in ("▁a", "▁b"))
    log_probs_SV[1, a] = log_probs_SV[3, b] = log_probs_SV[5:, pieces.blank] = 0.0

    def part_of(labels, log_probs, ending):
        found = FoundText(labels, [*log_probs, np.log(ending)], 0.0, True)
        part = HeardPart(0.0, 1.0, hypothesis_of(Result([found], ()), pieces))
        return judged(part, np.zeros(800, np.float32), RATE, log_probs_SV, pieces, is_translation=False)

    whole, shorter = part_of([a, b], [-0.1, -6.0], 0.9), part_of([a], [-0.1], ending)
    assert whole.is_unsure
    assert not whole.is_doubtful
    assert is_better([shorter], whole) is expected


@pytest.mark.parametrize(
    ("labels", "heard", "expected"),
    [(["▁a"], 7.0, False), (["▁a", "."], 7.0, False), (["▁a", "."], 3.0, True), (["."], 7.0, True), ([], 7.0, False)],
)
def test_a_word_that_ctc_hears_stays_with_punctuation_that_it_does_not_hear(labels, heard, expected):
    pieces = of_parts([(SPECIALS, Pieces(SPECIAL, unknown=frozenset({0}))), ("en", Pieces(("▁a", ".")))])
    log_probs_SV = np.full((10, pieces.blank + 1), -8.0, np.float32)
    log_probs_SV[:, pieces.blank] = 0.0
    log_probs_SV[4, pieces.blank], log_probs_SV[4, pieces.labels.index("▁a")] = -heard, 0.0
    numbers = [pieces.labels.index(label) for label in labels]
    part = HeardPart(0.0, 0.8, TextHypothesis(numbers, pieces.decode(numbers).strip(), [], 0.0, ()))
    found = judged(part, np.zeros(800, np.float32), RATE, log_probs_SV, pieces, is_translation=False)
    assert found.is_invented is expected


@pytest.mark.parametrize(("more", "expected"), [("よい天気ですね", True), ("よ", False)])
def test_ctc_has_a_say_in_each_character_where_no_spaces_are_written(more, expected):
    def part_of(text, log_prob, doubt):
        hypothesis = TextHypothesis([], text, [float(np.exp(log_prob))], 0.0, ())
        return JudgedPart(HeardPart(0.0, 1.0, hypothesis), True, doubt, doubt, unsure=-log_prob)

    assert is_better([part_of(f"今日は{more}。", -6.0, 0.0)], part_of("今日は。", -0.5, 150.0)) is expected


SENTENCE = 15


class OfSentences(Forgetful):
    """Knows whole sentences alone: of one that is cut it writes a word that nobody said."""

    def __init__(self) -> None:
        super().__init__(lambda labels: labels)

    def _decoded(self, frames, prompts, decoder, hot_words, *, guard):
        texts = super()._decoded(frames, prompts, decoder, hot_words, guard=guard)
        return [self._said([label for some in _sentences(text.labels) for label in some]) for text in texts]


def _sentences(labels: list[int]) -> Iterator[list[int]]:
    for _, group in itertools.groupby(labels, lambda label: (label - len(SPECIAL)) // SENTENCE):
        some = list(group)
        yield some if len(some) == SENTENCE else [len(SPECIAL) + WORDS - 1]


@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_seam_within_a_sentence_is_mended_by_hearing_both_sides_as_one(batch_size):
    rows = [range(600), range(600, 900)]  # pauses are in the middle of sentences, too
    sounds = [speech(row, pauses=3) for row in rows]
    transcripts = OfSentences().transcribe(sounds, batch_size=batch_size, chunk_seconds=12)
    for transcript, row in zip(transcripts, rows, strict=True):
        assert transcript.text.split() == [f"w{number}" for number in row]
        starts = [word.start for word in transcript.words]
        assert starts == sorted(starts)
        assert transcript.flags == ("gap",)
