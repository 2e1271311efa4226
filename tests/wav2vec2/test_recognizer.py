"""Files in, words out: whatever is in the batch, however long, in the order given."""

import numpy as np
import pytest
import soundfile
import torch

from common.audio.waveform import AudioError
from common.recognition.decoding import DecodingOptions
from common.runs.checkpoint import CheckpointError
from tests.wav2vec2.small import ctc_model, pretraining_model
from wav2vec2.recognizer import Recognizer

RATE = 16_000
KINDS = ("base", "large", "base hourglass", "large linear")


@pytest.fixture(scope="module", params=KINDS)
def w(request: pytest.FixtureRequest) -> Recognizer:
    return Recognizer(ctc_model(request.param))


@pytest.fixture(scope="module")
def base() -> Recognizer:
    return Recognizer(ctc_model("base"))


def noise(seconds: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.1, round(seconds * RATE)).astype(np.float32)


CLIPS = [noise(seconds, seed) for seed, seconds in enumerate((1.0, 0.3, 2.017, 0.05, 1.4, 0.7))]


def test_transcribe_gives_what_logits_gives(w):
    samples = torch.from_numpy(CLIPS[0])[None]
    logits_BSV, frames_B = w.logits(samples, torch.tensor([samples.shape[1]]))
    (transcript,) = w.transcribe([CLIPS[0]], keep_log_probs=True)
    np.testing.assert_allclose(transcript.log_probs_SV, logits_BSV[0, : frames_B[0]].log_softmax(1), atol=1e-6, rtol=0)


def test_words_are_the_letters_between_the_ends_of_words(base):
    (transcript,) = base.transcribe([CLIPS[2]], keep_log_probs=True)
    best = torch.from_numpy(transcript.log_probs_SV).argmax(1).unique_consecutive().tolist()
    letters = "".join(base.config.labels[i] for i in best if i > 3)
    assert transcript.text.split() == letters.replace("|", " ").split()
    assert [word.text for word in transcript.words] == transcript.text.split()
    ends = [0.0]
    for word in transcript.words:
        assert ends[-1] <= word.start < word.end <= transcript.seconds
        assert 0 < word.confidence <= 1
        ends.append(word.end)


def test_chunks_of_what_sees_only_its_surroundings_give_what_the_whole_gives():
    model = ctc_model("base", extractor_norm="layer")  # layer 0: the convolutions see 8 frames and no statistics
    recognizer = Recognizer(model)
    recordings = [noise(3.7), noise(0.4), noise(2.0)]
    whole = recognizer.represent(recordings, layers=0)
    chunked = recognizer.represent(recordings, layers=0, chunk_seconds=0.9, stride_seconds=0.2, batch_size=3)
    for a, b in zip(whole, chunked, strict=True):
        torch.testing.assert_close(a.x_SC, b.x_SC, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["base", "base hourglass"])
def test_of_a_local_network_words_and_their_times_are_the_same_in_chunks(kind, tmp_path):
    model = ctc_model(kind, extractor_norm="layer")  # and so that no frame of the Transformer sees another
    with torch.no_grad():
        model.wav2vec2.encoder.positions.norm.zero_()
        for layer in model.wav2vec2.encoder.layers:
            layer.attention.out.weight.zero_()
    local = Recognizer(model)
    soundfile.write(tmp_path / "a.wav", noise(44_100 / RATE * 9.7), 44_100)
    (whole,) = local.transcribe([tmp_path / "a.wav"], keep_log_probs=True)
    (cut,) = local.transcribe([tmp_path / "a.wav"], chunk_seconds=1.9, stride_seconds=0.3, keep_log_probs=True)
    torch.testing.assert_close(cut.log_probs_SV, whole.log_probs_SV, atol=1e-4, rtol=0)
    assert whole.seconds == pytest.approx(9.7, abs=1e-3)
    assert len(whole.words) > 5
    assert [word[:3] for word in cut.words] == [word[:3] for word in whole.words]
    assert 9.0 < whole.words[-1].end <= whole.seconds


@pytest.mark.parametrize(
    "options", [{"chunk_seconds": 0.0}, {"chunk_seconds": np.nan}, {"stride_seconds": -1.0}, {"stride_seconds": np.nan}]
)
def test_chunks_of_no_length_are_refused(base, options):
    with pytest.raises(ValueError, match=r"^chunk_seconds = \S+, stride_seconds = \S+: expected above 0, and at leas"):
        base.transcribe([CLIPS[0]], **options)


