"""From mel spectrograms to audio with any vocoder: HiFi-GAN, the light inverse-STFT generator, WaveGlow.

All of them take one framing: frame t is centred at sample t hop, and T frames give T hop samples. Published HiFi-GAN
generators learned frames whose centre is half a hop later, so what they say of a centred frame comes half a hop (6 ms)
late; that is `Vocoder.delay_samples`, and their audio is left as it is.

Shapes: B utterances, M mel bins, T frames, N samples, K frequencies, G and P groups and positions of WaveGlow's noise.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from common.devices import distributed
from common.devices.fastest import Choice, fastest, voice_like
from common.devices.precision import DTYPES, Precision, cast_for_inference, float32_math
from common.features import LogMel, LogMelConfig
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from common.runs.seeds import mixed
from fastpitch import voices
from fastpitch.vocoders.build import build_generator
from fastpitch.vocoders.checkpoints import hifigan, waveglow
from fastpitch.vocoders.networks.config import SAME_MEL
from fastpitch.vocoders.networks.fused import FusedHifigan, is_faster_fused
from fastpitch.vocoders.networks.fused_waveglow import FusedWaveglow
from fastpitch.vocoders.networks.hifigan import HifiganGenerator
from fastpitch.vocoders.networks.istft import IstftGenerator
from fastpitch.vocoders.networks.waveglow import Waveglow
from fastpitch.vocoders.networks.weight_norm import folded
from fastpitch.vocoders.spans import CHUNK_FRAMES, MelSpan

BIAS_FRAMES = 88  # of the silence that a vocoder's own hum is measured on, as published


class VocoderError(ValueError):
    """A mel spectrogram that a vocoder cannot voice; the message says what it has and what was expected."""


Generator = HifiganGenerator | FusedHifigan | IstftGenerator | Waveglow | FusedWaveglow


class LoadedGenerator(NamedTuple):
    """What a checkpoint holds: a network for inference on the CPU, the features it takes, its delay in samples."""

    generator: Generator
    features: LogMelConfig
    delay_samples: int


class StreamedSound(ABC):
    """What gives the sound of some frames of a spectrogram can say all of it in pieces."""

    @abstractmethod
    def cuts(self, cuts: Sequence[MelSpan], *, sigma: float = 0.0, seed: int = 0) -> list[Tensor]:
        """The audio [N] of some frames of each of several spectrograms, in one batch: of each as if it were alone.

        `sigma`, `seed`: of the noise that WaveGlow starts from. Raises VocoderError.
        """

    @abstractmethod
    def checked(self, mel_BMT: Tensor, frames_B: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Both on the device, the mel spectrogram in the vocoder's number format. Raises VocoderError."""

    def stream(
        self, mel_BMT: Tensor, *, chunk_frames: int = CHUNK_FRAMES, sigma: float = 0.0, seed: int = 0
    ) -> Iterator[Tensor]:
        """The audio of a call, [B, N], in pieces of `chunk_frames` frames, each as soon as it is there.

        Of no utterances or no frames there are none. Raises VocoderError, before the first piece.
        """
        if chunk_frames < 1:
            raise VocoderError(f"stream: chunk_frames = {chunk_frames}: expected at least 1")
        mel_BMT, _ = self.checked(mel_BMT, None)
        frames = mel_BMT.shape[2] if len(mel_BMT) else 0
        for start in range(0, frames, chunk_frames):
            spans = [MelSpan(mel_MT, start, min(frames, start + chunk_frames)) for mel_MT in mel_BMT]
            yield torch.stack(self.cuts(spans, sigma=sigma, seed=seed))


