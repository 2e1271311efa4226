"""The recogniser in an exported file, whichever family it is of. Needs no torch."""

from pathlib import Path
from typing import TYPE_CHECKING

from trt import engine_runtime
from trt.runtime import Model, Network, Recognizer

if TYPE_CHECKING:  # pieces and native decoders are imported where a model wants them
    from trt.conformer import PieceRecognizer


def load(path: Path, *, threads: int = 0) -> "Recognizer | PieceRecognizer":
    """`path`: an ONNX file, or an engine that was built of one. `threads`: of the network, 0 for one per core.

    Raises ModelError, of the kind EngineError for an engine that does not fit what is here.
    """
    network: Network = (
        engine_runtime.load(path) if path.suffix == ".engine" and path.is_file() else Model(path, threads=threads)
    )
    if network.facts.get("family") == "transducer":
        from trt.conformer import PieceRecognizer

        return PieceRecognizer(network, threads=threads)
    return Recognizer(network, threads=threads)
