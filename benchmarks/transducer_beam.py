"""Decoding of a trained transducer: greedy, with a language model, with phrases, with a beam; errors and time of each.

    OMP_NUM_THREADS=1 python benchmarks/transducer_beam.py MODEL TEST TRAIN [--repeats 5] [--batch 32]
    OMP_NUM_THREADS=1 python benchmarks/transducer_beam.py random

MODEL: a checkpoint. TEST: a manifest or corpus folder. TRAIN: that of the training, whose texts the 4-gram of pieces
counts. Words that these have at most --rare times are the phrases of the recordings that have them. With --noise DB
there is white noise in all recordings, so many decibels below them. Seconds of processor time of the decoders, without
the encoder, the sides in turns. "random": only the time and the labels found, of heads of the size of published ones,
random, which decoded greedily emit as often as those (`benchmarks.transducer_heads`), with a 4-gram of what they emit
elsewhere. Rows go to benchmarks/results/transducer_beam.jsonl.
"""

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch.nn.utils.rnn import pad_sequence

import ctc
import fastconformer
from benchmarks.transducer_heads import calibrate, random_frames, random_heads
from common.audio import waveform
from common.benchmark import append_row, compare, ratio, spread
from common.data.manifest import read_manifest
from common.recognition.decoding import DecodingOptions
from common.recognition.metrics import word_errors
from common.text.normalize import normalize_english
from ctc.ngram import estimate
from fastconformer.hearing.searching import INTERNAL_SHARE
from fastconformer.hypotheses import DecodedLabels, PieceHypothesis
from fastconformer.transducer.beam import BeamCandidate, BeamSearch, TransducerBeamOptions
from fastconformer.transducer.decoder import Decoder, DecoderOptions

CPU = torch.device("cpu")
Texts = list[str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="checkpoint of a transducer, or random")
    parser.add_argument("test", nargs="?", help="manifest or corpus folder that is decoded")
    parser.add_argument("train", nargs="?", help="manifest or corpus folder whose texts are known")
    parser.add_argument("--repeats", type=int, default=5, help="turns of every comparison")
    parser.add_argument("--batch", type=int, default=32, help="utterances decoded at once")
    parser.add_argument("--weight", type=float, default=DecodingOptions.weight, help="weight of the language model")
    parser.add_argument(
        "--internal_weight", type=float, help="weight of the internal language model; by default a third of the other"
    )
    parser.add_argument("--word_bonus", type=float, default=DecodingOptions.word_bonus, help="bonus for every piece")
    parser.add_argument("--boost", type=float, default=5.0, help="boost of a phrase")
    parser.add_argument(
        "--rare", type=int, default=50, help="occurrences of a rare word in the training texts, at most"
    )
    parser.add_argument("--noise", type=float, help="decibels that white noise is below the speech; by default none")
    parser.add_argument("--limit", type=int, default=10**9, help="utterances at most")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.model == "random":
        of_random_heads(options)
        return
    asr = fastconformer.load(options.model, device="cpu")
    texts = [normalize_english(u.text) for u in read_manifest(options.train).utterances]
    utterances = read_manifest(options.test).utterances[: options.limit]
    references = [normalize_english(u.text) for u in utterances]
    counts = Counter(word for text in texts for word in text.split())
    rare = [[word for word in dict.fromkeys(text.split()) if counts[word] <= options.rare] for text in references]
    batches = encoded(asr, utterances, options.batch, options.noise)
    with tempfile.TemporaryDirectory() as folder:
        arpa = Path(folder) / "pieces.arpa"
        ctc.write_arpa(arpa, estimate([[asr.pieces.labels[i] for i in asr.pieces.encode(t)] for t in texts], order=4))
        sides = {
            name: side(asr, batches, options.batch, DecodingOptions(**chosen), rare if "phrases" in name else None)
            for name, chosen in variants(arpa, options).items()
        }
    found = {name: decode() for name, decode in sides.items()}
    times = compare(sides, device=CPU, warmup=1, repeats=options.repeats, clock=time.process_time)
    internal = internal_weight(options)
    has_rare = [i for i, words in enumerate(rare) if words]
    for name, hypotheses in found.items():
        row: dict[str, object] = {
            "precision": "fp32",
            "heads": f"{asr.config.joint_width}, V {len(asr.pieces)}",
            "decoding": name,
            "head": {"rnnt": "RNN-T", "tdt": "TDT"}[asr.config.transducer],
            "batch": options.batch,
            "utterances": len(references),
            "with_rare_words": len(has_rare),
            "audio": "clean" if options.noise is None else f"noise at {options.noise:g} dB",
            "weight": options.weight,
            "internal_weight": round(internal, 3),
            "wer": round(100 * rate(references, hypotheses, range(len(references))), 2),
            "wer_of_rare": round(100 * rate(references, hypotheses, has_rare), 2),
            "n": options.repeats,
            "spread": spread(times[name]),
            "ms_p50": round(times[name].percentile(50), 1),
            "times_greedy": round(ratio(times[name], times["greedy"]), 2),
        }
        print(append_row("transducer_beam", row, device=CPU), flush=True)


