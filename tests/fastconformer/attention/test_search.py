"""Searches by an attention decoder: against all texts there are, in any batch, around loops; models by transformers."""

import itertools
import shutil

import numpy as np
import pytest
import torch

import ctc
import fastconformer
from fastconformer.attention._library import load
from fastconformer.attention.config import AttentionConfig
from fastconformer.attention.host_step import HostStep
from fastconformer.attention.network import AttentionDecoder
from fastconformer.attention.search import AttentionMemory, Best, CachedToken, SearchOptions, Wish, decode
from fastconformer.attention.step import Steps, TorchStep, halved, keys_values
from tests.fastconformer import tiny
from tests.fastconformer.attention import references as golden

CLASSES, END, PAD_CLASS = 6, 1, 5
ALLOWED = np.array([True, True, True, True, False, False])


def decoder(seed: int = 0, **settings: object) -> AttentionDecoder:
    torch.manual_seed(seed)
    sizes: dict = {"layers": 2, "width": 8, "heads": 2, "inner": 12, "positions": 40} | settings
    found = AttentionDecoder(AttentionConfig(**sizes), 8, CLASSES).eval()
    tiny.randomize(found, seed)
    with torch.no_grad():
        found.tokens.weight.mul_(3)
    return found


def wish(limit: int, **options: object) -> Wish:
    return Wish(prompt=[0, 4], limit=limit, allowed_V=ALLOWED, end=END, **options)  # type: ignore[arg-type]


def every_text(network: AttentionDecoder, encoded_SC: torch.Tensor, limit: int) -> dict[tuple[int, ...], float]:
    """The scores of all texts that end within the limit, each computed without a cache."""
    scores = {}
    for length in range(limit):
        for labels in itertools.product((0, 2, 3), repeat=length):
            row = torch.tensor([[0, 4, *labels]])
            log_probs_LV = network(encoded_SC[None], torch.tensor([len(encoded_SC)]), row).log_softmax(-1)[0]
            follow = [*labels, END]
            scores[labels] = sum(float(log_probs_LV[1 + i, label]) for i, label in enumerate(follow))
    return scores


@pytest.mark.parametrize("settings", [{}, {"learned_positions": True, "activation": "gelu", "tied": False}])
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_wide_beam_finds_the_best_of_all_texts(settings, penalty):
    network, encoded_SC = decoder(1, **settings), torch.randn(7, 8)
    with torch.no_grad():
        scores = every_text(network, encoded_SC, 4)
        steps = Steps(network)
        options = SearchOptions(beam=200, n_best=5, length_penalty=penalty)
        (found,) = decode(steps(), [(wish(4), steps.hear(encoded_SC))], options)
    ranked = sorted(scores, key=lambda labels: -scores[labels] / ((8 + len(labels)) / 6) ** penalty)
    ended = [one for one in found.found if one.is_ended]
    assert [tuple(one.labels) for one in ended] == ranked[: len(ended)]
    assert [one.score for one in ended] == pytest.approx([scores[tuple(one.labels)] for one in ended], abs=1e-5)


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("kind", ["native", "arrays", "torch"])
def test_recordings_that_take_the_places_of_others_have_the_same_bits(beam, kind):
    network, options = decoder(2), SearchOptions(beam=beam, n_best=beam)
    draw = torch.Generator().manual_seed(0)
    frames = [torch.randn(n, 8, generator=draw) for n in (3, 11, 5, 8, 2, 9)]
    with torch.no_grad():
        steps = Steps(network)
        step = TorchStep(network) if kind == "torch" else steps()
        if kind == "arrays":
            step.decoder.native = None
        heard = [steps.hear(encoded_SC) for encoded_SC in frames]
        if kind == "torch":
            heard = [AttentionMemory(torch.from_numpy(one.keys_values)) for one in heard]
        wishes = [(wish(4 + 3 * i), one) for i, one in enumerate(heard)]
        alone = [decode(step, [one], options)[0] for one in wishes]
        assert all(decode(step, wishes, options, rows=rows) == alone for rows in (1, 4, 64))
    assert len(step.free) == step.size == step.store.shape[1], "all slots are given back"


