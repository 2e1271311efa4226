"""Streams: what is recognised of audio that comes in pieces is what is recognised of all of it."""

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml

import ctc
import fastconformer
from common.audio.waveform import AudioError
from common.config import ConfigError
from common.devices.precision import DTYPES
from common.features import NEMO
from common.recognition.decoding import DecodingOptions
from common.recognition.sources.recordings import Recording
from common.runs.checkpoint import CheckpointError
from common.text.pieces import Pieces
from ctc.ngram import estimate
from fastconformer.hypotheses import PieceHypothesis
from fastconformer.network.streaming import UNKNOWN, EncoderStreams, lookahead_of
from fastconformer.recognizer import Recognizer
from tests.data import shared
from tests.fastconformer import tiny
from tests.fastconformer.checkpoints import archives
from tests.timing import assert_takes_less, until

CAUSAL = {"causal_subsampling": True, "causal_convolution": True}
LOOKAHEADS = (0, 1, 6, 13)
PIECES = Pieces(("▁a", "▁b", "▁c", "d", "e", "f", "g", "h", ",", "▁i", "▁j", "k"))


def recognizer(*, normalize="none", seed=0, head="transducer", precision="fp32", **encoder) -> Recognizer:
    """A random model that says something: labels and blanks."""
    model = tiny.model(tiny.config(**CAUSAL, **encoder), seed=seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=1.5 * parameter[0].numel() ** -0.5)
    features = replace(NEMO, mel_bins=tiny.MEL_BINS, normalize=normalize)
    return Recognizer(model, features, PIECES, head=head, precision=precision)


def streaming(lookahead: int, **encoder) -> Recognizer:
    return recognizer(
        **{"attention": "chunked", "left_frames": 28, "right_frames": lookahead, "norm": "layer"} | encoder
    )


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    """Seven seconds of a real recording, of a length that is no multiple of anything."""
    import soundfile

    path = sorted(shared("data/librispeech-mini").rglob("*.flac"))[0]
    return soundfile.read(path, dtype="float32")[0][: 16_000 * 7 + 123]


def offline(asr: Recognizer, samples_N: np.ndarray) -> list:
    encoded_BSC, frames_B = asr.encode(*asr.features(torch.from_numpy(samples_N)[None], torch.tensor([len(samples_N)])))
    (hypothesis,) = asr.decode(encoded_BSC, frames_B)
    return asr.words(hypothesis, Recording("", samples_N, len(samples_N) / 16_000))


def fed(session, samples_N: np.ndarray, sizes) -> list:
    """The words of a stream that is fed pieces of these sizes in turn."""
    words, at, i = [], 0, 0
    while at < len(samples_N):
        size = sizes[i % len(sizes)]
        words += session.feed(samples_N[at : at + size]).words
        at, i = at + size, i + 1
    return words + session.finish().words


def plain(words) -> list:
    return [word[:3] for word in words]


def fed_together(pool, parts, *, begins, ways) -> list:
    """The words of each part as a stream, each of which comes once the first has been fed so many samples."""
    sessions: dict = {}
    words: list = [[] for _ in parts]
    for at in range(0, max(map(len, parts)) + max(begins), 7_000):
        sessions |= {i: pool.session(**ways[i]) for i, begin in enumerate(begins) if begin == at}
        feeds = [(session, parts[i][at - begins[i] :][:7_000]) for i, session in sessions.items()]
        for i, update in zip(sessions, pool.feed(feeds), strict=True):
            words[i] += update.words
    for i, update in zip(sessions, pool.finish(list(sessions.values())), strict=True):
        words[i] += update.words
    return [plain(own) for own in words]


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_stream_takes_half_the_digits_inside_of_its_modules_too(speech, precision):
    asr = streaming(1, precision=precision)
    assert fed(asr.session(), speech[:32_000], [5_000])
    tails, pasts = EncoderStreams(asr.model.encoder, 1, tiny.MEL_BINS).empty(1)
    assert {tail.dtype for tail in tails} == {torch.float32}
    assert {past.keys_values_BR2HD.dtype for past in pasts} == {DTYPES[precision]}


