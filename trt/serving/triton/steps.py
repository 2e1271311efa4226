"""What Triton runs: a recogniser or a voice as a whole, or a recogniser's steps one after the other.

Each takes the inputs of several requests, by name, and gives the outputs of each, or why there are none. `settings` are
those of paths.json.

Shapes: B recordings of a request, N samples, K cuts, F mel bands, T feature frames, S output frames, V labels and the
blank.
"""

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from common.audio.silence import Cut
from common.recognition import decoding
from common.recognition.output.transcripts import transcript_of, words_of
from common.recognition.sources.recordings import Recording, heard, read
from trt.facts import keeper_of
from trt.runtime.recognizer import OnnxModel
from trt.serving.triton.transcripts import content_of, rows_of

Tensors = dict[str, np.ndarray]


class TritonStep(Protocol):
    """What a model of Triton's Python back end does."""

    def __init__(self, settings: dict[str, Any], folder: Path): ...

    def __call__(self, requests: Sequence[Tensors]) -> Sequence[Tensors | Exception]:
        """The outputs of every request."""

    def takes_long(self, request: Tensors) -> bool:
        """Whether a request is answered beside the batches of others."""
        return False


class TritonRecognizer(TritonStep):
    """A whole recogniser; recordings of more than one chunk take long."""

    def __init__(self, settings: dict[str, Any], folder: Path):
        from trt.serving.models import load_ears

        own = {key: settings[key] for key in ("batch_size", "threads", "device")}
        self._ears = load_ears(Path(settings["model"]), **own)

    def __call__(self, requests: Sequence[Tensors]) -> list[Tensors]:
        """[B, bytes] of JSON for every request."""
        recordings = [samples_N for request in requests for samples_N in request["audio"]]
        found = iter([content_of(transcript) for transcript in self._ears.transcribe(recordings)])
        rows = (list(itertools.islice(found, len(request["audio"]))) for request in requests)
        return [{"transcript": rows_of(own)} for own in rows]

    def takes_long(self, request: Tensors) -> bool:
        """Whether its recordings are recognised in chunks."""
        return bool(request["audio"].shape[1] > self._ears.chunk_seconds * self._ears.sample_rate)


class TritonVoice(TritonStep):
    """FastPitch and a vocoder, for requests of one sentence each, which sounds as it would alone."""

    def __init__(self, settings: dict[str, Any], folder: Path):
        from trt.serving.models import load_voice

        own = {key: settings[key] for key in ("threads", "device")}
        self._voice = load_voice(Path(settings["tts"]), Path(settings["vocoder"]), **own)

    def __call__(self, requests: Sequence[Tensors]) -> list[Tensors | Exception]:
        """`sound` [1, N] of the sentence of every request."""
        from trt.serving.triton.sentences import piece_of

        speakers = self._voice.speakers
        pieces = [[piece_of(own["tokens"], own["edits"], own["speaker"], speakers=speakers)] for own in requests]
        found = self._voice.whole(pieces)
        return [own if isinstance(own, Exception) else {"sound": own[None].astype(np.float32)} for own in found]


class TritonSound(TritonStep):
    """From samples to what the network takes, audio_BN or features_BFT, how long each is, and what was cut out of it.

    Lengths are rounded up to a multiple of `bucket` with zeros, which the network masks, so that requests of about the
    same length have tensors of equal shape: Triton puts only those into one batch.
    """

    def __init__(self, settings: dict[str, Any], folder: Path):
        self._bucket: int = settings["bucket"]
        self._rate: int = settings["facts"]["sample_rate"]
        self._keep = keeper_of(settings["facts"])
        self._log_mel: Any = None
        if settings["features"] is not None:
            from common.config import build
            from common.features import LogMel, LogMelConfig

            self._log_mel = LogMel(build(LogMelConfig, settings["features"], str(folder))).eval()

    def __call__(self, requests: Sequence[Tensors]) -> list[Tensors]:
        """`audio` (float32 [B, N]) of every request."""
        return [self._prepared(request["audio"]) for request in requests]

    def _prepared(self, audio_BN: np.ndarray) -> Tensors:
        recordings = [heard(read(samples_N, self._rate, keep=self._keep)) for samples_N in audio_BN]
        is_heard_B = np.array([len(recording.samples_N) > 0 for recording in recordings])
        given = zip(recordings, is_heard_B, audio_BN, strict=True)
        cuts_B = [[(0.0, 0.0), *((cut.at, cut.before) for cut in recording.cuts)] for recording in recordings]
        longest = max(map(len, cuts_B))
        told = {
            "heard_B": is_heard_B[:, None] * audio_BN.shape[1],
            "cuts_BK2": np.array([cuts + cuts[-1:] * (longest - len(cuts)) for cuts in cuts_B]),
        }
        # Of what nobody hears all is kept: networks want some samples.
        parts = [recording.samples_N[:] if is_heard else audio_N for recording, is_heard, audio_N in given]
        samples_B1 = np.array([[len(part_N)] for part_N in parts])
        audio_BN = np.stack([_to_length(part_N, int(samples_B1.max())) for part_N in parts])
        if self._log_mel is None:
            return {"audio_BN": _rounded_up(audio_BN, self._bucket), "samples_B": samples_B1, **told}
        import torch

        with torch.inference_mode():
            features_BFT, frames_B = self._log_mel(
                torch.from_numpy(audio_BN.copy()), torch.from_numpy(samples_B1[:, 0])
            )
        features = features_BFT[:, :, : int(frames_B.max())].numpy()
        padded_BFT = _rounded_up(features, self._bucket)
        return {"features_BFT": padded_BFT, "frames_B": frames_B.numpy()[:, None], **told}


