"""Error rates of a recogniser on a data set: what training does between epochs, and evaluation once."""

from collections.abc import Callable, Iterable

from common.data.loading import SpeechDataset
from common.devices.distributed import World
from common.lengths import inside
from common.recognition.scoring import Evaluation, ScoredUtterance, batches, check_numbers, scored
from fastconformer.attending import AttentionRecognizer
from fastconformer.attention.prompt import Wanted
from fastconformer.hearing.greedy import CTCDecoding
from fastconformer.hearing.prompted.decoding import AttentionDecoding
from fastconformer.recognizer import Head, Recognizer


def evaluate(
    asr: Recognizer | AttentionRecognizer,
    dataset: SpeechDataset,
    world: World,
    *,
    heads: Iterable[Head] = ("auto",),
    normalized: Callable[[str], str] = str,
    batch_size: int = 16,
    workers: int = 0,
    wanted: Wanted | None = None,
    guard: bool = True,
    decoder: AttentionDecoding | None = None,
) -> list[Evaluation]:
    """Greedy transcripts of all of `dataset` by each of `heads`, by all processes of `world`, and their errors.

    `wanted`: what an attention decoder is to write, where an utterance does not say itself; `guard`: whether what
    repeats itself is decoded again; `decoder`: how it searches, by default greedily.
    Transcripts are `normalized` as the references of the data set are already. Raises EvaluationError where the network
    gives NaN, as an overflow in fp16 does.
    """
    mine: dict[Head, list[ScoredUtterance]] = {head: [] for head in heads}
    for batch in batches(dataset, world, batch_size=batch_size, workers=workers):
        encoded_BSC, frames_B = asr.encode(*asr.features(batch.audio_BN, batch.samples_B))
        inside_BS = inside(frames_B, encoded_BSC.shape[1])
        check_numbers(encoded_BSC.isnan().any(2) & inside_BS, batch.ids, asr.precision)
        for head, results in mine.items():
            flags: list[tuple[str, ...]] = [()] * len(batch.indices)
            if isinstance(asr, Recognizer):
                texts = [one.text for one in asr.decode(encoded_BSC, frames_B, head=head)]
            elif head == "ctc":
                texts = [one.text for one in CTCDecoding(asr.ctc_log_probs, asr.pieces)(encoded_BSC, frames_B)]
            else:
                asked = [(wanted or Wanted()).with_entry(dict(dataset.utterances[i].wanted)) for i in batch.indices]
                prompt = [asr.prompt_for(one) for one in asked]
                found = asr.decode(encoded_BSC, frames_B, prompt=prompt, guard=guard, decoder=decoder)
                texts, flags = [one.text for one in found], [one.flags for one in found]
            results += [
                ScoredUtterance(row, normalized(text), flags=told)
                for row, text, told in zip(batch.indices, texts, flags, strict=True)
            ]
    return [scored(dataset.utterances, results, world) for results in mine.values()]
