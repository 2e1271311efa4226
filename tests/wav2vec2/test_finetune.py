from dataclasses import replace

import jiwer
import pytest
import torch
from torch.nn import functional as F

from common import config
from common.config import ConfigError
from common.devices.distributed import World
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from common.training.state import TrainingError
from tests.processes import run_module
from tests.training import assert_same_state, events, logged, state_of
from tests.wav2vec2.runs import CONFIGS, SHAPE, WORDS, finetune_config, pretrain_config, run_of
from wav2vec2 import pretrain
from wav2vec2.contrastive.masking import MaskConfig
from wav2vec2.corpus.batches import Plan, SubBatch
from wav2vec2.corpus.letters import LIBRISPEECH_LABELS, Letters
from wav2vec2.finetune import evaluate, labels_of, main
from wav2vec2.network.config import ModelConfig
from wav2vec2.recognizer import load
from wav2vec2.run_config import DataConfig, FinetuneConfig, PretrainConfig

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def pretrained(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretrained")
    pretrain.main(pretrain_config(corpus, folder, max_updates=1))
    return folder / "wav2vec2_step00000001.pt"


def test_a_pretrained_model_learns_to_write_and_its_checkpoint_transcribes(corpus, tmp_path, pretrained):
    main(finetune_config(corpus, tmp_path, pretrained=pretrained, ema=0.9))
    for key in ("loss", "wer", "cer"):
        assert logged(tmp_path, f"dev_{key}")
        assert logged(tmp_path, f"dev_ema_{key}")
    state = state_of(tmp_path)
    assert tuple(state["config"]["model"]["labels"]) == LIBRISPEECH_LABELS
    assert state["config"]["model"] == config.to_dict(replace(SHAPE, labels=LIBRISPEECH_LABELS))
    model = load(checkpoint.saved_steps(tmp_path, "wav2vec2")[-1][1], ema=False)
    assert torch.equal(model.model.head.weight, state["weights"]["head.weight"])
    assert f"{pretrained}: taken over but for the output layer" in events(tmp_path)


def test_settings_that_the_pretrained_model_decides_are_told_unless_asked_otherwise(corpus, tmp_path, pretrained):
    cfg = finetune_config(corpus, tmp_path / "own", pretrained=pretrained)
    cfg = replace(cfg, model=replace(cfg.model, layers=3))
    with run_of(cfg) as run:
        assert run.cfg.model == replace(SHAPE, labels=LIBRISPEECH_LABELS)
        told = [
            line for line in events(tmp_path / "own") if line.startswith(f"{pretrained}: its architecture counts: ")
        ]
    assert len(told) == 1
    assert "model.layers 3 -> 2" in told[0]
    half = replace(cfg, model=replace(SHAPE, layers=3), from_checkpoint="half", output_dir=tmp_path / "half")
    with run_of(half) as run:
        assert run.cfg.model.layers == 3
        assert any("wav2vec2.* (12)" in line for line in events(tmp_path / "half"))


@pytest.mark.parametrize("stop_at", [1, 4])
def test_stopping_before_and_after_the_thaw_gives_bitwise_the_weights_of_never_stopping(
    corpus, tmp_path, pretrained, stop_at
):
    cfg = finetune_config(
        corpus, tmp_path / "whole", max_updates=5, pretrained=pretrained, freeze_updates=2, data={"validation": ()}
    )
    main(cfg)
    stopped = replace(cfg, output_dir=tmp_path / "stopped")
    assert main(replace(stopped, stop_at=stop_at)).step == stop_at
    main(replace(stopped, pretrained=None))  # the checkpoint says what the model is
    assert_same_state(state_of(tmp_path / "whole"), state_of(tmp_path / "stopped"))


def test_at_first_only_the_output_layer_learns_then_from_the_update_named_all_but_the_extractor(
    corpus, tmp_path, pretrained
):
    cfg = finetune_config(
        corpus, tmp_path, pretrained=pretrained, max_updates=3, stop_at=2, freeze_updates=1, every={"save_steps": 1},
        learning={"extractor_gradient": 0.0}, data={"validation": ()},
    )  # fmt: skip
    main(cfg)
    start = checkpoint.load(pretrained)["weights"]
    (_, frozen), (_, thawed) = checkpoint.saved_steps(tmp_path, "wav2vec2")
    for path, moved in ((frozen, False), (thawed, True)):
        weights = checkpoint.load(path)["weights"]
        for name in start:
            if name.startswith("wav2vec2.extractor."):
                assert torch.equal(weights[name], start[name])
            elif "layers" in name and name.endswith("weight"):
                assert torch.equal(weights[name], start[name]) != moved


def test_two_processes_learn_what_one_does_from_twice_the_batch_also_across_the_thaw(corpus, tmp_path, pretrained):
    cfg = finetune_config(
        corpus, tmp_path / "one", pretrained=pretrained, max_updates=3, freeze_updates=1, concat_batches=4,
        data={"batch_size": 2}, learning={"extractor_gradient": 0.0}, mask={"time_prob": 0.0},
    )  # fmt: skip
    main(cfg)
    cfg = replace(cfg, output_dir=tmp_path / "two", concat_batches=2)
    (tmp_path / "cfg.toml").write_text(config.to_toml(cfg))
    run_module("wav2vec2.finetune", tmp_path / "cfg.toml", processes=2)
    for key in ("train_loss", "dev_loss", "dev_wer"):
        assert logged(tmp_path / "two", key) == pytest.approx(logged(tmp_path / "one", key), rel=1e-3), key


def test_what_the_model_writes_is_shown_beside_the_reference_and_changes_nothing(corpus, tmp_path):
    plain = finetune_config(corpus, tmp_path / "plain", max_updates=4, ema=0.9)
    main(plain)
    main(replace(plain, output_dir=tmp_path / "shown", prediction_frequency=2))
    told = [event for event in events(tmp_path / "shown") if event.startswith(("reference:", "hypothesis:"))]
    assert [line.split(":")[0] for line in told] == ["reference", "hypothesis"] * 2
    assert all(set(line.removeprefix("reference:").split()) <= set(WORDS) for line in told[::2])
    assert_same_state(state_of(tmp_path / "shown"), state_of(tmp_path / "plain"))


@pytest.mark.parametrize("name", ["freeze_updates", "prediction_frequency"])
def test_a_number_of_updates_below_zero_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} = -1: expected a number of at least 0"):
        FinetuneConfig(**{name: -1})


