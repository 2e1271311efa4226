"""Long recordings: wherever they are cut, every word is there once, as in the recording as a whole."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from common.features import NEMO
from fastconformer.config import EncoderConfig
from fastconformer.hearing.long_audio import attention_step, windows
from fastconformer.recognizer import Recognizer
from tests.data import shared
from tests.fastconformer import tiny
from tests.fastconformer.hearing.streaming.test_pool import PIECES

FRAME = 0.08  # seconds
CONTEXT = 32 * FRAME  # more than a frame of these models depends on, beyond a chunk of attention


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    """Nine seconds of real recordings, of a length that is no multiple of anything."""
    import soundfile

    paths = sorted(shared("data/librispeech-mini").rglob("*.flac"))[:2]
    return np.concatenate([soundfile.read(path, dtype="float32")[0] for path in paths])[: 16_000 * 9 + 321]


def recognizer(head: str, encoder: dict, *, is_local: bool) -> Recognizer:
    """Random weights that say something. `is_local`: its attention says nothing, so that near frames alone count."""
    model = tiny.model(tiny.config(**encoder))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=1.5 * parameter[0].numel() ** -0.5)
        for block in model.encoder.blocks if is_local else ():
            block.attention.leave.weight.zero_()
    return Recognizer(model, replace(NEMO, mel_bins=tiny.MEL_BINS, normalize="none"), PIECES, head=head)


@pytest.mark.parametrize("head", ["transducer", "ctc"])
@pytest.mark.parametrize(
    ("encoder", "is_local"),
    [
        pytest.param({"left_frames": 6, "right_frames": 5}, False, id="local attention"),
        pytest.param({}, True, id="full attention"),
        pytest.param({"attention": "chunked", "left_frames": 8, "right_frames": 3}, False, id="chunks"),
        pytest.param(
            {"attention": "chunked_right", "left_frames": 6, "right_frames": 2, "chunk_frames": 5},
            False,
            id="chunks with frames after them",
        ),
        pytest.param(
            {
                "attention": "chunked", "left_frames": 8, "right_frames": 3, "causal_subsampling": True,
                "causal_convolution": True, "norm": "layer",
            },
            False,
            id="a model for streams",
        ),
    ],
)  # fmt: skip
def test_no_word_is_doubled_or_lost_wherever_a_recording_is_cut(speech, head, encoder, is_local):
    asr = recognizer(head, encoder, is_local=is_local)
    (whole,) = asr.transcribe([speech])
    assert len(whole.text.replace(" ", "")) > 10
    draw = random.Random(0)
    for _ in range(4):
        options = {"chunk_seconds": draw.uniform(0.2, 3.0), "left_seconds": CONTEXT, "right_seconds": CONTEXT}
        (parts,) = asr.transcribe([speech], whole_seconds=0, batch_size=draw.randint(1, 8), **options)
        assert [word[:3] for word in parts.words] == [word[:3] for word in whole.words], options


@pytest.mark.parametrize("n_frames", [1, 13, 14, 15, 100])
def test_every_frame_is_in_one_chunk_and_windows_start_where_chunks_of_attention_do(n_frames):
    for chunk, left, right in ((14, 28, 14), (28, 0, 0), (14, 14, 42)):
        found = list(windows(n_frames, chunk=chunk, left=left, right=right))
        assert [frame for _, first, end, _ in found for frame in range(first, end)] == list(range(n_frames))
        assert all(start % 14 == 0 and start <= first < end <= stop <= n_frames for start, first, end, stop in found)


def test_chunks_and_context_are_whole_chunks_of_attention():
    assert attention_step(EncoderConfig(attention="chunked", left_frames=70, right_frames=13)) == 14
    assert attention_step(EncoderConfig(attention="chunked_right", chunk_frames=7)) == 7
    assert attention_step(EncoderConfig(attention="chunked_right")) == 1
    assert attention_step(EncoderConfig(left_frames=5, right_frames=5)) == 1
    asr = recognizer("ctc", {"attention": "chunked", "left_frames": 8, "right_frames": 3}, is_local=False)
    assert asr.chunk_frames(1.1, 0.0, 0.1) == [16, 0, 4]
    assert asr.chunk_frames(0.01, 1.0) == [4, 12]
