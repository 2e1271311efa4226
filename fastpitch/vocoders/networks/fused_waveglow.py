"""WaveGlow for inference on a CPU: the same sums, by fewer multiplications.

Positions before channels, as `common.convolution` wants it, which `cast_for_inference` makes ready for the processor. A
layer's condition is what its dilated convolution adds to, and what goes to the next layer and what is summed up are
written where they are added.

Shapes: B utterances, M mel bins, T frames, N samples of audio, G samples of a group (channels of the flow), P positions
(N / G), D channels of the condition (M G), C channels within a coupling network, H channels of half a flow.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.convolution.native import workspace
from common.convolution.operator import FusedConvolution, Lengths
from common.lengths import inside
from fastpitch.vocoders.networks.waveglow import CouplingNetwork, Waveglow

FRAMES = 160  # of a call that algorithms are chosen for: two seconds


class FusedWaveglow(nn.Module):
    """Speaks as the `Waveglow` whose weights it copies; without gradients, and without its likelihood."""

    def __init__(self, flow: Waveglow):
        super().__init__()
        self.cfg, self.hop_samples, self.context_frames = flow.cfg, flow.hop_samples, flow.context_frames
        self.early_before = [flow.cfg.early_channels if flow._puts_out(k) else 0 for k in range(flow.cfg.flows)]
        reach = flow.upsample.kernel_size[0] // flow.hop_samples
        weight_MMRN = flow.upsample.weight.detach().unflatten(2, (reach, -1))
        assert flow.upsample.bias is not None
        self.spread_EN = nn.Parameter(weight_MMRN.transpose(1, 2).flatten(2).flatten(0, 1).clone())
        self.spread_bias_M = nn.Parameter(flow.upsample.bias.detach().clone())
        matrices = [mix.conv.weight.detach().squeeze(-1) for mix, _ in flow._flows()]
        self.unmix = nn.ParameterList(matrix.double().inverse().to(matrix.dtype) for matrix in matrices)
        positions = FRAMES * flow.hop_samples // flow.cfg.group
        self.networks = nn.ModuleList(FusedCoupling(network, positions) for _, network in flow._flows())

    @torch.inference_mode()
    def inverse(self, mel_BMT: Tensor, z_BGP: Tensor, frames_B: Tensor | None = None) -> Tensor:
        """As `Waveglow`'s."""
        group, hop = self.cfg.group, self.hop_samples
        expected = (len(mel_BMT), group, mel_BMT.shape[2] * hop // group)
        if tuple(z_BGP.shape) != expected:
            raise ValueError(f"z of shape {tuple(z_BGP.shape)} for mel {tuple(mel_BMT.shape)}; expected {expected}")
        condition_BPD = self._condition(mel_BMT.to(self.spread_EN.dtype))
        z_BPG = z_BGP.mT.to(self.spread_EN.dtype)
        lengths = _lengths(condition_BPD, frames_B, hop // group)
        early = sum(self.early_before)
        x_BPG = z_BPG[..., early:]
        for flow in reversed(range(self.cfg.flows)):
            kept_BPH, changed_BPH = x_BPG.chunk(2, dim=2)
            log_scale_BPH, shift_BPH = self.networks[flow](kept_BPH, condition_BPD, lengths)
            changed_BPH = (changed_BPH - shift_BPH) * (-log_scale_BPH).exp()
            x_BPG = torch.cat([kept_BPH, changed_BPH], 2) @ self.unmix[flow].T
            if self.early_before[flow]:
                early -= self.early_before[flow]
                x_BPG = torch.cat([z_BPG[..., early : early + self.early_before[flow]], x_BPG], 2)
        audio_BN = x_BPG.flatten(1)
        return audio_BN if frames_B is None else audio_BN * inside(frames_B * hop, audio_BN.shape[1])

    def _condition(self, mel_BMT: Tensor) -> Tensor:
        """[B, P, D], as `Waveglow`'s."""
        bins, group = mel_BMT.shape[1], self.cfg.group
        reach = len(self.spread_EN) // bins
        frames_BTE = F.pad(mel_BMT, (reach - 1, 0)).mT.unfold(1, reach, 1).flip(-1).flatten(2)
        spread_BTMPG = (frames_BTE @ self.spread_EN).unflatten(2, (bins, -1, group))
        spread_BTMPG += self.spread_bias_M[:, None, None]
        return spread_BTMPG.transpose(2, 3).flatten(3).flatten(1, 2)


class FusedCoupling(nn.Module):
    """As the `CouplingNetwork` whose weights it copies."""

    def __init__(self, network: CouplingNetwork, positions: int):
        super().__init__()
        self.start, self.end = _convolution(network.start, positions), _convolution(network.end, positions)
        self.dilated = nn.ModuleList(_convolution(conv, positions) for conv in network.in_layers)
        self.conditions = nn.ModuleList(_convolution(conv, positions) for conv in network.cond_layers)
        width = network.start.out_channels
        outs = [_convolved(conv) for conv in network.res_skip_layers]
        self.residuals = nn.ModuleList(
            FusedConvolution(weight_OIK[:width], bias_O[:width], frames=positions) for weight_OIK, bias_O in outs[:-1]
        )
        self.skips = nn.ModuleList(
            FusedConvolution(weight_OIK[-width:], bias_O[-width:], frames=positions) for weight_OIK, bias_O in outs
        )

    def forward(self, half_BPH: Tensor, condition_BPD: Tensor, lengths: Lengths | None) -> tuple[Tensor, Tensor]:
        """As `CouplingNetwork`'s, both [B, P, G / 2]."""
        width = self.start.shape.filters
        shape = (*half_BPH.shape[:2], width)
        x_BPC = self.start(half_BPH, lengths, out_BSO=workspace(condition_BPD, "flow", *shape))
        skipped_BPC: Tensor | None = None
        for i, (dilated, condition, skip) in enumerate(zip(self.dilated, self.conditions, self.skips, strict=True)):
            gates_BPC = workspace(condition_BPD, "gates", *shape[:2], 2 * width)
            gates_BPC = dilated(x_BPC, residual_BSO=condition(condition_BPD, out_BSO=gates_BPC), out_BSO=gates_BPC)
            tanh_BPC, sigmoid_BPC = gates_BPC.chunk(2, dim=2)
            gated_BPC = torch.tanh(tanh_BPC, out=workspace(condition_BPD, "gated", *shape))
            gated_BPC *= sigmoid_BPC.sigmoid_()
            if i < len(self.residuals):
                x_BPC = self.residuals[i](gated_BPC, lengths, residual_BSO=x_BPC, out_BSO=x_BPC)
            total_BPC = workspace(condition_BPD, "skipped", *shape)
            skipped_BPC = skip(gated_BPC, residual_BSO=skipped_BPC, out_BSO=total_BPC)
        shift_BPH, log_scale_BPH = self.end(skipped_BPC).chunk(2, dim=2)
        return log_scale_BPH, shift_BPH


def _lengths(condition_BPD: Tensor, frames_B: Tensor | None, rate: int) -> Lengths | None:
    if frames_B is None:
        return None
    mask_BP = inside(frames_B * rate, condition_BPD.shape[1])
    return Lengths(frames_B.long() * rate, mask_BP.to(condition_BPD.dtype).unsqueeze(2))


def _convolved(conv: nn.Module) -> tuple[Tensor, Tensor]:
    assert isinstance(conv, nn.Conv1d)
    assert conv.bias is not None
    return conv.weight.detach(), conv.bias.detach()


def _convolution(conv: nn.Module, frames: int) -> FusedConvolution:
    assert isinstance(conv, nn.Conv1d)
    return FusedConvolution(*_convolved(conv), dilation=conv.dilation[0], frames=frames)
