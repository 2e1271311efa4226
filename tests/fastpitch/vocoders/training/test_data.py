from dataclasses import replace

import numpy as np
import pytest
import torch

from common.audio import waveform
from common.audio.headers import UnreachableError
from common.data.loading import Failure, LoadingError, begin_worker
from common.data.manifest import read_sources
from common.features import TTS, LogMel
from fastpitch.vocoders.config import DataConfig
from fastpitch.vocoders.training import data
from fastpitch.vocoders.training.data import ClipSegment, SegmentDataset
from fastpitch.vocoders.training.evaluation import resynthesized
from tests.data import OneDamaged
from tests.fastpitch.vocoders.corpus import LENGTHS, RATE, write_corpus

MARGIN = 512


def dataset(root, seed: int = 0, **changes) -> SegmentDataset:
    cfg = DataConfig(root=root, train=("train.txt",), segment_frames=8, peak=0.0, workers=0)
    cfg = replace(cfg, **changes)
    utterances, _ = read_sources(cfg.train, root=cfg.root, on_error=cfg.on_error, training=True)
    return SegmentDataset(utterances, cfg, TTS, seed=seed)


def whole(root, index: int) -> np.ndarray:
    return waveform.read(root / "wavs" / f"c{index}.wav").samples


def test_a_segment_is_a_piece_of_the_clip_that_starts_at_a_frame(root):
    clips = dataset(root)
    starts = set()
    for epoch in range(20):
        segment, clip = clips[epoch, 0], whole(root, 0)
        assert isinstance(segment, ClipSegment)
        inner = segment.samples[MARGIN:-MARGIN]
        start = next(s for s in range(0, len(clip), 256) if np.array_equal(clip[s : s + 2048], inner))
        starts.add(start)
    assert len(starts) > 10


@pytest.mark.parametrize(("index", "length"), [(1, 2048), (2, 2049), (3, 500)])
def test_a_clip_as_long_as_a_segment_or_shorter_is_taken_whole_and_followed_by_silence(root, index, length):
    segment, clip = dataset(root)[index], whole(root, index)
    assert isinstance(segment, ClipSegment)
    kept = min(length, 2048)
    assert len(clip) == length
    np.testing.assert_array_equal(segment.samples[MARGIN : MARGIN + kept], clip[:kept])
    assert not segment.samples[MARGIN + kept : MARGIN + 2048].any()


