"""What holds of every model that is loaded for use: `precision="auto"`, and whose its tensors are."""

import pytest
import torch

import fastconformer
import fastpitch
import jasper
import wav2vec2
from tests.data import shared

LOADS = {
    "jasper": (jasper.load, "jasper/Jasper_epoch7_checkpoint.pt"),
    "wav2vec2": (wav2vec2.load, "wav2vec2/base/wav2vec2_finetuned.pt"),
    "fastconformer": (fastconformer.load, "transducer/tdt.nemo"),
    "fastpitch": (fastpitch.load, "tts/FastPitch_checkpoint_3.pt"),
    "vocoder": (fastpitch.load_vocoder, "tts/hifigan_gen_checkpoint_5.pt"),
}


@pytest.mark.parametrize("model", LOADS)
def test_the_precision_is_chosen_by_measuring_and_said(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    load, path = LOADS[model]
    chosen = load(shared("golden") / path, device="cpu", precision="auto")
    assert chosen.precision in ("fp32", "bf16")
    assert capsys.readouterr().err.startswith(f"precision: {chosen.precision} (bf16 is ")


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("model", LOADS)
def test_a_model_that_is_loaded_in_inference_mode_owns_its_tensors(model: str, precision: str) -> None:
    load, path = LOADS[model]
    with torch.inference_mode():
        loaded = load(shared("golden") / path, device="cpu", precision=precision)
    network = loaded.generator if model == "vocoder" else loaded.model
    tensors = [*network.named_parameters(), *network.named_buffers()]
    assert [name for name, tensor in tensors if tensor.is_inference()] == []
