"""The greedy decoder beside NeMo's, with the same weights and encoder frames: appends rows to
benchmarks/results/transducer_nemo.jsonl.

    OMP_NUM_THREADS=1 python benchmarks/transducer_nemo.py [--repeats 5] [--clips 32] [--frames 150]

NeMo is none of this repository's requirements and has more than a hundred of its own. In another environment with the
torch of constraints.txt, `pip install --no-deps nemo_toolkit==3.0.0` and what its import asks for, without their
dependencies too; a CUDA build of torch is not needed.

NeMo's side is `GreedyBatchedRNNTInfer` and `GreedyBatchedTDTInfer`, its batched label-looping. Heads, frames and clock
are those of `transducer_decoder.py`; both have to find the same labels at the same frames.
"""

import argparse
import time
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

from common.benchmark import append_row, compare, ratio
from transducer.benchmark.heads import calibrate, random_frames, random_heads, rates
from transducer.decoder import Decoder
from transducer.weights import DecoderWeights

CPU = torch.device("cpu")
MAX_SYMBOLS = 10


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


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="turns of every comparison")
    parser.add_argument("--clips", type=int, default=32, help="utterances in all")
    parser.add_argument("--frames", type=int, default=150, help="encoder frames of the longest; 150 are 12 seconds")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32], help="sizes of a batch")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for head in ("RNN-T", "TDT"):
        weights = random_heads(has_durations=head == "TDT")
        encoded_BSC, frames_B = random_frames(weights, options.clips, options.frames)
        calibrate(weights, encoded_BSC, frames_B)
        labels_per_evaluation, _ = rates(weights, encoded_BSC, frames_B)
        decode, other = Decoder(weights), NeMo(weights)
        for batch in options.batches:
            batches = list(zip(encoded_BSC.split(batch), frames_B.split(batch), strict=True))
            for each in batches:
                ours = [(one.tokens, one.frames) for one in decode(*each, max_symbols=MAX_SYMBOLS)]
                if ours != other(*each):
                    raise SystemExit(f"{head}, batches of {batch}: the two decoders do not find the same")
            sides = {
                "ours": lambda batches=batches, decode=decode: [decode(*each) for each in batches],
                "nemo": lambda batches=batches, other=other: [other(*each) for each in batches],
            }
            times = compare(sides, device=CPU, warmup=1, repeats=options.repeats, clock=time.process_time)
            row: dict[str, object] = {
                "precision": "fp32",
                "head": head,
                "batch": batch,
                "clips": options.clips,
                "frames": int(frames_B.sum()),
                "labels_per_evaluation": round(labels_per_evaluation, 3),
                "nemo": version("nemo_toolkit"),
                "n": options.repeats,
                "ms_p50": round(times["ours"].percentile(50), 1),
                "nemo_ms_p50": round(times["nemo"].percentile(50), 1),
                "times_faster": round(ratio(times["nemo"], times["ours"]), 2),
            }
            print(append_row("transducer_nemo", row, device=CPU), flush=True)


if __name__ == "__main__":
    main()