class Vocoder(StreamedSound):
    """A generator with the features it takes."""

    def __init__(
        self,
        generator: Generator,
        features: LogMelConfig,
        *,
        name: str = "",
        delay_samples: int = 0,
        device: torch.device | str = "cpu",
        precision: Precision = "fp32",
    ):
        """`name`, in messages, is where it comes from. `context_frames` is as the generator's."""
        self.name, self.features, self.delay_samples = name or type(generator).__name__, features, delay_samples
        self.sample_rate, self.hop_samples = features.sample_rate, features.hop_samples
        self.context_frames = generator.context_frames
        self.device, self.precision = torch.device(device), precision
        if isinstance(generator, HifiganGenerator) and self.device.type == "cpu" and is_faster_fused(generator):
            generator = FusedHifigan(generator)
        elif isinstance(generator, Waveglow) and self.device.type == "cpu":
            generator = FusedWaveglow(generator)
        self.generator = cast_for_inference(generator.to(self.device), precision)

    def __call__(self, mel_BMT: Tensor, frames_B: Tensor | None = None, *, sigma: float = 0.0, seed: int = 0) -> Tensor:
        """Audio [B, T hop], float32 on the vocoder's device: of each utterance the same as if it were alone.

        What lies beyond `frames_B[b]` frames is ignored, and silent. `sigma` is the deviation of the noise WaveGlow
        starts from, drawn from `seed`, the same for every utterance; the other vocoders have none. Raises VocoderError.
        """
        mel_BMT, frames_B = self.checked(mel_BMT, frames_B)
        return self._voice(mel_BMT, frames_B, self._noise(0, mel_BMT.shape[2], sigma, seed))

    def cuts(self, cuts: Sequence[MelSpan], *, sigma: float = 0.0, seed: int = 0) -> list[Tensor]:
        """As `StreamedSound`'s."""
        heard = [cut.around(self.context_frames) for cut in cuts]
        rows = [own.mel_MT[:, own.start : own.end].T for own in heard]
        lengths_B = torch.tensor([len(row_TM) for row_TM in rows])
        mel_BMT, frames_B = self.checked(nn.utils.rnn.pad_sequence(rows, batch_first=True).mT, lengths_B)
        longest = mel_BMT.shape[2]
        noises = [self._noise(own.start, own.start + longest, sigma, seed) for own in heard]
        drawn = [noise_GP for noise_GP in noises if noise_GP is not None]
        audio_BN = self._voice(mel_BMT, frames_B, torch.stack(drawn) if drawn else None)
        return [cut.of(own, audio_N, self.hop_samples) for cut, own, audio_N in zip(cuts, heard, audio_BN, strict=True)]

    def require(self, features: LogMelConfig, owner: str = "the mel spectrogram") -> None:
        """Raises VocoderError if mel spectrograms of `features`, which `owner` makes, are not for this vocoder."""
        for name in SAME_MEL:
            found, expected = getattr(features, name), getattr(self.features, name)
            if found != expected:
                raise VocoderError(
                    f"{self.name}: takes mel spectrograms with {name} {expected:g}, but {owner} has {name} {found:g}; "
                    "use a vocoder trained on the same features"
                )

    @torch.inference_mode()
    def _voice(self, mel_BMT: Tensor, frames_B: Tensor | None, noise_GP: Tensor | None) -> Tensor:
        """`noise_GP`: of all of them the same, or [B, G, P]."""
        if not mel_BMT.numel():
            return torch.zeros(len(mel_BMT), mel_BMT.shape[2] * self.hop_samples, device=self.device)
        with float32_math(self.precision):
            if not isinstance(self.generator, Waveglow | FusedWaveglow):
                return self.generator(mel_BMT, frames_B).float()
            assert noise_GP is not None
            z_BGP = noise_GP.to(mel_BMT.dtype).expand(len(mel_BMT), -1, -1)
            return self.generator.inverse(mel_BMT, z_BGP, frames_B).float()

    def _noise(self, start: int, end: int, sigma: float, seed: int) -> Tensor | None:
        """[G, P] of some frames, the same whichever others are drawn; on the CPU, so that devices agree."""
        if not isinstance(self.generator, Waveglow | FusedWaveglow):
            return None
        group = self.generator.cfg.group
        positions, first = self.hop_samples // group, start // CHUNK_FRAMES
        drawn = [torch.zeros(0, group)]
        for chunk in range(first, -(-end // CHUNK_FRAMES)):
            draw = torch.Generator().manual_seed(mixed(seed % 2**64, chunk))
            drawn.append(torch.randn(CHUNK_FRAMES * positions, group, generator=draw))
        before = (start - first * CHUNK_FRAMES) * positions
        noise_PG = torch.cat(drawn)[before : before + (end - start) * positions]
        return (sigma * noise_PG).T.to(self.device, non_blocking=True)

    def checked(self, mel_BMT: Tensor, frames_B: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """As `StreamedSound`'s."""
        bins = self.features.mel_bins
        if mel_BMT.ndim != 3 or mel_BMT.shape[1] != bins:
            raise VocoderError(
                f"{self.name}: mel spectrograms of shape {tuple(mel_BMT.shape)}; expected [utterances, {bins} mel "
                "bins, frames]" + ("; transpose them" if mel_BMT.ndim == 3 and mel_BMT.shape[2] == bins else "")
            )
        is_finite, longest = torch.isfinite(mel_BMT).all(), 0
        if frames_B is not None and frames_B.numel():  # both questions in one copy: a GPU is waited for once
            is_finite, longest = torch.stack([is_finite.long(), frames_B.max().to(is_finite.device)]).tolist()
        if frames_B is not None:
            if frames_B.shape != mel_BMT.shape[:1] or longest > mel_BMT.shape[2]:
                raise VocoderError(
                    f"{self.name}: frames {frames_B.tolist()} for mel spectrograms of shape {tuple(mel_BMT.shape)}; "
                    "expected a number for each utterance, none beyond the last frame"
                )
            frames_B = frames_B.to(self.device)
        if not is_finite:
            raise VocoderError(f"{self.name}: the mel spectrogram holds values that are NaN or infinite")
        return mel_BMT.to(self.device, DTYPES[self.precision]), frames_B


class Denoiser(StreamedSound):
    """A vocoder without its hum: the spectrum it gives to silence is taken off all it says (WaveGlow's, of NVIDIA).

    Magnitudes of a centred STFT lose `strength` times the hum's and stay at zero at least; phases are kept.
    """

    def __init__(self, vocoder: Vocoder, strength: float = 0.01):
        if strength < 0:
            raise VocoderError(f"Denoiser: strength {strength:g}; expected 0, for nothing, or more")
        self.vocoder, self.strength = vocoder, strength
        self.window_N = torch.hann_window(vocoder.features.n_fft, device=vocoder.device)
        silence_BMT = torch.zeros(1, vocoder.features.mel_bins, BIAS_FRAMES)
        self.hum_K1 = self._spectrum(vocoder(silence_BMT))[0, :, :1].abs()

    def __call__(self, mel_BMT: Tensor, frames_B: Tensor | None = None, *, sigma: float = 0.0, seed: int = 0) -> Tensor:
        """As `Vocoder`'s."""
        return self._clean(self.vocoder(mel_BMT, frames_B, sigma=sigma, seed=seed), frames_B)

    def cuts(self, cuts: Sequence[MelSpan], *, sigma: float = 0.0, seed: int = 0) -> list[Tensor]:
        """As `StreamedSound`'s; each waits for the next four frames."""
        heard = [cut.around(self.vocoder.features.n_fft // self.vocoder.hop_samples) for cut in cuts]
        said = self.vocoder.cuts(heard, sigma=sigma, seed=seed)
        return [
            cut.of(own, self._clean(audio_N[None], None)[0], self.vocoder.hop_samples)
            for cut, own, audio_N in zip(cuts, heard, said, strict=True)
        ]

    def checked(self, mel_BMT: Tensor, frames_B: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """As `StreamedSound`'s."""
        return self.vocoder.checked(mel_BMT, frames_B)

    @torch.inference_mode()
    def _clean(self, audio_BN: Tensor, frames_B: Tensor | None) -> Tensor:
        if not self.strength or not audio_BN.numel():
            return audio_BN
        # With the frames that reach beyond the end, which an utterance in a longer batch has too.
        spectrum_BKT = self._spectrum(F.pad(audio_BN, (0, self.vocoder.features.n_fft // 2)))
        magnitude_BKT = spectrum_BKT.abs()
        wanted_BKT = (magnitude_BKT - self.strength * self.hum_K1).clamp(min=0)
        clean_BKT = spectrum_BKT * (wanted_BKT / magnitude_BKT.clamp(min=1e-12))
        clean_BN = torch.istft(
            clean_BKT, self.vocoder.features.n_fft, self.vocoder.hop_samples, window=self.window_N,
            length=audio_BN.shape[1],
        )  # fmt: skip
        if frames_B is None:
            return clean_BN
        place_N = torch.arange(audio_BN.shape[1], device=audio_BN.device)
        return clean_BN * (place_N < frames_B.to(audio_BN.device)[:, None] * self.vocoder.hop_samples)

    def _spectrum(self, audio_BN: Tensor) -> Tensor:
        """[B, K, 1 + N / hop]; zeros, not a reflection, before and after, so that padding makes no difference."""
        return torch.stft(
            audio_BN, self.vocoder.features.n_fft, self.vocoder.hop_samples, window=self.window_N,
            pad_mode="constant", return_complex=True,
        )  # fmt: skip


def load_vocoder(
    path: str | Path, *, device: str = "auto", precision: Choice = "fp32", ema: bool | None = None
) -> Vocoder:
    """The vocoder saved at `path`: of this repository, of DeepLearningExamples (HiFi-GAN, WaveGlow) or of jik876.

    Or that of a voice by its name (`fastpitch.voices`).

    `ema`: take the averaged weights; None takes them where there are any. `precision`: "auto" measures
    (`common.devices.fastest`). Raises CheckpointError for a file that is missing, damaged, not such a checkpoint, or
    has no averaged weights.
    """
    chosen = distributed.pick_device(device)
    loaded = load_generator(Path(path), ema=ema)

    def build(tried: Precision, generator: Generator) -> Vocoder:
        return Vocoder(
            generator, loaded.features, name=str(path), delay_samples=loaded.delay_samples, device=chosen,
            precision=tried,
        )  # fmt: skip

    if precision == "auto":
        features = loaded.features
        audio_BN = torch.from_numpy(voice_like(features.sample_rate, 2.0))[None]
        mel_BMT = LogMel(features).eval()(audio_BN, torch.tensor([audio_BN.shape[1]])).features_BFT
        return fastest(
            lambda tried: build(tried, copy.deepcopy(loaded.generator)), lambda vocoder: vocoder(mel_BMT), chosen
        )
    return build(precision, loaded.generator)


def load_generator(path: Path, *, ema: bool | None = None) -> LoadedGenerator:
    """As `load_vocoder`, of the network alone."""
    path = voices.located(path, voices.VOCODER)
    with checkpoint.usable(path):
        return _generator_of(checkpoint.load(path), path, ema)


def _generator_of(state: dict[str, Any], path: Path, ema: bool | None) -> LoadedGenerator:
    if waveglow.is_checkpoint(state):
        flow = waveglow.read(state, path)
        with checkpoint.unfilled():
            network = build_generator(flow.config)
        return LoadedGenerator(_filled(network, flow.chosen(ema, path), path), flow.config.features, 0)
    if not hifigan.is_checkpoint(state):
        raise CheckpointError(
            f"{path}: not a vocoder: expected a HiFi-GAN, inverse-STFT or WaveGlow checkpoint; "
            f"{checkpoint.contents(state)}"
        )
    found = hifigan.read(state, path)
    generator = _filled(build_generator(found.config), found.chosen(ema, path), path)
    return LoadedGenerator(generator, found.config.features, hifigan.delay_samples(state, found.config))


def _filled(network: Generator, weights: dict[str, Tensor], path: Path) -> Generator:
    try:
        plain = folded(weights)
    except CheckpointError as error:
        raise CheckpointError(f"{path}: does not fit its configuration: {error}") from None
    checkpoint.fill(network, plain, path)
    return network.eval()
