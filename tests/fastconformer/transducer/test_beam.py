"""The beam search finds what all label sequences, each summed over all its alignments, say is best."""

import dataclasses
import functools
import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

import ctc
from ctc.ngram import estimate
from fastconformer.transducer import _beam_library, reference
from fastconformer.transducer import beam as beam_module
from fastconformer.transducer._beam_library import beam_functions
from fastconformer.transducer.beam import BeamCandidate, BeamSearch, TransducerBeamOptions
from fastconformer.transducer.decoder import Decoder
from fastconformer.transducer.weights import DecoderWeights, arrays_of
from tests.fastconformer import golden

LABELS = ("a", "b", "▁")
WIDE = TransducerBeamOptions(beam=400, n_best=20, drop=-math.inf)


@pytest.fixture(params=["native", "python"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "python":
        monkeypatch.setattr(beam_module, "beam_functions", lambda: None)
        monkeypatch.setattr(beam_module, "warn_slow", lambda *_, **__: None)
    elif beam_functions() is None:
        pytest.skip("no compiler")
    return request.param


def tiny(durations: tuple[int, ...], seed: int, frames: int = 3) -> tuple[DecoderWeights, Tensor]:
    """Weights of three labels that often emit, and frames."""
    weights = golden.random_weights(labels=len(LABELS), durations=durations, layers=2, width=6, seed=seed)
    return weights, torch.randn(1, frames, 6, generator=torch.Generator().manual_seed(seed))


class Alignments:
    """Log of the sum over all alignments of a sequence, by recursion over (frame, labels so far, those on it)."""

    def __init__(self, encoded_SC: Tensor, weights: DecoderWeights, max_symbols: int) -> None:
        weights = arrays_of(weights)
        self.encoded_SC, self.weights, self.max_symbols = encoded_SC.numpy(), weights, max_symbols
        self.states = {(): reference.predict(weights.blank, reference.start_state(weights), weights)}
        self.shares: dict[tuple[int, tuple[int, ...]], tuple[list[float], list[float]]] = {}

    def log_prob(self, labels: tuple[int, ...]) -> float:
        """The log-probability of the sequence; -inf where no alignment spells it."""
        self.labels = labels
        self.after = functools.cache(self._after)
        total = self.after(0, 0, 0)
        return math.log(total) if total > 0 else -math.inf

    def _at(self, frame: int, labels: tuple[int, ...]) -> tuple[list[float], list[float]]:
        if labels not in self.states:
            self.states[labels] = reference.predict(labels[-1], self.states[labels[:-1]][1], self.weights)
        if (frame, labels) not in self.shares:
            n_tokens = self.weights.blank + 1
            logits_W = reference.joint(self.encoded_SC[frame], self.states[labels][0], self.weights)
            logits_W = torch.from_numpy(logits_W).double()
            durations = logits_W[n_tokens:].softmax(0).tolist() if self.weights.durations else [1.0]
            self.shares[frame, labels] = logits_W[:n_tokens].softmax(0).tolist(), durations
        return self.shares[frame, labels]

    def _after(self, frame: int, done: int, symbols: int) -> float:
        if frame >= len(self.encoded_SC):
            return 1.0 if done == len(self.labels) else 0.0
        tokens, durations = self._at(frame, self.labels[:done])
        total = 0.0
        for duration, share in zip(self.weights.durations or (0,), durations, strict=True):
            total += tokens[self.weights.blank] * share * self.after(frame + max(1, duration), done, 0)
            if done < len(self.labels):
                step = max(1, duration) if symbols + 1 >= self.max_symbols else duration
                p = tokens[self.labels[done]] * share
                total += p * self.after(frame + step, done + 1, 0 if step else symbols + 1)
        return total


def brute_force(
    encoded_SC: Tensor,
    weights: DecoderWeights,
    *,
    longest: int,
    max_symbols: int,
    scorer: ctc.Scorer | None = None,
    internal_weight: float = 0.0,
) -> list[tuple[float, tuple[int, ...]]]:
    """(score, labels) of all sequences up to a length, best first."""
    found, alignments = [], Alignments(encoded_SC, weights, max_symbols)
    for length in range(longest + 1):
        for labels in itertools.product(range(weights.blank), repeat=length):
            external, state = 0.0, scorer.start() if scorer else None
            for label in labels:
                if scorer is not None and state is not None:
                    gain, state = scorer.extend(state, label)
                    external += gain
            if scorer is not None:
                external -= internal_weight * internal_log_prob(weights, labels)
            external += scorer.finish(state) if scorer is not None and state is not None else 0.0
            found.append((alignments.log_prob(labels) + external, labels))
    return sorted(found, reverse=True)


def internal_log_prob(weights: DecoderWeights, labels: tuple[int, ...]) -> float:
    """Of labels one after the other, each among labels alone, where every frame is zeros."""
    weights = arrays_of(weights)
    output_H, state = reference.predict(weights.blank, reference.start_state(weights), weights)
    total = 0.0
    for label in labels:
        logits_W = reference.joint(np.zeros(weights.encoder_weight.shape[1], np.float32), output_H, weights)
        total += float(torch.from_numpy(logits_W)[: weights.blank].double().log_softmax(0)[label])
        output_H, state = reference.predict(label, state, weights)
    return total


def scorer_of_labels() -> ctc.Scorer:
    model = estimate([list("ab▁a"), list("a▁ab"), list("bb▁a"), list("b▁▁a")], order=2)
    options = ctc.ScorerOptions(unit="token", boundary="|", weight=0.7, word_bonus=0.4)
    return ctc.Scorer(LABELS, model=model, options=options)


@functools.cache
def judged(durations: tuple[int, ...], seed: int, max_symbols: int, has_scorer: bool, internal: float):
    """Weights whose best sequences are short, frames, and what brute force finds, which is the same for both paths."""
    weights, encoded_BSC = tiny(durations, seed)
    weights.output_bias[weights.blank] += 3
    how = {"scorer": scorer_of_labels() if has_scorer else None, "internal_weight": internal}
    return weights, encoded_BSC, brute_force(encoded_BSC[0], weights, longest=4, max_symbols=max_symbols, **how)


@pytest.mark.parametrize("durations", [(), (0, 1, 2, 3, 4), (1, 3)])
@pytest.mark.parametrize("max_symbols", [1, 10])
@pytest.mark.parametrize(("has_scorer", "internal"), [(False, 0.0), (True, 0.0), (True, 0.5)])
def test_the_best_sequences_are_those_of_brute_force(
    path: str, durations, max_symbols: int, has_scorer: bool, internal: float
):
    scorer = scorer_of_labels() if has_scorer else None
    for seed in range(2):
        weights, encoded_BSC, expected = judged(durations, seed, max_symbols, has_scorer, internal)
        beam = 120 if path == "python" else WIDE.beam
        options = dataclasses.replace(WIDE, beam=beam, internal_weight=internal, max_symbols=max_symbols)
        (found,) = BeamSearch(weights, options)(encoded_BSC, [encoded_BSC.shape[1]], scorers=scorer)
        short = [candidate for candidate in found if len(candidate.decoded.tokens) <= 4]
        assert short[0] is found[0]
        assert len(short) >= 5
        for candidate, (score, labels) in zip(short[:8], expected, strict=False):
            assert tuple(candidate.decoded.tokens) == labels
            assert candidate.score == pytest.approx(score, abs=1e-5)
            assert candidate.score == pytest.approx(candidate.log_prob + candidate.external, abs=1e-12)


@pytest.mark.parametrize("max_symbols", [2, 3])
def test_sequences_that_cannot_reach_max_symbols_are_summed_exactly_and_all_of_them_to_1(path: str, max_symbols: int):
    """Where a sequence can, its labels on a frame are counted on its best alignment alone, so its share may be off."""
    is_off = []
    for seed in range(6 if path == "native" else 3):
        weights, encoded_BSC = tiny([(), (0, 1, 2), (0, 2)][seed % 3], seed, frames=2)
        options = TransducerBeamOptions(beam=1200, n_best=1200, drop=-math.inf, max_symbols=max_symbols)
        (found,) = BeamSearch(weights, options)(encoded_BSC, [2])
        exact = Alignments(encoded_BSC[0], weights, max_symbols)
        assert sum(math.exp(candidate.log_prob) for candidate in found) == pytest.approx(1, abs=1e-4)
        for candidate in found:
            labels = tuple(candidate.decoded.tokens)
            error = abs(math.exp(candidate.log_prob) - math.exp(exact.log_prob(labels)))
            if len(labels) < max_symbols:
                assert error < 1e-6
            is_off.append(error > 1e-6)
    assert any(is_off)  # as the page says; where it no longer is, the page has to say so


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"beam": 2**31}, "beam: expected 1048576 at most, found 2147483648"),
        (
            {"beam": 2**20, "memory": 1 << 28},
            r"beam: 1048576 sequences, 1 of them returned, take [\d,]+ bytes for 3 frames; ",
        ),
        (
            {"beam": 9000, "n_best": 9000, "memory": 1 << 28},
            r"beam: 9000 sequences, 9000 of them returned, take [\d,]+ bytes",
        ),
    ],
)
def test_a_beam_that_takes_too_much_is_refused_before_it_is_searched(change, told):
    weights, encoded_BSC = tiny((), seed=0)
    with pytest.raises(ValueError, match=told):
        BeamSearch(weights, TransducerBeamOptions(max_symbols=1000, **change))(encoded_BSC, [3])
    with pytest.raises(ValueError, match="^beam: expected 1048576 at most, found 2147483648"):
        ctc.BeamOptions(beam=2**31)


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("durations", [(), (0, 1, 2, 3, 4)])
@pytest.mark.parametrize("scored", [False, True])
def test_both_searches_find_the_same_with_narrow_beams(durations: tuple[int, ...], scored: bool):
    weights = golden.random_weights(labels=20, durations=durations, layers=1, seed=3)
    weights.output_bias[weights.blank] += 2
    encoded_BSC = 1.5 * torch.randn(4, 18, 12, generator=torch.Generator().manual_seed(1))
    frames = [18, 11, 0, 1]
    labels = [chr(97 + i) for i in range(20)]
    scorer = None
    if scored:
        model = estimate([list("abcdefgh"), list("bacabd"), list("hgfghij"), list("qrst")], order=3)
        scorer = ctc.Scorer(labels, model=model, hot_words={"cab": 3.0}, options=ctc.ScorerOptions(unit="token"))
    search = BeamSearch(weights, TransducerBeamOptions(beam=5, n_best=3, drop=-12, internal_weight=0.4, max_symbols=3))
    found = search(encoded_BSC, frames, scorers=scorer)
    for b, n in enumerate(frames):
        how = {"beam": 5, "drop": -12, "max_symbols": 3, "scorer": scorer, "internal_weight": 0.4}
        expected = reference.beam_search(encoded_BSC[b, :n], weights, **how)
        for one, other in zip(found[b], expected, strict=False):
            assert one.decoded[:3] == other.decoded[:3]
            assert one.decoded.confidence == pytest.approx(other.decoded.confidence, abs=1e-5)
            assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)
            assert one.external == pytest.approx(other.external, abs=1e-4)
        assert len(found[b]) == min(3, len(expected))


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("name", golden.TRANSDUCERS)
def test_an_utterance_gives_the_same_alone_in_any_batch_and_on_any_number_of_threads(name: str):
    weights, (encoded_BSC, frames_B) = golden.decoder_weights(name), golden.encoded(name)
    search = BeamSearch(weights, TransducerBeamOptions(beam=4, n_best=4))
    together = search(encoded_BSC, frames_B)
    torch.set_num_threads(2)
    try:
        assert search(encoded_BSC, frames_B) == together
    finally:
        torch.set_num_threads(1)
    for b, own in enumerate(together):
        assert search(encoded_BSC[b : b + 1, : int(frames_B[b])], frames_B[b : b + 1]) == [own]


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("durations", [(), (0, 1, 2, 3, 4)])
def test_a_search_that_runs_out_of_room_gets_more_and_finds_the_same(durations: tuple[int, ...], monkeypatch):
    weights = golden.random_weights(labels=8, durations=durations, width=6, seed=2)
    weights.output_bias[weights.blank] -= 100
    if durations:
        weights.output_bias[weights.blank + 1] += 100  # jumps of 0
    encoded_BSC = torch.randn(3, 400, 6, generator=torch.Generator().manual_seed(0))
    frames_B, options = [400, 12, 300], TransducerBeamOptions(beam=12, n_best=5, drop=-math.inf, max_symbols=12)
    expected = BeamSearch(weights, options)(encoded_BSC, frames_B)
    calls = []
    searched = _beam_library.search_once
    monkeypatch.setattr(_beam_library, "search_once", lambda *given: calls.append(given) or searched(*given))
    monkeypatch.setattr(_beam_library, "NODES", 1)
    monkeypatch.setattr(_beam_library, "NODES_EACH", 3)
    monkeypatch.setattr(_beam_library, "GROWTH", 3)
    assert BeamSearch(weights, options)(encoded_BSC, frames_B) == expected
    assert len(expected[0][0].decoded.tokens) > 3000
    assert len(calls) > 1
    one_byte = BeamSearch(weights, dataclasses.replace(options, memory=1))
    with pytest.raises(
        ValueError, match="beam: 12 sequences, 5 of them returned, take .* bytes for 400 frames; expected at most the 1"
    ):
        one_byte(encoded_BSC, frames_B)


