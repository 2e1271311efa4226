"""FastPitch in training computes what the paper says: an independent forward, parts of the loss and gradients."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fastpitch.acoustic.aligner import SoftAlignment
from fastpitch.acoustic.config import ModelConfig, PredictorConfig, TransformerConfig
from fastpitch.acoustic.model import FastPitch, SpeechTargets
from fastpitch.acoustic.training.objective import Counts, parts_of

STILL = {"dropout": 0.0}
LAYER = TransformerConfig(layers=2, heads=2, head_channels=4, filter_channels=12, attention_dropout=0.0, **STILL)
PREDICTOR = PredictorConfig(filter_channels=8, **STILL)
SMALL = ModelConfig(
    channels=8,
    encoder=LAYER,
    decoder=replace(LAYER, layers=1, heads=1),
    duration=PREDICTOR,
    pitch=PREDICTOR,
    energy=PREDICTOR,
    speakers=3,
    speaker_weight=0.5,
)
SYMBOLS, MEL_BINS, RUBBISH = 20, 6, 1e3
DURATIONS = ((3, 0, 7, 1, 4, 2, 5), (1, 2, 0, 6), (4,))  # frames of the symbols of each clip
COMPARED = ("mel", "duration", "pitch", "energy", "alignment", "binarisation")


class Given(nn.Module):
    """In the aligner's place, whose own tests compare it: an alignment that is given."""

    def __init__(self, alignment: SoftAlignment):
        super().__init__()
        self.alignment = alignment

    def forward(self, *_: Tensor) -> SoftAlignment:
        return self.alignment


def lively(config: ModelConfig) -> FastPitch:
    torch.manual_seed(0)
    model = FastPitch(config, n_symbols=SYMBOLS, mel_bins=MEL_BINS)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            parameter.data += 0.1 * torch.randn(parameter.shape)
    return model.double().train()


def aligned() -> SoftAlignment:
    """The given durations, and log-probabilities that have nothing to do with them."""
    longest, frames = max(map(len, DURATIONS)), max(map(sum, DURATIONS))
    durations_BL = torch.tensor([[*row, *[0] * (longest - len(row))] for row in DURATIONS])
    symbol_BT = torch.full((len(DURATIONS), frames), longest - 1)
    logits_BTL = torch.randn(len(DURATIONS), frames, longest)
    for b, row in enumerate(DURATIONS):
        symbol_BT[b, : sum(row)] = torch.tensor([symbol for symbol, n in enumerate(row) for _ in range(n)])
        logits_BTL[b, :, len(row) :] = -torch.inf
        logits_BTL[b, sum(row) :, : len(row)] = RUBBISH
    logits_BTL.requires_grad_()
    return SoftAlignment(logits_BTL.log_softmax(2), logits_BTL, durations_BL, symbol_BT)


