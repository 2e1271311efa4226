import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from common.data.batching import BatchingError
from common.data.loading import LoadingError
from common.data.manifest import ManifestError
from common.interruption import leave_group
from common.text.vocabulary import VocabularyError
from ctc.alignment import frames_needed
from tests.data import shared
from tests.wav2vec2.runs import RATE, finetune_config, pretrain_config
from wav2vec2.corpus.batches import (
    FinetuningSet,
    Part,
    Plan,
    PretrainingSet,
    loader,
    on_device,
    training_plans,
    validation_plans,
)
from wav2vec2.corpus.letters import LIBRISPEECH_LABELS, Letters
from wav2vec2.corpus.sources import located, read_utterances
from wav2vec2.network.extractor import n_frames

LETTERS = Letters(LIBRISPEECH_LABELS)


def pretraining_set(cfg):
    return PretrainingSet(read_utterances(("train",), cfg.data, cfg.model, training=True).utterances, cfg)


def finetuning_set(cfg, *, training=True):
    found = read_utterances(("train",), cfg.data, cfg.model, training=training, spelling=LETTERS.spelling())
    cfg = replace(cfg, model=replace(cfg.model, labels=LIBRISPEECH_LABELS))
    return FinetuningSet(found.utterances, cfg, LETTERS, training=training)


# Plans


def test_every_process_and_turn_gets_its_share_of_the_same_sub_batches():
    sizes = np.random.default_rng(0).integers(16000, 250000, 400).tolist()
    cfg = replace(pretrain_config(None, None), concat_batches=8)
    cfg = replace(cfg, data=replace(cfg.data, max_tokens=1_000_000, max_samples=0))
    whole = training_plans(sizes, cfg, epoch=3)
    per_update = {part.number: part.indices for plan in whole for part in plan.parts}
    for ranks, concat, freq in ((2, 4, 1), (2, 2, 2), (1, 1, 8), (8, 1, 1)):
        other = replace(cfg, concat_batches=concat, update_freq=freq)
        shares = [training_plans(sizes, other, epoch=3, ranks=ranks, rank=rank) for rank in range(ranks)]
        for update in range(len(whole)):
            own = [plan for share in shares for plan in share[update * freq : (update + 1) * freq]]
            assert all(len(plan.parts) == concat for plan in own)
            parts = {part.number: part.indices for plan in own for part in plan.parts}
            assert parts.items() <= per_update.items()
            assert sorted(parts) == sorted(part.number for part in whole[update].parts)


def test_a_sub_batch_holds_at_most_its_tokens_and_epochs_differ():
    sizes = np.random.default_rng(0).integers(16000, 250000, 300).tolist()
    cfg = replace(pretrain_config(None, None), concat_batches=1)
    cfg = replace(cfg, data=replace(cfg.data, max_tokens=700_000, max_samples=0))
    first, second = (training_plans(sizes, cfg, epoch=epoch) for epoch in (0, 1))
    batches = [part.indices for plan in first for part in plan.parts]
    assert all(len(batch) * max(sizes[i] for i in batch) <= 700_000 for batch in batches)
    assert sorted(i for batch in batches for i in batch) == list(range(300))
    assert batches != [part.indices for plan in second for part in plan.parts]


def test_sub_batches_that_go_through_the_network_together_are_of_similar_length():
    sizes = np.random.default_rng(0).integers(16000, 250000, 2000).tolist()
    cfg = replace(pretrain_config(None, None), concat_batches=4)
    cfg = replace(cfg, data=replace(cfg.data, max_tokens=1_400_000, max_samples=0, buckets=50))
    plans = [plan for rank in range(4) for plan in training_plans(sizes, cfg, epoch=0, ranks=4, rank=rank)]
    longest = [[max(sizes[i] for i in part.indices) for part in plan.parts] for plan in plans]
    padding = 1 - np.mean([np.mean(row) / max(row) for row in longest])
    assert padding < 0.15