def test_what_does_not_fit_is_an_error_and_nan_costs_its_own_utterance(path: str):
    weights, encoded_BSC = tiny((), seed=0)
    search = BeamSearch(weights)
    with pytest.raises(ValueError, match=r"encoded: expected \[utterance, frame, 6\], found shape \[3, 6\]"):
        search(encoded_BSC[0], [3])
    with pytest.raises(ValueError, match="frames: utterance 0: expected at least 0 and at most 3, found 4"):
        search(encoded_BSC, [4])
    with pytest.raises(ValueError, match=r"frames: expected one for each of 1 utterances, found \[2\]"):
        search(encoded_BSC, [3, 3])
    with pytest.raises(ValueError, match="scorers: expected one for each of 1 utterances, found 2"):
        search(encoded_BSC, [3], scorers=[None, None])
    with pytest.raises(ValueError, match="scorers: expected 3 labels, found 2"):
        search(encoded_BSC, [3], scorers=ctc.Scorer(["a", "b"], hot_words={"a": 1.0}))
    encoded_BSC[0, 1] = math.nan
    with pytest.raises(ValueError, match="encoded: (utterance 0: )?its frames hold NaN"):
        search(encoded_BSC, [3])
    with pytest.raises(ValueError, match="n_best: expected between 1 and the beam of 4, found 5"):
        TransducerBeamOptions(n_best=5)
    with pytest.raises(ValueError, match="drop: expected at most 0, found 1"):
        TransducerBeamOptions(drop=1)
    with pytest.raises(ValueError, match="internal_weight: expected a number, at least 0, found -1"):
        TransducerBeamOptions(internal_weight=-1)
    with pytest.raises(ValueError, match="memory: expected at least 1 byte, found 0"):
        TransducerBeamOptions(memory=0)


