"""Training of attention decoders: NeMo's loss by the trainer's path, padding, texts that share a recording."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import fastconformer
from common import config
from common.augmentation import SpecAugmentConfig
from common.config import ConfigError
from common.data.loading import AudioBatch, loader
from common.data.manifest import ManifestError, Utterance, read_manifest
from common.data.variation.joining import JoinConfig
from common.features import NEMO as NEMO_FEATURES
from common.features import Features
from common.runs import checkpoint
from common.training.state import TrainingError
from fastconformer import evaluation, train
from fastconformer.attention.joint import IMPOSSIBLE
from fastconformer.attention.prompt import Wanted
from fastconformer.attention.training.targets import Texts, languages_of
from fastconformer.checkpoints.reading import read_model
from fastconformer.config import Config, LossConfig
from fastconformer.evaluation import EvaluationConfig
from fastconformer.hearing.prompted.network import SPARE_TOKENS
from fastconformer.train import main
from fastconformer.training.objective import Share, objective
from fastconformer.training.run import NAME, Run, started_from
from tests.fastconformer.attention import references as golden
from tests.fastconformer.attention.test_golden import LOSS, NEMO, PARAMETERS
from tests.fastconformer.runs import translation_config, write_translations
from tests.training import directory_of, events, logged

pytestmark = pytest.mark.usefixtures("one_thread")
OFF = SpecAugmentConfig(freq_masks=0, time_masks=0)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_translations(tmp_path_factory.mktemp("corpus") / "de_en")


@pytest.fixture
def still(corpus, tmp_path):
    """A run without anything random, and a batch of both languages."""
    cfg = translation_config(corpus, tmp_path, spec_augment=OFF, loss=LossConfig(smoothing=0.1))
    with directory_of(cfg, NAME) as directory:
        run = Run(cfg, None, directory)
    run.model.eval()
    run.log_mel.eval()
    (batch,) = loader(run.train_set, [run.targets.first[:4].tolist()])
    return run, batch


def loss_of(run: Run, batch: AudioBatch, rows: list[int], epoch: int = 1):
    """Sums of the losses of some rows, as they are alone."""
    length = int(batch.samples_B[rows].max())
    few = AudioBatch(
        batch.audio_BN[rows, :length], batch.samples_B[rows], batch.targets_BU[rows], batch.target_lengths_B[rows],
        *([getattr(batch, name)[row] for row in rows] for name in ("indices", "ids", "utterances")), [],
        [batch.heard[row] for row in rows],
    )  # fmt: skip
    texts = run.texts(few)
    found = objective(
        run.model, run.model, run.log_mel, few, torch.ones(len(rows)), run.cfg, epoch=epoch, seed=0, texts=texts,
        part=Share(1.0, 1.0, 1.0),
    )  # fmt: skip
    return found, texts


def test_what_an_utterance_adds_to_the_loss_does_not_depend_on_its_batch(still):
    run, batch = still
    rows = list(range(len(batch.indices)))
    together, _ = loss_of(run, batch, rows)
    alone = [loss_of(run, batch, [row])[0] for row in rows]
    for head in ("attention", "ctc", "value"):
        total = sum(getattr(one, head).item() for one in alone)
        assert getattr(together, head).item() == pytest.approx(total, rel=2e-6)


def test_texts_of_a_recording_share_its_encoder_pass(still, monkeypatch):
    run, batch = still
    english = next(row for row, id_ in enumerate(batch.ids) if id_.startswith("en"))
    heard: list[int] = []
    forward = run.model.encoder.forward
    monkeypatch.setattr(run.model.encoder, "forward", lambda f, n: heard.append(len(f)) or forward(f, n))
    both, texts = loss_of(run, batch, [english])
    assert heard == [1]
    assert len(texts.tokens_RL) == 2
    targets, others = run.targets, dict(run.targets._others)
    number = batch.indices[english]
    apart = []
    for own in others[number]:
        targets._others = others | {number: [own]}
        apart.append(loss_of(run, batch, [english])[0])
    assert both.attention.item() == pytest.approx(sum(one.attention.item() for one in apart), rel=2e-6)
    assert [one.ctc.item() > 0 for one in apart] == [True, False]  # of the transcript alone


def test_loss_and_gradients_by_the_trainers_path_are_those_of_nemo():
    model, imported = read_model(golden.path(NEMO))
    facts = golden.facts(NEMO)["asr"]
    tokens_RL, lengths_R = golden.tokens(facts["tokens_with_prompt"])
    rows = len(lengths_R)
    nothing = torch.zeros(rows, 0, dtype=torch.int64), torch.zeros(rows, dtype=torch.int64)
    prompts_R = torch.full((rows,), len(facts["prompt"]))
    texts = Texts(tokens_RL, lengths_R, prompts_R, torch.arange(rows), *nothing, torch.zeros(rows, dtype=torch.bool))
    batch = AudioBatch(torch.zeros(rows, 1), torch.ones(rows), *nothing, [*range(rows)], ["a"] * rows, [1] * rows, [])

    class Given(torch.nn.Module):
        window = torch.zeros(1)

        def forward(self, *_):
            features_BFT, frames_B = golden.features(NEMO)
            return Features(features_BFT.clone(), frames_B)

    cfg = Config(model=imported.model, features=imported.features, spec_augment=OFF, loss=LossConfig(smoothing=0.1))
    tokens, _ = texts.counted(torch.ones(rows))
    loss = objective(
        model, model, Given(), batch, torch.ones(rows), cfg, epoch=0, seed=0, texts=texts, part=Share(1.0, tokens)
    )
    assert loss.value.item() == pytest.approx(golden.facts(NEMO)["loss"]["smoothing0.1_prompt_masked"], abs=LOSS)
    loss.value.backward()
    ours = dict(model.named_parameters())
    for theirs, own, ordered in PARAMETERS[NEMO]:
        expected = torch.from_numpy(golden.arrays(NEMO)[f"grad:{theirs}"])
        row = slice(1, None) if "tokens" in own else slice(None)  # as in test_golden.py
        tolerance = max(1e-5, 1e-4 * float(expected.abs().max()))
        torch.testing.assert_close(ordered(ours[own].grad)[row], expected[row], rtol=0, atol=tolerance)


def test_a_batch_in_parts_is_the_step_of_the_whole_batch(corpus, tmp_path):
    for parts in (1, 2):
        cfg = translation_config(corpus, tmp_path / str(parts), grad_accumulation=parts, spec_augment=OFF)
        cfg = replace(cfg, model=replace(cfg.model, encoder=replace(cfg.model.encoder, norm="layer")), steps=5)
        main(cfg)
    np.testing.assert_allclose(logged(tmp_path / "1"), logged(tmp_path / "2"), rtol=1e-4)


def test_joined_recordings_are_of_one_language_and_have_the_texts_that_all_of_them_have(still):
    run, _ = still
    run.train_set.join = JoinConfig(probability=1.0, max_utterances=3)
    (batch,) = loader(run.train_set, [run.targets.first.tolist()])
    texts = run.texts(batch)
    utterances, pieces = run.train_set.utterances, run.pieces
    assert max(map(len, batch.heard)) > 1
    for row, heard in enumerate(batch.heard):
        sources = {dict(utterances[i].wanted)["source_lang"] for i in heard}
        assert len(sources) == 1
        own = [tokens_L for tokens_L, at in zip(texts.tokens_RL, texts.rows_R, strict=True) if at == row]
        assert len(own) == (2 if sources == {"en"} else 1)
        spoken = own[0].tolist()
        said = pieces.decode(i for i in spoken if i not in pieces.control).strip()
        assert said == " ".join(utterances[i].text for i in heard)
        assert pieces.encode(said, *sources) == texts.labels_BU[row, : texts.label_lengths_B[row]].tolist()


def test_where_nothing_is_heard_the_text_is_empty(still):
    run, batch = still
    texts = run.targets([()] * len(batch.indices), batch.indices)
    assert texts.has_labels_B.all()
    assert not texts.label_lengths_B.any()
    assert (texts.lengths_R - texts.prompt_lengths_R == 1).all()
    assert (texts.tokens_RL.gather(1, texts.lengths_R[:, None] - 1) == run.pieces.end).all()


def test_batches_hold_no_more_tokens_than_asked_for(corpus, tmp_path):
    cfg = translation_config(corpus, tmp_path, batch_seconds=60.0, batch_tokens=200)
    with directory_of(cfg, NAME) as directory:
        run = Run(cfg, None, directory)
    batches = list(run.epochs.batches(0))
    assert sorted(i for batch in batches for i in batch) == run.targets.first.tolist()
    shapes = [run.targets([(i,) for i in batch], batch).tokens_RL.shape for batch in batches]
    assert max(rows * length for rows, length in shapes) <= 200
    with pytest.raises(ValueError, match="batch_tokens = 5: expected batch_seconds above 0 besides"):
        replace(cfg, batch_tokens=5, batch_seconds=0.0)


def test_training_goes_on_from_a_model_of_nemo_and_without_its_file(corpus, tmp_path):
    start = tmp_path / "canary.nemo"
    start.write_bytes(golden.path(NEMO).read_bytes())
    cfg = translation_config(corpus, tmp_path / "run", checkpoint=start, steps=1)
    main(cfg)
    theirs = fastconformer.load(start, device="cpu")
    start.unlink()
    main(replace(cfg, steps=2))
    assert any("resumed at step 1" in line for line in events(cfg.output_dir))
    own = fastconformer.load(checkpoint.step_path(cfg.output_dir, NAME, 2), device="cpu")
    assert own.config == theirs.config
    assert own.pieces.labels == theirs.pieces.labels
    assert own.languages == theirs.languages
    assert own.prompt("en", "de") == theirs.prompt("en", "de")
    assert own.pieces.encode("You did", "en") == theirs.pieces.encode("You did", "en")


def test_an_encoder_of_another_head_starts_an_attention_decoder(corpus, tmp_path):
    cfg = translation_config(corpus, tmp_path / "first", steps=1)
    main(cfg)
    start = checkpoint.step_path(cfg.output_dir, NAME, 1)
    wide = replace(cfg.model, pieces=95, attention=replace(cfg.model.attention, width=24))
    other = replace(
        cfg, output_dir=tmp_path / "second", checkpoint=start, from_checkpoint="encoder", model=wide, steps=1
    )
    with directory_of(other, NAME) as directory:
        run = Run(*started_from(other, directory), directory)
    weights = fastconformer.load(start, device="cpu").model.state_dict()
    ours = run.model.state_dict()
    assert torch.equal(ours["encoder.subsampling.first.weight"], weights["encoder.subsampling.first.weight"])
    assert run.model.attention.project is not None


@pytest.mark.parametrize(
    ("change", "positions", "message"),
    [
        ({"source_lang": "fr"}, 1024, "utterance .*: source_language = 'fr': expected one of de, en"),
        ({"taskname": "sing"}, 1024, "taskname = 'sing': expected one of asr"),
        (
            {},
            20,
            r"utterance .*: \d+ tokens of prompt and text: expected 20 at most, as model.attention.positions says",
        ),
    ],
)
def test_texts_that_cannot_be_learned_are_told_before_the_first_step(corpus, tmp_path, change, positions, message):
    cfg = translation_config(corpus, tmp_path / "one")
    main(replace(cfg, steps=1))
    rows = [json.loads(line) for line in (corpus / "train.jsonl").read_text().splitlines()]
    rows[3] |= change
    for row in rows:
        row["audio_filepath"] = str(corpus / row["audio_filepath"])
    (tmp_path / "other.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    attention = replace(cfg.model.attention, positions=positions)
    other = replace(
        cfg, output_dir=tmp_path / "two", data=replace(cfg.data, train=(str(tmp_path / "other.jsonl"),)),
        checkpoint=checkpoint.step_path(cfg.output_dir, NAME, 1) if change else None,
        model=replace(cfg.model, attention=attention), steps=1,
    )  # fmt: skip
    with pytest.raises((TrainingError, ValueError), match=message):
        main(other)
    if positions > 20:
        main(replace(other, output_dir=tmp_path / "skip", data=replace(other.data, on_error="skip")))
        assert any("left out: 1 utterances" in line for line in events(tmp_path / "skip"))


def test_a_manifest_without_languages_needs_a_default(corpus, tmp_path):
    rows = [json.loads(line) for line in (corpus / "train.jsonl").read_text().splitlines()]
    for row in rows:
        row["audio_filepath"] = str(corpus / row["audio_filepath"])
        del row["source_lang"], row["target_lang"]
    (tmp_path / "plain.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:1]))
    cfg = translation_config(corpus, tmp_path / "run")
    attention = replace(cfg.model.attention, language="")
    cfg = replace(cfg, model=replace(cfg.model, attention=attention))
    with pytest.raises(ManifestError, match="utterance .*: no source_lang; add it to each, or set model.attention"):
        main(replace(cfg, data=replace(cfg.data, train=(str(tmp_path / "plain.jsonl"),), validation=())))


def said(**wanted: str) -> Utterance:
    return Utterance(id="a", audio=Path("a.wav"), seconds=1.0, text="x", wanted=tuple(wanted.items()))


def test_languages_of_manifests_lose_their_region():
    rows = [said(source_lang="en-US"), said(source_lang="EN", target_lang="de_AT"), said(target_lang="en-GB")]
    assert languages_of(rows, "en") == {"de": ["x"], "en": ["x", "x"]}
    assert not Wanted(source_language="en-US", target_language="en").is_translation
    assert Wanted(source_language="auto", target_language="").target_language is None


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"source_lang": "English"}, "utterance a: source_lang = 'English': expected the code of a language"),
        ({"source_lang": "auto"}, "utterance a: source_lang = 'auto': expected the code of a language"),
        ({"source_lang": "en", "target_lang": "pnc"}, "utterance a: target_lang = 'pnc': expected the code"),
        ({"target_lang": "de"}, "utterance a: no source_lang; add it to each, or set model.attention.language"),
    ],
)
def test_languages_that_are_no_codes_are_named_and_make_no_token(wanted, message):
    rows = [said(source_lang="de"), said(**wanted)]
    with pytest.raises(ManifestError, match=message):
        languages_of(rows)
    assert languages_of(rows, skips=True) == {"de": ["x"]}


def test_validation_scores_transcripts_and_translations_apart(corpus, tmp_path, monkeypatch):
    exact = {u.id: u.text for u in read_manifest(corpus / "dev.jsonl").utterances}

    def evaluate(asr, dataset, world, *, heads, **_):
        from common.recognition.scoring import ScoredUtterance, scored

        own = [
            ScoredUtterance(row, u.text if u.id == u.id.removesuffix("-de") else "der fuchs")
            for row, u in enumerate(dataset.utterances)
        ]
        assert {u.text for u in dataset.utterances} == set(exact.values())
        return [scored(dataset.utterances, own, world) for _ in heads]

    monkeypatch.setattr(train, "evaluate", evaluate)
    main(translation_config(corpus, tmp_path))
    assert set(logged(tmp_path, "dev_wer")) == {0.0}
    assert all(bleu < 50 for bleu in logged(tmp_path, "dev_bleu"))


def test_scores_of_a_beam_have_a_share_of_ctc_but_of_translations(corpus, tmp_path):
    cfg = translation_config(corpus, tmp_path, steps=1)
    main(cfg)
    asr = fastconformer.load(checkpoint.step_path(tmp_path, NAME, 1), device="cpu")
    encoded = asr.encode(torch.randn(2, 80, 150, generator=torch.Generator().manual_seed(0)), torch.tensor([150, 90]))
    log_probs_BSV = asr.ctc_log_probs(encoded.encoded_BSC)
    options = {"prompt": asr.prompt("en"), "beam": 3, "n_best": 3}
    for row, best in enumerate(asr.decode(*encoded, **options, ctc_weight=0.6)):
        few = log_probs_BSV[row : row + 1, : encoded.frames_B[row]]
        ranked = [best, *best.alternatives]
        limit = int(encoded.frames_B[row]) + SPARE_TOKENS - len(asr.prompt("en"))
        for one in ranked:
            spoken = [label for label in one.labels if label not in asr.pieces.control]
            lengths = torch.tensor([few.shape[1]]), torch.tensor([len(spoken)])
            loss = torch.nn.functional.ctc_loss(
                few.mT.permute(2, 0, 1), torch.tensor([spoken], dtype=torch.int64), *lengths,
                blank=asr.pieces.blank, reduction="none",
            )  # fmt: skip
            tokens = [*asr.prompt("en"), *one.labels, *[asr.pieces.end][: len(one.labels) < limit]]
            follows_LV = asr.attention_log_probs(
                encoded.encoded_BSC[row : row + 1], encoded.frames_B[row : row + 1],
                torch.tensor([tokens[:-1]]), torch.tensor([len(tokens) - 1]),
            )[0]  # fmt: skip
            own = list(range(len(asr.prompt("en")) - 1, len(tokens) - 1))
            attended = float(follows_LV[own, tokens[own[0] + 1 :]].sum())
            assert one.score == pytest.approx(0.4 * attended - 0.6 * min(loss.item(), -IMPOSSIBLE), rel=1e-4)
        assert [one.score for one in ranked] == sorted((one.score for one in ranked), reverse=True)
    to_german = {**options, "prompt": asr.prompt("en", "de")}
    assert asr.decode(*encoded, **to_german, ctc_weight=0.6) == asr.decode(*encoded, **to_german)
    with pytest.raises(
        ValueError, match="1024 tokens before the text: expected fewer than 1024; give a shorter context"
    ):
        asr.decode(*encoded, prompt=[4] * 1024)
    with pytest.raises(ValueError, match="1025 tokens of prompt and text: expected 1024 at most"):
        asr.attention_log_probs(*encoded, torch.zeros(2, 1025, dtype=torch.int64), torch.tensor([1025, 3]))
    with pytest.raises(ConfigError, match="ctc_weight = 2: expected 0 to 1"):
        asr.decode(*encoded, prompt=[4], ctc_weight=2)
    asr.model.ctc, asr.has_ctc = None, False
    with pytest.raises(ConfigError, match="ctc_weight = 0.5: expected 0, for this model has no CTC head"):
        asr.decode(*encoded, prompt=[4], ctc_weight=0.5)


@pytest.mark.parametrize("longest_pause", [0.0, 0.1])
def test_a_few_recordings_are_learned_by_heart_in_both_languages_and_translated(
    corpus, tmp_path, capsys, longest_pause
):
    cfg = translation_config(
        corpus, tmp_path, batch_size=6, epochs=180, spec_augment=OFF, ema=0.98, loss=LossConfig(ctc_epochs=50),
        features=replace(NEMO_FEATURES, longest_pause=longest_pause),
    )  # fmt: skip
    wide = replace(cfg.model.encoder, width=64, layers=3, heads=4, kernel=9, subsampling_channels=16)
    decoder = replace(cfg.model.attention, width=64, layers=2, heads=4, inner=128)
    cfg = replace(
        cfg, model=replace(cfg.model, encoder=wide, attention=decoder), data=replace(cfg.data, validation=()),
        every=replace(cfg.every, save_epochs=0),
    )  # fmt: skip
    assert main(cfg).step == 360
    model = checkpoint.step_path(tmp_path, NAME, 360)
    for precision in ("fp32", "int8"):
        capsys.readouterr()
        options = ("--workers", "0", "--device", "cpu", "--decoder_precision", precision)
        flags = [str(model), str(corpus / "train.jsonl"), *options]
        assert evaluation.main(config.parse_flags(EvaluationConfig, None, flags, description="")) == 0
        told = capsys.readouterr().out
        for line in ("de: WER 0.00%", "en: WER 0.00%", "BLEU 100.0", "wrong language: 0 of 18", "not end: 0 of 18"):
            assert line in told


def test_a_batch_of_joined_recordings_without_a_text_in_common_adds_nothing(still, monkeypatch):
    run, batch = still
    monkeypatch.setattr(run.targets, "_tasks", lambda i: {Wanted(context=str(i)): "text"})
    pair = tuple(run.targets.first[:2].tolist())
    found, texts = loss_of(run, batch._replace(heard=[pair] * len(batch.indices)), [0])
    assert not len(texts.rows_R)
    assert (found.attention.item(), found.ctc.item(), found.value.item()) == (0, 0, 0)


@pytest.mark.parametrize(
    ("settings", "longest"),
    [
        ({"max_seconds": 12.0, "join": JoinConfig()}, 12.0),
        ({"max_seconds": 60.0}, 35.0),
        ({"max_seconds": 12.0, "join": JoinConfig(probability=0.5, max_seconds=16.0)}, 16.0),
        ({"max_seconds": 12.0, "join": JoinConfig(max_seconds=16.0)}, 12.0),
    ],
)
def test_no_longer_stretches_are_heard_than_were_learned_from(corpus, tmp_path, settings, longest):
    cfg = translation_config(corpus, tmp_path, steps=1)
    main(replace(cfg, data=replace(cfg.data, validation=(), **settings)))
    path = checkpoint.step_path(tmp_path, NAME, 1)
    assert fastconformer.load(path, device="cpu").chunk_seconds == longest
    main(replace(cfg, output_dir=tmp_path / "tuned", checkpoint=path, data=replace(cfg.data, max_seconds=14.0)))
    tuned = fastconformer.load(checkpoint.step_path(tmp_path / "tuned", NAME, 1), device="cpu")
    assert tuned.chunk_seconds == max(longest, 14.0), "what it knew is not forgotten"


def test_a_translation_that_was_not_learned_is_refused_and_tuning_adds_to_what_was(corpus, tmp_path):
    """A prompt for it is answered in a language that was learned."""
    cfg = translation_config(corpus, tmp_path, steps=1)
    main(cfg)
    path = checkpoint.step_path(tmp_path, NAME, 1)
    asr = fastconformer.load(path, device="cpu")
    assert asr.prompt("en", "de")
    with pytest.raises(
        ValueError, match=r"^target_language = 'en' of 'de': this model has learned de-de, en-de, en-en"
    ):
        asr.prompt("de", "en")
    rows = [json.loads(line) for line in (corpus / "train.jsonl").read_text().splitlines()]
    rows = [{**row, "target_lang": "en", "text": "he sang"} for row in rows if row["source_lang"] == "de"]
    manifest = tmp_path / "to_english.jsonl"
    rows = [{**row, "audio_filepath": str(corpus / row["audio_filepath"])} for row in rows]
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = replace(cfg.data, train=(str(manifest),), validation=())
    tuned = replace(cfg, output_dir=tmp_path / "tuned", checkpoint=path, data=data)
    main(tuned)
    main(replace(tuned, steps=2))
    own = fastconformer.load(checkpoint.step_path(tmp_path / "tuned", NAME, 2), device="cpu")
    assert own.attention.directions == ("de-de", "de-en", "en-de", "en-en")
    assert own.prompt("de", "en")
