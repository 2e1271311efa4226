"""Sentences to say on their way through tensors.

Shapes: L symbols, E = 6 controls of each symbol, as `Edits` lists them.
"""

import numpy as np

from fastpitch.front.control import Edits
from fastpitch.front.planning import PlannedSentence
from fastpitch.front.symbols import EncodedText


def tensors_of(piece: PlannedSentence) -> dict[str, np.ndarray]:
    """The tensors of a batch of one sentence with symbols."""
    return {
        "tokens": np.array([piece.encoded.tokens], np.int64),
        "edits": np.stack(piece.edits)[None].astype(np.float32),
        "speaker": np.array([[piece.speaker]], np.int64),
    }


def piece_of(tokens_1L: np.ndarray, edits_1EL: np.ndarray, speaker_11: np.ndarray, *, speakers: int) -> PlannedSentence:
    """What `tensors_of` made of it, without its words. Raises ValueError for tensors that are no sentence."""
    controls, (batch, symbols) = len(Edits._fields), tokens_1L.shape
    if batch != 1 or not symbols or edits_1EL.shape != (1, controls, symbols) or speaker_11.shape != (1, 1):
        raise ValueError(
            f"tokens {list(tokens_1L.shape)}, edits {list(edits_1EL.shape)}: expected [1, L] and [1, {controls}, L] of "
            "one sentence"
        )
    speaker = int(speaker_11[0, 0])
    if not 0 <= speaker < speakers:
        raise ValueError(f"speaker {speaker}: expected 0 to {speakers - 1}")
    return PlannedSentence(EncodedText(tokens_1L[0].tolist(), [], [], []), Edits(*np.array(edits_1EL[0])), speaker)