def in_pieces(
    search: BeamSearch, encoded_SC: Tensor, sizes: list[int], *, scorer: ctc.Scorer | None = None
) -> tuple[list[int], list[BeamCandidate]]:
    """What is settled before the end, label by label, and all candidates at the end, of frames that come in pieces."""
    state, settled, at, i = search.start(1), list[int](), 0, 0
    before = list[list]([[] for _ in range(5)])
    while True:
        size = sizes[i % len(sizes)]
        is_over = at + size >= len(encoded_SC)
        piece_SC = encoded_SC[at : at + size]
        (found,) = search(piece_SC[None], [len(piece_SC)], scorers=scorer, state=state, is_over=is_over)
        at, i = at + size, i + 1
        parts = [list(part or []) for part in found[0].decoded]
        if is_over:
            whole = [
                candidate._replace(
                    decoded=type(candidate.decoded)(
                        *(
                            None if own is None else [*old, *own]
                            for old, own in zip(before, candidate.decoded, strict=True)
                        )
                    ),
                    settled=0,
                )
                for candidate in found
            ]
            return settled, whole
        count = found[0].settled
        assert all(candidate.settled == count for candidate in found)
        assert all(candidate.decoded.tokens[:count] == parts[0][:count] for candidate in found)
        settled += parts[0][:count]
        before = [[*old, *own[:count]] for old, own in zip(before, parts, strict=True)]


