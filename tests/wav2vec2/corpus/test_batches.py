from dataclasses import replace

import numpy as np
import pytest
import torch

from common.data.batching import BatchingError
from tests.timing import assert_takes_less
from tests.wav2vec2.corpus.sets import LETTERS, finetuning_set, pretraining_set
from tests.wav2vec2.runs import RATE, finetune_config, pretrain_config
from wav2vec2.corpus.batches import (
    Plan,
    SubBatch,
    on_device,
    training_plans,
    validation_plans,
)
from wav2vec2.network.extractor import n_frames

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
    assert_takes_less(2, lambda: training_plans(sizes, cfg, epoch=0, ranks=8))


# Batches


def test_a_batch_of_pre_training_is_cropped_to_the_shortest_of_each_sub_batch(corpus):
    dataset = pretraining_set(pretrain_config(corpus, None, data={"max_samples": 14000, "max_tokens": 100000}))
    short, *others = sorted(range(len(dataset)), key=lambda i: dataset.sizes[i])
    batch = dataset[Plan(0, [SubBatch(0, [short, others[-1]]), SubBatch(1, others[-4:-1])])]
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
    alone, beside = (
        dataset[Plan(2, [SubBatch(4, [0, 3])])],
        dataset[Plan(2, [SubBatch(1, [5, 6, 7]), SubBatch(4, [0, 3])])],
    )
    assert torch.equal(alone.audio_BN, beside.audio_BN[3:, : alone.audio_BN.shape[1]])
    for a, b in zip(alone.targets[0], beside.targets[1], strict=True):
        assert torch.equal(a, b)
    assert torch.equal(alone.channel_mask_BD, beside.channel_mask_BD[3:])
    assert not torch.equal(alone.audio_BN, dataset[Plan(3, [SubBatch(4, [0, 3])])].audio_BN)


def test_crops_lie_anywhere_in_the_recording(corpus):
    dataset = pretraining_set(pretrain_config(corpus, None, data={"max_samples": 8000}))
    whole = torch.from_numpy(dataset.item(3).samples)
    crops = [dataset[Plan(epoch, [SubBatch(0, [3])])].audio_BN[0] for epoch in range(4)]
    starts = [int((whole.unfold(0, 8000, 1) - crop).abs().sum(1).argmin()) for crop in crops]
    assert len(set(starts)) == 4
    assert all(torch.equal(whole[start : start + 8000], crop) for start, crop in zip(starts, crops, strict=True))


def test_a_batch_of_fine_tuning_is_padded_and_labelled(corpus):
    dataset = finetuning_set(finetune_config(corpus, None, mask={"channel_prob": 0.3, "channel_length": 2}))
    batch = dataset[Plan(0, [SubBatch(0, [0, 1]), SubBatch(1, [2])])]
    assert batch.audio_BN.shape[1] == max(batch.samples_B)
    assert LETTERS.decode(batch.targets_BU[1, : batch.target_lengths_B[1]].tolist()) == dataset.utterances[1].text
    assert not batch.audio_BN[0, batch.samples_B[0] :].any()
    assert batch.mask_BS.shape[0] == batch.channel_mask_BD.shape[0] == 3
    frames = [n_frames(int(n), dataset.cfg.model.conv_layers) for n in batch.samples_B]
    assert not any(mask[n:].any() for mask, n in zip(batch.mask_BS, frames, strict=True))
    validation = finetuning_set(finetune_config(corpus, None), training=False)[Plan(0, [SubBatch(0, [0])])]
    assert validation.mask_BS is None
    assert validation.channel_mask_BD is None
    assert on_device(batch, torch.device("cpu")).ids == batch.ids