def test_chunks_may_be_infinitely_long_and_need_no_context(base):
    assert base.transcribe(CLIPS, chunk_seconds=np.inf) == base.transcribe(CLIPS)
    pieces = base.cut(10 * RATE, 2.0, 0.0)
    assert [piece.first for piece in pieces] == [0] * len(pieces)


@pytest.mark.parametrize("chunk_seconds", [0.01, 0.5, 1.3])
def test_chunks_leave_no_frame_out(w, chunk_seconds):
    (transcript,) = w.transcribe([CLIPS[2]], chunk_seconds=chunk_seconds, keep_log_probs=True)
    assert len(transcript.log_probs_SV) == (len(CLIPS[2]) - 400) // 320 + 1


def test_a_recording_that_fits_into_a_chunk_is_not_cut(w):
    assert w.transcribe(CLIPS, chunk_seconds=2.1) == w.transcribe(CLIPS)


def test_chunks_of_an_hourglass_start_where_a_shortened_frame_does():
    hourglass = Recognizer(ctc_model("base hourglass"))
    for chunk in hourglass.cut(10 * RATE, 2.0, 0.3):
        assert chunk.start % (4 * 320) == 0


def test_representations_are_those_that_encode_gives(w):
    found = list(w.represent(CLIPS, layers=2, batch_size=3))
    for clip, represented in zip(CLIPS, found, strict=True):
        x_BSC, _ = w.encode(torch.from_numpy(clip)[None], torch.tensor([len(clip)]), layers=2)
        torch.testing.assert_close(represented.x_SC, x_BSC[0], atol=1e-5, rtol=0)
        assert represented.seconds == len(clip) / RATE


def test_what_is_too_short_for_a_frame_stops_or_is_told_in_its_place(base):
    message = "array: 320 samples at 16000 Hz are too few; the model needs 400 for its first frame"
    with pytest.raises(AudioError, match=f"^{message}"):
        base.transcribe([noise(0.02)])
    for used in (base.transcribe, base.represent):
        first, second = used([noise(0.02), CLIPS[1]], on_error="skip")
        assert first.error.startswith(message)
        assert not second.error


def test_features_that_are_infinite_are_told():
    broken = Recognizer(pretraining_model("large", labels=()))
    with torch.no_grad():
        broken.backbone.encoder.norm.bias[3] = torch.inf
    (represented,) = broken.represent([CLIPS[0]])
    assert represented.error == "array: the network gives infinity in fp32; its weights are damaged"


def test_a_model_without_head_represents_and_does_not_transcribe():
    pretrained = Recognizer(pretraining_model("base", labels=()))
    assert next(pretrained.represent([CLIPS[0]])).x_SC.shape == (49, 32)
    with pytest.raises(CheckpointError, match=r"pre-trained only and has no CTC head: fine-tune it first$"):
        pretrained.transcribe([CLIPS[0]])


def test_options_of_the_model_decide_what_is_the_blank():
    model = ctc_model("base")
    moved = ctc_model("base", labels=(*model.wav2vec2.config.labels[1:], "<pad>"), blank=9)
    with torch.no_grad():
        for own, other in ((moved.head.weight, model.head.weight), (moved.head.bias, model.head.bias)):
            own.copy_(torch.roll(other, -1, 0))
    moved.wav2vec2.load_state_dict(model.wav2vec2.state_dict())
    texts = [[t.text for t in Recognizer(m).transcribe(CLIPS)] for m in (model, moved)]
    assert texts[0] == texts[1]


def test_searches_in_several_threads_come_in_order(base):
    clips = [CLIPS[i % 6][: 4000 + 100 * i] for i in range(20)]
    decoder = base.decoder(DecodingOptions(beam=4))
    threads = torch.get_num_threads()
    texts = []
    for n_threads in (1, 3):
        torch.set_num_threads(n_threads)
        texts.append([t.text for t in base.stream(clips, decoder=decoder)])
    torch.set_num_threads(threads)
    assert texts[0] == texts[1]
    assert len(set(texts[0])) > 5


def test_labels_without_names_cannot_be_written():
    unknown = Recognizer(ctc_model(labels=tuple(f"<{i}>" for i in range(10))))
    with pytest.raises(CheckpointError, match=r"^the checkpoint does not say what its 10 labels are; name its dictio"):
        unknown.decoder()
