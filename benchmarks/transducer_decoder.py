"""The greedy decoder beside label-looping in torch: appends rows to benchmarks/results/transducer_decoder.jsonl.

    OMP_NUM_THREADS=1 python benchmarks/transducer_decoder.py [--repeats 5] [--clips 32] [--frames 150]

Both decode the same clips in batches, from encoder frames to lists of labels; heads of the size of NVIDIA's large
models, random, with biases that make blanks and durations as frequent as Parakeet's are
(`benchmarks.transducer_heads`). Seconds of processor time, the sides in turns; both have to find the same.
"""

from functools import partial

from benchmarks.decoders import MAX_SYMBOLS, Rival, against, parsed
from benchmarks.label_looping import LabelLooping
from fastconformer.hypotheses import DecodedLabels
from fastconformer.transducer.weights import DecoderWeights


def label_looping(weights: DecoderWeights) -> "partial[list[DecodedLabels]]":
    """The published algorithm with these weights."""
    return partial(LabelLooping(weights), max_symbols=MAX_SYMBOLS)


if __name__ == "__main__":
    options = parsed(description=__doc__)
    against(Rival(results="transducer_decoder", name="label_looping", made=label_looping, compared=3), options)