def test_processes_get_sub_batches_of_similar_length_in_every_turn():
    sizes = np.random.default_rng(0).integers(16000, 250000, 2000).tolist()
    cfg = replace(pretrain_config(None, None), concat_batches=1, update_freq=4)
    cfg = replace(cfg, data=replace(cfg.data, max_tokens=1_400_000, max_samples=0, buckets=50))
    shares = [training_plans(sizes, cfg, epoch=0, ranks=4, rank=rank) for rank in range(4)]
    longest = np.array([[max(sizes[i] for i in plan.parts[0].indices) for plan in share] for share in shares])
    assert (1 - longest.min(0) / longest.max(0)).mean() < 0.3


def test_validation_goes_through_every_utterance_once():
    sizes = [30000, 10000, 70000, 20000, 50000]
    plans = [plan for rank in range(2) for plan in validation_plans(sizes, 80000, ranks=2, rank=rank)]
    assert sorted(i for plan in plans for part in plan.parts for i in part.indices) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"batch_size": 6},
            "16 utterances make 2 sub-batches of 6 utterances, and an update needs 4; lower data.batch",
        ),
        ({"max_tokens": 100000}, "make 3 sub-batches of up to 100000 samples, and an update needs 4; lower data.max_t"),
    ],
)
def test_too_few_sub_batches_for_an_update_name_what_makes_them_large(data, message):
    cfg = replace(pretrain_config(None, None, data=data), concat_batches=4)
    with pytest.raises(BatchingError, match=message):
        training_plans([16000] * 16, cfg, epoch=0)


def test_an_epoch_of_librispeech_is_drawn_in_a_second_or_two():
    sizes = np.random.default_rng(0).integers(32000, 250000, 281241).tolist()
    cfg = replace(pretrain_config(None, None), concat_batches=8)
    cfg = replace(cfg, data=replace(cfg.data, max_tokens=1_400_000, max_samples=250_000, buckets=50))
    start = time.process_time()
    training_plans(sizes, cfg, epoch=0, ranks=8)
    assert time.process_time() - start < 3  # 0.8 s on an idle core


# Batches


def test_a_batch_of_pre_training_is_cropped_to_the_shortest_of_each_sub_batch(corpus):
    dataset = pretraining_set(pretrain_config(corpus, None, data={"max_samples": 14000, "max_tokens": 100000}))
    short, *others = sorted(range(len(dataset)), key=lambda i: dataset.sizes[i])
    batch = dataset[Plan(0, [Part(0, [short, others[-1]]), Part(1, others[-4:-1])])]
    length = round(dataset.utterances[short].seconds * RATE)
    assert batch.samples_B.tolist() == [length, length, 14000, 14000, 14000]
    assert [len(part.mask_BS) for part in batch.targets] == [2, 3]
    frames = n_frames(length, dataset.cfg.model.conv_layers)
    assert batch.targets[0].mask_BS.shape[1] == frames
    assert batch.seconds == pytest.approx((2 * length + 3 * 14000) / RATE)
    assert batch.n_targets == sum(part.positions_BM.numel() for part in batch.targets)


def test_a_sub_batch_is_the_same_alone_and_beside_others(corpus):
    channels = {"channel_prob": 0.3, "channel_length": 2}
    dataset = pretraining_set(pretrain_config(corpus, None, mask=channels, data={"max_samples": 8000}))
    alone, beside = dataset[Plan(2, [Part(4, [0, 3])])], dataset[Plan(2, [Part(1, [5, 6, 7]), Part(4, [0, 3])])]
    assert torch.equal(alone.audio_BN, beside.audio_BN[3:, : alone.audio_BN.shape[1]])
    for a, b in zip(alone.targets[0], beside.targets[1], strict=True):
        assert torch.equal(a, b)
    assert torch.equal(alone.channel_mask_BD, beside.channel_mask_BD[3:])
    assert not torch.equal(alone.audio_BN, dataset[Plan(3, [Part(4, [0, 3])])].audio_BN)


