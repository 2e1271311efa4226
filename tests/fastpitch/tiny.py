"""A small FastPitch with random weights that says something, and a way to see what it says."""

from dataclasses import replace

import torch

from common.features import TTS
from fastpitch import export
from fastpitch.acoustic.config import ModelConfig, PredictorConfig, TransformerConfig
from fastpitch.acoustic.model import FastPitch
from fastpitch.front.symbols import TextConfig, TextProcessor
from fastpitch.speaking.synthesizer import Synthesizer

LAYER = TransformerConfig(layers=1, head_channels=8, filter_channels=32)
PREDICTOR = PredictorConfig(layers=1, filter_channels=16)
SMALL = ModelConfig(channels=16, encoder=LAYER, decoder=LAYER, duration=PREDICTOR, pitch=PREDICTOR, energy=PREDICTOR)
LETTERS = TextConfig(p_arpabet=0.0)  # needs no pronunciations, and so no time


def tiny_model(config: ModelConfig = SMALL, *, seed: int = 0) -> FastPitch:
    """Symbols last about four frames, pitch and energy vary, and the mel frames are about as loud as speech."""
    torch.manual_seed(seed)
    model = FastPitch(config, n_symbols=148, mel_bins=TTS.mel_bins).eval().requires_grad_(False)
    with torch.no_grad():
        for predictor in (model.duration, model.pitch, model.energy):
            if predictor is not None:
                predictor.out.weight.normal_(0, 0.3)
        model.duration.out.bias.fill_(1.5)
        model.pitch_range.copy_(torch.tensor([-6e4, 6e4]))  # what is predicted at random may be changed at will
        model.projection.bias.copy_(torch.linspace(-4, -7, TTS.mel_bins))
    return model


def tiny_synthesizer(config: ModelConfig = SMALL, text: TextConfig = LETTERS, **options: object) -> Synthesizer:
    return Synthesizer(tiny_model(config), TextProcessor(text), TTS, **options)  # type: ignore[arg-type]


def speakers(count: int) -> ModelConfig:
    return replace(SMALL, speakers=count)


def assert_leaves_as_it_speaks(model: FastPitch, part: str) -> None:
    """The exported part of the model, on its example and its checks, gives what the synthesizer does."""
    graph = export.graph(Synthesizer(model, TextProcessor(LETTERS), TTS), part)
    for inputs in (graph.inputs, *graph.checks):
        with torch.inference_mode():
            found, expected = graph.module(**inputs), graph.reference(**inputs)
        for ours, theirs in zip(found, expected, strict=True):
            longest = min(ours.shape[-1], theirs.shape[-1])
            torch.testing.assert_close(ours[..., :longest], theirs[..., :longest], rtol=0, atol=1e-4)
