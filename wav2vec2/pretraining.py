"""Self-supervised pre-training: predict quantised features of masked frames among distractors."""

from torch import nn

from wav2vec2.config import LearningConfig, ModelConfig
from wav2vec2.model import Wav2Vec2
from wav2vec2.quantizer import GumbelQuantizer


class Wav2Vec2ForPretraining(nn.Module):
    """The network, the quantiser of its targets, and the projections in which both are compared."""

    def __init__(self, config: ModelConfig, learning: LearningConfig | None = None):
        super().__init__()
        self.wav2vec2 = Wav2Vec2(config, learning)
        self.quantizer = GumbelQuantizer(config)
        self.project_codes = nn.Linear(config.width_of_codes, config.final_dim)
        self.project_context = nn.Linear(config.dim, config.final_dim)