def test_crops_lie_anywhere_in_the_recording(corpus):
    dataset = pretraining_set(pretrain_config(corpus, None, data={"max_samples": 8000}))
    whole = torch.from_numpy(dataset.item(3).samples)
    crops = [dataset[Plan(epoch, [Part(0, [3])])].audio_BN[0] for epoch in range(4)]
    starts = [int((whole.unfold(0, 8000, 1) - crop).abs().sum(1).argmin()) for crop in crops]
    assert len(set(starts)) == 4
    assert all(torch.equal(whole[start : start + 8000], crop) for start, crop in zip(starts, crops, strict=True))


def test_a_batch_of_fine_tuning_is_padded_and_labelled(corpus):
    dataset = finetuning_set(finetune_config(corpus, None, mask={"channel_prob": 0.3, "channel_length": 2}))
    batch = dataset[Plan(0, [Part(0, [0, 1]), Part(1, [2])])]
    assert batch.audio_BN.shape[1] == max(batch.samples_B)
    assert LETTERS.decode(batch.targets_BU[1, : batch.target_lengths_B[1]].tolist()) == dataset.utterances[1].text
    assert not batch.audio_BN[0, batch.samples_B[0] :].any()
    assert batch.mask_BS.shape[0] == batch.channel_mask_BD.shape[0] == 3
    frames = [n_frames(int(n), dataset.cfg.model.conv_layers) for n in batch.samples_B]
    assert not any(mask[n:].any() for mask, n in zip(batch.mask_BS, frames, strict=True))
    validation = finetuning_set(finetune_config(corpus, None), training=False)[Plan(0, [Part(0, [0])])]
    assert validation.mask_BS is None
    assert validation.channel_mask_BD is None
    assert on_device(batch, torch.device("cpu")).ids == batch.ids


def test_labels_need_a_frame_each_and_one_more_between_equal_ones():
    assert frames_needed([1, 1, 2, 2, 2]) == 8
    assert frames_needed([]) == 0


# Sources


def test_wav_and_flac_several_sets_and_folders_are_read(corpus):
    cfg = pretrain_config(corpus, None)
    found = read_utterances(("train", "dev.tsv"), cfg.data, cfg.model, training=True).utterances
    assert {u.audio.suffix for u in found} == {".wav", ".flac"}
    assert len(found) == 20
    found = read_utterances((str(corpus / "dev"),), cfg.data, cfg.model, training=True).utterances
    assert [u.id for u in found] == [f"dev-{i:02d}" for i in range(4)]


def test_real_speech_without_transcripts_is_read():
    folder = shared("data/librispeech-untranscribed-mini/LibriSpeech")
    cfg = pretrain_config(None, None)
    found = read_utterances((str(folder),), cfg.data, cfg.model, training=True).utterances
    assert len(found) == 110
    batch = PretrainingSet(found, cfg)[Plan(0, [Part(0, [0, 1])])]
    assert 0.01 < batch.audio_BN.abs().max() <= 1


def write_list(tmp_path, samples: np.ndarray, *, claimed: int | None = None, subtype: str = "FLOAT", text: str = "A |"):
    soundfile.write(tmp_path / "a.wav", samples, RATE, subtype=subtype)
    soundfile.write(tmp_path / "b.wav", 0.1 * np.ones(16000, np.float32), RATE)
    count = len(samples) if claimed is None else claimed
    (tmp_path / "train.tsv").write_text(f"{tmp_path}\nb.wav\t16000\na.wav\t{count}\n")
    (tmp_path / "train.ltr").write_text(f"B |\n{text}\n")


def with_nan(count: int) -> np.ndarray:
    samples = 0.1 * np.ones(count, np.float32)
    samples[100] = np.nan
    return samples