def of_random_heads(options: argparse.Namespace) -> None:
    """Rows of the times of RNN-T and TDT heads."""
    internal = internal_weight(options)
    for head in ("RNN-T", "TDT"):
        weights = random_heads(has_durations=head == "TDT")
        frames = random_frames(weights, options.batch, 150)
        calibrate(weights, *frames)
        greedy, beam = Decoder(weights), BeamSearch(weights)
        fused = BeamSearch(weights, TransducerBeamOptions(internal_weight=internal))
        less = Decoder(weights, DecoderOptions(internal_weight=internal))
        labels = [f"<{i}>" for i in range(weights.blank)]
        texts = [one.tokens for one in greedy(*random_frames(weights, 256, 150, seed=2))]
        model = estimate([[labels[i] for i in tokens] for tokens in texts], order=4)
        own = ctc.ScorerOptions(unit="token", weight=options.weight, word_bonus=options.word_bonus)
        scorer = ctc.Scorer(labels, model=model, options=own)
        bonus = f", bonus {options.word_bonus:g}" if options.word_bonus else ""
        sides: dict[str, Callable[[], Sequence[DecodedLabels | list[BeamCandidate]]]] = {
            "greedy": lambda greedy=greedy, frames=frames: greedy(*frames),
            f"greedy, 4-gram{bonus}": lambda less=less, frames=frames, scorer=scorer: less(*frames, scorers=scorer),
            "beam 4": lambda beam=beam, frames=frames: beam(*frames),
            f"beam 4, 4-gram{bonus}": lambda fused=fused, frames=frames, scorer=scorer: fused(*frames, scorers=scorer),
        }
        times = compare(sides, device=CPU, warmup=1, repeats=options.repeats, clock=time.process_time)
        for name, of_side in times.items():
            best = [one[0].decoded if isinstance(one, list) else one for one in sides[name]()]
            row: dict[str, object] = {
                "precision": "fp32",
                "heads": "640, V 1024",
                "decoding": name,
                "head": head,
                "batch": options.batch,
                "weight": options.weight,
                "internal_weight": round(internal, 3),
                "labels": sum(len(one.tokens) for one in best),
                "n": options.repeats,
                "spread": spread(of_side),
                "ms_p50": round(of_side.percentile(50), 1),
                "times_greedy": round(ratio(of_side, times["greedy"]), 2),
            }
            print(append_row("transducer_beam", row, device=CPU), flush=True)


def internal_weight(options: argparse.Namespace) -> float:
    """Weight of the internal language model."""
    return INTERNAL_SHARE * options.weight if options.internal_weight is None else options.internal_weight


def variants(arpa: Path, options: argparse.Namespace) -> dict[str, dict]:
    """Options of every way to decode."""
    of_model = {"weight": options.weight, "internal_weight": internal_weight(options)}
    model = {"language_model": arpa, "word_bonus": options.word_bonus, **of_model}
    boost = {"hot_word_boost": options.boost}
    return {
        "greedy": {},
        "greedy, 4-gram": model,
        "greedy, phrases": boost,
        "beam 4": {"beam": 4},
        "beam 4, 4-gram": {"beam": 4, **model},
        "beam 4, 4-gram, phrases": {"beam": 4, **model, **boost},
    }


def encoded(
    asr: fastconformer.Recognizer, utterances: Sequence, batch: int, noise: float | None, *, seed: int = 0
) -> list[tuple[torch.Tensor, list[int]]]:
    """Encoder frames, `batch` utterances at once; `seed` draws the noise."""
    frames, random = [], torch.Generator().manual_seed(seed)
    for utterance in utterances:
        samples = torch.from_numpy(waveform.read(utterance.audio, sample_rate=16_000, **utterance.piece()).samples)
        samples = with_noise(samples, noise, random)
        frames.append(asr.encode(*asr.features(samples[None], torch.tensor([len(samples)]))).encoded_BSC[0])
    groups = [frames[i : i + batch] for i in range(0, len(frames), batch)]
    return [(pad_sequence(group, True), [len(one) for one in group]) for group in groups]


def with_noise(samples_N: torch.Tensor, decibels: float | None, random: torch.Generator) -> torch.Tensor:
    """The samples with white noise so many decibels below them, or as they are."""
    if decibels is None:
        return samples_N
    return samples_N + samples_N.std() * 10 ** (-decibels / 20) * torch.randn(samples_N.shape, generator=random)


def side(
    asr: fastconformer.Recognizer,
    batches: Sequence[tuple[torch.Tensor, list[int]]],
    batch: int,
    options: DecodingOptions,
    words: Sequence[Sequence[str]] | None,
) -> Callable[[], list[PieceHypothesis]]:
    """What decodes all batches."""
    decoder = asr.decoder(options) if options.searches or words is not None else None

    def decode() -> list[PieceHypothesis]:
        found: list[PieceHypothesis] = []
        for i, (encoded_BSC, frames) in enumerate(batches):
            own = None if words is None else words[i * batch : (i + 1) * batch]
            found += asr.decode(encoded_BSC, frames, decoder=decoder, hot_words=own)
        return found

    return decode


def rate(references: Texts, hypotheses: Sequence[PieceHypothesis], which: Sequence[int]) -> float:
    """Word error rate of some utterances."""
    pairs = [(references[i], normalize_english(hypotheses[i].text)) for i in which]
    errors = word_errors([reference for reference, _ in pairs], [hypothesis for _, hypothesis in pairs])
    return errors.rate


if __name__ == "__main__":
    main()