def test_layers_can_be_compiled_and_recomputed(corpus, tmp_path, pretrained, monkeypatch):
    compiled = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda layer, **options: compiled.append((layer, options)))
    cfg = finetune_config(corpus, tmp_path / "a", pretrained=pretrained, max_updates=2, data={"validation": ()})
    main(cfg)
    recomputed = replace(cfg.learning, checkpoint_activations=True)
    main(replace(cfg, output_dir=tmp_path / "b", compile=True, learning=recomputed))
    assert [options for _, options in compiled] == [{"dynamic": True}] * SHAPE.layers
    assert_same_state(state_of(tmp_path / "a"), state_of(tmp_path / "b"))


def test_a_transcript_longer_than_its_frames_names_the_utterance_or_is_skipped(corpus, tmp_path):
    lines = (corpus / "train.ltr").read_text().splitlines()
    lines[3] = " ".join("SOMEONE" * 40) + " |"
    for name in ("train.tsv", "train.ltr"):
        text = (corpus / name).read_text() if name == "train.tsv" else "\n".join(lines) + "\n"
        (tmp_path / name).write_text(text)
    cfg = finetune_config(tmp_path, tmp_path / "run", data={"validation": ()})
    with pytest.raises(
        TrainingError, match=r"utterance train-03: 281 labels do not fit into the \d+ encoder frames of "
    ):
        main(cfg)
    main(replace(cfg, output_dir=tmp_path / "skipping", data=replace(cfg.data, on_error="skip")))
    assert "left out: utterance train-03: 281 labels" in (tmp_path / "skipping" / "nvlog.json").read_text()


def test_labels_come_of_the_dictionary_that_is_named_or_beside_the_list_or_are_librispeech_s(tmp_path):
    def labels(**data):
        return labels_of(FinetuneConfig(data=DataConfig(root=tmp_path, **data)))

    english = "the English letters of LibriSpeech, since no dictionary is named"
    assert labels(train=("train",)) == (LIBRISPEECH_LABELS, english)
    (tmp_path / "train.tsv").write_text(f"{tmp_path}\n")
    (tmp_path / "dict.ltr.txt").write_text("| 9\nB 3\nA 2\n")
    found = ("<s>", "<pad>", "</s>", "<unk>", "|", "B", "A")
    assert labels(train=("train",)) == (found, f"those of {tmp_path / 'dict.ltr.txt'}")
    (tmp_path / "other.txt").write_text("X 1\n")
    assert labels(dictionary=tmp_path / "other.txt")[0][4:] == ("X",)
    named = FinetuneConfig(model=ModelConfig(labels=("_", "a")))
    assert labels_of(named) == (("_", "a"), "those of model.labels")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A\n", r"dict.txt:1: found 'A'; expected a symbol and how often it occurs"),
        ("", "0 symbols, 0 of them different; expected some, once"),
        ("A 1\nA 2\n", "2 symbols, 1 of them different; expected some, once"),
    ],
)
def test_a_dictionary_that_is_none_is_named(tmp_path, text, message):
    (tmp_path / "dict.txt").write_text(text)
    with pytest.raises(ConfigError, match=message):
        labels_of(FinetuneConfig(data=DataConfig(dictionary=tmp_path / "dict.txt")))
    with pytest.raises(ConfigError, match="cannot be read as a dictionary"):
        labels_of(FinetuneConfig(data=DataConfig(dictionary=tmp_path / "missing.txt")))


