"""What a model offers for export: plain graphs, with the inputs that they are traced and checked with.

Shapes: B utterances, N samples, F mel bands, T feature frames, K frequencies of the transform.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import ctc
from common.features import LogMel, LogMelConfig, emphasized


class ExportGraph(NamedTuple):
    """A network whose inputs and outputs are tensors alone; inputs have the names of the module's arguments."""

    module: nn.Module
    reference: Callable[..., Sequence[Tensor]]
    """What the model computes where it is at home, features and all; takes the inputs by name."""
    inputs: Mapping[str, Tensor]
    """An example, with no two of its sizes equal by chance, from which the graph is traced."""
    axes: Mapping[str, Mapping[int, str]]
    """For each input the dimensions of any size, by the names of these sizes; of equal names are equal sizes."""
    outputs: Sequence[str]
    checks: Sequence[Mapping[str, Tensor]]
    """Other inputs on which the exported graph must agree: ragged batches, silence, one frame."""
    tolerance: float
    """Greatest difference that is taken for rounding."""
    metadata: Mapping[str, str]
    """What a runtime must know besides: labels, rates, kind of input. Every value is JSON."""
    full_precision: Sequence[str] = ()
    """Parts of the module, by their names, that stay in float32 where the rest is reduced."""
    from_audio: Callable[[Tensor], Mapping[str, Tensor]] | None = None
    """The inputs for one clip, audio_N at the model's sample rate, with which int8 is calibrated; recognisers only."""
    weights: Mapping[str, Tensor] = {}
    """Weights that no operation of the graph has, by name: what a runtime computes with after it."""


def encoded(**values: Any) -> dict[str, str]:
    """Plain values as the metadata of a graph: JSON, in which a space is a space and a number has a type."""
    return {key: json.dumps(value, ensure_ascii=False) for key, value in values.items()}


def features_example(bands: int, frames: Sequence[int]) -> dict[str, Tensor]:
    """Noise as features of utterances of so many frames, with some more in their rows."""
    noise = torch.Generator().manual_seed(sum(frames))
    features_BFT = torch.randn(len(frames), bands, max(frames) + 3, generator=noise)
    return {"features_BFT": features_BFT, "frames_B": torch.tensor(frames)}


def samples_example(samples: Sequence[int], *, offset: float = 0.0) -> dict[str, Tensor]:
    """Noise around `offset` as utterances of so many samples, with digital silence in those that are long enough."""
    noise = torch.Generator().manual_seed(sum(samples))
    audio_BN = offset + 0.1 * torch.randn(len(samples), max(samples), generator=noise)
    audio_BN[:, 3_000:5_000] = 0.0
    return {"audio_BN": audio_BN, "samples_B": torch.tensor(samples)}


def of_clip(audio_N: Tensor) -> dict[str, Tensor]:
    """The inputs of a graph from samples on, for one clip."""
    return {"audio_BN": audio_N[None], "samples_B": torch.tensor([len(audio_N)])}


def features_of_clip(log_mel: LogMel, audio_N: Tensor) -> dict[str, Tensor]:
    """The inputs of a graph from features on, for one clip."""
    features_BFT, frames_B = log_mel(audio_N[None], torch.tensor([len(audio_N)]))
    return {"features_BFT": features_BFT[:, :, : int(frames_B)], "frames_B": frames_B}