BAD = {
    "NaN": (with_nan(16000), None, "utterance a: .*a.wav: holds samples that are NaN or infinite"),
    "zero-length": (np.zeros(0, np.float32), None, "train.tsv:3: utterance a: 0 s from 0 s; expected a duration > 0"),
    "not as listed": (np.ones(16000, np.float32), 9000, "utterance a: .*a.wav has 1.00 s, its list says 0.56 s; make"),
    "shorter than listed": (np.ones(16000, np.float32), 30000, "a.wav has 1.00 s, its list says 1.88 s; make the list"),
    "no number": (np.ones(16000, np.float32), -5, "train.tsv:3: utterance a: found 'a.wav\t-5'; expected path, tab"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("task", ["pretraining", "finetuning"])
def test_a_bad_recording_is_one_line_or_left_out(tmp_path, name, task):
    samples, claimed, message = BAD[name]
    write_list(tmp_path, samples, claimed=claimed)

    def batches(on_error):
        data = {"on_error": on_error, "min_samples": 0}
        if task == "pretraining":
            dataset = pretraining_set(pretrain_config(tmp_path, None, data=data))
        else:
            dataset = finetuning_set(finetune_config(tmp_path, None, data=data))
        return list(loader(dataset, [Plan(0, [Part(0, list(range(len(dataset))))])]))

    with pytest.raises((LoadingError, ManifestError), match=message) as error:
        batches("stop")
    assert "\n" not in str(error.value)
    (batch,) = batches("skip")
    assert batch.ids == ["b"]


def test_a_process_that_can_read_nothing_takes_part_with_a_stand_in(tmp_path):
    write_list(tmp_path, with_nan(16000))
    dataset = pretraining_set(pretrain_config(tmp_path, None, data={"on_error": "skip", "min_samples": 0}))
    batch = dataset[Plan(0, [Part(0, [1])])]
    assert (batch.ids, batch.counts, batch.n_targets) == (["b"], False, 0)
    assert [failure.index for failure in batch.failures] == [1]


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("on_error", "message"),
    [("skip", "not one utterance can be used: utterance a: .*NaN or infinite"), ("stop", "^utterance a: .*NaN or inf")],
)
def test_where_nothing_can_be_read_one_line_says_so_out_of_a_worker_too(tmp_path, workers, on_error, message):
    write_list(tmp_path, with_nan(16000))
    dataset = pretraining_set(pretrain_config(tmp_path, None, data={"on_error": on_error, "min_samples": 0}))
    dataset = PretrainingSet(dataset.utterances[1:], dataset.cfg)
    with pytest.raises(LoadingError, match=message) as error:
        list(loader(dataset, [Plan(0, [Part(0, [0])])], workers=workers))
    assert "\n" not in str(error.value)


def test_signals_to_the_group_of_a_training_do_not_reach_its_workers(tmp_path):
    write_list(tmp_path, np.ones(16000, np.float32))
    dataset = pretraining_set(pretrain_config(tmp_path, None, data={"min_samples": 0}))
    assert loader(dataset, [], workers=1).worker_init_fn is leave_group


def test_lists_that_do_not_match_are_one_line(tmp_path):
    write_list(tmp_path, np.ones(16000, np.float32))
    (tmp_path / "train.ltr").write_text("A |\n")
    cfg = finetune_config(tmp_path, None)
    with pytest.raises(ManifestError, match=r"train.ltr: 1 lines; expected 2, one for each entry of the .tsv"):
        finetuning_set(cfg)
    (tmp_path / "train.ltr").unlink()
    with pytest.raises(ManifestError, match=r"train.tsv: none of its 2 utterances has a text; expected .*train.ltr"):
        finetuning_set(cfg)


def test_a_clip_longer_than_a_sub_batch_is_cropped_in_pre_training_and_named_in_fine_tuning(tmp_path):
    write_list(tmp_path, 0.1 * np.ones(100000, np.float32))
    dataset = pretraining_set(pretrain_config(tmp_path, None, data={"max_samples": 0, "max_tokens": 40000}))
    assert dataset[Plan(0, [Part(0, [1])])].audio_BN.shape == (1, 40000)
    cfg = finetune_config(tmp_path, None, data={"max_tokens": 40000})
    with pytest.raises(
        ManifestError, match="utterance a: 100000 samples do not fit into data.max_tokens = 40000; raise"
    ):
        finetuning_set(cfg)
    found = read_utterances(
        ("train",), replace(cfg.data, on_error="skip"), cfg.model, training=True, spelling=LETTERS.spelling()
    )
    assert [u.id for u in found.utterances] == ["b"]
    assert len(found.skipped) == 1
    assert "do not fit into data.max_tokens" in found.skipped[0]


def test_short_utterances_are_left_out_and_counted(corpus, tmp_path):
    cfg = pretrain_config(corpus, None, data={"min_samples": 12000})
    found = read_utterances(("train",), cfg.data, cfg.model, training=True)
    (told,) = found.skipped
    assert told == f"{16 - len(found.utterances)} of 16 utterances shorter than 12000 samples"
    with pytest.raises(ManifestError, match=r"no utterance to train on: none is named; name lists with --data.train"):
        read_utterances((), cfg.data, cfg.model, training=True)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ManifestError, match=r"empty: no .flac or .wav in it that can be used"):
        read_utterances((str(tmp_path / "empty"),), cfg.data, cfg.model, training=False)
    (tmp_path / "empty" / "a.wav").write_bytes(b"")
    with pytest.raises(ManifestError, match="utterance a: .*the file is empty"):
        read_utterances((str(tmp_path / "empty"),), cfg.data, cfg.model, training=False)


