"""The decoders of the native library for Python: `include/ctc_decode.h`, its structures and functions, by ctypes."""

import ctypes
import functools
from collections.abc import Callable
from ctypes import POINTER, Structure, c_char_p, c_double, c_int32, c_int64, c_size_t, c_void_p
from typing import TYPE_CHECKING

import numpy as np

from ctc import _library
from ctc._arpa_text import Place, WordsTable

if TYPE_CHECKING:  # decoders of arrays work without it
    from torch import Tensor

VERSION = 6
"""`CTC_DECODE_VERSION` of the header that this file describes."""
STATUS = {1: "an argument is invalid", 2: "the workspace is too small"}


class Scores(Structure):
    """`ctc_scores`."""

    _fields_ = (
        ("data", c_void_p),
        ("is_double", c_int32),
        ("batch", c_int64),
        ("frames", c_int64),
        ("vocabulary", c_int64),
        ("batch_stride", c_int64),
        ("frame_stride", c_int64),
    )


class AlignOptions(Structure):
    """`ctc_align_options`."""

    _fields_ = (
        ("blank", c_int32),
        ("threads", c_int32),
        ("window", c_int64),
        ("is_gap", c_void_p),
        ("gap_log_prob", c_double),
    )


class PackedTable(Structure):
    """`ctc_packed`."""

    _fields_ = (("bits", c_void_p), ("width", c_int32))


class NgramTable(Structure):
    """`ctc_ngram`."""

    _fields_ = (
        ("states", c_int32),
        ("words", c_int32),
        ("arcs", c_int64),
        ("first_arc", PackedTable),
        ("arc_word", PackedTable),
        ("arc_log_prob", c_void_p),
        ("arc_next", PackedTable),
        ("backoff", c_void_p),
        ("backoff_state", PackedTable),
        ("word_bound", c_void_p),
        ("start_state", c_int32),
        ("unknown_word", c_int32),
        ("end_word", c_int32),
    )


class LexiconTable(Structure):
    """`ctc_lexicon`."""

    _fields_ = (("nodes", c_int32), ("first_child", c_void_p), ("label", c_void_p), ("word", c_void_p))


class PhraseTable(Structure):
    """`ctc_phrases`."""

    _fields_ = (
        ("nodes", c_int32),
        ("first_child", c_void_p),
        ("label", c_void_p),
        ("fail", c_void_p),
        ("promise", c_void_p),
        ("reward", c_void_p),
        ("bound", c_void_p),
        ("start", c_int32),
    )


class SpellingTable(Structure):
    """`ctc_spelling`."""

    _fields_ = (("unit_count", c_int32), ("first_unit", c_void_p), ("units", c_void_p))


class ScorerTable(Structure):
    """`ctc_scorer`."""

    _fields_ = (
        ("ngram", POINTER(NgramTable)),
        ("lexicon", POINTER(LexiconTable)),
        ("phrases", POINTER(PhraseTable)),
        ("label_word", c_void_p),
        ("spelling", POINTER(SpellingTable)),
        ("boundary", c_int32),
        ("is_closed", c_int32),
        ("weight", c_double),
        ("word_bonus", c_double),
        ("unknown_penalty", c_double),
    )


class BeamSearchOptions(Structure):
    """`ctc_beam_options`."""

    _fields_ = (
        ("blank", c_int32),
        ("threads", c_int32),
        ("beam", c_int32),
        ("n_best", c_int32),
        ("token_log_prob", c_double),
        ("beam_log_prob", c_double),
        ("is_thorough", c_int32),
        ("stream_frames", c_int32),
    )


class LevelTable(Structure):
    """`ctc_ngram_level`."""

    _fields_ = (("count", c_int64), ("ngrams", c_void_p), ("log10_prob", c_void_p), ("log10_backoff", c_void_p))


class ModelTable(Structure):
    """`ctc_ngram_model`."""

    _fields_ = (("orders", c_int32), ("words", c_int32), ("levels", POINTER(LevelTable)))


PROTOTYPES = {
    "ctc_greedy": (c_int32, [POINTER(Scores), c_void_p, c_int32, c_int32, *[c_void_p] * 4]),
    "ctc_align_workspace": (c_size_t, [c_int64, c_int64, POINTER(AlignOptions)]),
    "ctc_align": (
        c_int32,
        [POINTER(Scores), c_void_p, c_void_p, c_int64, c_void_p, POINTER(AlignOptions), *[c_void_p] * 6, c_size_t],
    ),
    "ctc_arpa_level": (
        c_int32,
        [c_char_p, c_int64, c_int32, c_int64, POINTER(WordsTable), POINTER(Place), *[c_void_p] * 3],
    ),
    "ctc_ngram_workspace": (c_size_t, [POINTER(ModelTable)]),
    "ctc_ngram_plan": (
        c_int32,
        [POINTER(ModelTable), c_void_p, POINTER(c_int32), POINTER(c_int64), POINTER(c_int64 * 2)],
    ),
    "ctc_ngram_fill": (c_int32, [POINTER(ModelTable), c_void_p, c_int32, *[c_void_p] * 8]),
    "ctc_packed_bytes": (c_size_t, [c_int64, c_int32]),
    "ctc_pack": (c_int32, [c_void_p, c_int64, c_int32, c_void_p]),
    "ctc_scorer_check": (c_int32, [POINTER(ScorerTable), c_int64]),
    "ctc_beam_workspace": (c_size_t, [c_int64, c_int64, POINTER(BeamSearchOptions)]),
    "ctc_beam_search": (
        c_int32,
        [
            POINTER(Scores),
            c_void_p,
            POINTER(ScorerTable),
            POINTER(BeamSearchOptions),
            *[c_void_p] * 8,
            c_size_t,
        ],
    ),
    "ctc_beam_stream_bytes": (c_size_t, [c_int64, POINTER(BeamSearchOptions)]),
    "ctc_beam_stream_start": (
        c_int32,
        [c_int64, POINTER(ScorerTable), POINTER(BeamSearchOptions), c_void_p, c_size_t],
    ),
    "ctc_beam_stream_push": (
        c_int32,
        [POINTER(Scores), POINTER(ScorerTable), POINTER(BeamSearchOptions), c_void_p, POINTER(c_int32)],
    ),
    "ctc_beam_stream_settle": (
        c_int32,
        [
            *(POINTER(Scores), POINTER(ScorerTable), POINTER(BeamSearchOptions), c_void_p, c_int64, *[c_void_p] * 5),
            *(POINTER(c_int64), POINTER(c_int32)),
        ],
    ),
    "ctc_beam_stream_result": (
        c_int32,
        [c_int64, POINTER(ScorerTable), POINTER(BeamSearchOptions), c_void_p, c_int64, *[c_void_p] * 9],
    ),
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
    for name, (result, arguments) in PROTOTYPES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


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


def call(function: Callable[..., int], *arguments: object) -> None:
    """Calls a decoder; a status other than success is a defect of this binding, which has checked the arguments."""
    status = function(*arguments)
    if status != 0:
        raise RuntimeError(f"{getattr(function, '__name__', 'native decoder')}: {STATUS[status]}")