class Greedy(nn.Module):
    """A recogniser and the best path of its CTC: labels in place of log-probabilities."""

    def __init__(self, module: nn.Module, blank: int):
        super().__init__()
        self.module, self.blank = module, blank

    def decoded(self, log_probs_BSV: Tensor, frames_B: Tensor) -> tuple[Tensor, ...]:
        """labels_BS and, of each, first frame, frame past the last and confidence; -1 or 0 after the last of labels_B.

        Repeats are merged and blanks dropped; the confidence is the geometric mean of the probability over the frames.
        """
        score_BS, best_BS = log_probs_BSV.max(2)
        frame_S = torch.arange(best_BS.shape[1], device=best_BS.device)
        is_inside_BS = frame_S < frames_B[:, None]
        best_BS = torch.where(is_inside_BS, best_BS, self.blank)
        other = torch.full_like(best_BS[:, :1], -1)
        is_label_BS = best_BS != self.blank
        is_first_BS = is_label_BS & (best_BS != torch.cat([other, best_BS[:, :-1]], 1))
        is_last_BS = is_label_BS & (best_BS != torch.cat([best_BS[:, 1:], other], 1))
        # Every run has a number; frames that begin or end none write into a column that is cut off.
        run_BS, beyond = is_first_BS.long().cumsum(1) - 1, best_BS.shape[1]
        total_BS = score_BS.cumsum(1)

        def of_runs(is_chosen_BS: Tensor, values_BS: Tensor, empty: int) -> Tensor:
            place_BS = torch.where(is_chosen_BS, run_BS, beyond)
            room_BS = torch.full_like(values_BS, empty)
            return torch.cat([room_BS, room_BS[:, :1]], 1).scatter(1, place_BS, values_BS)[:, :-1]

        frame_BS = frame_S + torch.zeros_like(best_BS)
        labels_BS = of_runs(is_first_BS, best_BS, -1)
        first_BS, last_BS = of_runs(is_first_BS, frame_BS, 0), of_runs(is_last_BS, frame_BS, -1)
        score_BS = of_runs(is_last_BS, total_BS, 0) - of_runs(is_first_BS, total_BS - score_BS, 0)
        count_BS = (last_BS + 1 - first_BS).clamp(min=1).to(score_BS.dtype)
        is_run_BS = labels_BS >= 0
        confidence_BS = (score_BS / count_BS).exp() * is_run_BS.to(score_BS.dtype)
        return labels_BS, is_run_BS.long().sum(1), first_BS, last_BS + 1, confidence_BS


class GreedyFromSamples(Greedy):
    """The best path of a recogniser that takes samples."""

    def forward(self, audio_BN: Tensor, samples_B: Tensor) -> tuple[Tensor, ...]:
        """As `Greedy.decoded`."""
        return self.decoded(*self.module(audio_BN, samples_B))


class GreedyFromFeatures(Greedy):
    """The best path of a recogniser that takes features."""

    def forward(self, features_BFT: Tensor, frames_B: Tensor) -> tuple[Tensor, ...]:
        """As `Greedy.decoded`."""
        return self.decoded(*self.module(features_BFT, frames_B))


def with_greedy(graph: ExportGraph) -> ExportGraph:
    """A recogniser's graph with greedy decoding behind it."""
    blank = json.loads(graph.metadata["blank"])

    def reference(**inputs: Tensor) -> tuple[Tensor, ...]:
        log_probs_BSV, frames_B = graph.reference(**inputs)
        found = ctc.greedy(log_probs_BSV.float(), frames_B, blank=blank)
        shape = len(found), log_probs_BSV.shape[1]
        labels_BS, first_BS, end_BS = torch.full(shape, -1), torch.zeros(shape).long(), torch.zeros(shape).long()
        confidence_BS = torch.zeros(shape)
        for row, said in enumerate(found):
            own = row, slice(len(said))
            labels_BS[own], first_BS[own] = torch.tensor(said.labels).long(), torch.tensor(said.start_frames).long()
            end_BS[own], confidence_BS[own] = torch.tensor(said.end_frames).long(), torch.tensor(said.confidence)
        return labels_BS, torch.tensor([len(said) for said in found]), first_BS, end_BS, confidence_BS

    return graph._replace(
        module=(GreedyFromSamples if "audio_BN" in graph.inputs else GreedyFromFeatures)(graph.module, blank),
        reference=reference,
        outputs=("labels_BS", "labels_B", "first_frames_BS", "end_frames_BS", "confidence_BS"),
        tolerance=1e-3,  # of confidences; labels and frames are equal
        metadata={**graph.metadata, **encoded(decode="greedy")},
        full_precision=[f"module.{name}" for name in graph.full_precision],
    )


