"""Training: its curve is on record, it resumes bitwise, and it starts from what others trained."""

import pickle
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from torch import nn

import fastconformer
from common import config
from common.augmentation import SpecAugmentConfig
from common.config import ConfigError
from common.data.manifest import ManifestError, read_sources
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from common.runs.run_directory import started
from common.text.pieces import SPACE, Pieces, read_pieces, train_pieces
from common.text.vocabulary import VocabularyError
from common.training.layers.batch_norm import SyncBatchNorm1d
from common.training.state import TrainingError
from fastconformer.checkpoints import own
from fastconformer.config import Config, LossConfig
from fastconformer.train import main
from fastconformer.training.run import NAME, Run, started_from
from tests.fastconformer import golden
from tests.fastconformer.runs import TOY, toy_config
from tests.training import directory_of, events, logged, on_record, state_of

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def texts(corpus):
    utterances, _ = read_sources(("train-clean",), root=corpus, on_error="stop", training=True)
    return [utterance.text.lower() for utterance in utterances]


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    """The run directory of the toy."""
    folder = tmp_path_factory.mktemp("run")
    main(toy_config(corpus, folder, epochs=4))
    return folder


def test_the_loss_curve_is_the_one_on_record(trained):
    recorded = on_record(Path(__file__).with_name("golden_toy_losses.txt"))
    np.testing.assert_allclose(logged(trained), recorded, rtol=2e-3)


@pytest.mark.parametrize("sync", [True, False])
def test_batch_statistics_are_those_of_all_processes_unless_told_otherwise(corpus, tmp_path, sync):
    cfg = toy_config(corpus, tmp_path, **({} if sync else {"sync_batch_norm": False}))
    with directory_of(cfg, NAME) as directory:
        run = Run(cfg, None, directory)
    for model in (run.model, run.learner.ema.model):
        assert {type(m) is SyncBatchNorm1d for m in model.modules() if isinstance(m, nn.BatchNorm1d)} == {sync}


def test_a_checkpoint_is_all_that_use_needs(corpus, trained):
    path = checkpoint.step_path(trained, "fastconformer", 12)
    averaged = fastconformer.load(path, device="cpu")
    recording = next((corpus / "dev-clean").rglob("*.flac"))
    assert averaged.transcribe([recording])[0].seconds > 0.5
    assert averaged.pieces.decode(averaged.pieces.encode("red cat")) == "red cat"


def test_a_batch_in_parts_is_the_step_of_the_whole_batch(corpus, tmp_path):
    for parts in (1, 2):
        cfg = toy_config(corpus, tmp_path / str(parts), epochs=1, grad_accumulation=parts)
        still = {"dropout": 0.0, "attention_dropout": 0.0, "norm": "layer"}
        encoder = replace(cfg.model.encoder, **still)
        cfg = replace(
            cfg,
            model=replace(cfg.model, encoder=encoder, head_dropout=0.0),
            spec_augment=SpecAugmentConfig(freq_masks=0, time_masks=0),
            loss=replace(cfg.loss, omega=0.0),
        )
        main(cfg)
    np.testing.assert_allclose(logged(tmp_path / "1"), logged(tmp_path / "2"), rtol=1e-4)


@pytest.mark.parametrize("heads", [{"ctc": False}, {"transducer": "none"}, {"transducer": "rnnt", "ctc": False}])
def test_models_with_one_head_are_trained_by_its_loss(corpus, tmp_path, heads):
    cfg = toy_config(corpus, tmp_path, epochs=1)
    main(replace(cfg, model=replace(cfg.model, **heads)))
    total, of_transducer, of_ctc = (logged(tmp_path, f"train_{name}") for name in ("loss", "transducer", "ctc"))
    assert total == (of_ctc if heads.get("transducer") == "none" else of_transducer)
    asr = fastconformer.load(tmp_path / "fastconformer_best.pt", device="cpu")
    assert asr.head == ("ctc" if heads.get("transducer") == "none" else "transducer")


def test_ctc_counts_alone_in_the_epochs_that_are_asked_for(corpus, tmp_path):
    main(toy_config(corpus, tmp_path, loss=LossConfig(ctc_epochs=1)))
    total, of_transducer, of_ctc = (logged(tmp_path, f"train_{name}") for name in ("loss", "transducer", "ctc"))
    assert total[:3] == of_ctc[:3]
    assert total[3:] == pytest.approx([0.7 * t + 0.3 * c for t, c in zip(of_transducer[3:], of_ctc[3:], strict=True)])