def unsettled(candidates: list[BeamCandidate]) -> list[BeamCandidate]:
    return [candidate._replace(settled=0) for candidate in candidates]


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("durations", [(), (0, 1, 2, 3, 4)])
@pytest.mark.parametrize(("scored", "internal"), [(False, 0.0), (True, 0.0), (True, 0.1)])
@pytest.mark.parametrize("room", [0, 11])
def test_pieces_of_any_size_give_what_all_frames_at_once_do(
    durations: tuple[int, ...], scored: bool, internal: float, room: int
):
    weights = golden.random_weights(labels=20, durations=durations, layers=2, seed=3)
    weights.output_weight.mul_(3)  # sure of some labels, so that sequences soon have their beginning in common
    weights.output_bias[weights.blank] += 2
    draw = torch.Generator().manual_seed(1)
    encoded_SC = 1.5 * torch.randn(150, 12, generator=draw)
    scorer = None
    if scored:
        model = estimate([list("abcdefgh"), list("bacabd"), list("hgfghij"), list("qrst")], order=3)
        labels = [chr(97 + i) for i in range(20)]
        scorer = ctc.Scorer(labels, model=model, hot_words={"cab": 3.0}, options=ctc.ScorerOptions(unit="token"))
    search = BeamSearch(
        weights, TransducerBeamOptions(beam=5, n_best=3, room=room, internal_weight=internal, max_symbols=3)
    )
    state = search.start(1) if room else None  # without one there is always room
    (expected,) = search(encoded_SC[None], [len(encoded_SC)], scorers=scorer, state=state)
    assert len(expected[0].decoded.tokens) > 30
    for sizes in ([1], [7], [150], [1, 149], [0, 40, 1], torch.randint(1, 20, (9,), generator=draw).tolist()):
        settled, found = in_pieces(search, encoded_SC, sizes, scorer=scorer)
        assert found == unsettled(expected)
        assert settled == expected[0].decoded.tokens[: len(settled)]
        if sizes == [1]:
            assert len(settled) > 20


