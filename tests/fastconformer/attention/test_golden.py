"""Attention decoders against NeMo and transformers: frames, log-probabilities, prompts, texts, beams, losses."""

import itertools
import tarfile

import numpy as np
import pytest
import torch

import fastconformer
from common.runs.checkpoint import CheckpointError
from fastconformer.checkpoints.reading import read_model
from tests.data import shared
from tests.fastconformer.attention import references as golden

ENCODER, LOG_PROBS, LOSS, SCORE = 1e-4, 1e-4, 1e-5, 1e-4  # of meta.json
NEMO, TRANSFORMERS = golden.MODELS
TASKS = [(name, task) for name in golden.MODELS for task in ("asr", "asr_nopnc", "ast", "asr_timestamp")]
TASKS.remove((TRANSFORMERS, "asr_timestamp"))


@pytest.fixture(scope="module", params=golden.MODELS)
def heard(request):
    asr = fastconformer.load(golden.path(request.param), device="cpu")
    return request.param, asr, *asr.encode(*golden.features(request.param))


def test_frames_are_those_of_the_reference(heard):
    name, _, encoded_BSC, frames_B = heard
    theirs = torch.from_numpy(golden.arrays(name)["encoder_batch"])
    theirs = theirs.mT if name == NEMO else theirs
    assert frames_B.tolist() == golden.arrays(name)["encoder_lens"].tolist()
    for b, n in enumerate(frames_B.tolist()):
        torch.testing.assert_close(encoded_BSC[b, :n], theirs[b, :n], rtol=0, atol=ENCODER)


@pytest.mark.parametrize("task", ["asr", "ast"])
def test_log_probabilities_are_those_of_the_reference(heard, task):
    name, asr, *encoded = heard
    theirs = golden.arrays(name)[f"{task}_log_probs"]
    rows = [row[:-1] for row in golden.facts(name)[task]["tokens_with_prompt"]]
    tokens_BL, lengths_B = golden.tokens(rows)
    tokens_BL[lengths_B[:, None] <= torch.arange(tokens_BL.shape[1])] = -1  # padding is not looked at
    ours_BLV = asr.attention_log_probs(*encoded, tokens_BL, lengths_B).numpy()
    assert ours_BLV.shape == theirs.shape
    for b, row in enumerate(rows):
        np.testing.assert_allclose(ours_BLV[b, : len(row)], theirs[b, : len(row)], rtol=0, atol=LOG_PROBS)


def test_losses_are_those_of_the_reference(heard):
    name, asr, *encoded = heard
    said, facts = golden.facts(name)["loss"], golden.facts(name)["asr"]
    tokens_BL, lengths_B = golden.tokens(facts["tokens_with_prompt"])
    prompts_B = torch.full_like(lengths_B, len(facts["prompt"]))
    masked = said.get("smoothing0.1_prompt_masked", said.get("nemo_formula_smoothing0.1_prompt_masked"))
    assert float(asr.attention_loss(*encoded, tokens_BL, lengths_B)) == pytest.approx(said["smoothing0"], abs=LOSS)
    ours = asr.attention_loss(*encoded, tokens_BL, lengths_B, prompts_B, smoothing=0.1)
    assert float(ours) == pytest.approx(masked, abs=LOSS)