def test_the_mel_spectrogram_of_a_segment_is_a_piece_of_that_of_the_clip(root):
    clips, log_mel = dataset(root), LogMel(TTS)
    samples = torch.from_numpy(whole(root, 0))[None]
    whole_MT = log_mel(samples, torch.tensor([LENGTHS[0]])).features_BFT[0]
    for epoch in range(5):
        batch = data.collate([clips[epoch, 0]])
        mel_BMT, audio_BN = data.heard(batch, log_mel)
        assert (mel_BMT.shape, audio_BN.shape) == ((1, 80, 8), (1, 2048))
        start = next(
            s for s in range(0, LENGTHS[0] - 2047, 256) if torch.equal(samples[:, s : s + 2048], audio_BN)
        )  # fmt: skip
        torch.testing.assert_close(mel_BMT[0], whole_MT[:, start // 256 : start // 256 + 8], rtol=0, atol=1e-5)


def test_segments_are_a_function_of_seed_epoch_and_index(root):
    first, again, other = dataset(root), dataset(root), dataset(root, seed=1)
    assert np.array_equal(first[4].samples, again[4].samples)
    assert not np.array_equal(first[4].samples, other[4].samples)
    assert not np.array_equal(first[4].samples, again[1, 4].samples)


def test_several_segments_of_a_clip_differ(root):
    clips = dataset(root, segments_per_clip=3)
    assert len(clips) == 18
    assert clips[4].id == clips[10].id == "c4"
    assert not np.array_equal(clips[4].samples, clips[10].samples)


def test_a_clip_is_scaled_to_the_peak(root):
    clip = dataset(root, peak=0.95).clip(0)
    assert isinstance(clip, ClipSegment)
    assert np.abs(clip.samples).max() == pytest.approx(0.95)


@pytest.mark.parametrize("kind", ["npy", "pt"])
def test_fine_tuning_hears_the_frames_of_the_given_spectrogram_that_belong_to_the_segment(root, tmp_path, kind):
    for i, length in enumerate(LENGTHS):
        mel_MT = np.tile(np.arange(1 + length // 256, dtype=np.float32), (80, 1))
        if kind == "npy":
            np.save(tmp_path / f"c{i}.npy", mel_MT)
        else:
            torch.save(torch.from_numpy(mel_MT), tmp_path / f"c{i}.pt")
    clips = dataset(root, mels=tmp_path, peak=0.95)
    batch = data.collate([clips[0], clips[3]])
    mel_BMT, audio_BN = data.heard(batch, LogMel(TTS))
    start = int(mel_BMT[0, 0, 0])
    np.testing.assert_array_equal(mel_BMT[0, 5], np.arange(start, start + 8))
    np.testing.assert_array_equal(audio_BN[0], whole(root, 0)[start * 256 : start * 256 + 2048])
    np.testing.assert_allclose(mel_BMT[1, 0], [0, 1, *[np.log(1e-5)] * 6], rtol=1e-6)


def test_a_spectrogram_that_is_missing_or_of_another_clip_names_the_clip(root, tmp_path):
    clips = dataset(root, mels=tmp_path)
    assert "utterance c0: " in clips[0].message
    assert "c0.npy: no such mel spectrogram, nor c0.pt" in clips[0].message
    np.save(tmp_path / "c0.npy", np.zeros((80, 9), np.float32))
    assert "c0.npy: mel spectrogram of shape (80, 9); expected [80, 36], the frames of 0.41 s" in clips[0].message
    (tmp_path / "c0.npy").write_bytes(b"nonsense")
    assert "c0.npy: cannot be read as a mel spectrogram" in clips[0].message


def test_a_signal_to_training_does_not_end_its_workers(tmp_path):
    clips = dataset(write_corpus(tmp_path / "corpus"))
    assert data.loader(clips, [], workers=1).worker_init_fn is begin_worker


def test_a_clip_that_cannot_be_read_stops_or_another_is_taken_in_its_place(tmp_path):
    root = write_corpus(tmp_path / "corpus")
    clips = dataset(root)
    (root / "wavs" / "c1.wav").write_bytes(b"RIFF")
    with pytest.raises(LoadingError, match="utterance c1: .*c1.wav"):
        list(data.loader(clips, [[0, 1]], workers=0))
    skipping = replace(clips.data, on_error="skip")
    clips = SegmentDataset(clips.utterances, skipping, TTS, seed=0)
    (batch,) = data.loader(clips, [[0, 1, 5]], workers=0)
    assert batch.ids == ["c0", "c2", "c5"]
    assert list(clips.skipped) == [1]
    for i in range(len(LENGTHS)):
        (root / "wavs" / f"c{i}.wav").write_bytes(b"RIFF")
    with pytest.raises(LoadingError, match="not one clip can be read: utterance c0"):
        list(data.loader(clips, [[0]], workers=0))
    assert isinstance(clips.clip(0), Failure)


def test_an_outage_of_a_store_ends_the_run_whatever_is_skipped(root, monkeypatch):
    clips = dataset(root, on_error="skip")

    def read(*arguments, **more):
        raise UnreachableError("the store is silent")

    monkeypatch.setattr(waveform, "read", read)
    with pytest.raises(LoadingError, match="^utterance c0: the store is silent"):
        list(data.loader(clips, [[0]], workers=0))
    with pytest.raises(LoadingError, match="^utterance c0: the store is silent"):
        next(resynthesized(torch.nn.Identity(), None, clips, range(1), None, None))


def test_a_damaged_record_of_an_index_is_a_failure(root):
    clips = dataset(root, segments_per_clip=2)
    clips.utterances = OneDamaged(clips.utterances)
    count = len(clips.utterances)
    assert clips.item(1 + count, 0) == Failure(1 + count, "data.index: damaged: number 1 in it")
    assert clips.clip(1) == Failure(1, "data.index: damaged: number 1 in it")


def test_other_rates_are_resampled(tmp_path):
    (tmp_path / "wavs").mkdir()
    waveform.write(tmp_path / "wavs" / "a.wav", np.zeros(48000, np.float32), 48000)
    (tmp_path / "train.txt").write_text("wavs/a.wav|a\n")
    clip = dataset(tmp_path).clip(0)
    assert isinstance(clip, ClipSegment)
    assert len(clip.samples) == RATE
