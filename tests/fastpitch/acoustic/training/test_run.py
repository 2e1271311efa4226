"""What a run takes over from its directory or from a checkpoint, and what it refuses."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from common.data.loading import Failure, LoadingError
from common.data.manifest import read_manifest
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from fastpitch.acoustic.checkpoints.reading import of_state
from fastpitch.acoustic.config import Config, DataConfig, rate_warning, scaled_rate
from fastpitch.acoustic.training import data
from fastpitch.acoustic.training.run import embeddings_of_shared_symbols
from fastpitch.front.symbols import TextProcessor
from fastpitch.speaking import synthesizer
from fastpitch.train import main, update
from tests.data import shared
from tests.fastpitch.runs import run_of, toy_config
from tests.training import events


@pytest.fixture(scope="module")
def stopped(corpus, tmp_path_factory) -> Config:
    """The configuration of a run without average, stopped after two of the three steps of its first epoch."""
    cfg = toy_config(corpus, tmp_path_factory.mktemp("stopped"), ema=0.0)
    main(replace(cfg, steps=2))
    return cfg


def test_fine_tuning_with_other_symbols_keeps_the_embeddings_of_those_that_both_know(stopped, tmp_path):
    start = checkpoint.saved_steps(stopped.output_dir, "fastpitch")[0][1]
    text = replace(stopped.text, symbol_set="english_mandarin_basic")
    cfg = replace(stopped, text=text, checkpoint=start, output_dir=tmp_path)
    cfg = replace(cfg, data=replace(cfg.data, pitch_mean=(150.0,)))
    with run_of(cfg) as run:
        model, progress = run.model, run.state.progress
    theirs = checkpoint.load(start)["weights"]["symbols.weight"]
    ours = model.symbols.weight
    before, after = TextProcessor(stopped.text).symbols, TextProcessor(text).symbols
    assert len(after) > len(before)
    for symbol in before:
        assert torch.equal(ours[after.index(symbol)], theirs[before.index(symbol)])
    assert f"{start}: embeddings of {len(before)} of {len(after)} symbols kept, the others start anew" in events(
        tmp_path
    )
    assert {symbol for symbol, is_it in zip(after, model.symbols_learned, strict=True) if is_it} == learned(start)
    assert model.pitch_mean.tolist() == [150.0]
    assert progress.step == 0


def learned(path: Path) -> set[str]:
    return set(synthesizer.load(path, device="cpu").text.learned)


def test_a_voice_knows_the_symbols_of_the_texts_that_it_has_learned_from(corpus, stopped, tmp_path, caplog):
    cfg = toy_config(corpus, tmp_path)
    main(replace(cfg, epochs=1))
    voice = synthesizer.load(checkpoint.saved_steps(tmp_path, "fastpitch")[0][1], device="cpu")
    texts = read_manifest(corpus / "train").utterances
    assert set(voice.text.learned) == {s for each in texts for s in TextProcessor(cfg.text).encode(each.text).symbols}
    assert voice.plan("One, two.")[0].encoded.symbols == voice.plan("One two")[0].encoded.symbols
    assert "skipped" not in caplog.text
    stopped_early = checkpoint.saved_steps(stopped.output_dir, "fastpitch")[0][1]
    main(replace(cfg, epochs=1, checkpoint=stopped_early, output_dir=tmp_path / "further"))
    assert learned(checkpoint.saved_steps(tmp_path / "further", "fastpitch")[0][1]) == set(voice.text.learned)


def test_fine_tuning_makes_the_model_of_the_checkpoint_with_its_features_and_its_reading_of_texts(stopped, tmp_path):
    start = checkpoint.saved_steps(stopped.output_dir, "fastpitch")[0][1]
    published = Config()  # 384 channels, 80 mel bins, other symbols' treatment
    cfg = replace(published, data=stopped.data, checkpoint=start, output_dir=tmp_path / "own", batch_size=4)
    cfg = replace(cfg, device="cpu", tensorboard=False, samples=0)
    main(replace(cfg, steps=1))
    with run_of(cfg) as run:  # and the run goes on
        assert (run.cfg.model, run.cfg.features, run.cfg.text) == (stopped.model, stopped.features, stopped.text)
        assert run.state.progress.step == 1
    lines = [line for line in events(cfg.output_dir) if line.startswith(f"{start}: ")]
    assert len(lines) == 2
    assert lines[0].startswith(
        f"{start}: its architecture counts: model.channels 384 -> 16, model.encoder.layers 6 -> 1"
    )
    assert lines[1] == f"{start}: taken"
    with pytest.raises(
        CheckpointError, match="0% of its numbers fit this model, expected at least 50%: .* any takes what"
    ):
        main(replace(cfg, from_checkpoint="half", output_dir=tmp_path / "half"))


def test_what_a_configuration_asks_for_stays_and_is_told_as_what_is_new(stopped, tmp_path):
    start = checkpoint.saved_steps(stopped.output_dir, "fastpitch")[0][1]
    cfg = replace(stopped, checkpoint=start, output_dir=tmp_path, model=replace(Config().model, speakers=2))
    cfg = replace(cfg, data=replace(cfg.data, speakers=("", "another")))
    with run_of(cfg) as run:
        assert run.cfg.model == replace(stopped.model, speakers=2)
    (told,) = [line for line in events(tmp_path) if line.startswith(f"{start}: ") and "counts" not in line]
    assert "pitch_mean: (1,) in the checkpoint, (2,) here, starts anew" in told
    assert told.endswith("speakers.weight: not in the checkpoint, keeps its initial value")


def test_fine_tuning_begins_with_a_published_checkpoint(corpus, tmp_path):
    start = shared("golden/tts/FastPitch_checkpoint_3.pt")
    published = of_state(checkpoint.load(start), start)
    cfg = replace(published.config, checkpoint=start, output_dir=tmp_path)
    cfg = replace(cfg, data=replace(cfg.data, root=corpus, train=("train",), validation=()), batch_size=1, device="cpu")
    with run_of(cfg) as run:
        weights = run.model.state_dict()
    same = [name for name in weights if torch.equal(weights[name], published.weights.get(name, weights[name][:0]))]
    assert set(weights) - set(same) <= {"pitch_mean", "pitch_std", "pitch_range", "symbols_learned"}
    assert weights["symbols_learned"].all()


def test_fine_tuning_begins_with_a_voice_by_its_name(stopped, tmp_path, monkeypatch):
    monkeypatch.setenv("SPEECH_VOICES", str(tmp_path))
    (tmp_path / "toy").mkdir()
    shutil.copy(checkpoint.saved_steps(stopped.output_dir, "fastpitch")[0][1], tmp_path / "toy" / "fastpitch.pt")
    with run_of(replace(stopped, checkpoint=Path("toy"), output_dir=tmp_path / "run")) as run:
        assert run.state.progress.step == 0
        assert f"{tmp_path / 'toy' / 'fastpitch.pt'}: taken" in events(tmp_path / "run")


def test_models_of_other_width_share_no_embeddings():
    embeddings, kept = embeddings_of_shared_symbols(torch.ones(2, 3), ("_", "a"), torch.zeros(3, 4), ("_", "a", "b"))
    assert kept == 0
    assert embeddings.shape == (2, 3)


def test_where_not_one_clip_can_be_used_it_says_why(stopped, tmp_path):
    with run_of(replace(stopped, output_dir=tmp_path)) as run:
        run.train_set.item = lambda index, epoch: Failure(index, "utterance X: no good")
        batch = data.collate([Failure(0, "utterance X: no good")])
        with pytest.raises(LoadingError, match="not one utterance can be used: utterance X: no good"):
            update(run, batch)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"format": "fastpitch", "weights": {}}, "x.pt: its own description cannot be read: 'ema'"),
        (
            {"model": 1},
            "x.pt: not a checkpoint of this repository or of DeepLearningExamples' FastPitch; it holds model",
        ),
    ],
)
def test_what_is_no_checkpoint_of_fastpitch_says_what_it_holds(state, message):
    with pytest.raises(CheckpointError, match=message):
        of_state(state, Path("x.pt"))


def test_a_published_checkpoint_whose_embeddings_are_not_of_its_symbol_set_is_refused():
    path = shared("golden/tts/FastPitch_checkpoint_3.pt")
    state = checkpoint.load(path)
    state["train_setup"]["symbol_set"] = "english_basic_lowercase"
    with pytest.raises(CheckpointError, match="has embeddings of 148 symbols; expected the 123 of its symbol set"):
        of_state(state, path)
    state["train_setup"]["symbol_set"] = "klingon"
    with pytest.raises(CheckpointError, match="its training setup cannot be used here: symbol_set = 'klingon'"):
        of_state(state, path)


@pytest.mark.parametrize(("clips", "processes", "scaled"), [(32, 8, 0.1), (16, 4, 0.05), (128, 8, 0.2)])
def test_the_rate_follows_the_square_root_of_the_clips_it_was_not_made_for(clips, processes, scaled):
    cfg = Config(batch_size=clips)
    assert scaled_rate(cfg, processes) == 0.1
    assert scaled_rate(replace(cfg, lr_made_for=256), processes) == pytest.approx(scaled)
    assert rate_warning(replace(cfg, lr_made_for=256), processes) is None
    assert rate_warning(replace(cfg, optim=replace(cfg.optim, lr=0.02)), processes) is None
    warning = rate_warning(cfg, processes)
    if scaled == 0.1:
        assert warning is None
    else:
        assert f"of 256 clips, and these have {clips * processes}: --lr_made_for 256 scales it to {scaled}" in warning


@pytest.mark.parametrize(
    ("found", "beside"), [({"batch_seconds": 60.0}, "batch_seconds"), ({"data": DataConfig(fit=True)}, "data.fit")]
)
def test_a_rate_for_a_number_of_clips_is_refused_where_their_number_varies(found, beside):
    with pytest.raises(ValueError, match=f"lr_made_for = 256: expected 0 beside {beside}, whose clips vary"):
        Config(lr_made_for=256, **found)


def test_a_small_batch_with_the_published_rate_is_warned_of(stopped):
    assert any("these have 4: --lr_made_for 256 scales it to 0.0125" in event for event in events(stopped.output_dir))
