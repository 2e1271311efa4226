"""The decoder finds what frame-looping finds, natively and in numpy, in any batch; so does label-looping."""

import math
import pickle
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

import ctc
from benchmarks.label_looping import LabelLooping
from benchmarks.transducer_heads import calibrate, random_frames, random_heads, rates
from ctc.ngram import estimate
from fastconformer.hypotheses import DecodedLabels
from fastconformer.transducer import decoder, reference
from fastconformer.transducer._decoder_library import functions
from fastconformer.transducer.beam import TransducerBeamOptions
from fastconformer.transducer.decoder import Decoder, DecoderOptions
from fastconformer.transducer.weights import DecoderWeights
from tests.fastconformer import golden

DURATIONS = (0, 1, 2, 3, 4)
WITHOUT_NATIVE = "numpy"


@pytest.fixture(params=["native", pytest.param(WITHOUT_NATIVE, marks=pytest.mark.slow)])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == WITHOUT_NATIVE:
        monkeypatch.setattr(decoder, "functions", lambda: None)
        monkeypatch.setattr(decoder, "warn_slow", lambda *_, **__: None)
    elif functions() is None:
        pytest.skip("no compiler")
    return request.param


def random_problem(
    *, durations: tuple[int, ...] = (), layers: int = 1, seed: int = 0, **changes: object
) -> tuple[DecoderWeights, Tensor, Tensor]:
    """Weights that emit now and then, often several labels on a frame, and five utterances, one without frames."""
    weights = golden.random_weights(labels=40, durations=durations, layers=layers, seed=seed)
    weights = weights._replace(**changes)
    weights.output_bias[weights.blank] += 2
    encoded_BSC = 2 * torch.randn(5, 40, 12, generator=torch.Generator().manual_seed(seed))
    return weights, encoded_BSC, torch.tensor([40, 31, 0, 7, 1])


