"""Error rates of a recogniser on a data set: what training does between epochs, and evaluation once."""

from collections.abc import Callable, Iterable

from common.data.loading import SpeechDataset
from common.devices.distributed import World
from common.lengths import inside
from common.recognition.scoring import Evaluation, ScoredUtterance, batches, check_numbers, scored
from fastconformer.recognizer import Head, Recognizer


def evaluate(
    asr: Recognizer,
    dataset: SpeechDataset,
    world: World,
    *,
    heads: Iterable[Head] = ("auto",),
    normalized: Callable[[str], str] = str,
    batch_size: int = 16,
    workers: int = 0,
    max_symbols: int = 10,
) -> list[Evaluation]:
    """Greedy transcripts of all of `dataset` by each of `heads`, by all processes of `world`, and their errors.

    Transcripts are `normalized` as the references of the data set are already. Raises EvaluationError where the network
    gives NaN, as an overflow in fp16 does.
    """
    mine: dict[Head, list[ScoredUtterance]] = {head: [] for head in heads}
    for batch in batches(dataset, world, batch_size=batch_size, workers=workers):
        encoded_BSC, frames_B = asr.encode(*asr.features(batch.audio_BN, batch.samples_B))
        inside_BS = inside(frames_B, encoded_BSC.shape[1])
        check_numbers(encoded_BSC.isnan().any(2) & inside_BS, batch.ids, asr.precision)
        for head, results in mine.items():
            decoded = asr.decode(encoded_BSC, frames_B, head=head, max_symbols=max_symbols)
            results += map(ScoredUtterance, batch.indices, [normalized(hypothesis.text) for hypothesis in decoded])
    return [scored(dataset.utterances, results, world) for results in mine.values()]
