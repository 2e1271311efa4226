from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from common.data.loading import Failure, LoadingError
from common.data.manifest import ManifestError
from tests.data import OneDamaged, shared
from tests.wav2vec2.corpus.sets import LETTERS, finetuning_set, pretraining_set
from tests.wav2vec2.runs import RATE, finetune_config, pretrain_config
from wav2vec2.corpus.batches import Plan, PretrainingSet, SubBatch, loader
from wav2vec2.corpus.sources import located, read_utterances


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
    batch = PretrainingSet(found, cfg)[Plan(0, [SubBatch(0, [0, 1])])]
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
        return list(loader(dataset, [Plan(0, [SubBatch(0, list(range(len(dataset))))])]))

    with pytest.raises((LoadingError, ManifestError), match=message) as error:
        batches("stop")
    assert "\n" not in str(error.value)
    (batch,) = batches("skip")
    assert batch.ids == ["b"]


def test_a_process_that_can_read_nothing_takes_part_with_a_stand_in(tmp_path):
    write_list(tmp_path, with_nan(16000))
    dataset = pretraining_set(pretrain_config(tmp_path, None, data={"on_error": "skip", "min_samples": 0}))
    batch = dataset[Plan(0, [SubBatch(0, [1])])]
    assert (batch.ids, batch.counts, batch.n_targets) == (["b"], False, 0)
    assert [failure.index for failure in batch.failures] == [1]
    dataset.utterances = dataset.recordings.utterances = OneDamaged(dataset.utterances)
    assert dataset[Plan(0, [SubBatch(0, [0, 1])])].failures == [Failure(1, "data.index: damaged: number 1 in it")]


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
        list(loader(dataset, [Plan(0, [SubBatch(0, [0])])], workers=workers))
    assert "\n" not in str(error.value)


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
    assert dataset[Plan(0, [SubBatch(0, [1])])].audio_BN.shape == (1, 40000)
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


def test_a_folder_is_named_by_a_dot_too(corpus):
    cfg = pretrain_config(corpus, None)
    assert len(read_utterances((".",), cfg.data, cfg.model, training=True).utterances) == 20
    assert located(".", None) == Path()


def test_a_recording_that_is_too_short_for_its_list_is_named_even_within_the_tolerance(tmp_path):
    write_list(tmp_path, 0.1 * np.ones(100, np.float32), claimed=1500)
    for on_error in ("stop", "skip"):
        dataset = pretraining_set(pretrain_config(tmp_path, None, data={"on_error": on_error, "min_samples": 0}))
        batches = loader(dataset, [Plan(0, [SubBatch(0, list(range(len(dataset))))])])
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
    assert dataset[Plan(0, [SubBatch(0, [0, 1])])].target_lengths_B.tolist() == [2, 0]
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
    (batch,) = loader(dataset, [Plan(0, [SubBatch(0, [0, 1])])])
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