def assert_same(found: Sequence[DecodedLabels], expected: Sequence[DecodedLabels]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one[:3] == other[:3]
        assert one.confidence == pytest.approx(other.confidence, abs=1e-5)
        assert one.entropies == pytest.approx(other.entropies, abs=1e-4)


@pytest.mark.parametrize("name", golden.TRANSDUCERS)
@pytest.mark.parametrize(("max_symbols", "suffix"), [(10, ""), (2, "_ms2"), (1, "_ms1")])
def test_tokens_frames_and_durations_are_those_of_nemo(path: str, name: str, max_symbols: int, suffix: str):
    arrays, head = golden.arrays(name), "rnnt" if name == "rnnt" else "tdt"
    weights = golden.decoder_weights(name)
    found = Decoder(weights, DecoderOptions(max_symbols=max_symbols))(*golden.encoded(name))
    assert_same(found, reference.greedy(*golden.encoded(name), weights, max_symbols=max_symbols))
    if f"{head}_tokens{suffix}_0" not in arrays:
        pytest.skip(f"no reference output with max_symbols = {max_symbols}")
    for b, one in enumerate(found):
        assert one.tokens == arrays[f"{head}_tokens{suffix}_{b}"].tolist()
        assert one.frames == arrays[f"{head}_frames{suffix}_{b}"].tolist()
        if head == "tdt":
            assert one.durations == arrays[f"tdt_durations{suffix}_{b}"].tolist()


@pytest.mark.parametrize("max_symbols", [1, 2, 10])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("durations", [(), DURATIONS, (1, 3), (0, 2)])
def test_it_finds_what_frame_looping_finds(path: str, durations: tuple[int, ...], layers: int, max_symbols: int):
    problem = random_problem(durations=durations, layers=layers)
    weights, *frames = problem
    expected = reference.greedy(*frames, weights, max_symbols=max_symbols)
    assert sum(len(one.tokens) for one in expected) > 5
    assert_same(Decoder(weights, DecoderOptions(max_symbols=max_symbols))(*frames), expected)


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
def test_every_activation_of_the_joint_is_known(path: str, activation: str):
    weights, *frames = random_problem(activation=activation)
    assert_same(Decoder(weights)(*frames), reference.greedy(*frames, weights))


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("instruction_set", ["generic", "avx2", "avx512"])
@pytest.mark.parametrize(("slots", "window", "window_rows"), [(1, 1, 1), (2, 4, 4), (3, 3, 30), (32, 64, 64)])
@pytest.mark.parametrize("durations", [(), DURATIONS])
def test_how_it_works_does_not_change_what_it_finds(
    durations: tuple[int, ...], slots: int, window: int, window_rows: int, instruction_set: str
):
    weights, *frames = random_problem(durations=durations, layers=2)
    options = DecoderOptions(slots=slots, window=window, window_rows=window_rows, instruction_set=instruction_set)
    try:
        found = Decoder(weights, options)(*frames)
    except RuntimeError as error:
        pytest.skip(f"{instruction_set}: {error}")
    assert_same(found, reference.greedy(*frames, weights))
    usual = Decoder(weights, DecoderOptions(instruction_set=instruction_set))(*frames)
    assert found == usual, "bitwise, confidences too"


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("durations", [(), DURATIONS])
def test_an_utterance_is_decoded_bitwise_the_same_alone_and_in_any_batch(durations: tuple[int, ...]):
    weights, encoded_BSC, frames_B = random_problem(durations=durations)
    decode = Decoder(weights)
    together = decode(encoded_BSC, frames_B)
    reversed_order = decode(encoded_BSC.flip(0), frames_B.flip(0))
    assert reversed_order[::-1] == together
    for n, count in enumerate(frames_B.tolist()):
        assert decode(encoded_BSC[n : n + 1, :count], [count]) == together[n : n + 1]
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert decode(encoded_BSC, frames_B) == together
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("pieces", [[7] * 6, [1] * 40, [33, 0, 7]])
@pytest.mark.parametrize("durations", [(), DURATIONS])
def test_with_its_state_it_goes_on_where_it_was(path: str, durations: tuple[int, ...], pieces: list[int]):
    weights, encoded_BSC, frames_B = random_problem(durations=durations, layers=2)
    decode = Decoder(weights)
    state = decode.start(5)
    whole = decode(encoded_BSC, frames_B)
    tokens: list[list[int]] = [[] for _ in whole]
    frames: list[list[int]] = [[] for _ in whole]
    begin = 0
    for length in pieces:
        piece_BSC = encoded_BSC[:, begin : begin + length]
        counts_B = (frames_B - begin).clamp(0, piece_BSC.shape[1])
        for n, one in enumerate(decode(piece_BSC, counts_B, state=state)):
            tokens[n] += one.tokens
            frames[n] += [begin + frame for frame in one.frames]
        begin += length
    assert tokens == [one.tokens for one in whole]
    assert frames == [one.frames for one in whole]


def test_frames_behind_an_utterance_have_no_effect(path: str):
    weights, encoded_BSC, frames_B = random_problem()
    expected = Decoder(weights)(encoded_BSC, frames_B)
    encoded_BSC = encoded_BSC.clone()
    for n, count in enumerate(frames_B.tolist()):
        encoded_BSC[n, count:] = torch.nan
    assert Decoder(weights)(encoded_BSC, frames_B) == expected


@pytest.mark.usefixtures("native")
def test_weights_that_change_afterwards_have_no_effect():
    weights, *frames = random_problem()
    decode = Decoder(weights)
    expected = decode(*frames)
    for tensor in (weights.embedding, weights.output_weight, weights.output_bias):
        tensor.zero_()
    assert decode(*frames) == expected


@pytest.mark.usefixtures("native")
def test_nan_in_a_frame_names_the_utterance():
    weights, encoded_BSC, frames_B = random_problem()
    encoded_BSC[1, 30, 3] = torch.nan
    with pytest.raises(ValueError, match="encoded: utterance 1: its frames hold NaN"):
        Decoder(weights)(encoded_BSC, frames_B)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d, x, f: d(x[..., :5], f), r"encoded: expected \[utterance, frame, 12\], found shape \[5, 40, 5\]"),
        (lambda d, x, f: d(x, f[:2]), r"frames: expected one for each of 5 utterances, found \[2\]"),
        (lambda d, x, f: d(x, f, state=d.start(4)), "state: expected that of 5 utterances, found 4"),
        (lambda d, x, f: d(x, f + 1), "frames: utterance 0: expected at least 0 and at most 40, found 41"),
    ],
)
def test_arguments_that_do_not_fit_are_named(call: Callable[[Decoder, Tensor, Tensor], object], message: str):
    weights, encoded_BSC, frames_B = random_problem()
    with pytest.raises(ValueError, match=message):
        call(Decoder(weights), encoded_BSC, frames_B)