@pytest.mark.parametrize(
    ("lookahead", "encoder"),
    [
        *((lookahead, {}) for lookahead in LOOKAHEADS),
        (2, {"subsampling": 4, "norm": "batch", "left_frames": 7}),
        (0, {"attention": "regular", "subsampling": 2, "left_frames": 5}),
        (3, {"left_frames": 0}),
    ],
)
@pytest.mark.parametrize("frames", [1, 2, 8, 9, 56, 57, 250])
@torch.inference_mode()
def test_frames_of_a_stream_are_those_of_the_whole_recording(lookahead, encoder, frames):
    encoder = streaming(lookahead, **encoder).model.encoder
    features_BFT, frames_B = tiny.features(frames, seed=frames)
    expected, expected_B = encoder(features_BFT, frames_B)
    streams = EncoderStreams(encoder, lookahead, tiny.MEL_BINS)
    streams.resize(3)
    before = encoder.cfg.subsampling - 1
    padded_BFT = torch.nn.functional.pad(features_BFT, (before, streams.feature_frames), value=7.0)  # rubbish outside
    found = []
    for done in range(0, int(expected_B), streams.frames):
        start = done * encoder.cfg.subsampling
        part_BFT = padded_BFT[:, :, start : start + streams.feature_frames]
        is_last = done + streams.frames >= int(expected_B)
        found.append(streams.step(part_BFT, [2], [done], [frames if is_last else UNKNOWN]))
    found_BSC = torch.cat(found, 1)[:, : int(expected_B)]
    torch.testing.assert_close(found_BSC, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("lookahead", LOOKAHEADS)
def test_tokens_are_those_of_the_whole_recording_for_feeds_of_any_size(speech, lookahead):
    asr = streaming(lookahead)
    expected = offline(asr, speech)
    assert len(expected) > 5
    for sizes in ([len(speech)], [160], [1, 4_000, 77], [20_000, 0, 3]):
        found = fed(asr.session(lookahead=lookahead), speech, sizes)
        assert plain(found) == plain(expected)
        assert [w.confidence for w in found] == pytest.approx([w.confidence for w in expected], abs=1e-3)


@pytest.mark.parametrize("lookahead", [1, 6])
def test_ctc_merges_a_piece_that_goes_on_in_the_next_step(speech, lookahead):
    asr = streaming(lookahead, head="ctc")
    assert plain(fed(asr.session(), speech, [1_000])) == plain(offline(asr, speech))


def test_another_lookahead_than_the_first_is_the_mask_of_a_model_with_it(speech):
    asr, other = streaming(13), streaming(1)
    assert plain(fed(asr.session(lookahead=1), speech, [5_000])) == plain(offline(other, speech))


def test_a_stream_keeps_as_much_after_an_hour_as_after_a_second(speech):
    asr = streaming(1)
    session = asr.session()
    sizes = set()
    for _ in range(4):
        session.feed(speech).result()
        tensors = sum(t.nbytes for t in session.pool.frames.streams.tensors())
        assert session.pool.frames.streams.slots == 1
        assert len(session.samples_N) < 2 * session.pool.frames.streams.feature_frames * 160 + 1_000
        assert len(session.heard.tokens) < 60
        sizes.add((tensors, session.pool.bytes_per_stream))
    assert len(sizes) == 1


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_many_sessions_share_a_batch_and_find_what_each_finds_alone(speech, precision):
    asr = streaming(1, precision=precision)
    parts = [speech[start : start + n] for start, n in ((0, 60_000), (9_000, 33_333), (30_000, 81_000), (0, 500))]
    expected = [plain(fed(asr.session(), part, [3_000])) for part in parts]
    pool = asr.pool()
    ways = [dict[str, list[str]]()] * 4
    assert fed_together(pool, parts, begins=(0, 0, 0, 14_000), ways=ways) == expected
    again = [pool.session() for _ in parts]  # in the slots of those that are over
    assert [plain(fed(session, part, [50_000])) for session, part in zip(again, parts, strict=True)] == expected
    assert pool.frames.streams.slots == 4


@pytest.mark.parametrize("head", ["transducer", "ctc"])
def test_other_models_stream_by_chunks_and_find_what_chunks_of_a_recording_give(speech, head):
    asr = recognizer(normalize="per_feature", head=head)
    assert lookahead_of(asr.config.encoder, asr.feature_config) is None
    (expected,) = asr.transcribe(
        [speech], whole_seconds=0, chunk_seconds=1.04, left_seconds=2.0, right_seconds=0.48, batch_size=1
    )
    for sizes in ([len(speech)], [5_000]):
        session = asr.session(chunk_seconds=1.04, left_seconds=2.0, lookahead=6)
        assert plain(fed(session, speech, sizes)) == plain(expected.words)
        assert len(session.samples_N) < 16_000 * 4


def test_what_may_still_change_is_the_word_under_way_and_the_lookahead(speech):
    asr = recognizer(normalize="per_feature")
    session = asr.session(chunk_seconds=1.0)
    updates = [session.feed(speech[at : at + 16_000]).result() for at in range(0, len(speech), 16_000)]
    last = session.finish()
    assert any(update.pending for update in updates)
    assert not last.pending
    assert all(update.text == " ".join(word.text for word in update.words) for update in updates)
    starts = [word.start for update in [*updates, last] for word in update.words]
    assert starts == sorted(starts)


def language(asr: Recognizer, tmp_path) -> DecodingOptions:
    """A model of pieces that changes what these random models say."""
    draw, labels = np.random.default_rng(0), PIECES.labels[: len(PIECES) - 1]
    texts = [[labels[i] for i in draw.integers(len(labels), size=12)] for _ in range(40)]
    ctc.write_arpa(tmp_path / "pieces.arpa", estimate(texts, order=3))
    return DecodingOptions(language_model=tmp_path / "pieces.arpa", weight=1.0, hot_word_boost=8.0)


@pytest.mark.parametrize(("head", "beam"), [("transducer", 0), ("transducer", 3), ("ctc", 5)])
@pytest.mark.parametrize("is_streaming", [True, False])
def test_a_stream_knows_a_language_model_and_words_of_its_own(speech, tmp_path, is_streaming, head, beam):
    asr = streaming(1, head=head) if is_streaming else recognizer(normalize="per_feature", head=head)
    how = {} if is_streaming else {"chunk_seconds": 1.04, "left_seconds": 2.0, "lookahead": 6}
    long = {"whole_seconds": 60 if is_streaming else 0, "chunk_seconds": 1.04, "left_seconds": 2.0}
    decoder = asr.decoder(replace(language(asr, tmp_path), beam=beam))
    each: list[list[str]] = [[], ["ab"], ["cadab", "b"]]
    expected = [
        asr.transcribe([speech], batch_size=1, right_seconds=0.48, decoder=decoder, hot_words=[words], **long)[0].words
        for words in each
    ]
    assert len({tuple(plain(words)) for words in [*expected, fed(asr.session(**how), speech, [9_000])]}) == 4
    for words, own in zip(each, expected, strict=True):
        assert plain(fed(asr.session(decoder=decoder, hot_words=words, **how), speech, [5_000, 1])) == plain(own)
    ways = [{"hot_words": words} for words in each]
    found = fed_together(asr.pool(decoder=decoder, **how), [speech] * 3, begins=(0, 0, 28_000), ways=ways)
    assert found == [plain(words) for words in expected]


@pytest.mark.parametrize("head", ["transducer", "ctc"])
@pytest.mark.parametrize("is_streaming", [True, False])
def test_a_beam_gives_words_once_and_shows_what_is_still_open(speech, is_streaming, head):
    asr = streaming(1, head=head) if is_streaming else recognizer(normalize="per_feature", head=head)
    with torch.no_grad():
        for parameter in asr.model.ctc.parameters():
            parameter.mul_(8)  # as sure as a trained one: sequences that differ are not kept for long
    how = {} if is_streaming else {"chunk_seconds": 1.04, "left_seconds": 2.0, "lookahead": 6}
    long = {"whole_seconds": 60 if is_streaming else 0, "chunk_seconds": 1.04, "left_seconds": 2.0}
    decoder = asr.decoder(DecodingOptions(beam=4))
    (expected,) = asr.transcribe([speech], batch_size=1, right_seconds=0.48, decoder=decoder, **long)
    for sizes in ([len(speech)], [400], [3_000, 17, 8_000]):
        assert plain(fed(asr.session(decoder=decoder, **how), speech, sizes)) == plain(expected.words)
    session = asr.session(decoder=decoder, **how)
    updates = [session.feed(speech[at : at + 1_600]) for at in range(0, len(speech), 1_600)]
    assert any(update.words for update in updates)
    assert any(len(update.pending.split()) > 1 for update in updates)
    assert not session.finish().pending
    assert asr.pool(decoder=decoder, **how).bytes_per_stream < 500_000


def test_a_search_of_a_stream_without_the_native_library_is_refused_by_its_name(monkeypatch):
    monkeypatch.setattr("ctc.decoding.stream._native.load", lambda: None)
    asr = streaming(1)
    with pytest.raises(ValueError, match="a search also needs the native library"):
        asr.session(decoder=asr.decoder(DecodingOptions(beam=4), head="ctc"))


def test_what_a_stream_cannot_be_decoded_with_is_named():
    asr = streaming(1)
    message = "decoder: streams have one transcript: expected n_best = 1, and no thorough search"
    with pytest.raises(ValueError, match=message):
        asr.session(decoder=asr.decoder(DecodingOptions(n_best=2)))
    with pytest.raises(ValueError, match=message):
        asr.session(decoder=asr.decoder(DecodingOptions(beam=4, thorough=True), head="ctc"))
    with pytest.raises(ValueError, match="hot_words: expected a pool with a decoder"):
        asr.pool().session(hot_words=["a"])
    with pytest.raises(ConfigError, match="word 'xyz'"):
        asr.session(hot_words=["xyz"])


def test_streams_of_nothing_are_empty_and_over():
    for asr in (streaming(1), recognizer(normalize="per_feature")):
        session = asr.session()
        assert session.finish().result() == ([], "", "", "", "")
        with pytest.raises(ValueError, match="this session is over"):
            session.feed(np.zeros(10, np.float32))
        with pytest.raises(ValueError, match="this session is over"):
            session.finish()


def test_what_is_wrong_with_a_feed_is_an_error_of_its_own_stream(speech):
    pool = streaming(1).pool()
    first, ended, spoiled = pool.session(), pool.session(), pool.session()
    ended.finish()
    bad_N = np.full(9, np.nan, np.float32)
    words: list = []
    for start in range(0, len(speech), 9_000):
        fine, over, refused = pool.feed([(first, speech[start : start + 9_000]), (ended, speech), (spoiled, bad_N)])
        with pytest.raises(ValueError, match="this session is over, or of another pool"):
            over.result()
        with pytest.raises(AudioError, match="expected finite"):
            refused.result()
        words += fine.words
    last, again = pool.finish([first, first])
    assert plain(words + last.words) == plain(offline(pool.asr, speech))
    with pytest.raises(ValueError, match="this session is over, or of another pool"):
        again.result()
    with pytest.raises(ValueError, match="this session is over, or of another pool"):
        pool.asr.pool().feed([(spoiled, speech)])[0].result()
    assert plain(fed(spoiled, speech, [9_000])) == plain(offline(pool.asr, speech))


@pytest.mark.parametrize("is_streaming", [True, False])
def test_streams_of_many_threads_find_what_each_finds_alone(speech, is_streaming):
    asr = streaming(1) if is_streaming else recognizer(normalize="per_feature")
    parts = [speech[1_000 * i : 40_000 + 2_500 * i] for i in range(8)]
    expected = [plain(fed(asr.pool().session(), part, [9_000])) for part in parts]
    pool = asr.pool(delay_seconds=0.002)

    def several(first: int) -> list:
        found = []
        for i in range(first, first + 3):  # each takes a place that another has left, while others are at work
            with pool.session() as session:
                found.append(plain(fed(session, parts[i % 8], [1_700 + 600 * first])))
            pool.session().feed(speech[:30_000])  # and leaves one behind
        return found

    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(several, range(6)))
    assert found == [[expected[i % 8] for i in range(first, first + 3)] for first in range(6)]


