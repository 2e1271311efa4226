"""Memory, time and errors of long recordings: `python -m fastconformer.benchmark MODEL MANIFEST --minutes 1 10 60`.

Utterances of the manifests are joined, again from the first where there are too few, to recordings of these lengths,
and each is transcribed by a process of its own. A row per length goes to benchmarks/results/transducer_length.jsonl:
the processor's seconds, peak memory beside the samples, and word error rates of the whole and of its utterances alone.
"""

import sys

from common import config
from common.data.manifest import ManifestError
from common.runs.checkpoint import CheckpointError
from fastconformer.benchmark.length import LengthConfig, main

if __name__ == "__main__":
    with config.reported(CheckpointError, ManifestError):
        main(config.parse_flags(LengthConfig, None, sys.argv[1:], description=__doc__ or ""))