def test_training_starts_from_a_model_of_nemo_with_its_pieces(corpus, tmp_path):
    start = tmp_path / "tdt_ctc.nemo"
    start.write_bytes((golden.folder() / "tdt_ctc.nemo").read_bytes())
    cfg = toy_config(corpus, tmp_path, checkpoint=start, steps=1)
    main(cfg)
    saved = checkpoint.step_path(tmp_path, "fastconformer", 1)
    own, theirs = (fastconformer.load(path, device="cpu") for path in (saved, start))
    assert own.pieces == theirs.pieces
    assert own.config == theirs.config
    assert not [line for line in events(tmp_path) if "starts anew" in line or "unused" in line]
    start.unlink()  # a run that goes on has all of it
    main(replace(cfg, steps=2))
    assert any("resumed at step 1" in line for line in events(tmp_path))


def test_a_model_without_a_way_to_cut_texts_is_not_trained(corpus, tmp_path, monkeypatch):
    from tests.fastconformer.checkpoints import test_huggingface

    test_huggingface.folder_of(tmp_path / "theirs", "tdt")
    with pytest.raises(CheckpointError, match="has no SentencePiece model, without which texts cannot be cut"):
        main(toy_config(corpus, tmp_path / "run", checkpoint=tmp_path / "theirs"))


def test_fine_tuning_from_a_folder_with_tokenizer_json_alone_cuts_texts_as_its_tokenizer_does(corpus, texts, tmp_path):
    from transformers.convert_slow_tokenizer import ParakeetConverter

    from tests.fastconformer.checkpoints import test_huggingface

    folder, spm = tmp_path / "theirs", tmp_path / "spm.model"
    test_huggingface.folder_of(folder, "tdt")
    spm.write_bytes(train_pieces(texts, size=24, kind="bpe").model)
    tokenizer = ParakeetConverter(str(spm)).converted()
    tokenizer.add_special_tokens(["<pad>"])  # the blank
    tokenizer.save(str(folder / "tokenizer.json"))
    cfg = toy_config(corpus, tmp_path / "run", checkpoint=folder, steps=1)
    main(cfg)
    (folder / "tokenizer.json").unlink()
    main(replace(cfg, steps=2))
    assert any("resumed at step 1" in line for line in events(cfg.output_dir))
    pieces = fastconformer.load(checkpoint.step_path(cfg.output_dir, "fastconformer", 2), device="cpu").pieces
    for text in texts:
        assert pieces.encode(text) == read_pieces(spm).encode(text) == tokenizer.encode(text).ids
        assert pickle.loads(pickle.dumps(pieces)).decode(pieces.encode(text)) == text
    assert len(pieces) == 25
    with pytest.raises(VocabularyError, match="'q' in 'queen' is in none of the 24 pieces"):
        pieces.encode("queen")


def test_settings_that_a_checkpoint_decides_are_told_in_one_line_unless_asked_otherwise(corpus, trained, tmp_path):
    start = checkpoint.step_path(trained, "fastconformer", 12)
    cfg = toy_config(corpus, tmp_path / "own", checkpoint=start, steps=1)
    cfg = replace(cfg, model=replace(cfg.model, pieces=19, joint_width=20))
    main(cfg)
    (told,) = [line for line in events(cfg.output_dir) if line.startswith(f"{start}: its")]
    assert told == f"{start}: its architecture counts: model.pieces 19 -> 18, model.joint_width 20 -> 16"
    assert f"{start}: taken" in events(cfg.output_dir)
    cfg = replace(cfg, from_checkpoint="half", output_dir=tmp_path / "half")
    main(cfg)
    (told,) = [line for line in events(cfg.output_dir) if line.startswith(f"{start}: ")]
    assert re.search(
        r": of other shapes, such as prediction.embedding.weight, \(19, 16\) in the check.*start anew$", told
    )
    half = fastconformer.load(checkpoint.step_path(cfg.output_dir, "fastconformer", 1), device="cpu")
    assert half.config.pieces == 19
    wide = replace(cfg, model=replace(cfg.model, encoder=replace(cfg.model.encoder, width=32)))
    with pytest.raises(
        CheckpointError, match=r"\d% of its numbers fit this model, expected at least 50%: .* any takes"
    ):
        main(replace(wide, output_dir=tmp_path / "wide"))
    main(replace(wide, from_checkpoint="any", output_dir=tmp_path / "any"))


@pytest.mark.parametrize(
    ("labels", "kept"),
    [((SPACE, "a", "n"), False), ((SPACE, "A", "n"), True), ((SPACE, "a", "?"), True), (("<0x41>", "<unk>"), False)],
)
def test_texts_stay_as_they_are_where_the_pieces_write_capitals_or_punctuation(labels, kept):
    assert Pieces(labels, unknown=frozenset({labels.index("<unk>")} if "<unk>" in labels else ())).are_cased == kept