# What the reference calls a parameter, what we call it, and what it is of ours.
D = 64
EVEN_FIRST = torch.cat([torch.arange(0, D, 2), torch.arange(1, D, 2)])
PARAMETERS = {
    NEMO: [
        ("encoder.pre_encode.conv.0.weight", "encoder.subsampling.first.weight", lambda g: g),
        ("encoder.layers.0.self_attn.pos_bias_u", "encoder.blocks.0.attention.content_bias_HD", lambda g: g),
        ("transf_decoder._embedding.token_embedding.weight", "attention.tokens.weight", lambda g: g),
        ("transf_decoder._embedding.layer_norm.weight", "attention.embedding_norm.weight", lambda g: g),
        ("transf_decoder._decoder.layers.0.second_sub_layer.key_net.weight", "attention.blocks.0.sound.key.weight",
         lambda g: g),
        ("transf_decoder._decoder.layers.1.third_sub_layer.dense_in.bias", "attention.blocks.1.enter.bias",
         lambda g: g),
        ("log_softmax.mlp.layer0.bias", "attention.bias", lambda g: g),
    ],
    TRANSFORMERS: [
        ("model.decoder.embed_tokens.weight", "attention.tokens.weight", lambda g: g[:, EVEN_FIRST]),
        ("model.decoder.embedding_layernorm.weight", "attention.embedding_norm.weight", lambda g: g[EVEN_FIRST]),
        ("model.decoder.layers.0.encoder_attn.k_proj.weight", "attention.blocks.0.sound.key.weight", lambda g: g),
        ("model.decoder.layers.1.mlp.fc1.bias", "attention.blocks.1.enter.bias", lambda g: g),
        ("proj_out.bias", "attention.bias", lambda g: g),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", golden.MODELS)
def test_gradients_are_those_of_the_reference(name):
    from fastconformer.attention.training.objective import smoothed_cross_entropy

    model, _ = read_model(golden.path(name))
    facts = golden.facts(name)["asr"]
    tokens_BL, lengths_B = golden.tokens(facts["tokens_with_prompt"])
    encoded = model(*golden.features(name))
    logits_BLV = model.attention(*encoded, tokens_BL[:, :-1])
    prompts_B = torch.full_like(lengths_B, len(facts["prompt"]))
    smoothed_cross_entropy(logits_BLV, tokens_BL, lengths_B, prompts_B, 0.1).backward()
    ours = dict(model.named_parameters())
    for theirs, own, ordered in PARAMETERS[name]:
        expected = torch.from_numpy(golden.arrays(name)[f"grad:{theirs}"])
        found = ordered(ours[own].grad)
        row = slice(1, None) if "tokens" in own else slice(None)  # of row 0 references drop what it gets as an input
        tolerance = max(1e-5, 1e-4 * float(expected.abs().max()))
        torch.testing.assert_close(found[row], expected[row], rtol=0, atol=tolerance)


def test_prompts_are_those_of_the_reference(heard):
    name, asr, *_ = heard
    for task in ("asr", "asr_nopnc", "ast", "asr_timestamp"):
        if task in golden.facts(name):
            target = "de" if task == "ast" else None
            ours = asr.prompt("en", target, task != "asr_nopnc", timestamps=task == "asr_timestamp")
            assert ours == golden.facts(name)[task]["prompt"]
    if name == NEMO:
        (context,) = [p["ids"] for key, p in golden.facts(name)["prompts"].items() if "decodercontext" in key]
        assert asr.prompt("en", context="You did") == context
    with pytest.raises(ValueError, match=r"source_language = 'fr': expected one of de, en"):
        asr.prompt("fr")


@pytest.mark.parametrize(("name", "task"), TASKS)
def test_texts_are_those_of_the_reference_alone_and_in_a_batch(name, task):
    asr = fastconformer.load(golden.path(name), device="cpu")
    facts = golden.facts(name)[task]
    encoded_BSC, frames_B = asr.encode(*golden.features(name))
    together = asr.decode(encoded_BSC, frames_B, prompt=facts["prompt"])
    assert [[*found.labels, asr.pieces.end] for found in together] == facts["greedy_alone"]
    alone = [asr.decode(encoded_BSC[b : b + 1, :n], [n], prompt=facts["prompt"])[0] for b, n in enumerate(frames_B)]
    assert alone == together, "the bits of scores differ"
    if task == "asr":
        assert [found.text for found in together] == facts["greedy_text"]


@pytest.mark.parametrize(
    ("task", "penalty"), [*itertools.product(["asr", "asr_nopnc", "ast", "asr_timestamp"], [0, 1])]
)
def test_beams_are_those_of_an_exact_search(task, penalty):
    asr = fastconformer.load(golden.path(NEMO), device="cpu")
    facts = golden.facts(NEMO)[task]
    encoded = asr.encode(*golden.features(NEMO))
    kept = {"prompt": facts["prompt"], "beam": 4, "length_penalty": float(penalty)}
    best = asr.decode(*encoded, **kept)
    for found, theirs, first in zip(asr.decode(*encoded, **kept, n_best=4), facts[f"beam4_alpha{penalty}"], best,
                                    strict=True):  # fmt: skip
        assert found._replace(alternatives=()) == first, "a search for one text ends early, and finds the same"
        for ours, labels, score in zip(
            (found, *found.alternatives), theirs["beams"], theirs["sum_log_probs"], strict=True
        ):
            if labels[-1] == asr.pieces.end:  # a text that does not end has one token more there
                assert [*ours.labels, asr.pieces.end] == labels
                assert ours.score == pytest.approx(score, abs=SCORE)


@pytest.mark.parametrize("name", golden.MODELS)
def test_recordings_are_transcribed_translated_and_identified(name):
    asr = fastconformer.load(golden.path(name), device="cpu")
    flacs, said = golden.flacs(), golden.facts(name)["asr"]["greedy_text"]
    together = asr.transcribe(flacs, source_language="en", batch_size=4)
    assert [found.text for found in together] == said
    alone = [asr.transcribe([flac], source_language="en")[0] for flac in flacs]
    assert [[word[:3] for word in found.words] for found in alone] == [
        [word[:3] for word in found.words] for found in together
    ]
    for one, other in zip(alone, together, strict=True):
        assert [word.confidence for word in one.words] == pytest.approx([w.confidence for w in other.words], abs=1.5e-4)
    if name == NEMO:
        timed = asr.transcribe(flacs[:1], times="tokens")[0]
        assert [(word.text, word.start, word.end) for word in timed.words] == [
            ("You", 0.08, 0.4), ("didn't", 0.4, 0.72), ("want", 0.72, 1.12), ("to", 1.12, 1.44), ("come?", 1.44, 1.84),
        ]  # fmt: skip
        assert {found.language for found in asr.identify(flacs)} == {"en"}


def test_the_aligner_in_an_archive_finds_the_times_of_words(tmp_path):
    with tarfile.open(golden.path(NEMO)) as theirs, tarfile.open(shared("golden/transducer/ctc.nemo")) as aligner:
        path = tmp_path / "with_aligner.nemo"
        renamed = {
            "model_config.yaml": "a_timestamps_asr_model_config.yaml",
            "model_weights.ckpt": "b_timestamps_asr_model_weights.ckpt",
        }
        with tarfile.open(path, "w") as out:
            for archive, names in ((theirs, {}), (aligner, renamed)):
                for member in filter(tarfile.TarInfo.isfile, archive.getmembers()):
                    file, name = archive.extractfile(member), member.name.removeprefix("./")
                    member.name = names.get(name, name)
                    out.addfile(member, file)
    asr = fastconformer.load(path, device="cpu")
    flacs = golden.flacs()[:2]
    plain = asr.transcribe(flacs)
    timed = asr.transcribe(flacs, times="aligner", batch_size=1)
    for one, other in zip(plain, timed, strict=True):
        assert one.text == other.text
        starts = [word.start for word in other.words]
        assert starts == sorted(starts)
        assert len({*starts}) > 1, "times of their own"
        assert other.words[-1].end <= one.seconds
    with pytest.raises(CheckpointError, match="holds no CTC model besides"):
        fastconformer.load(golden.path(NEMO), device="cpu").transcribe(flacs, times="aligner")