class PlainLogMel(nn.Module):
    """`LogMel` in evaluation, as a convolution with the windowed basis of the transform: operations every runtime has.

    It gives as many frames as the longest utterance has, and none for padding to a multiple.
    """

    basis_K1N: Tensor
    filters_FK: Tensor
    noise_K1: Tensor

    def __init__(self, log_mel: LogMel):
        super().__init__()
        cfg = self.cfg = log_mel.cfg
        time_N = torch.arange(cfg.n_fft, dtype=torch.float64)
        phase_KN = 2 * math.pi / cfg.n_fft * torch.arange(cfg.n_fft // 2 + 1, dtype=torch.float64)[:, None] * time_N
        basis_KN = torch.cat([phase_KN.cos(), phase_KN.sin()]) * log_mel.window.double().cpu()
        self.register_buffer("basis_K1N", basis_KN.float()[:, None])
        self.register_buffer("filters_FK", log_mel.filters_FK.clone())
        # One number for every frequency: exporters drop the sum with a single small one.
        self.register_buffer("noise_K1", torch.full((len(basis_KN) // 2, 1), log_mel.noise_power))

    def forward(self, audio_BN: Tensor, samples_B: Tensor) -> tuple[Tensor, Tensor]:
        """features_BFT, zero beyond each utterance's frames, and frames_B."""
        cfg = self.cfg
        frames_B = cfg.frames(samples_B)
        n_frames = cfg.frames(audio_BN.shape[1])
        signal_BN = self._continued(emphasized(audio_BN, cfg.preemphasis), samples_B)
        missing = (n_frames - 1) * cfg.hop_samples + cfg.n_fft - signal_BN.shape[1]
        signal_BN = F.pad(signal_BN, (0, cfg.n_fft))[:, : signal_BN.shape[1] + missing]
        parts_BKT = F.conv1d(signal_BN[:, None], self.basis_K1N, stride=cfg.hop_samples)
        real_BKT, imaginary_BKT = parts_BKT.chunk(2, 1)
        energy_BKT = real_BKT.square() + imaginary_BKT.square() + self.noise_K1
        if cfg.spectrum == "magnitude":
            energy_BKT = energy_BKT.sqrt()
        mel_BFT = torch.matmul(self.filters_FK, energy_BKT)
        # A sum with 1e-20 guards only the logarithm of zeros, and exporters drop it: they see no difference in float32.
        is_guard = cfg.log_guard == "clamp" or cfg.log_floor < 1e-12
        log_BFT = (mel_BFT.clamp(min=cfg.log_floor) if is_guard else mel_BFT + cfg.log_floor).log()
        frame_T = torch.arange(n_frames, device=audio_BN.device)
        keep_B1T = (frame_T < frames_B[:, None, None]).to(log_BFT.dtype)
        return _normalized(log_BFT, keep_B1T, frames_B, cfg), frames_B

    def _continued(self, signal_BN: Tensor, samples_B: Tensor) -> Tensor:
        """Half a transform before and after each utterance, reflected there or silent; zeros after that."""
        reach = self.cfg.n_fft // 2
        place_N = torch.arange(signal_BN.shape[1] + 2 * reach, device=signal_BN.device) - reach
        samples_B1 = samples_B[:, None]
        inside_BN = (place_N >= 0) & (place_N < samples_B1)
        if self.cfg.edges == "reflect":
            last_B1 = (samples_B1 - 1).clamp(min=0)
            found_BN = last_B1 - (last_B1 - place_N.remainder((2 * last_B1).clamp(min=1))).abs()
            inside_BN = place_N < samples_B1 + reach
        else:
            found_BN = place_N.clamp(min=0) + torch.zeros_like(samples_B1)
        found_BN = found_BN.clamp(min=0).minimum((samples_B1 - 1).clamp(min=0))
        return signal_BN.gather(1, found_BN) * inside_BN.to(signal_BN.dtype)


def _normalized(features_BFT: Tensor, keep_B1T: Tensor, frames_B: Tensor, cfg: LogMelConfig) -> Tensor:
    """As `common.features.normalize`, in operations that every runtime has."""
    features_BFT = features_BFT * keep_B1T
    if cfg.normalize == "none":
        return features_BFT
    dims = [2] if cfg.normalize == "per_feature" else [1, 2]
    bands = 1 if cfg.normalize == "per_feature" else features_BFT.shape[1]
    count_B11 = (frames_B * bands)[:, None, None].to(features_BFT.dtype)
    mean_B_1 = features_BFT.sum(dims, keepdim=True) / count_B11.clamp(min=1)
    centred_BFT = (features_BFT - mean_B_1) * keep_B1T
    deviation_B_1 = (centred_BFT.square().sum(dims, keepdim=True) / (count_B11 - 1).clamp(min=1)).sqrt()
    is_constant_B_1 = deviation_B_1 <= 1e-5 * mean_B_1.abs()
    return torch.where(is_constant_B_1, torch.zeros_like(centred_BFT), centred_BFT / (deviation_B_1 + 1e-5))