def test_a_feed_of_an_hour_lets_others_by_and_can_be_awaited(speech):
    pool = streaming(0).pool()
    long, short = pool.session(), pool.session()
    whole = long.feed(np.tile(speech, 60))

    async def heard() -> list:
        words: list = []
        for at in range(0, len(speech), 8_000):
            words += (await short.feed(speech[at : at + 8_000])).words
        return [*words, *(await short.finish()).words]

    assert plain(asyncio.run(heard())) == plain(offline(pool.asr, speech))
    assert not whole.done()
    long.close()  # nobody wants the rest
    with pytest.raises(ValueError, match="this session is over"):
        whole.result()
    assert long.done < 60 * len(speech) / 16_000 / pool.asr.seconds_per_frame / 2


def test_what_streams_hold_is_free_however_they_end(speech):
    asr = streaming(0)
    pool = asr.pool(idle_seconds=3600.0)
    streams = pool.frames.streams
    kept = [pool.session() for _ in range(40)]
    for coming in pool.feed([(session, speech[:4_000]) for session in kept]):
        coming.result()
    assert streams.slots >= 40
    for session in kept[:10]:
        session.close()
        session.close()
    with kept[10] as ended:
        ended.feed(speech)
    with pytest.raises(ValueError, match="this session is over"):
        ended.feed(speech)
    del ended, session
    last = kept[-1]
    del kept
    gc.collect()
    for _ in range(12):  # the others are gone; this one is used
        assert not last.feed(speech[:800]).result().error
    assert streams.slots <= 8 or last.slot >= 8
    held, pool.idle_seconds = pool.held, 0.05
    assert len(held) == 1
    last.feed(speech[:800]).result()
    until(lambda: not held)
    with pytest.raises(ValueError, match=r"closed: nothing was fed for 0\.05 s"):
        last.feed(speech)
    assert pool.held == {}
    assert streams.slots <= 8
    threads = threading.active_count()
    del pool, last, streams
    gc.collect()
    until(lambda: threading.active_count() < threads)


