"""Items, batches, and what becomes of utterances that cannot be loaded."""

import itertools
import multiprocessing
import os
import pickle
import random
import signal
import threading
import zlib
from dataclasses import replace

import numpy as np
import pytest
import soundfile
import torch
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from common.audio import silence, waveform
from common.data import loading
from common.data.batching import bucketed_batches
from common.data.lists.index import Index
from common.data.lists.utterances import Utterances
from common.data.loading import Failure, LoadingError, SpeechDataset, SpeechItem, collate, loader, stand_in
from common.data.manifest import Utterance, read_manifest
from common.data.variation.perturbation import PerturbationConfig
from common.data.variation.speed import SpeedConfig
from common.files import stores
from common.files.stores import Stored
from tests.data import shared
from tests.timing import until

CONTINUOUS = SpeedConfig(mode="continuous")


def encode(text: str) -> list[int]:
    if not text.isascii():
        raise ValueError(f"'{text}' holds a character that is not in the vocabulary")
    return [ord(letter) for letter in text]


@pytest.fixture
def utterances(tmp_path) -> list[Utterance]:
    """Six tones of 0.2 to 0.7 s."""
    for i in range(6):
        tone = 0.3 * np.sin(np.arange(1600 * (i + 2)) * 0.1 * (i + 1))
        soundfile.write(tmp_path / f"{i}.wav", tone, 8000, subtype="FLOAT")
    return [
        Utterance(id=f"clip{i}", audio=tmp_path / f"{i}.wav", seconds=0.2 * (i + 2), text="abcdef"[:i])
        for i in range(6)
    ]


def samples(dataset: SpeechDataset, index: int, epoch: int = 0) -> np.ndarray:
    item = dataset.item(index, epoch)
    assert isinstance(item, SpeechItem), item
    return item.samples


def test_an_item_is_the_recording_at_the_wanted_rate_with_its_encoded_text(utterances):
    item = SpeechDataset(utterances, encode=encode, sample_rate=16000)[3]
    assert isinstance(item, SpeechItem)
    assert (item.index, item.id, item.target) == (3, "clip3", [97, 98, 99])
    np.testing.assert_array_equal(item.samples, waveform.read(utterances[3].audio, sample_rate=16000).samples)


def test_an_item_is_a_function_of_index_and_epoch(utterances):
    dataset = SpeechDataset(utterances, speed=CONTINUOUS, seed=1)
    first = samples(dataset, 2, epoch=5)
    samples(dataset, 3, epoch=1)
    np.testing.assert_array_equal(samples(dataset, 2, epoch=5), first)
    assert len({len(samples(dataset, 2, epoch)) for epoch in range(10)}) > 5
    np.testing.assert_array_equal(dataset[5, 2].samples, first)
    assert len(samples(SpeechDataset(utterances, speed=CONTINUOUS, seed=2), 2, epoch=5)) != len(first)


def test_trimming_comes_before_the_change_of_speed(utterances, tmp_path):
    padded = np.concatenate([np.zeros(16000), 0.3 * np.sin(np.arange(16000) * 0.1), np.zeros(16000)])
    soundfile.write(tmp_path / "padded.wav", padded, 16000, subtype="FLOAT")
    padded_utterance = replace(utterances[0], audio=tmp_path / "padded.wav")
    dataset = SpeechDataset([padded_utterance], trim=True, speed=SpeedConfig(mode="discrete", rates=(1.1,)))
    trimmed = silence.trim_silence(padded.astype(np.float32)).samples
    np.testing.assert_allclose(samples(dataset, 0), waveform.change_speed(trimmed, 1.1), atol=1e-6)


def test_a_piece_of_a_recording_is_taken_also_from_its_copy_at_another_speed(utterances, tmp_path):
    whole = waveform.read(utterances[5].audio).samples
    waveform.write(tmp_path / "slow.flac", waveform.change_speed(whole, 0.5), 8000)
    piece = replace(utterances[5], offset_seconds=0.5, seconds=0.4, speeds=((0.5, tmp_path / "slow.flac"),))
    dataset = SpeechDataset([piece], sample_rate=8000, speed=SpeedConfig(mode="offline"))
    by_length = {len(samples(dataset, 0, epoch)): samples(dataset, 0, epoch) for epoch in range(10)}
    assert set(by_length) == {3200, 6400}
    np.testing.assert_array_equal(by_length[3200], whole[4000:7200])
    np.testing.assert_array_equal(by_length[6400], waveform.read(tmp_path / "slow.flac").samples[8000:14400])


def test_the_first_piece_of_a_recording_is_not_all_of_it(utterances):
    whole = waveform.read(utterances[5].audio).samples
    pieces = [replace(utterances[5], offset_seconds=offset, seconds=0.4) for offset in (0.0, 0.4, None)]
    dataset = SpeechDataset(pieces, sample_rate=8000)
    for index, expected in enumerate((whole[:3200], whole[3200:6400], whole)):
        np.testing.assert_array_equal(samples(dataset, index), expected)