def test_a_checkpoint_that_describes_no_model_cannot_be_resumed(corpus, tmp_path):
    checkpoint.save(tmp_path / "wav2vec2_step00000001.pt", {"format": "wav2vec2"})
    with pytest.raises(CheckpointError, match="its newest checkpoint describes no model"):
        main(finetune_config(corpus, tmp_path))


def test_a_validation_is_torch_s_loss_and_jiwer_s_errors_without_dropout(corpus, tmp_path):
    cfg = finetune_config(
        corpus, tmp_path, learning={"dropout": 0.5, "final_dropout": 0.5}, model=replace(SHAPE, blank=3)
    )
    world = World(rank=0, size=1, device=torch.device("cpu"))
    with run_of(cfg) as run:
        model, dataset, cfg = run.model, run.validation, run.cfg
    values = [evaluate(cfg, model.train(), dataset, world) for _ in range(2)]
    assert values[0] == values[1]
    losses, hypotheses = [], []
    for i in range(len(dataset)):
        batch = dataset[Plan(0, [SubBatch(0, [i])])]
        with torch.inference_mode():
            log_probs_BSV = model.eval()(batch.audio_BN).logits_BSV.log_softmax(2)
        lengths = torch.tensor([log_probs_BSV.shape[1]]), batch.target_lengths_B
        losses.append(F.ctc_loss(log_probs_BSV.transpose(0, 1), batch.targets_BU, *lengths, blank=3, reduction="sum"))
        best = torch.unique_consecutive(log_probs_BSV[0].argmax(1))
        hypotheses.append(Letters(cfg.model.labels).decode(best[best != 3].tolist()))
    assert values[0]["loss"] == pytest.approx(torch.stack(losses).mean().item(), rel=1e-4)
    references = [u.text for u in dataset.utterances]
    assert values[0]["wer"] == pytest.approx(jiwer.wer(references, hypotheses))
    assert values[0]["cer"] == pytest.approx(jiwer.cer(references, hypotheses))


def test_a_run_of_pre_training_is_none_of_fine_tuning(corpus, pretrained):
    with pytest.raises(CheckpointError, match="its checkpoints are not of fine-tuning; take another --output_dir"):
        main(finetune_config(corpus, pretrained.parent))


def test_a_run_goes_on_with_its_labels_alone(corpus, tmp_path):
    cfg = finetune_config(corpus, tmp_path / "run", max_updates=1)
    main(cfg)
    (tmp_path / "dict.txt").write_text("| 2\nA 1\n")
    with pytest.raises(CheckpointError, match=r"writes other labels than .*dict.txt lists; take another --output_dir"):
        main(replace(cfg, data=replace(cfg.data, dictionary=tmp_path / "dict.txt")))


PUBLISHED = ("base_960h", "base_100h", "base_10h", "base_1h", "vox_960h")


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_recipes_have_the_numbers_that_no_variable_of_their_scripts_says(name):
    """The other recipes are tested in tests/scripts/test_recipes.py."""
    cfg = config.load(FinetuneConfig, CONFIGS / f"finetune_{name}.toml")
    said = {"time_prob": cfg.mask.time_prob, "channel_prob": cfg.mask.channel_prob}
    assert cfg.mask == MaskConfig(channel_length=64, equal_counts=True, **said)
    assert cfg.data.max_tokens_valid == cfg.data.max_tokens
    assert (cfg.optim.betas, cfg.optim.eps, cfg.optim.weight_decay) == ((0.9, 0.98), 1e-8, 0.0)
    schedule = cfg.schedule
    assert (schedule.kind, schedule.unit, schedule.warmup, schedule.hold) == ("tri_stage", "fraction", 0.1, 0.4)
    assert (schedule.initial, schedule.final) == (0.01, 0.05)
    learning = cfg.learning
    assert (learning.dropout, learning.activation_dropout) == (0.0, 0.1)
    assert learning.layer_drop == (0.05 if name == "base_10h" else 0.1)
    assert (learning.extractor_gradient, learning.attention_dropout, learning.input_dropout) == (0.0, 0.0, 0.0)
    assert (cfg.clip_norm, learning.final_dropout) == (0.0, 0.0)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_recipes_start_from_what_those_of_pre_training_leave(name):
    cfg = config.load(FinetuneConfig, CONFIGS / f"finetune_{name}.toml")
    before = config.load(PretrainConfig, CONFIGS / f"pretrain_{'large' if 'vox' in name else 'base'}.toml")
    assert cfg.pretrained == checkpoint.step_path(before.output_dir, "wav2vec2", before.max_updates)