@pytest.mark.parametrize("durations", [(), DURATIONS])
@pytest.mark.parametrize("max_symbols", [1, 2, 10])
def test_label_looping_is_exact_too(durations: tuple[int, ...], max_symbols: int):
    weights, encoded_BSC, frames_B = random_problem(durations=durations, layers=2)
    expected = reference.greedy(encoded_BSC, frames_B, weights, max_symbols=max_symbols)
    found = LabelLooping(weights)(encoded_BSC, frames_B, max_symbols=max_symbols)
    assert [one[:3] for one in found] == [one[:3] for one in expected]


@pytest.mark.parametrize("has_durations", [False, True])
def test_the_heads_of_the_benchmark_emit_as_often_as_real_ones(has_durations: bool):
    weights = random_heads(has_durations=has_durations, encoder=32, hidden=32, joint=64, labels=100)
    frames = random_frames(weights, 16, 150)
    calibrate(weights, *frames)
    labels, shares = rates(weights, *frames)
    wanted = 7762 / 9088 if has_durations else 7762 / (7762 + 20875)
    assert labels == pytest.approx(wanted, rel=0.05)
    assert sum(shares) == pytest.approx(1 if has_durations else 0)


def scorers() -> list[ctc.Scorer | None]:
    """Over 40 labels: a model of labels, phrases, words of pieces, and nothing."""
    letters = [chr(ord("a") + i) for i in range(40)]
    model = estimate([letters[i : i + 9] for i in range(0, 30, 3)], order=3)
    pieces = ["\u2581" + x for x in "abcdefghijklmnopqrst"] + list("abcdefghijklmnopqrst")
    words = estimate([["ab", "cad"], ["bed", "ab", "fig"]], order=2)
    tokens = ctc.ScorerOptions(unit="token", weight=1.0)
    return [
        ctc.Scorer(letters, model=model, options=tokens),
        ctc.Scorer(letters, hot_words={"".join(letters[3:6]): 6.0, letters[9] + letters[2]: 4.0}),
        None,
        ctc.Scorer(pieces, model=words, hot_words={"cab": 5.0}),
        ctc.Scorer(letters, model=model, hot_words={letters[0]: 3.0}, options=tokens),
    ]


@pytest.mark.parametrize("internal_weight", [0.0, 0.4])
@pytest.mark.parametrize("durations", [(), DURATIONS])
def test_a_label_is_chosen_with_what_the_scorer_adds_once_it_is_known_that_it_is_one(
    path: str, durations: tuple[int, ...], internal_weight: float
):
    if path == WITHOUT_NATIVE and not (durations and internal_weight):
        pytest.skip("without native code it is the reference itself that decodes")
    weights, encoded_BSC, frames_B = random_problem(durations=durations, seed=4)
    decode = Decoder(weights, DecoderOptions(internal_weight=internal_weight))
    found = decode(encoded_BSC, frames_B, scorers=scorers())
    how = {"scorers": scorers(), "internal_weight": internal_weight}
    assert_same(found, reference.greedy(encoded_BSC, frames_B, weights, **how))
    plain = decode(encoded_BSC, frames_B)
    assert [one.tokens for one in found] != [one.tokens for one in plain]
    assert found[2] == plain[2]
    assert_same(decode(encoded_BSC[:1], frames_B[:1], scorers=scorers()[0]), found[:1])