@pytest.mark.skipif(load() is None, reason="no native library")
@pytest.mark.parametrize("instructions", [1, 2, 3])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"width": 36, "heads": 2, "activation": "gelu"}, {"width": 256, "heads": 1, "tied": False}],
    ids=str,
)
def test_the_native_step_is_that_of_arrays(settings, precision, instructions):
    network = decoder(3, **settings)
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        steps = Steps(network, precision)
        heard = [steps.hear(torch.randn(n, network.cfg.width, generator=draw)) for n in (7, 1, 40)]
    given = [[CachedToken(n, n, list(range(i, 40, 3)), one) for n in range(3)] for i, one in enumerate(heard)]
    allowed = [np.roll(ALLOWED, i) for i in range(3)]
    native, plain = steps(), HostStep(steps().decoder)
    for tokens in ([*given[0], *given[1], *given[2]], [CachedToken(4, 3, own[0].slots, own[0].heard) for own in given]):
        asked = [len(tokens) // 3 * (i + 1) - 1 for i in range(3)]
        try:
            found = native.decoder.native(native.store, tokens, asked, 3, allowed, instructions=instructions)
        except RuntimeError:
            pytest.skip("this processor lacks the instructions")
        plain.decoder.native, kept = None, plain.decoder.native
        expected = plain(tokens, asked, 3, allowed)
        plain.decoder.native = kept
        for one, other in zip(found, expected, strict=True):
            assert one.labels == other.labels
            assert one.log_probs == pytest.approx(other.log_probs, abs=1e-5 if precision == "fp32" else 1e-3)


@pytest.mark.parametrize(("precision", "tolerance"), [("bf16", 0.1), ("fp16", 0.015)])
@pytest.mark.parametrize("settings", [{}, {"learned_positions": True, "tied": False}], ids=str)
@torch.no_grad()
def test_a_decoder_of_half_as_many_bits_says_about_the_same(settings, precision, tolerance):
    network, draw = decoder(3, width=64, **settings), torch.Generator().manual_seed(1)
    assert halved(network, "tf32") is network
    other = halved(network, precision)
    encoded_SC = torch.randn(20, 64, generator=draw)
    found = []
    for own in (network, other):
        heard, step = AttentionMemory(keys_values(own, encoded_SC)), TorchStep(own)
        assert heard.keys_values.dtype == step.store.dtype == own.tokens.weight.dtype
        tokens = [CachedToken(label, at, [0, 1, 2], heard) for at, label in enumerate((4, 0, 2))]
        found.append(step(tokens, [0, 2], 4, [ALLOWED, ALLOWED]))
    for one, expected in zip(*found, strict=True):
        ranked = dict(zip(one.labels, one.log_probs, strict=True))
        assert [ranked[label] for label in expected.labels] == pytest.approx(expected.log_probs, abs=tolerance)
        assert one.log_probs != pytest.approx(expected.log_probs, abs=1e-7), "and they are of half as many"


@pytest.mark.skipif(load() is None, reason="no native library")
@torch.no_grad()
def test_scales_inside_of_a_decoder_cost_bytes_nothing():
    def scores(deviation: float) -> Best:
        network, draw = decoder(3, width=64, inner=96), torch.Generator().manual_seed(1)
        encoded_SC = torch.randn(20, 64, generator=draw)
        for block in network.blocks:
            gain_I = 10 ** (deviation * torch.randn(96, generator=draw))
            block.enter.weight.mul_(gain_I[:, None])
            block.enter.bias.mul_(gain_I)
            block.leave.weight.div_(gain_I)
        steps = Steps(network, "int8")
        heard = steps.hear(encoded_SC)
        (found,) = steps()([CachedToken(n, n, [0, 1, 2], heard) for n in range(3)], [2], 4, [ALLOWED])
        return found

    for deviation in (1.0, 2.0):
        assert scores(deviation).labels == scores(0.0).labels
        assert scores(deviation).log_probs == pytest.approx(scores(0.0).log_probs, abs=0.1)


class Said:
    """A decoder that says what `follows` makes of the text so far: labels and their log-probabilities."""

    def __init__(self, follows):
        self.follows = follows

    def take(self, count):
        return list(range(count))

    def give(self, slots):
        pass

    def __call__(self, tokens, asked, best, allowed_V):
        return [Best(*self.follows(tokens[i])) for i in asked]


@pytest.mark.parametrize(("period", "flags"), [([2], ("loop",)), ([2, 3], ("loop",)), ([2, 3, 3], ("loop",))], ids=str)
def test_a_text_that_repeats_itself_is_decoded_again(period, flags):
    def follows(token):
        # Goes round in the period, whatever comes before; what is next best is the end.
        at = token.at - 1
        return [period[at % len(period)], END], [-0.01, -3.0]

    step = Said(follows)
    heard = AttentionMemory(None)
    plain = decode(step, [(wish(60), heard)], SearchOptions())[0]
    guarded = decode(step, [(wish(60), heard)], SearchOptions(guard=True))[0]
    assert len(plain.found[0].labels) == 60
    assert plain.flags == ()
    assert guarded.found[0].is_ended
    assert guarded.found[0].labels == (period * 3)[: len(guarded.found[0].labels)]
    assert len(guarded.found[0].labels) < 2 * len(period)
    assert guarded.flags == flags


def test_four_equal_digits_are_no_loop():
    said = [2, 2, 2, 2, 3]
    step = Said(lambda token: ([[*said, END][token.at - 1]], [-0.1]))
    (found,) = decode(step, [(wish(60), AttentionMemory(None))], SearchOptions(guard=True))
    assert (found.found[0].labels, found.flags) == (said, ())


def test_words_to_favour_change_what_is_written():
    labels = ["<unk>", "</s>", "▁a", "▁b"]
    scorer = ctc.Scorer(labels).with_hot_words({"b": 3.0})
    step = Said(lambda token: ([2, 3] if token.at == 1 else [END], [-0.1, -1.0] if token.at == 1 else [-0.1]))
    for own, expected in ((None, [2]), (scorer, [3])):
        (found,) = decode(step, [(wish(9, scorer=own), AttentionMemory(None))], SearchOptions(beam=2))
        assert found.found[0].labels == expected
    assert found.found[0].score == pytest.approx(-1.1 + 3.0)


@pytest.mark.parametrize("spelling", ["saved", "without model.", "transformers"])
@pytest.mark.parametrize("tied", [False, True])
def test_cohere_models_of_transformers_are_read_in_every_spelling(tmp_path, spelling, tied):
    transformers = pytest.importorskip("transformers")
    if not hasattr(transformers, "CohereAsrConfig"):
        pytest.skip("this version of transformers has no Cohere ASR")
    from safetensors.torch import load_file, save_file

    torch.manual_seed(0)
    encoder = {
        "model_type": "parakeet_encoder", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
        "intermediate_size": 64, "subsampling_conv_channels": 8, "num_mel_bins": 128, "scale_input": False,
    }  # fmt: skip
    theirs = transformers.CohereAsrForConditionalGeneration(
        transformers.CohereAsrConfig(
            vocab_size=224, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
            max_position_embeddings=64, tie_word_embeddings=tied, encoder_config=encoder,
        )
    ).eval()  # fmt: skip
    theirs.save_pretrained(tmp_path)
    for name in ("tokenizer.json", "processor_config.json"):
        shutil.copy(golden.path("canary_hf") / name, tmp_path / name)
    if spelling != "saved":
        saved = load_file(tmp_path / "model.safetensors")
        own = {name.removeprefix("model."): weight for name, weight in saved.items()}
        if spelling == "transformers":
            own = {name: w.clone() for name, w in theirs.state_dict().items() if not (tied and "proj_out.w" in name)}
        save_file(own, tmp_path / "model.safetensors")
    asr = fastconformer.load(tmp_path, device="cpu")
    features_BFT, frames_B = torch.randn(2, 128, 80), torch.tensor([80, 60])
    tokens_BL = torch.randint(0, 200, (2, 9))
    with torch.no_grad():
        expected = theirs(
            input_features=features_BFT.mT,
            attention_mask=torch.arange(80) < frames_B[:, None],
            decoder_input_ids=tokens_BL,
        ).logits.log_softmax(-1)
    ours = asr.attention_log_probs(*asr.encode(features_BFT, frames_B), tokens_BL, torch.tensor([9, 9]))
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-5)
    assert asr.pieces.labels[asr.prompt("en")[0]] == "▁"
    with pytest.raises(ValueError, match="this model transcribes only"):
        asr.prompt("en", "de")