def test_a_batch_is_padded_with_zeros_in_the_order_asked_for(utterances):
    dataset = SpeechDataset(utterances, encode=encode, sample_rate=8000)
    batch = next(iter(loader(dataset, [[1, 4, 0]])))
    assert batch.samples_B.tolist() == [4800, 9600, 3200]
    assert batch.audio_BN.shape == (3, 9600)
    assert batch.audio_BN.dtype == torch.float32
    assert (batch.indices, batch.ids) == ([1, 4, 0], ["clip1", "clip4", "clip0"])
    assert batch.targets_BU.tolist() == [[97, 0, 0, 0], [97, 98, 99, 100], [0, 0, 0, 0]]
    assert batch.target_lengths_B.tolist() == [1, 4, 0]
    np.testing.assert_array_equal(batch.audio_BN[0, :4800], samples(dataset, 1))
    assert not batch.audio_BN[0, 4800:].any()


def test_without_an_encoder_there_are_no_targets(utterances):
    batch = next(iter(loader(SpeechDataset(utterances), [[0, 1]])))
    assert batch.targets_BU.shape == (2, 0)
    assert batch.to("cpu").audio_BN is batch.audio_BN


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_change_nothing(utterances, workers):
    dataset = SpeechDataset(utterances, encode=encode, speed=CONTINUOUS, seed=3)
    batches = bucketed_batches([u.seconds for u in utterances], batch_size=2, seed=0, epoch=4)
    batches = [[(epoch, index) for index in batch] for epoch in (4, 5) for batch in batches]
    for alone, parallel in zip(loader(dataset, batches), loader(dataset, batches, workers=workers), strict=True):
        assert alone.ids == parallel.ids
        assert torch.equal(alone.audio_BN, parallel.audio_BN)
        assert torch.equal(alone.targets_BU, parallel.targets_BU)


# Functions of the module: what a worker gets crosses by pickle where processes are not forked, as from Python 3.14 on.
def group(_text: str) -> list[int]:
    return [os.getpgrp()]