def said(asr: Recognizer, script, seconds: float, feed=1_600) -> tuple[list, list, int]:
    """Updates of a stream in which each step of the network says what the script has for it; the transcript's words,
    and the most pieces that it held."""
    pool = asr.pool()
    steps = iter(script)

    def decoded(encoded_BSC, first, end, progress):
        tokens = next(steps, []) if end[0] > first[0] else []
        at, progress[0].frames = progress[0].frames, progress[0].frames + end[0] - first[0]
        n = len(tokens)
        return [PieceHypothesis(list(tokens), [at] * n, [1] * n, "", [0.9] * n, [0.9] * n)]

    pool.decoded = decoded
    session, updates, most = pool.session(), [], 0
    for _ in range(round(seconds * 16_000 / feed)):
        updates.append(session.feed(NOISE[:feed]).result())
        most = max(most, len(session.heard.tokens))
    return [*updates, session.finish().result()], session, most


NOISE = (0.1 * np.random.default_rng(0).standard_normal(16_000)).astype(np.float32)
WRITTEN = Pieces(("▁a", "b", "你", "好", "▁世", "<0xE4>", "<0xBD>", "<0xA0>", "，", "ส", "ั", "▁", "."))


@pytest.mark.parametrize(
    ("script", "words", "text"),
    [
        ([[2], [3], [8], [4], [2]] * 8, ["你", "好，", "世", "你"] * 8, "你好， 世你" * 8),
        ([[5], [6], [7], [3]] * 9, ["你", "好"] * 9, "你好" * 9),  # in bytes: never half a character
        ([[9, 10], [9]] * 9, ["สั", "ส"] * 9, "สัส" * 9),
        ([[0], [1]] + [[]] * 30 + [[0]], ["ab", "a"], "ab a"),  # after a pause, without another word
        ([[0]] + [[]] * 30 + [[1]], ["a", "b"], "ab"),  # what belongs to it all the same is written so
        ([[0, 11], [11, 0], [12]], ["a", "a."], "a a."),
        ([[1]] * 300, None, "b" * 300),  # English that never says a space
    ],
)
def test_words_are_final_when_they_are_settled(script, words, text):
    asr = streaming(0)
    asr.pieces = WRITTEN
    updates, _, most = said(asr, script, 0.08 * len(script) + 2)
    assert "".join(update.delta for update in updates) == text
    assert most <= 65
    found = [word.text for update in updates for word in update.words]
    assert words is None or found == words
    assert "".join(found) == text.replace(" ", "")
    settled = sum(len(update.words) for update in updates[:-1])
    assert settled == len(found), "all are final before the end"
    starts = [word.start for update in updates for word in update.words]
    assert starts == sorted(starts)