@pytest.mark.parametrize("sharpness", [0.5, 8.0])
def test_of_many_labels_none_is_passed_over(sharpness: float):
    weights = golden.random_weights(labels=333, durations=DURATIONS, layers=1, seed=1)
    weights.output_weight.mul_(sharpness)
    labels = [f"<{i}>" for i in range(333)]
    drawn = torch.randint(333, (200, 20), generator=torch.Generator().manual_seed(0)).tolist()
    model = estimate([[labels[i] for i in row] for row in drawn], order=3)
    encoded_BSC, frames_B = torch.randn(2, 20, 12, generator=torch.Generator().manual_seed(2)), torch.full((2,), 20)
    plain = Decoder(weights)(encoded_BSC, frames_B)
    for weight, bonus, internal in (
        (0.0, 0.0, 0.0),
        (0.3, 0.0, 0.1),
        (2.0, 1.5, 0.0),
        (1.0, -3.0, 0.5),
        (0.0, 0.0, 9.0),
    ):
        own = ctc.ScorerOptions(unit="token", weight=weight, word_bonus=bonus)
        scorer = pickle.loads(pickle.dumps(ctc.Scorer(labels, model=model, options=own)))
        found = Decoder(weights, DecoderOptions(internal_weight=internal))(encoded_BSC, frames_B, scorers=scorer)
        how = {"scorers": [scorer] * 2, "internal_weight": internal}
        assert_same(found, reference.greedy(encoded_BSC, frames_B, weights, **how))
        if sharpness < 1 or weight == internal == 0:
            assert ([one.tokens for one in found] == [one.tokens for one in plain]) == (weight == internal == 0)


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("durations", [(), DURATIONS])
def test_the_internal_language_model_is_taken_off_bitwise_alike_in_every_batch(durations: tuple[int, ...]):
    weights, encoded_BSC, frames_B = random_problem(durations=durations, layers=2, seed=5)
    decode, each = Decoder(weights, DecoderOptions(internal_weight=0.5)), scorers()
    together = decode(encoded_BSC, frames_B, scorers=each)
    assert together != Decoder(weights)(encoded_BSC, frames_B, scorers=each)
    for n, count in enumerate(frames_B.tolist()):
        assert decode(encoded_BSC[n : n + 1, :count], [count], scorers=each[n]) == together[n : n + 1]
    one_by_one = DecoderOptions(slots=1, window=1, window_rows=1, internal_weight=0.5)
    assert Decoder(weights, one_by_one)(encoded_BSC, frames_B, scorers=each) == together


def test_options_are_numbers_in_their_bounds():
    for symbols, expected in ((0, "1 or more"), (10**9, "1000 at most")):
        for made in (DecoderOptions, TransducerBeamOptions):
            with pytest.raises(ValueError, match=f"max_symbols: expected {expected}, found {symbols}"):
                made(max_symbols=symbols)
    for wrong in (-0.1, math.nan, math.inf):
        with pytest.raises(ValueError, match=f"internal_weight: expected a number, at least 0, found {wrong}"):
            DecoderOptions(internal_weight=wrong)


def test_a_scorer_goes_on_with_the_state(path: str):
    weights, encoded_BSC, _ = random_problem(seed=4)
    state = Decoder(weights).start(1)
    decode = Decoder(weights, DecoderOptions(internal_weight=0.4))
    tokens = [
        token
        for part_BSC in encoded_BSC[:1].split(7, dim=1)
        for token in decode(part_BSC, [part_BSC.shape[1]], state=state, scorers=scorers()[0])[0].tokens
    ]
    assert tokens == decode(encoded_BSC[:1], [40], scorers=scorers()[0])[0].tokens