def die(_text: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_workers_are_a_group_of_their_own_that_signals_to_this_one_do_not_reach(utterances):
    dataset = SpeechDataset(utterances, encode=group)
    (batch,) = loader(dataset, [[0]], workers=1)
    assert batch.targets_BU.item() != os.getpgrp()


def test_small_tensors_cross_with_their_message_and_large_ones_in_shared_memory(utterances, monkeypatch):
    monkeypatch.setattr(loading, "SMALL_BYTES", 1000)
    (batch,) = loader(SpeechDataset(utterances, encode=encode), [[0, 1]], workers=1)
    assert [tensor.is_shared() for tensor in batch[:4]] == [True, False, False, False]


def test_loading_leaves_the_global_random_state_alone(utterances):
    before = torch.random.get_rng_state(), pickle.dumps(np.random.get_state())
    list(loader(SpeechDataset(utterances, speed=CONTINUOUS), [[0, 1], [2]], workers=1))
    list(loader(SpeechDataset(utterances, speed=CONTINUOUS), [[0, 1], [2]]))
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert pickle.dumps(np.random.get_state()) == before[1]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_bad_utterance_stops_in_one_line_that_names_it(utterances, workers):
    utterances[1].audio.write_text("no audio")
    batches = loader(SpeechDataset(utterances), [[0], [1, 2]], workers=workers)
    with pytest.raises(LoadingError, match=r"^utterance clip1: .*1\.wav: cannot be read as audio \(.*\).*MP3$"):
        list(batches)


@pytest.mark.parametrize("workers", [0, 1])
def test_bad_utterances_are_skipped_and_listed(utterances, workers):
    utterances[1].audio.unlink()
    utterances[2] = replace(utterances[2], text="né")
    dataset = SpeechDataset(utterances, encode=encode, on_error="skip")
    mixed, bad = loader(dataset, [[0, 1, 3], [2]], workers=workers)
    assert mixed.ids == ["clip0", "clip3"]
    missing = f"utterance clip1: {utterances[1].audio}: no such file; expected an audio file"
    assert mixed.failures == [Failure(1, missing)]
    assert bad.audio_BN.shape == (0, 0)
    assert bad.ids == []
    unknown = "utterance clip2: 'né' holds a character that is not in the vocabulary"
    assert bad.failures == [Failure(2, unknown)]
    assert dataset.skipped == {1: missing, 2: unknown}


def test_a_piece_that_the_recording_does_not_hold_is_a_failure(utterances):
    piece = replace(utterances[0], offset_seconds=0.1, seconds=2.0)
    failure = SpeechDataset([piece])[0]
    assert isinstance(failure, Failure)
    assert failure.message.endswith("ends 0.30 s after offset 0.10 s; the manifest says 2.00 s")


def test_a_recording_of_noise_that_is_missing_is_refused_before_utterances_are_left_out_for_it(utterances, tmp_path):
    with pytest.raises(LoadingError, match="perturbation.noise: .*absent.wav: no such file"):
        SpeechDataset(utterances, perturbation=PerturbationConfig(noise=(tmp_path / "absent.wav",)), on_error="skip")


def test_offline_speed_without_prepared_copies_is_refused(utterances):
    with pytest.raises(LoadingError, match="speed mode offline, but no utterance of the manifest has a copy"):
        SpeechDataset(utterances, speed=SpeedConfig(mode="offline"))


def test_an_empty_collation_is_an_empty_batch():
    assert collate([]).audio_BN.shape == (0, 0)


def test_real_speech_loads_as_it_is():
    utterances = read_manifest(shared("data/librispeech-mini/LibriSpeech/dev-clean")).utterances
    batch = next(iter(loader(SpeechDataset(utterances, encode=encode), [[0, 1]])))
    assert batch.samples_B.tolist() == [round(utterance.seconds * 16000) for utterance in utterances]
    assert bytes(batch.targets_BU[1, : batch.target_lengths_B[1]].tolist()).decode() == utterances[1].text


class Dying(SpeechDataset):
    """Gives batches for ever, until one of its workers is killed."""

    def item(self, index: int, epoch: int) -> SpeechItem | Failure:
        return SpeechItem(index, f"u{index}" * 20, np.ones(2000 + index, np.float32), list(range(20)))


def test_a_worker_killed_at_any_moment_is_one_line(utterances):
    draw = random.Random(1)
    for _ in range(12):
        batches = iter(loader(Dying(utterances), itertools.repeat(list(range(64))), workers=2))
        next(batches)
        worker = draw.choice(multiprocessing.active_children())
        killing = threading.Timer(draw.uniform(0, 0.05), worker.kill)
        killing.start()
        with pytest.raises(LoadingError, match=rf"a data worker ended \(process {worker.pid}, exit code -9\): out of"):
            for _ in batches:
                pass
        killing.join()
        for other in multiprocessing.active_children():
            other.kill()


def test_the_death_of_a_worker_is_an_error_when_its_batch_is_asked_for(utterances, monkeypatch):
    # torch looks every five seconds whether a worker lives that keeps silent.
    monkeypatch.setattr(_MultiProcessingDataLoaderIter._try_get_data, "__defaults__", (0.05,))
    dataset = SpeechDataset(utterances, encode=die)
    with pytest.raises(LoadingError, match=r"a data worker ended \(.*\): out of memory\? Take fewer --data.workers"):
        next(iter(loader(dataset, [[0]], workers=1)))


def test_the_first_utterance_that_can_be_read_stands_in(utterances):
    for utterance in utterances[:2]:
        utterance.audio.unlink()
    assert stand_in(SpeechDataset(utterances), collate, []).ids == ["clip2"]


def test_without_one_utterance_that_can_be_read_nothing_stands_in(utterances):
    utterances[0].audio.unlink()
    with pytest.raises(LoadingError, match="not one utterance can be used: no such file"):
        stand_in(SpeechDataset(utterances[:1]), collate, [Failure(0, "no such file")])


def test_a_store_is_asked_for_the_next_batch_while_one_is_used_also_without_workers(utterances, monkeypatch):
    pytest.importorskip("fsspec")
    from fsspec.implementations.memory import MemoryFileSystem

    in_store = []
    for utterance in utterances:
        content = utterance.audio.read_bytes()
        MemoryFileSystem().pipe(f"/ahead/{utterance.id}.wav", content)
        where = Stored(f"memory://ahead/{utterance.id}.wav", 0, len(content), zlib.crc32(content))
        in_store.append(replace(utterance, audio=where))
    asked, came, fetch = [], threading.Semaphore(0), stores.fetch

    def counted(parts):
        parts = list(parts)
        asked.append([part.file for part in parts])
        fetch(parts)
        came.release()

    monkeypatch.setattr(stores, "fetch", counted)
    dataset = SpeechDataset(Utterances.of(in_store), on_error="skip")
    plans = [[0, 3], [1, 4], [2, 5]]
    batches = iter(loader(dataset, plans))
    first = next(batches)
    assert came.acquire(timeout=100)
    assert came.acquire(timeout=100)  # before anybody asks for it
    assert len(asked) == 2
    found = [first, *batches]
    assert [len(one) for one in asked] == [2, 2, 2]
    for mine, theirs in zip(found, loader(SpeechDataset(utterances), plans), strict=True):
        assert torch.equal(mine.audio_BN, theirs.audio_BN)
    (index,) = dataset.utterances.parts
    content = bytearray(index.source)
    content[content.index(b"clip4")] = 0xFF
    dataset.utterances = Utterances([Index(bytes(content))])
    assert [batch.indices for batch in loader(dataset, plans)] == [[0, 3], [1], [2, 5]]
    assert dataset.skipped == {4: "an index in memory: damaged: number 4 in it; write or index the data anew"}
    dataset.utterances = Utterances([index])
    MemoryFileSystem().rm("/ahead/clip4.wav")
    dataset.on_error = "stop"
    batches = iter(loader(dataset, plans))
    assert next(batches).indices == [0, 3]
    with pytest.raises(LoadingError, match=r"^utterance clip4: memory://ahead/clip4\.wav"):
        next(batches)
    batches = iter(loader(dataset, plans))
    next(batches)
    batches.close()  # nobody wants the others
    until(lambda: not any(thread.name.startswith("ahead") for thread in threading.enumerate()))
    MemoryFileSystem().rm("/ahead", recursive=True)
