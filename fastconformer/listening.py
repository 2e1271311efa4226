"""What all recognisers of this package share: a model prepared for inference, audio in, encoder frames out.

Shapes: B utterances or chunks, N samples, F mel bins, T feature frames, S encoder frames, C their width, V pieces and
the blank.
"""

import torch
from torch import Tensor

from common.convolution.weights.kept import owned
from common.devices.precision import InferencePrecision, float32_math
from common.features import Features, LogMel, LogMelConfig
from common.text.pieces import Pieces
from fastconformer.network.encoder import EncodedFrames
from fastconformer.network.fused import cast, fuse
from fastconformer.network.model import Model


class Listener:
    """A model with the features that it hears and the pieces that it writes.

    `Listener.model` is prepared for inference. The encoder computes in `precision`, heads in float32; on a GPU the
    matrices of a transducer and of an attention decoder are of that precision, too. Features are normalised over
    `normalize_seconds` around a frame, 0 for all that is encoded with it.
    """

    def __init__(
        self,
        model: Model,
        features: LogMelConfig,
        pieces: Pieces,
        *,
        device: torch.device | str = "cpu",
        precision: InferencePrecision = "fp32",
        normalize_seconds: float = 0.0,
    ):
        if not normalize_seconds >= 0:
            raise ValueError(f"normalize_seconds = {normalize_seconds}: expected seconds, or 0 for whole recordings")
        self.window_frames = round(normalize_seconds * features.sample_rate / features.hop_samples)
        self.device, self.precision, self.pieces = torch.device(device), precision, pieces
        self.config, self.feature_config = model.cfg, features
        self.sample_rate, self.keep = features.sample_rate, features.keeper()
        """Samples a second of the arrays that it hears; what cuts pauses out of recordings and streams."""
        self.samples_per_frame = features.hop_samples * model.cfg.encoder.subsampling
        """Samples of audio from one encoder frame to the next."""
        self.seconds_per_frame = self.samples_per_frame / features.sample_rate
        self.n_parameters = sum(parameter.numel() for parameter in model.parameters())
        self.model = fuse(model).to(self.device)
        self.model.encoder = cast(self.model.encoder, precision)
        owned(self.model)
        self.log_mel = LogMel(features).to(self.device).eval()

    def features(self, audio_BN: Tensor, samples_B: Tensor) -> Features:
        """Log-mel features, float32, of audio at feature_config.sample_rate Hz, samples_B valid samples each."""
        with torch.no_grad():
            given = (part.to(self.device, non_blocking=True) for part in (audio_BN, samples_B))
            return self.log_mel(*given, window_frames=self.window_frames)

    @torch.inference_mode()
    def encode(self, features_BFT: Tensor, frames_B: Tensor) -> EncodedFrames:
        """encoded_BSC in float32 of features with frames_B valid frames each, and how many S frames those are."""
        with float32_math(self.precision):
            encoded_BSC, frames_B = self.model(features_BFT.to(self.device), frames_B.to(self.device))
        return EncodedFrames(encoded_BSC.float(), frames_B)

    @torch.inference_mode()
    def ctc_log_probs(self, encoded_BSC: Tensor) -> Tensor:
        """log_probs_BSV of pieces and blank, float32. Raises ValueError for a model without CTC head."""
        if self.model.ctc is None:
            other = "transducer" if self.model.attention is None else "attention decoder"
            raise ValueError(f"this model has no CTC head: decode with its {other}")
        return self.model.ctc(encoded_BSC.to(self.device)).log_softmax(-1)