def test_a_feed_that_brings_no_step_spells_nothing(speech, monkeypatch):
    asr = recognizer(normalize="per_feature")
    session = asr.session()
    session.feed(speech).result()
    monkeypatch.setattr(asr, "words", None)

    def fed() -> None:
        for i in range(200):
            session.feed(speech[i : i + 1]).result()

    assert_takes_less(200 * 0.001, fed)


def test_samples_may_be_of_any_floating_point_type(speech):
    asr = streaming(1)
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        samples_N = torch.from_numpy(speech[:30_000]).to(dtype)
        assert plain(fed(asr.session(), samples_N, [7_000])) == plain(offline(asr, samples_N.float().numpy()))


def test_a_feed_of_many_steps_copies_what_is_left_once(speech, monkeypatch):
    session = streaming(0).session()
    copied = []
    forget = session.forget
    monkeypatch.setattr(session, "forget", lambda until: (forget(until), copied.append(session.samples_N.base is None)))
    session.feed(speech).result()
    assert len(copied) > 50
    assert not any(copied)
    assert session.samples_N.base is None  # and the memory of the feed is free


def test_a_stream_whose_network_gives_nan_says_so_and_no_more_and_the_others_go_on(speech):
    pool = streaming(1).pool()
    good, bad = pool.session(), pool.session()
    assert not any(coming.error for coming in pool.feed([(good, speech[:20_000]), (bad, speech[:20_000])]))
    for past in pool.frames.streams.past_N:
        past.tail_BCS[bad.slot] = float("nan")
    fine, broken = pool.feed([(good, speech[20_000:40_000]), (bad, speech[20_000:40_000])])
    assert broken.error == "the network gives NaN in fp32; its weights are damaged"
    n_tokens, n_samples = len(bad.heard.tokens), len(bad.samples_N)
    update = bad.feed(speech[40_000:]).result()
    assert (update.text, len(bad.heard.tokens), len(bad.samples_N)) == ("", n_tokens, n_samples)
    assert not fine.error
    assert [each.error for each in pool.finish([good, bad])] == ["", broken.error]