def test_a_list_with_a_bad_first_recording_is_read_without_it(tmp_path):
    write_list(tmp_path, 0.1 * np.ones(16000, np.float32))
    (tmp_path / "b.wav").write_bytes(b"no sound")
    cfg = finetune_config(tmp_path, None)
    with pytest.raises(ManifestError, match=r"train.tsv:2: utterance b: .*b.wav: cannot be read as audio"):
        finetuning_set(cfg)
    dataset = finetuning_set(replace(cfg, data=replace(cfg.data, on_error="skip")))
    assert [(u.id, u.text) for u in dataset.utterances] == [("a", "A")]


def test_a_folder_is_named_by_a_dot_too(corpus):
    cfg = pretrain_config(corpus, None)
    assert len(read_utterances((".",), cfg.data, cfg.model, training=True).utterances) == 20
    assert located(".", None) == Path()


def test_a_recording_that_is_too_short_for_its_list_is_named_even_within_the_tolerance(tmp_path):
    write_list(tmp_path, 0.1 * np.ones(100, np.float32), claimed=1500)
    for on_error in ("stop", "skip"):
        dataset = pretraining_set(pretrain_config(tmp_path, None, data={"on_error": on_error, "min_samples": 0}))
        batches = loader(dataset, [Plan(0, [Part(0, list(range(len(dataset))))])])
        if on_error == "stop":
            with pytest.raises(LoadingError, match=r"utterance a: the model needs 3 frames, and .*a.wav has 0"):
                list(batches)
        else:
            assert [batch.ids for batch in batches] == [["b"]]


def test_recordings_at_other_rates_and_of_two_channels_are_as_long_as_their_list_says(tmp_path):
    soundfile.write(tmp_path / "ä b.wav", 0.1 * np.ones((44100, 2)), 44100)
    (tmp_path / "train.tsv").write_text(f"{tmp_path}\nä b.wav\t44100\n")
    dataset = pretraining_set(pretrain_config(tmp_path, None))
    assert dataset.sizes == [16000]
    assert len(dataset.item(0).samples) == 16000


