"""The greedy decoder beside NeMo's, with the same weights and encoder frames: appends rows to
benchmarks/results/transducer_nemo.jsonl.

    OMP_NUM_THREADS=1 python benchmarks/transducer_nemo.py [--repeats 5] [--clips 32] [--frames 150]

NeMo is none of this repository's requirements and has more than a hundred of its own. In another environment with the
torch of constraints.txt, `pip install --no-deps nemo_toolkit==3.0.0` and what its import asks for, without their
dependencies too; a CUDA build of torch is not needed.

NeMo's side is `GreedyBatchedRNNTInfer` and `GreedyBatchedTDTInfer`, its batched label-looping. Heads, frames and clock
are those of `transducer_decoder.py`; both have to find the same labels at the same frames.
"""

from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

from benchmarks.decoders import MAX_SYMBOLS, Rival, against, parsed
from fastconformer.transducer.weights import DecoderWeights


class NeMo:
    """NeMo's prediction network, joint and batched greedy decoder, with these weights."""

    def __init__(self, weights: DecoderWeights) -> None:
        from nemo.collections.asr.modules.rnnt import RNNTDecoder, RNNTJoint  # type: ignore[import-not-found]
        from nemo.collections.asr.parts.submodules import (  # type: ignore[import-not-found]
            rnnt_greedy_decoding as greedy,
        )

        joint_width, encoder = weights.encoder_weight.shape
        hidden, blank, durations = weights.embedding.shape[1], weights.blank, list(weights.durations)
        self.prediction = RNNTDecoder(
            prednet={"pred_hidden": hidden, "pred_rnn_layers": len(weights.lstm), "dropout": 0.0},
            vocab_size=blank,
            blank_as_pad=True,
        )
        jointnet = {
            "encoder_hidden": encoder, "pred_hidden": hidden, "joint_hidden": joint_width,
            "activation": weights.activation, "dropout": 0.0,
        }  # fmt: skip
        self.joint = RNNTJoint(
            jointnet=jointnet, num_classes=blank, num_extra_outputs=len(durations), log_softmax=False
        )
        self._load(weights)
        how: dict[str, Any] = {
            "decoder_model": self.prediction.eval(), "joint_model": self.joint.eval(), "blank_index": blank,
            "max_symbols_per_step": MAX_SYMBOLS,
        }  # fmt: skip
        if durations:
            self.decode = greedy.GreedyBatchedTDTInfer(durations=durations, **how)
        else:
            self.decode = greedy.GreedyBatchedRNNTInfer(loop_labels=True, **how)

    def _load(self, weights: DecoderWeights) -> None:
        state = {"prediction.embed.weight": weights.embedding}
        for i, layer in enumerate(weights.lstm):
            for name, value in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), layer, strict=True):
                state[f"prediction.dec_rnn.lstm.{name}_l{i}"] = value
        self.prediction.load_state_dict(state)
        last = max(int(name.split(".")[1]) for name in self.joint.state_dict() if name.startswith("joint_net."))
        self.joint.load_state_dict(
            {
                "enc.weight": weights.encoder_weight, "enc.bias": weights.encoder_bias,
                "pred.weight": weights.prediction_weight, "pred.bias": weights.prediction_bias,
                f"joint_net.{last}.weight": weights.output_weight, f"joint_net.{last}.bias": weights.output_bias,
            }
        )  # fmt: skip

    @torch.inference_mode()
    def __call__(self, encoded_BSC: Tensor, frames_B: Tensor) -> list[tuple[list[int], list[int]]]:
        """Labels and their frames, of every utterance."""
        (found,) = self.decode(encoder_output=encoded_BSC.transpose(1, 2), encoded_lengths=frames_B)
        return [(torch.as_tensor(h.y_sequence).tolist(), torch.as_tensor(h.timestamp).tolist()) for h in found]


if __name__ == "__main__":
    options = parsed(description=__doc__)
    about = {"nemo": version("nemo_toolkit")}
    against(Rival(results="transducer_nemo", name="nemo", made=NeMo, compared=2, about=about), options)
