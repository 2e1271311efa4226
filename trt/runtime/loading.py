"""The recogniser in an exported file, whichever family it is of. Needs no torch."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from trt.facts import ModelError
from trt.runtime import engine
from trt.runtime.recognizer import Network, OnnxModel, Recognizer

if TYPE_CHECKING:  # pieces and native decoders are imported where a model wants them
    from fastconformer.attention.config import DecoderPrecision
    from trt.runtime.conformer import ExportedPieces
    from trt.runtime.prompted import ExportedAttention


Runtime = Literal["onnxruntime", "openvino", "openvino_bf16"]
"""What computes an ONNX file; bf16 is the precision of its network, whose features stay in float32."""


def load(
    path: Path,
    *,
    threads: int = 0,
    runtime: Runtime = "onnxruntime",
    decoder_precision: "DecoderPrecision" = "fp32",
) -> "Recognizer | ExportedPieces | ExportedAttention":
    """`path`: an ONNX file, or an engine that was built of one. `threads`: of the network, 0 for one per core.
    `decoder_precision`: of the weights of an attention decoder, which "bf16" and "int8" round, and read faster.

    Raises ModelError, of the kind EngineError for an engine that does not fit what is here.
    """
    found = network(path, threads=threads, runtime=runtime)
    if found.facts.get("family") == "fastconformer" and found.facts.get("head") == "attention":
        from trt.runtime.prompted import ExportedAttention

        return ExportedAttention(found, threads=threads, decoder_precision=decoder_precision)
    if found.facts.get("family") == "fastconformer":
        from trt.runtime.conformer import ExportedPieces

        return ExportedPieces(found, threads=threads)
    return Recognizer(found, threads=threads)


def network(path: Path, *, threads: int = 0, runtime: Runtime = "onnxruntime") -> Network:
    """What runs the graph in `path`; arguments and errors as of `load`."""
    is_engine = path.suffix == ".engine" and path.is_file()
    if runtime == "onnxruntime":
        return engine.load(path) if is_engine else OnnxModel(path, threads=threads)
    if is_engine:
        raise ModelError(f"{path}: an engine of TensorRT, which {runtime} does not run; give it an ONNX file")
    from trt.runtime.openvino import OpenVinoModel

    return OpenVinoModel(path, threads=threads, precision="bf16" if runtime == "openvino_bf16" else "fp32")
