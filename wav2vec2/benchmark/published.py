"""What was published of Base, to stand beside what is measured: DeepLearningExamples, wav2vec2/README.md, A100 80 GB.

Latencies are means over LibriSpeech's test-other, 6.54 s long on average, of batches as they come, with the hourglass
[2,(8,4),2]; what the hourglass saves is of pre-training in bf16 on 8 GPUs.
"""

from typing import NamedTuple

SECONDS = 6.54
LATENCY_MS = {"bf16": {1: 10.45, 4: 17.69, 8: 28.70, 16: 58.82}, "tf32": {1: 10.31, 4: 18.42, 8: 31.30, 16: 67.44}}


class Saving(NamedTuple):
    """How many times as fast as without an hourglass, and in which part of the memory."""

    times_faster: float
    memory_percent: float


HOURGLASS = {
    "[2,(8,2),2]": Saving(1.25, 70.98),
    "[2,(8,3),2]": Saving(1.33, 64.31),
    "[2,(8,4),2]": Saving(1.37, 62.35),
    "[2,(8,5),2]": Saving(1.39, 60.00),
    "[2,(8,6),2]": Saving(1.40, 59.61),
}
