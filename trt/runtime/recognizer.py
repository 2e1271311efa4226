"""An exported recogniser in use, without torch: audio files in, words with times and confidence out.

Shapes: B utterances or chunks, N samples, S output frames, V labels and the blank.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import onnxruntime

from common.recognition.cutting.chunks import AudioChunk, chunks, in_batches, padded
from common.recognition.decoding import CTCDecoder, DecodingOptions
from common.recognition.output.transcripts import Transcript
from common.recognition.reading import transcripts
from common.recognition.recognizer import OnError, SpeechRecognizer
from common.recognition.sources.recordings import Source, read_ahead
from common.text.vocabulary import Language
from ctc import native
from trt.facts import ModelError, facts_in, keeper_of, told, usable, why_not_onnx

if TYPE_CHECKING:
    from common.text.language import Spelling

NEEDED = {"labels", "blank", "separator", "sample_rate", "samples_per_frame", "seconds_per_frame", "context_frames"}
NEEDED |= {"chunk_seconds", "chunk_multiple", "shortest_samples", "trim_silence"}
DECODED_INSIDE = "gives labels, not log-probabilities; export it without --decode greedy"
WHOLE = sys.maxsize  # as the end of a piece: all frames that the network gives


class Network(Protocol):
    """An ONNX file or an engine: arrays in by name, arrays out by name, and the facts that its model states."""

    path: Path
    facts: dict[str, Any]
    inputs: list[str]
    outputs: list[str]

    def run(self, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """The outputs by name."""


class OnnxModel:
    """A file of `trt.export`: arrays in by name, arrays out by name, and the facts that it states of itself."""

    def __init__(self, path: Path, *, threads: int = 0):
        """`threads`: of the network, 0 for one per core. Raises ModelError."""
        if problem := why_not_onnx(path):
            raise ModelError(f"{path}: {problem}")
        if path.suffix == ".engine":
            raise ModelError(
                f"{path}: an engine of TensorRT, which this does not take; give the ONNX file that it was built from"
            )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        # Threads that wait would keep cores busy, which several batches at once want: half of all time went into it.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        with told(path, "cannot be loaded"):
            self.session = onnxruntime.InferenceSession(
                path, options, providers=["CPUExecutionProvider"], enable_fallback=0
            )
        with usable(ModelError, path):
            self.facts: dict[str, Any] = facts_in(self.session.get_modelmeta().custom_metadata_map)
        self.path = path
        self.inputs = [tensor.name for tensor in self.session.get_inputs()]
        self.outputs = [tensor.name for tensor in self.session.get_outputs()]

    def run(self, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """The outputs by name. Raises ModelError where the graph does not compute them."""
        with told(self.path, "does not run"):
            return dict(zip(self.outputs, self.session.run(None, inputs), strict=True))


class Recognizer(SpeechRecognizer):
    """A file of `trt.export` that makes log-probabilities of labels from samples."""

    def __init__(self, model: Path | Network, *, threads: int = 0):
        """`threads`: of the network, 0 for one per core. Raises ModelError."""
        self.network: Network = OnnxModel(model, threads=threads) if isinstance(model, Path) else model
        path, facts, inputs = self.network.path, self.network.facts, self.network.inputs
        if inputs != ["audio_BN", "samples_B"] or NEEDED - facts.keys():
            raise ModelError(
                f"{path}: takes {', '.join(inputs)}; expected a recogniser that trt.export wrote with --input samples"
            )
        self.labels: list[str] = facts["labels"]
        self.blank: int = facts["blank"]
        self.sample_rate: int = facts["sample_rate"]
        self.languages: tuple[str, ...] = tuple(facts.get("languages", ()))
        self.samples_per_frame: int = facts["samples_per_frame"]
        self.seconds_per_frame: float = facts["seconds_per_frame"]
        self.context_frames: int = facts["context_frames"]
        self.separator: str = facts["separator"]
        self.chunk_seconds: float = facts["chunk_seconds"]
        self.chunk_multiple: int = facts["chunk_multiple"]
        self.shortest_samples: int = facts["shortest_samples"]
        self.keep = keeper_of(facts)
        self.decodes: bool = facts.get("decode") == "greedy"
        """Whether the network gives labels, not log-probabilities."""
        self.threads = threads or native.threads()

    def log_probs(self, audio_BN: np.ndarray, samples_B: np.ndarray) -> list[np.ndarray]:
        """Log-probabilities [S, V] of float32 audio, samples_B valid samples each, one array per utterance."""
        if self.decodes:
            raise ModelError(f"{self.network.path}: {DECODED_INSIDE}")
        found = list(self.network.run(audio_BN=audio_BN, samples_B=samples_B).values())
        shapes = [list(array.shape) for array in found]
        is_right = len(found) == 2 and found[0].ndim == 3 and shapes[1] == [len(audio_BN)] == shapes[0][:1]
        if not is_right or shapes[0][2] != len(self.labels):
            raise ModelError(
                f"{self.network.path}: gives arrays of shapes {shapes}; expected log-probabilities [{len(audio_BN)}, "
                f"frames, {len(self.labels)}] and how many frames each recording has"
            )
        found_BSV, frames_B = found
        return [row_SV[:frames] for row_SV, frames in zip(found_BSV, frames_B, strict=True)]

    def decoder(self, options: DecodingOptions | None = None, *, like: CTCDecoder | None = None) -> CTCDecoder:
        """What `stream` decodes with. `like`: one with the same language model, which is not read again.

        Raises ConfigError for words or files that cannot be used, ModelError for a search in a file that gives labels.
        """
        if self.decodes and options is not None and options.searches:
            raise ModelError(f"{self.network.path}: {DECODED_INSIDE}")
        return CTCDecoder(self.labels, blank=self.blank, separator=self.separator, options=options, like=like)

    def spelling(self, language: Language | None = None) -> "Spelling":
        """What writes references in the letters of the labels, as the model's own command does."""
        from common.text.language import Spelling  # which takes as long to import as all else

        written = {label for label in self.labels if len(label) == 1 and label != self.separator} | {" "}
        data: dict[str, Any] = self.network.facts.get("configuration", {}).get("data", {})
        return Spelling(
            sorted(written - {self.labels[self.blank]}),
            language=language or data.get("language", "auto"),
            unknown_letters=data.get("unknown_letters", "stop"),
            normalizes=data.get("normalize_text", True),
        )

    def stream(
        self,
        recordings: Iterable[Source],
        *,
        batch_size: int = 8,
        chunk_seconds: float | None = None,
        decoder: CTCDecoder | None = None,
        keep_log_probs: bool = False,
        on_error: OnError = "stop",
    ) -> Iterator[Transcript]:
        """Transcripts in order. With on_error="skip" what cannot be read has its `error` set; otherwise it is raised.

        Recordings longer than `chunk_seconds` are recognised in chunks; by default as where the model is at home.
        `decoder`: see the method of that name; by default the best path. Raises ModelError where log-probabilities are
        to be kept of a file that gives labels.
        """
        seconds = self.chunk_seconds if chunk_seconds is None else chunk_seconds
        if self.decodes and keep_log_probs:
            raise ModelError(f"{self.network.path}: {DECODED_INSIDE}")

        def run(samples: list[np.ndarray]) -> list[np.ndarray]:
            return (self._decoded if self.decodes else self.log_probs)(*padded(samples)) if samples else []

        found = in_batches(
            read_ahead(recordings, self.sample_rate, keep=self.keep, shortest=self.shortest_samples, on_error=on_error),
            lambda samples: self._pieces(samples, seconds),
            run,
            batch_size=batch_size,
            # ONNX Runtime takes several calls at a time; an engine has buffers of its own.
            threads=self.threads if isinstance(self.network, OnnxModel) else 1,
        )
        yield from transcripts(
            found,
            decoder or self.decoder(),
            seconds_per_frame=self.seconds_per_frame,
            precision=self.network.facts.get("precision", "fp32"),
            threads=self.threads,
            keep_log_probs=keep_log_probs,
        )

    def _decoded(self, audio_BN: np.ndarray, samples_B: np.ndarray) -> list[np.ndarray]:
        """As `log_probs`, of what the network has decoded."""
        found = self.network.run(audio_BN=audio_BN, samples_B=samples_B)
        paths = paths_of(found, [self._frames(int(samples)) for samples in samples_B], self.blank)
        return [spread(path_S2, len(self.labels)) for path_S2 in paths]

    def _frames(self, samples: int) -> int:
        return (samples - self.shortest_samples) // self.samples_per_frame + 1

    def _pieces(self, samples: int, chunk_seconds: float) -> list[AudioChunk]:
        if samples == 0:
            return []
        per_frame = self.samples_per_frame
        beyond = max(0, self.shortest_samples - per_frame)  # what the last frame of a chunk hears of the next
        n_frames = self._frames(samples)
        longest = max(1, round(min(n_frames, chunk_seconds * self.sample_rate / per_frame)))
        pieces = []
        for start, first, end, stop in chunks(
            n_frames, longest=longest, context=self.context_frames, multiple=self.chunk_multiple
        ):
            after = samples if stop == n_frames else min(samples, stop * per_frame + beyond)
            pieces.append(
                AudioChunk(start * per_frame, after, first - start, WHOLE if end == n_frames else end - start)
            )
        return pieces