class TritonNetwork(TritonStep):
    """The ONNX file beside it, in place of Triton's back end for them."""

    def __init__(self, settings: dict[str, Any], folder: Path):
        self._model = OnnxModel(folder / "model.onnx", threads=settings["threads"])

    def __call__(self, requests: Sequence[Tensors]) -> list[Tensors]:
        """All requests in one batch, the shorter ones with zeros behind them."""
        data, lengths = self._model.inputs
        longest = max(request[data].shape[-1] for request in requests)
        rows = [len(request[data]) for request in requests]
        found = self._model.run(
            **{
                data: np.concatenate([_to_length(request[data], longest) for request in requests]),
                lengths: np.concatenate([request[lengths][:, 0] for request in requests]),
            }
        )
        ends = np.cumsum(rows)[:-1]
        parts = {name: np.split(value, ends) for name, value in found.items()}
        shaped = {name: [v if v.ndim > 1 else v[:, None] for v in values] for name, values in parts.items()}
        return [{name: values[i] for name, values in shaped.items()} for i in range(len(requests))]


class TritonDecoder(TritonStep):
    """From log-probabilities to transcripts, by the best path of CTC; nothing is said where nothing is heard."""

    def __init__(self, settings: dict[str, Any], folder: Path):
        self._facts, self._inputs = settings["facts"], settings["inputs"]
        facts = self._facts
        self._decoder = decoding.CTCDecoder(facts["labels"], blank=facts["blank"], separator=facts["separator"])

    def __call__(self, requests: Sequence[Tensors]) -> list[Tensors]:
        """[B, bytes] of JSON for every request."""
        return [{"transcript": rows_of(self._decoded(request))} for request in requests]

    def _decoded(self, request: Tensors) -> list[bytes]:
        facts, found = self._facts, []
        log_probs_BSV, frames_B1 = (request[name] for name in self._inputs)
        rows = zip(log_probs_BSV, frames_B1, request["heard_B"], request["cuts_BK2"], strict=True)
        for row_SV, (frames,), (samples,), cuts_K2 in rows:
            cuts = tuple(Cut(at, before) for at, before in cuts_K2.tolist())
            recording = Recording("audio", np.zeros(0, np.float32), int(samples) / facts["sample_rate"], cuts)
            readings = []
            if samples:
                (reading,) = self._decoder(row_SV[:frames])
                spelled = {"separator": facts["separator"], "seconds_per_frame": facts["seconds_per_frame"]}
                readings = [(words_of(reading.letters, recording, **spelled), reading.score)]
            transcript = transcript_of(recording, readings, seconds_per_frame=facts["seconds_per_frame"])
            found.append(content_of(transcript))
        return found


STEPS: dict[str, type[TritonStep]] = {"sound": TritonSound, "network": TritonNetwork, "decoder": TritonDecoder}
STEPS |= {"recognizer": TritonRecognizer, "voice": TritonVoice}


def _rounded_up(values_XN: np.ndarray, bucket: int) -> np.ndarray:
    return _to_length(values_XN, max(1, math.ceil(values_XN.shape[-1] / bucket)) * bucket)


def _to_length(values_XN: np.ndarray, length: int) -> np.ndarray:
    width = [(0, 0)] * (values_XN.ndim - 1) + [(0, length - values_XN.shape[-1])]
    return np.pad(values_XN, width)
