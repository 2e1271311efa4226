from dataclasses import replace

import pytest
import torch

from common.export import PlainLogMel, encoded
from common.features import TTS, LogMel, LogMelConfig


@pytest.mark.parametrize(
    "cfg",
    [
        LogMelConfig(),
        replace(TTS, normalize="all_features"),
        LogMelConfig(edges="zeros", frame_count="floor", normalize="none", log_floor=2**-24),
    ],
)
def test_plain_features_are_those_of_the_models_in_ragged_batches(cfg):
    log_mel = LogMel(cfg).eval()
    samples_B = torch.tensor([16_000, 7_003, 801])
    audio_BN = 0.1 * torch.randn(3, 16_000, generator=torch.Generator().manual_seed(0))
    found_BFT, frames_B = PlainLogMel(log_mel)(audio_BN, samples_B)
    expected = log_mel(audio_BN, samples_B)
    assert torch.equal(frames_B, expected.frames_B)
    assert found_BFT.shape[2] == frames_B.max()
    torch.testing.assert_close(found_BFT, expected.features_BFT[:, :, : found_BFT.shape[2]], atol=1e-4, rtol=0)


def test_plain_features_of_silence_and_of_few_samples_are_finite():
    plain = PlainLogMel(LogMel(LogMelConfig()))
    features_BFT, frames_B = plain(torch.zeros(2, 900), torch.tensor([900, 1]))
    assert frames_B.tolist() == [6, 1]
    assert not features_BFT.any()


def test_metadata_are_json():
    assert encoded(labels=[" ", "ß"], rate=16_000) == {"labels": '[" ", "ß"]', "rate": "16000"}