def check_whole(network: Network) -> None:
    """Raises ModelError for a graph that is no whole recogniser of pieces."""
    if network.inputs != ["audio_BN", "samples_B"] or network.facts.get("part") != "whole":
        raise ModelError(
            f"{network.path}: is {network.facts.get('part')}, and takes {', '.join(network.inputs)}; expected a "
            "recogniser that trt.export wrote whole, with --input samples"
        )


def paths_of(found: Mapping[str, np.ndarray], frames: Sequence[int], blank: int) -> list[np.ndarray]:
    """[S, 2] the label of every frame, and the logarithm of its probability, of what a network has decoded."""
    paths = []
    for row, (labels, n_frames) in enumerate(zip(found["labels_B"], frames, strict=True)):
        path_S2 = np.zeros((n_frames, 2))
        path_S2[:, 0] = blank
        for i in range(labels):
            own = slice(found["first_frames_BS"][row, i], found["end_frames_BS"][row, i])
            path_S2[own] = found["labels_BS"][row, i], np.log(found["confidence_BS"][row, i])
        paths.append(path_S2)
    return paths


def spread(path_S2: np.ndarray, labels: int) -> np.ndarray:
    """Log-probabilities [S, V] of so many labels: of a path's as it says; the others share what that leaves.

    They stay 1e-3 below it, which float32 can tell, so that the best label is the path's.
    """
    best_S, log_prob_S = path_S2[:, 0].astype(int), path_S2[:, 1]
    others_S = np.log(np.maximum(-np.expm1(log_prob_S), 1e-30) / (labels - 1))
    log_probs_SV = np.repeat(np.minimum(others_S, log_prob_S - 1e-3)[:, None], labels, axis=1)
    log_probs_SV[np.arange(len(best_S)), best_S] = log_prob_S
    return log_probs_SV.astype(np.float32)