def test_the_thread_of_all_streams_survives_what_one_has_no_memory_for(speech, monkeypatch):
    def short(*_: object, **__: object) -> None:
        raise MemoryError

    pool = streaming(0).pool()
    good, bad = pool.session(), pool.session()
    monkeypatch.setattr(bad, "add", short)
    fine, broken = pool.feed([(good, speech[:20_000]), (bad, speech[:20_000])])
    assert broken.result().error == "the stream broke off: MemoryError()"
    monkeypatch.setattr(pool.frames, "shrink", lambda slots: torch.empty(1 << 60))
    assert not fine.result().error
    for each in pool.finish([bad, good]):
        each.result()
    assert pool.session().feed(speech[:20_000]).result().error == ""


def test_what_is_no_audio_and_no_lookahead_is_named():
    asr = streaming(1)
    with pytest.raises(AudioError, match=r"array of int16, shape \(4,\): expected finite floating-point samples"):
        asr.session().feed(np.zeros(4, np.int16))
    with pytest.raises(AudioError, match=r"array of int16, shape \(4,\): expected finite floating-point samples"):
        asr.session().feed(torch.zeros(4, dtype=torch.int16))
    with pytest.raises(ValueError, match="lookahead = -1: expected a number of encoder frames"):
        asr.session(lookahead=-1)
    regular = recognizer(left_frames=8, right_frames=0)
    with pytest.raises(ValueError, match="lookahead = 3: no frame of this model sees one after it; expected 0"):
        regular.session(lookahead=3)