@pytest.mark.usefixtures("native")
def test_what_was_in_the_memory_before_does_not_matter(monkeypatch: pytest.MonkeyPatch):
    weights = golden.random_weights(labels=20, layers=1, seed=3)
    encoded_BSC = 1.5 * torch.randn(2, 20, 12, generator=torch.Generator().manual_seed(1))
    own = ctc.ScorerOptions(unit="token")
    scorer = ctc.Scorer([chr(97 + i) for i in range(20)], hot_words={"cab": 3.0}, options=own)
    search = BeamSearch(weights, TransducerBeamOptions(beam=5, n_best=5, internal_weight=0.1, max_symbols=3))
    found, draw, empty = [], np.random.default_rng(0), np.empty
    for values in ([0.0], *[[math.nan, -1e30]] * 5):

        def used(*given, values=values):
            memory = empty(*given)
            if memory.dtype == np.uint8:
                floats = memory[: memory.size // 4 * 4].view(np.float32)
                floats[:] = draw.choice(np.array(values, np.float32), floats.size)
            return memory

        monkeypatch.setattr(np, "empty", used)
        found.append(search(encoded_BSC, [20, 11], scorers=scorer))
    assert all(one == found[0] for one in found)


@pytest.mark.usefixtures("native")
def test_many_utterances_in_pieces_give_what_each_gives_alone():
    weights = golden.random_weights(labels=20, durations=(0, 1, 2), layers=1, seed=4)
    encoded_BSC = torch.randn(5, 40, 12, generator=torch.Generator().manual_seed(2))
    search = BeamSearch(weights, TransducerBeamOptions(beam=4, n_best=2))
    state, tokens = search.start(5), [list[int]() for _ in range(5)]
    for at in range(0, 40, 8):
        counts = [min(8, max(0, n - at)) for n in (40, 33, 0, 8, 1)]
        for own, (best, *_) in zip(
            tokens, search(encoded_BSC[:, at : at + 8], counts, state=state, is_over=False), strict=True
        ):
            own += best.decoded.tokens[: best.settled]
    ends = search(encoded_BSC[:, :0], [0] * 5, state=state)
    alone = [search(encoded_BSC[b : b + 1, :n], [n])[0] for b, n in enumerate((40, 33, 0, 8, 1))]
    for own, found, expected in zip(tokens, ends, alone, strict=True):
        assert [own + one.decoded.tokens for one in found] == [one.decoded.tokens for one in expected]
        assert [one.score for one in found] == [one.score for one in expected]


@pytest.mark.usefixtures("native")
def test_a_state_has_constant_size_and_its_copy_is_one_for_frames_that_may_change():
    weights = golden.random_weights(labels=8, durations=(0, 1, 2), width=6, seed=2)
    encoded_SC = torch.randn(3000, 6, generator=torch.Generator().manual_seed(0))
    search = BeamSearch(weights, TransducerBeamOptions(beam=3))
    state = search.start(1)
    (size,) = [part.nbytes for part in state.utterances]
    open_labels = 0
    for at in range(0, 3000, 25):
        ahead = state.copy()
        search(encoded_SC[None, at : at + 25], [25], state=ahead)
        ((best,),) = search(encoded_SC[None, at : at + 25], [25], state=state, is_over=False)
        open_labels = max(open_labels, len(best.decoded.tokens) - best.settled)
    assert [part.nbytes for part in state.utterances] == [size]
    assert size < 200_000
    assert open_labels < 400
    ((end,),) = search(encoded_SC[None, :0], [0], state=state)
    ((whole,),) = search(encoded_SC[None], [3000])
    assert end.score == whole.score
    assert whole.decoded.tokens[-len(end.decoded.tokens) :] == end.decoded.tokens
    assert whole.decoded.frames[-1] == end.decoded.frames[-1]


def test_pieces_need_the_native_library_and_states_of_all_utterances(path: str):
    weights, encoded_BSC = tiny((), seed=0)
    search = BeamSearch(weights)
    with pytest.raises(ValueError, match="is_over: expected True without a state to go on from"):
        search(encoded_BSC, [3], is_over=False)
    if path == "python":
        with pytest.raises(ValueError, match="state: frames that come in pieces need the native library"):
            search.start(1)
        return
    with pytest.raises(ValueError, match="state: expected that of 1 utterances, found 2"):
        search(encoded_BSC, [3], state=search.start(2))
    with pytest.raises(ValueError, match="room: expected more than twice the beam of 4, or 0, found 8"):
        TransducerBeamOptions(room=8)
    far = golden.random_weights(labels=3, durations=(0, 5000), width=6)
    with pytest.raises(ValueError, match="durations: expected at most 4096 frames, found 5000"):
        BeamSearch(far)


@pytest.mark.parametrize("durations", [(), (0, 1, 2, 3, 4)])
def test_a_network_that_never_says_blank_gives_all_its_labels(durations):
    frames, max_symbols = 400, 10
    weights = golden.random_weights(labels=len(LABELS), durations=durations, layers=1, width=6, seed=1)
    weights.output_bias[weights.blank] -= 100
    if durations:
        weights.output_bias[weights.blank + 1] += 100  # jumps of 0
    encoded_BSC = torch.randn(1, frames, 6, generator=torch.Generator().manual_seed(0))
    (expected,) = Decoder(weights)(encoded_BSC, [frames])
    assert len(expected.tokens) == frames * max_symbols
    for beam in (1, 3):
        ((found,),) = BeamSearch(weights, TransducerBeamOptions(beam=beam))(encoded_BSC, [frames])
        assert len(found.decoded.tokens) == len(expected.tokens)
        assert found.decoded.frames == expected.frames
        assert beam > 1 or found.decoded.tokens == expected.tokens