def test_a_cased_model_is_fine_tuned_on_cased_texts(corpus, texts, trained, tmp_path):
    pieces = train_pieces([text.title() for text in texts], size=18, kind="bpe")
    checkpoint.save(tmp_path / "cased.pt", state_of(trained) | {"pieces": own.encoded_pieces(pieces)})
    for asked, normalizes in ((None, False), (True, True)):
        cfg = toy_config(corpus, tmp_path / str(asked), checkpoint=tmp_path / "cased.pt")
        cfg = replace(cfg, data=replace(cfg.data, normalize_text=asked))
        with started(cfg, NAME) as directory:
            run = Run(*started_from(cfg, directory), directory)
            assert run.spelling("Two  Cats.") == ("two cats" if normalizes else "Two Cats.")


def test_pieces_that_cannot_be_learned_are_named(corpus, tmp_path):
    cfg = toy_config(corpus, tmp_path)
    with pytest.raises(ManifestError, match="model.pieces = 5000: 5000 unigram pieces cannot be learned"):
        main(replace(cfg, model=replace(cfg.model, pieces=5000)))


def test_targets_that_do_not_fit_name_the_utterance_or_are_skipped(corpus, tmp_path):
    cfg = toy_config(corpus, tmp_path, epochs=1)
    encoder = replace(cfg.model.encoder, subsampling=8)
    cfg = replace(cfg, features=replace(cfg.features, hop_samples=1600), model=replace(cfg.model, encoder=encoder))
    hybrid = replace(cfg, output_dir=tmp_path / "hybrid")
    main(hybrid)  # a transducer emits any number of pieces at a frame
    assert np.isfinite(logged(tmp_path / "hybrid")).all()
    cfg = replace(cfg, model=replace(cfg.model, transducer="none"))
    with pytest.raises(
        TrainingError,
        match=r"utterance 1-2-\d+: \d+ labels do not fit into the \d encoder frames of .*: they need \d+; leave it out",
    ):
        main(cfg)
    main(replace(cfg, output_dir=tmp_path / "skip", data=replace(cfg.data, on_error="skip")))
    assert any("labels do not fit into the" in line for line in events(tmp_path / "skip"))


def test_damaged_or_foreign_checkpoints_are_named(trained, tmp_path):
    state = state_of(trained)
    for change, message in [
        ({"format": "jasper"}, "not a FastConformer checkpoint of this repository; it holds"),
        ({"pieces": "%%"}, "its own description cannot be read: no SentencePiece model"),
        ({"config": {}}, "its own description cannot be read: 'model'"),
        (
            {"config": state["config"] | {"model": state["config"]["model"] | {"pieces": 7}}},
            "7 pieces by its description",
        ),
    ]:
        checkpoint.save(tmp_path / "a.pt", state | change)
        with pytest.raises(CheckpointError, match=message):
            fastconformer.load(tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match="no such checkpoint"):
        fastconformer.load(tmp_path / "none.pt")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--loss.ctc_weight", "2"], "ctc_weight = 2.0: expected 0 to 1"),
        (["--loss.mask_prediction", "1.5"], "mask_prediction = 1.5: expected 0 to 1"),
        (["--loss.clip", "-1"], "clip = -1.0: expected a number of at least 0"),
        (["--model.transducer", "none", "--model.ctc", "False"], "a model needs a head"),
        (["--model.durations", "2", "1"], r"durations = \(2, 1\): expected frames in ascending order"),
        (["--model.encoder.heads", "3"], "width = 16, heads = 3: expected an even multiple"),
        (["--model.encoder.kernel", "4"], "kernel = 4: expected an odd number of frames"),
        (["--model.encoder.attention", "chunked", "--model.encoder.left_frames", "4"], "expected right_frames >= 0"),
        (
            ["--model.encoder.attention", "chunked_right", "--model.encoder.left_frames", "4"],
            "chunk_frames = 0: expected",
        ),
    ],
)
def test_impossible_settings_are_named(flags, message, capsys):
    with pytest.raises((ConfigError, SystemExit)) as caught:
        config.command_line(Config, [str(TOY), *flags], description="")
    said = str(caught.value) + capsys.readouterr().err
    assert re.search(message, " ".join(said.split())), said


def test_all_configurations_are_ones():
    for path in TOY.parent.glob("*.toml"):
        assert config.load(Config, path).model.encoder.layers