def test_a_model_is_loaded_with_another_lookahead(tmp_path):
    path = archives.write(tmp_path / "a.nemo", archives.files())
    with pytest.raises(CheckpointError, match="lookahead = 6: its attention is not in chunks"):
        fastconformer.load(path, lookahead=6)
    described = archives.description()
    described["encoder"] |= {"att_context_style": "chunked_limited", "att_context_size": [[70, 13], [70, 6]]}
    archives.write(path, archives.files(model_config=yaml.safe_dump(described).encode()))
    with pytest.raises(CheckpointError, match="local_attention = 64 64: expected frames before and after, and a model"):
        fastconformer.load(path, local_attention=(64, 64))
    assert fastconformer.load(path).model.encoder.cfg.right_frames == 13
    assert fastconformer.load(path, lookahead=6).model.encoder.cfg.right_frames == 6
    assert fastconformer.load(path).lookaheads == (13, 6)
    with pytest.raises(CheckpointError, match="lookahead = 5: this model has learned 13, 6"):
        fastconformer.load(path, lookahead=5)


@pytest.mark.parametrize("make", [lambda: streaming(1), lambda: recognizer(normalize="per_feature")])
@pytest.mark.parametrize("quiet", [0.0, 9e-6])
def test_nothing_is_said_until_something_can_be_heard(speech, make, quiet):
    """As `transcribe` has it of a recording without sound; however the feeds are cut, and with the right times."""
    asr, silence_N = make(), np.full(16_000 * 9, quiet, np.float32)
    assert not fed(asr.session(), silence_N, [1600])
    assert not asr.transcribe([silence_N])[0].text
    late_N = np.concatenate([silence_N, speech])
    words = fed(asr.session(), late_N, [1600])
    assert words
    assert plain(words) == plain(fed(asr.session(), late_N, [len(late_N)]))
    assert words[0].start >= 4.9  # what is before is not even in the context of the speech
    assert words[-1].end <= len(late_N) / 16_000 + 1e-3  # which is rounded


@pytest.mark.parametrize("make", [lambda: streaming(1), lambda: recognizer(normalize="per_feature")])
def test_pauses_of_a_stream_are_not_heard_and_words_are_timed_with_them(speech, make):
    asr = make()
    first_N, second_N = speech[:48_000], speech[48_000:]
    short_N, long_N = (np.concatenate([first_N, np.zeros(n, np.float32), second_N]) for n in (400_000, 640_000))
    asr.feature_config = replace(asr.feature_config, longest_pause=0.1)
    asr.keep = asr.feature_config.keeper()
    words, later = (fed(asr.session(), samples_N, [1600]) for samples_N in (short_N, long_N))
    assert [word.text for word in words] == [word.text for word in later]
    moved = [round(b.start - a.start, 3) for a, b in zip(words, later, strict=True)]
    assert (moved[0], moved[-1], set(moved)) == (0.0, 15.0, {0.0, 15.0})
    session = asr.session()
    session.feed(first_N).result()
    updates = [session.feed(np.zeros(16_000, np.float32)).result() for _ in range(30)]
    assert len(session.samples_N) <= 16_000 * 12
    frames = session.done
    assert not updates[-1].words
    session.feed(np.zeros(16_000, np.float32)).result()
    assert session.done == frames  # nothing is computed
    if asr.config.encoder.attention == "regular":  # what was said before a pause does not wait for its end
        assert (frames + 1) * asr.samples_per_frame > session.samples > 32_000