def test_texts_without_a_letter_are_bad_and_empty_ones_are_silence(tmp_path):
    write_list(tmp_path, 0.1 * np.ones(16000, np.float32), text="")
    dataset = finetuning_set(finetune_config(tmp_path, None))
    assert [u.text for u in dataset.utterances] == ["B", ""]
    assert dataset[Plan(0, [Part(0, [0, 1])])].target_lengths_B.tolist() == [2, 0]
    (tmp_path / "train.ltr").write_text("B |\n. . . |\n")
    cfg = finetune_config(tmp_path, None)
    with pytest.raises(ManifestError, match=r"utterance a: nothing of its text '...' can be written with the labels"):
        finetuning_set(cfg)
    data = replace(cfg.data, on_error="skip")
    found = read_utterances(("train",), data, cfg.model, training=True, spelling=LETTERS.spelling())
    assert [u.id for u in found.utterances] == ["b"]
    assert len(found.skipped) == 1


def test_a_validation_leaves_out_neither_what_is_short_nor_what_does_not_fit(tmp_path):
    write_list(tmp_path, 0.1 * np.ones(5000, np.float32), text=" ".join("SOMEONE" * 9) + " |")
    cfg = finetune_config(tmp_path, None, data={"min_samples": 8000, "max_tokens": 9000, "on_error": "skip"})
    dataset = finetuning_set(cfg, training=False)
    (batch,) = loader(dataset, [Plan(0, [Part(0, [0, 1])])])
    assert batch.ids == ["b", "a"]
    data = replace(cfg.data, max_tokens_valid=9000)
    found = read_utterances(("train",), data, cfg.model, training=False, spelling=LETTERS.spelling())
    assert ([u.id for u in found.utterances], len(found.skipped)) == (["a"], 1)
    assert "do not fit into data.max_tokens_valid = 9000" in found.skipped[0]


def test_pre_training_leaves_out_what_has_too_few_frames_to_hide_some(tmp_path):
    write_list(tmp_path, 0.1 * np.ones(1039, np.float32))
    cfg = pretrain_config(tmp_path, None, data={"min_samples": 0})
    for training in (True, False):
        found = read_utterances(("train",), cfg.data, cfg.model, training=training)
        assert [u.id for u in found.utterances] == ["b"]
        assert found.skipped == ["1 of 2 utterances shorter than 1040 samples"]


def test_a_list_of_fairseq_says_itself_where_its_recordings_are_and_others_start_from_the_root(corpus, tmp_path):
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "dev.tsv").write_text((corpus / "dev.tsv").read_text())
    (tmp_path / "lists" / "dev.jsonl").write_text('{"audio_filepath": "dev/dev-00.wav", "text": "A"}\n')
    cfg = pretrain_config(tmp_path / "lists", None)
    assert len(read_utterances(("dev",), cfg.data, cfg.model, training=False).utterances) == 4
    data = replace(cfg.data, root=corpus)
    manifest = str(tmp_path / "lists" / "dev.jsonl")
    assert read_utterances((manifest,), data, cfg.model, training=False).utterances[0].audio.is_file()


# Letters


def test_texts_become_letters_and_come_back():
    assert [LETTERS.labels[i] for i in LETTERS.encode("HI YOU")] == [*"HI|YOU|"]
    assert LETTERS.decode(LETTERS.encode("HI YOU")) == "HI YOU"
    assert LETTERS.decode([2, *LETTERS.encode("A"), 3]) == "A"
    assert LETTERS.spelling()(" it's  5 o'clock ") == "IT'S FIVE O'CLOCK"
    small = Letters(("_", " ", "a", "b"))
    assert small.encode("a b") == [2, 1, 3]
    assert small.spelling()("A B") == "a b"


def test_a_character_that_is_no_label_is_named():
    with pytest.raises(VocabularyError, match=r"character '5' of 'A 5' is none of the labels .*normalise the text"):
        LETTERS.encode("A 5")
