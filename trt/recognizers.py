"""The recogniser in an exported file, whichever family it is of. Needs no torch."""

from pathlib import Path
from typing import TYPE_CHECKING

from trt.runtime import Model, Recognizer

if TYPE_CHECKING:  # pieces and native decoders are imported where a model wants them
    from trt.conformer import PieceRecognizer


def load(path: Path, *, threads: int = 0) -> "Recognizer | PieceRecognizer":
    """`threads`: of the network, 0 for one per core. Raises ModelError."""
    network = Model(path, threads=threads)
    if network.facts.get("family") == "transducer":
        from trt.conformer import PieceRecognizer

        return PieceRecognizer(network, threads=threads)
    return Recognizer(network)
