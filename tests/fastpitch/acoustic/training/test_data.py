import pickle
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from common.audio import waveform
from common.data.loading import Failure, LoadingError
from common.data.manifest import ManifestError, Utterance
from common.features import TTS, LogMel
from fastpitch.acoustic.aligner import entropies, forward_sum_losses
from fastpitch.acoustic.config import Config, DataConfig, LossConfig, ModelConfig
from fastpitch.acoustic.pitch import PitchConfig
from fastpitch.acoustic.training import data
from fastpitch.acoustic.training.data import (
    ClipDataset,
    ClipError,
    collate,
    loader,
    read_tensor,
    read_utterances,
    speaker_number,
    write_tensor,
)
from fastpitch.acoustic.training.objective import micro_batches, targets_of
from fastpitch.acoustic.training.run import build_model
from tests.data import OneDamaged, shared
from tests.fastpitch.runs import RATE, toy_config


def dataset_of(cfg: Config, *, training: bool = True) -> ClipDataset:
    return ClipDataset(read_utterances(cfg.data.train, cfg, training=training)[0], cfg, training=training)


def test_mel_frames_are_those_of_the_published_recipe():
    """librosa's filters over the magnitudes of a centred, reflected Fourier transform; log of at least 1e-5."""
    librosa = pytest.importorskip("librosa")
    samples = waveform.read(shared("data/ljspeech-mini/LJSpeech-1.1/wavs/LJ001-0002.wav"), sample_rate=22_050).samples
    magnitude = np.abs(librosa.stft(samples, n_fft=1024, hop_length=256, win_length=1024, pad_mode="reflect"))
    expected = np.log(np.maximum(librosa.filters.mel(sr=22_050, n_fft=1024, n_mels=80, fmax=8000) @ magnitude, 1e-5))
    mel_1MT, frames_1 = LogMel(TTS)(torch.from_numpy(samples)[None], torch.tensor([len(samples)]))
    assert frames_1.tolist() == [expected.shape[1]] == [1 + len(samples) // 256]
    np.testing.assert_allclose(mel_1MT[0].numpy(), expected, rtol=0, atol=1e-3)


def test_a_worker_that_is_not_forked_reads_the_same_clips(corpus, tmp_path):
    dataset = dataset_of(toy_config(corpus, tmp_path / "run"))
    here, there = dataset.item(0, 3), pickle.loads(pickle.dumps(dataset)).item(0, 3)
    assert here.tokens == there.tokens
    assert np.array_equal(here.samples_N, there.samples_N)


def test_kept_mel_frames_are_to_the_bit_those_of_the_batch(corpus, tmp_path):
    cfg = toy_config(corpus, tmp_path)
    reads = dataset_of(cfg)
    keeps = ClipDataset(reads.utterances, cfg, training=True, keeps_mels=True)
    log_mel, statistics = LogMel(cfg.features), (torch.full((1,), 200.0), torch.full((1,), 30.0))
    for epoch in range(2):
        read, kept = (collate([each.item(index, epoch) for index in (3, 0, 2)]) for each in (reads, keeps))
        assert kept.audio_BN.numel() == 0
        assert torch.equal(read.tokens_BL, kept.tokens_BL)
        for one, other in zip(*(targets_of(b, log_mel, cfg, *statistics) for b in (read, kept)), strict=True):
            assert torch.equal(one, other)


def test_clips_that_no_longer_fit_into_memory_have_their_frames_computed_again(corpus, tmp_path, monkeypatch):
    cfg = toy_config(corpus, tmp_path)
    keeps = ClipDataset(dataset_of(cfg).utterances, cfg, training=True, keeps_mels=True)
    monkeypatch.setattr(data, "KEPT_BYTES", 0)
    first, second = keeps.item(0, 0), keeps.item(0, 1)
    assert first.mel_MT is not second.mel_MT
    assert torch.equal(first.mel_MT, second.mel_MT)


def test_pitch_has_a_value_for_every_mel_frame_and_is_kept_for_the_next_time(corpus, tmp_path):
    dataset = dataset_of(toy_config(corpus, tmp_path))
    clip = dataset.item(0, 0)
    assert clip.pitch_T.shape == (clip.frames,)
    assert clip.frames == 1 + len(clip.samples_N) // 128
    assert clip.pitch_T.max() > 100
    kept = tmp_path / "pitch" / f"{clip.id}.pt"
    write_tensor(kept, read_tensor(kept) * 0)
    assert not dataset.item(0, 0).pitch_T.any()


@pytest.mark.parametrize("difference", [-1, 1])
def test_published_pitch_may_have_a_frame_more_or_fewer(corpus, tmp_path, difference):
    dataset = dataset_of(toy_config(corpus, tmp_path))
    frames = dataset.item(0, 0).frames
    pitch_1T = torch.arange(1.0, frames + difference + 1)[None]
    write_tensor(tmp_path / "pitch" / f"{dataset.utterances[0].id}.pt", pitch_1T)
    pitch_T = dataset.item(0, 0).pitch_T
    assert len(pitch_T) == frames
    assert pitch_T[-1] == (0 if difference < 0 else frames)


def test_pronunciations_change_from_epoch_to_epoch_in_training_only(corpus, tmp_path):
    cfg = toy_config(corpus, tmp_path)
    cfg = replace(cfg, text=replace(cfg.text, p_arpabet=0.5, cleaners="english_cleaners_v2"))
    training, validation = dataset_of(cfg), dataset_of(cfg, training=False)
    assert len({tuple(training.item(0, epoch).tokens) for epoch in range(8)}) > 1
    assert len({tuple(validation.item(0, epoch).tokens) for epoch in range(8)}) == 1
    assert training.item(0, 3).tokens == training.item(0, 3).tokens


def test_a_batch_pads_with_zeros_and_keeps_the_order(corpus, tmp_path):
    dataset = dataset_of(toy_config(corpus, tmp_path))
    batch = collate([dataset.item(i, 0) for i in (3, 0, 5)])
    assert batch.indices == [3, 0, 5]
    for b in range(3):
        assert not batch.tokens_BL[b, batch.lengths_B[b] :].any()
        assert (batch.tokens_BL[b, : batch.lengths_B[b]] > 0).all()
        assert not batch.audio_BN[b, batch.samples_B[b] :].any()
        assert not batch.pitch_BT[b, batch.frames_B[b] :].any()
    parts = micro_batches(batch, 2)
    assert [part.indices for part in parts] == [[3, 0], [5]]
    assert collate([]).indices == []


def test_pitch_is_normalised_by_its_speaker_and_energy_as_configured(corpus, tmp_path):
    cfg = toy_config(corpus, tmp_path)
    dataset, log_mel = dataset_of(cfg), LogMel(cfg.features)
    batch = collate([dataset.item(i, 0) for i in range(3)])._replace(speaker_B=torch.tensor([0, 1, 1]))
    mean, std = torch.tensor([100.0, 200.0]), torch.tensor([10.0, 20.0])
    targets = targets_of(batch, log_mel, cfg, mean, std)
    for b, speaker in enumerate((0, 1, 1)):
        voiced_T = batch.pitch_BT[b] > 0
        expected_T = (batch.pitch_BT[b] - mean[speaker]) / std[speaker]
        torch.testing.assert_close(targets.pitch_BT[b][voiced_T], expected_T[voiced_T])
        assert not targets.pitch_BT[b][~voiced_T].any()
        assert not targets.energy_BT[b, batch.frames_B[b] :].any()
    loudness_BT = targets_of(batch, log_mel, replace(cfg, data=replace(cfg.data, energy="mel")), mean, std).energy_BT
    level_T = targets.mel_BMT.mean(1)[0, : batch.frames_B[0]]
    silent, loud = level_T.argmin(), level_T.argmax()
    assert targets.energy_BT[0, silent] > targets.energy_BT[0, loud]
    assert loudness_BT[0, silent] < loudness_BT[0, loud]


def utterance(speaker: str) -> Utterance:
    return Utterance(id="U", audio=Path("u.wav"), seconds=1.0, text="one", speaker=speaker)


def test_speakers_have_the_numbers_of_the_manifest_or_of_their_names():
    numbered = Config(model=ModelConfig(speakers=3))
    assert speaker_number(utterance("2"), numbered) == 2
    named = replace(numbered, data=DataConfig(speakers=("ann", "bob", "cy")))
    assert speaker_number(utterance("bob"), named) == 1
    assert speaker_number(utterance("whoever"), Config()) == 0
    with pytest.raises(ManifestError, match="utterance U: speaker '3'; expected a number below 3, or names in data"):
        speaker_number(utterance("3"), numbered)
    with pytest.raises(ManifestError, match="utterance U: speaker 'dan'; expected one of ann, bob, cy"):
        speaker_number(utterance("dan"), named)


def test_a_brief_clip_is_unfit_and_a_bad_one_a_failure_that_stops_or_is_noted(corpus, tmp_path):
    cfg = toy_config(corpus, tmp_path)
    dataset = dataset_of(cfg)
    dataset.utterances = dataset.recordings.utterances = [*dataset.utterances]
    waveform.write(tmp_path / "brief.wav", np.full(400, 0.1, np.float32), RATE)
    dataset.utterances[1] = replace(dataset.utterances[1], audio=tmp_path / "brief.wav")
    assert dataset.item(1, 0).stops is False
    (batch,) = loader(dataset, [[0, 1]])
    assert batch.indices == [0]
    assert "fewer than one each" in dataset.skipped[1]
    dataset.utterances[2] = replace(dataset.utterances[2], audio=tmp_path / "gone.wav")
    with pytest.raises(LoadingError, match=f"utterance {dataset.utterances[2].id}: .*gone.wav"):
        list(loader(dataset, [[0, 2]]))
    dataset.on_error = "skip"
    (batch,) = loader(dataset, [[0, 2]])
    assert "gone.wav" in dataset.skipped[2]
    dataset.utterances = dataset.recordings.utterances = OneDamaged(dataset.utterances)
    assert dataset.item(1, 0) == Failure(1, "data.index: damaged: number 1 in it")


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.zeros(4), r"pitch of 4 frames for \d+ frames of sound; prepare it anew"),
        ("nan", r"found \[\d+\], 1 of its numbers NaN or infinite; expected Hz, 0 where unvoiced"),
        ({"a": 1}, "expected a tensor, found dict"),
        (b"rubbish", "damaged or not a tensor"),
    ],
)
def test_prepared_pitch_that_cannot_be_used_is_named(corpus, tmp_path, tensor, message):
    dataset = dataset_of(toy_config(corpus, tmp_path))
    path = tmp_path / "pitch" / f"{dataset.utterances[0].id}.pt"
    frames = dataset.item(0, 0).frames
    if isinstance(tensor, bytes):
        path.write_bytes(tensor)
    elif isinstance(tensor, str):
        write_tensor(path, torch.full((frames,), 200.0).index_fill(0, torch.tensor([1]), torch.nan))
    else:
        write_tensor(path, tensor)
    failure = dataset.item(0, 0)
    assert failure.message.startswith(f"utterance {dataset.utterances[0].id}: {path}: ")
    with pytest.raises(LoadingError, match=message):
        list(loader(dataset, [[0]]))


