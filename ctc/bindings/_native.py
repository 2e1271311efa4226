"""The decoders of the native library for Python: `include/ctc_decode.h`, its structures and functions, by ctypes."""

import ctypes
import functools
from collections.abc import Callable
from ctypes import Structure
from typing import TYPE_CHECKING

import numpy as np

from ctc.bindings import _library
from ctc.native import declare, fields

if TYPE_CHECKING:  # decoders of arrays work without it
    from torch import Tensor

VERSION = 6
"""`CTC_DECODE_VERSION` of the header that this file describes."""


class Scores(Structure):
    """`ctc_scores`."""

    _fields_ = fields("p data; i is_double; n batch frames vocabulary batch_stride frame_stride")


class AlignOptions(Structure):
    """`ctc_align_options`."""

    _fields_ = fields("i blank threads; n window; p is_gap; d gap_log_prob")


class PackedTable(Structure):
    """`ctc_packed`."""

    _fields_ = fields("p bits; i width")


class NgramTable(Structure):
    """`ctc_ngram`."""

    _fields_ = fields(
        "i states words; n arcs; PackedTable first_arc arc_word; p arc_log_prob; PackedTable arc_next; p backoff; "
        "PackedTable backoff_state; p word_bound; i start_state unknown_word end_word",
        PackedTable,
    )


class LexiconTable(Structure):
    """`ctc_lexicon`."""

    _fields_ = fields("i nodes; p first_child label word")


class PhraseTable(Structure):
    """`ctc_phrases`."""

    _fields_ = fields("i nodes; p first_child label fail promise reward bound; i start")


class SpellingTable(Structure):
    """`ctc_spelling`."""

    _fields_ = fields("i unit_count; p first_unit units")


class ScorerTable(Structure):
    """`ctc_scorer`."""

    _fields_ = fields(
        "NgramTable* ngram; LexiconTable* lexicon; PhraseTable* phrases; p label_word; SpellingTable* spelling; "
        "i boundary is_closed; d weight word_bonus unknown_penalty",
        *(NgramTable, LexiconTable, PhraseTable, SpellingTable),
    )


class BeamSearchOptions(Structure):
    """`ctc_beam_options`."""

    _fields_ = fields("i blank threads beam n_best; d token_log_prob beam_log_prob; i is_thorough stream_frames")


class LevelTable(Structure):
    """`ctc_ngram_level`."""

    _fields_ = fields("n count; p ngrams log10_prob log10_backoff")


class ModelTable(Structure):
    """`ctc_ngram_model`."""

    _fields_ = fields("i orders words; LevelTable* levels", LevelTable)


Place = Callable[[np.ndarray], int]
"""Puts an array where native code reads it: its address there."""


def in_memory(array: np.ndarray) -> int:
    """Where it is."""
    return array.ctypes.data


FUNCTIONS = {
    "ctc_greedy": "ppiipppp",
    "ctc_align_workspace": "nnp>z",
    "ctc_align": "pppnppppppppz",
    "ctc_monotonic_workspace": "nni>z",
    "ctc_monotonic": "pppippz",
    "ctc_arpa_level": "pninppppp>i",
    "ctc_ngram_workspace": "p>z",
    "ctc_ngram_plan": "ppppp>i",
    "ctc_ngram_fill": "ppipppppppp",
    "ctc_packed_bytes": "ni>z",
    "ctc_pack": "pnip",
    "ctc_scorer_check": "pn>i",
    "ctc_beam_workspace": "nnp>z",
    "ctc_beam_search": "ppppppppppppz",
    "ctc_beam_stream_bytes": "np>z",
    "ctc_beam_stream_start": "npppz",
    "ctc_beam_stream_push": "ppppp",
    "ctc_beam_stream_settle": "ppppnppppppp",
    "ctc_beam_stream_result": "npppnppppppppp",
}


@functools.cache
def load() -> ctypes.CDLL | None:
    """The native library with its decoders declared, or None where it was never built.

    Raises RuntimeError for a library that was built from other sources.
    """
    library = _library.load_cpu()
    if library is None:
        return None
    if not hasattr(library, "ctc_decode_version") or library.ctc_decode_version() != VERSION:
        raise RuntimeError(f"{_library.LIBRARY.cpu} was built from other sources: run `{_library.LIBRARY.command}`")
    return declare(library, FUNCTIONS)


def scores(scores_BSV: "np.ndarray | Tensor") -> Scores:
    """The structure that describes `scores_BSV`: labels adjacent; on the CPU fp32 or fp64 (see `inputs.on_host`)."""
    batch, frames, vocabulary = scores_BSV.shape
    if isinstance(scores_BSV, np.ndarray):
        size, address = scores_BSV.itemsize, scores_BSV.ctypes.data
        batch_stride, frame_stride, _ = (stride // size for stride in scores_BSV.strides)
    else:
        size, address = scores_BSV.element_size(), scores_BSV.data_ptr()
        batch_stride, frame_stride, _ = scores_BSV.stride()
    return Scores(address, size == 8, batch, frames, vocabulary, batch_stride, frame_stride)