def published_parts(model: FastPitch, clips: list[dict], alignment: SoftAlignment) -> dict[str, Tensor]:
    """Parts of the loss, written anew from the paper; every clip goes through the network alone, without padding.

    The published code lets convolutions see what the layers before them have made in the padding, so that what is
    learned of a clip depends on the others of its batch. Here that is left out on purpose.
    """
    cfg, weights = model.config, dict(model.named_parameters())

    def linear(name: str, x: Tensor) -> Tensor:
        return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0.0)

    def conv(name: str, x: Tensor) -> Tensor:
        weight = weights[f"{name}.weight"]
        return F.conv1d(x.T, weight, weights[f"{name}.bias"], padding=weight.shape[2] // 2).T

    def norm(name: str, x: Tensor) -> Tensor:
        x = x - x.mean(-1, keepdim=True)
        x = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def attention(name: str, x: Tensor, layer: TransformerConfig) -> Tensor:
        parts = [part.split(layer.head_channels, 1) for part in linear(f"{name}.query_key_value", x).chunk(3, 1)]
        mixed = [(q @ k.T / layer.head_channels**0.5).softmax(1) @ v for q, k, v in zip(*parts, strict=True)]
        return linear(f"{name}.out", torch.cat(mixed, 1))

    def transformer(name: str, x: Tensor, layer: TransformerConfig) -> Tensor:
        angle = torch.arange(len(x)).double()[:, None] / 10_000 ** (torch.arange(0, cfg.channels, 2) / cfg.channels)
        x = x + torch.cat([angle.sin(), angle.cos()], 1)
        for i in range(layer.layers):
            x = norm(f"{name}.layers.{i}.attention_norm", x + attention(f"{name}.layers.{i}.attention", x, layer))
            wide = conv(f"{name}.layers.{i}.widen", x).relu()
            x = norm(f"{name}.layers.{i}.convolution_norm", x + conv(f"{name}.layers.{i}.narrow", wide))
        return x

    def predictor(name: str, x: Tensor, layer: PredictorConfig) -> Tensor:
        for i in range(layer.layers):
            x = norm(f"{name}.norms.{i}", conv(f"{name}.convolutions.{i}", x).relu())
        return linear(f"{name}.out", x)[:, 0]

    def mean_of_spoken(values_T: Tensor, durations: tuple[int, ...]) -> Tensor:
        spoken = [part[part != 0] for part in values_T.split(durations)]
        return torch.stack([part.mean() if len(part) else part.new_zeros(()) for part in spoken])

    sums = {name: torch.zeros((), dtype=torch.float64) for name in COMPARED}
    for b, clip in enumerate(clips):
        durations = DURATIONS[b]
        repeats = torch.tensor(durations)
        voice = cfg.speaker_weight * weights["speakers.weight"][clip["speaker"]]
        after = voice if cfg.speaker_conditions == "all" else 0.0
        x = transformer("encoder", weights["symbols.weight"][clip["tokens"]] + voice, cfg.encoder) + after
        pitch, energy = (mean_of_spoken(clip[name], durations) for name in ("pitch", "energy"))
        energy = (1 + energy).log()
        sums["duration"] += (predictor("duration", x, cfg.duration) - (1 + repeats.double()).log()).square().sum()
        sums["pitch"] += (predictor("pitch", x, cfg.pitch) - pitch).square().sum()
        x = x + conv("pitch_embedding", pitch[:, None])
        if cfg.uses_energy:
            sums["energy"] += (predictor("energy", x, cfg.energy) - energy).square().sum()
            x = x + conv("energy_embedding", energy[:, None])
        mel = linear("projection", transformer("decoder", x.repeat_interleave(repeats, 0) + after, cfg.decoder))
        sums["mel"] += (mel - clip["mel"].T).square().mean(1).sum()

        n_frames, n_symbols = sum(durations), len(durations)
        logits = alignment.logits_BTL[b, :n_frames, :n_symbols].double()
        with_blank = F.pad(logits, (1, 0), value=-1.0).log_softmax(1)
        labels = torch.arange(1, n_symbols + 1)
        # As published: an utterance that has fewer frames than symbols would count for nothing.
        loss = F.ctc_loss(with_blank, labels, torch.tensor(n_frames), torch.tensor(n_symbols), reduction="sum")
        sums["alignment"] += loss / n_symbols
        right = torch.arange(n_symbols).repeat_interleave(repeats)
        sums["binarisation"] -= logits.log_softmax(1)[range(n_frames), right].sum()
    n_frames, n_symbols = sum(map(sum, DURATIONS)), sum(map(len, DURATIONS))
    by = {"mel": n_frames, "binarisation": n_frames, "alignment": len(clips)}
    return {name: total / by.get(name, n_symbols) for name, total in sums.items()}


@pytest.mark.parametrize("conditions", ["encoder", "all"])
@pytest.mark.parametrize("uses_energy", [True, False], ids=["energy", "no energy"])
def test_training_on_a_ragged_batch_computes_what_the_paper_says(uses_energy, conditions):
    model = lively(replace(SMALL, uses_energy=uses_energy, speaker_conditions=conditions))
    alignment = aligned()
    lengths, frames = [len(row) for row in DURATIONS], [sum(row) for row in DURATIONS]
    tokens_BL = torch.randint(1, SYMBOLS, (len(lengths), max(lengths)))  # symbols stand in the padding, too
    speaker_B = torch.tensor([2, 0, 1])
    mel_BMT = torch.randn(len(frames), MEL_BINS, max(frames), dtype=torch.float64)
    pitch_BT = torch.randn(len(frames), max(frames), dtype=torch.float64)
    pitch_BT *= torch.rand(pitch_BT.shape) > 0.4  # the others are unvoiced
    energy_BT = torch.rand(len(frames), max(frames), dtype=torch.float64) * 9
    for b, n in enumerate(frames):
        mel_BMT[b, :, n:] = pitch_BT[b, n:] = energy_BT[b, n:] = RUBBISH
    clips = [
        {
            "tokens": tokens_BL[b, : lengths[b]],
            "speaker": speaker_B[b],
            "mel": mel_BMT[b, :, :n],
            "pitch": pitch_BT[b, :n],
            "energy": energy_BT[b, :n],
        }
        for b, n in enumerate(frames)
    ]
    expected = published_parts(model, clips, alignment)
    learned = {name: p for name, p in model.named_parameters() if not name.startswith("aligner.")}
    model.aligner = Given(alignment)
    lengths_B, frames_B = torch.tensor(lengths), torch.tensor(frames)
    targets = SpeechTargets(mel_BMT, frames_B, pitch_BT, energy_BT)
    counts = Counts(*(torch.tensor(float(n)) for n in (sum(frames), sum(lengths), len(frames))))
    found = parts_of(model(tokens_BL, lengths_B, targets, speaker_B), targets, lengths_B, counts)._asdict()
    for name in COMPARED:
        torch.testing.assert_close(found[name].double(), expected[name], rtol=1e-5, atol=1e-5)
    assert (expected["energy"] > 0) == uses_energy
    inputs = [alignment.logits_BTL, *learned.values()]
    gradients = [
        torch.autograd.grad(sum(parts[name] for name in COMPARED), inputs, retain_graph=True)
        for parts in (found, expected)
    ]
    for name, mine, theirs in zip(("logits", *learned), *gradients, strict=True):
        assert theirs.abs().max() > 1e-6, name
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")


def test_a_model_without_an_aligner_asks_for_durations():
    model = FastPitch(replace(SMALL, aligner=False), n_symbols=SYMBOLS, mel_bins=MEL_BINS)
    frames_1T = torch.zeros(1, 9)
    targets = SpeechTargets(torch.zeros(1, MEL_BINS, 9), torch.tensor([9]), frames_1T, frames_1T)
    with pytest.raises(ValueError, match="no durations, and a model without an aligner; expected one or the other"):
        model(torch.tensor([[1, 2]]), torch.tensor([2]), targets, torch.tensor([0]))