def test_prepared_mels_that_are_missing_or_of_another_size_are_named(corpus, tmp_path):
    cfg = toy_config(corpus, tmp_path)
    dataset = dataset_of(replace(cfg, data=replace(cfg.data, mel_dir=tmp_path / "mels")))
    assert "no such file; make it with python -m fastpitch.prepare" in dataset.item(0, 0).message
    path = tmp_path / "mels" / f"{dataset.utterances[0].id}.pt"
    write_tensor(path, torch.zeros(80, 50))
    assert f"{path}: found [80, 50]; expected [20, frames] of finite numbers" in dataset.item(0, 0).message
    with pytest.raises(ClipError, match="no such file"):
        read_tensor(tmp_path / "nowhere.pt")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Config(pitch=PitchConfig(hop_samples=128)),
            "pitch.hop_samples = 128: expected 22050 and 256, those of features",
        ),
        (lambda: Config(data=DataConfig(pitch_mean=(1.0, 2.0), pitch_std=(1.0, 1.0))), "pitch_mean has 2 values: expe"),
        (lambda: DataConfig(pitch_std=(0.0,)), r"pitch_std = \(0.0,\): expected equally many, deviations > 0"),
    ],
)
def test_a_configuration_that_makes_no_sense_says_what_it_should_be(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_binarisation_begins_slowly_as_published():
    published = LossConfig()
    assert [published.binarisation_weight(epoch) for epoch in (1, 50, 100, 500)] == pytest.approx([0.01, 0.5, 1.0, 1.0])
    late = LossConfig(binarisation_start_epoch=250, binarisation_warmup_epochs=0)
    assert [late.binarisation_weight(epoch) for epoch in (249, 250, 251)] == [0.0, 0.0, 1.0]


def with_durations(cfg: Config, folder: Path, *, first: int = 1) -> Config:
    """Every symbol has `first` frames, the last one all that are left."""
    dataset = dataset_of(cfg)
    for index, utterance in enumerate(dataset.utterances):
        clip = dataset.item(index, 0)
        durations = [first] * (len(clip.tokens) - 1)
        durations.append(clip.frames - sum(durations))
        write_tensor(folder / f"{utterance.id}.pt", torch.tensor([clip.tokens, durations]))
    return replace(cfg, data=replace(cfg.data, durations_dir=folder))


def test_durations_that_are_given_are_those_of_the_batch_and_of_what_is_learned(corpus, tmp_path):
    cfg = with_durations(toy_config(corpus, tmp_path / "run"), tmp_path / "durations", first=2)
    dataset = dataset_of(cfg)
    batch = collate([dataset.item(i, 0) for i in (3, 0)])
    assert batch.durations_BL.sum(1).tolist() == batch.frames_B.tolist()
    assert batch.durations_BL[0, 0] == 2
    assert not batch.durations_BL[0, batch.lengths_B[0] :].any()
    log_mel, statistics = LogMel(cfg.features), (torch.full((1,), 200.0), torch.full((1,), 30.0))
    model = build_model(cfg).eval()
    said = model(batch.tokens_BL, batch.lengths_B, targets_of(batch, log_mel, cfg, *statistics), batch.speaker_B)
    assert torch.equal(said.alignment.durations_BL, batch.durations_BL)
    assert forward_sum_losses(said.alignment, batch.frames_B, batch.lengths_B).tolist() == [0, 0]
    assert not entropies(said.alignment).any()


def test_without_given_durations_a_batch_has_none(corpus, tmp_path):
    dataset = dataset_of(toy_config(corpus, tmp_path))
    assert collate([dataset.item(0, 0)]).durations_BL.shape == (1, 0)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda t: torch.stack([t[0] + 1, t[1]]), "is of other symbols than the text has now; align it anew"),
        (lambda t: torch.stack([t[0], t[1] + 1]), r"durations of \d+ frames for \d+ frames of sound; align it anew"),
        (None, r"no such file; make it with python -m fastpitch.align"),
    ],
)
def test_durations_that_do_not_fit_name_their_file(corpus, tmp_path, damage, problem):
    cfg = with_durations(toy_config(corpus, tmp_path / "run"), tmp_path / "durations")
    dataset = dataset_of(cfg)
    path = tmp_path / "durations" / f"{dataset.utterances[0].id}.pt"
    if damage is None:
        path.unlink()
    else:
        write_tensor(path, damage(read_tensor(path).long()))
    failure = dataset.item(0, 0)
    assert isinstance(failure, Failure)
    assert re.search(problem, failure.message), failure.message
