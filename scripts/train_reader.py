"""Weights of the text readers from phrases: what each says is aligned with all that its tokens might say.

    python scripts/train_reader.py [english european mandarin] [--output DIRECTORY]

The phrases stand in benchmarks/phrases. A phrase teaches every choice that lies on some way to say it as it is said.
Arithmetic is such that the weights are the same on every machine: sums in a fixed order, no function of a mathematical
library. Prints the phrases that no reading can say.
"""

import argparse
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.carriers import carried
from benchmarks.normalization import CODES, READERS, Case, Reader, compared_words, phrases
from common.text.engine.choose import Proposal, SpokenForm
from common.text.engine.context import Before, KnownWords, Surroundings, named_words
from common.text.engine.token import Following, proposed
from common.text.english import reader
from common.text.english.characters import prepared
from common.text.english.say import TABLES
from common.text.english.style import Style
from common.text.european import language as european
from common.text.european import reader as european_reader
from common.text.mandarin import reader as mandarin
from common.text.mandarin.say import TABLES as MANDARIN_TABLES
from common.text.normalize import in_ascii
from common.text.spoken import without_reading


class TaughtPlace(NamedTuple):
    """A place of a phrase where something is chosen."""

    position: int
    proposals: list[Proposal]
    right: set[tuple[int, int]]
    """Proposals and readings on some way to say the phrase as it is said."""


STYLE = Style(for_voice=True)


@cache
def _said(words: str, is_strict: bool) -> str:
    """What is compared of a token's words, between spaces."""
    plain = re.sub(r"(?<!\w)'|'(?!\w)", " ", in_ascii(words, "", symbols=False))
    return f" {compared_words(plain, strictly=is_strict)} "


@cache
def _written(written: str, is_strict: bool) -> str:
    """What is compared of text that stands for itself: spaces only where it has spaces or signs."""
    plain = in_ascii(written, "", symbols=False).lower()
    plain = plain if plain.strip("'") else plain.replace("'", " ")
    plain = re.sub(r"[^\w']|_", " ", plain)
    return (
        re.sub(r"\w[\w']*", lambda word: compared_words(word[0], strictly=is_strict), plain) if plain.strip() else plain
    )


def _follow(target: str, offset: int, said: str) -> int:
    """Where `target`, words between single spaces, goes on behind `said`; -1 where it does not say that."""
    for character in said:
        if character == " ":
            if target[offset - 1] == " ":
                continue
            if target[offset] != " ":
                return -1
        elif offset >= len(target) or target[offset] != character:
            return -1
        offset += 1
    return offset


class TaughtPhrase(NamedTuple):
    """A phrase as a reader takes it: all that may stand at a place, and what is compared of a reading."""

    text: str
    at: Callable[[int], list[Proposal]]
    told: Callable[[int, Proposal, SpokenForm], str]


def places(phrase: TaughtPhrase, targets: list[str]) -> list[TaughtPlace] | None:
    """The places of a phrase along its ways; None where there is none."""
    right: dict[int, set[tuple[int, int]]] = defaultdict(set)
    if not sum(_leads(phrase, target, right) for target in dict.fromkeys(targets)):  # all of them add to what is right
        return None
    return [TaughtPlace(position, phrase.at(position), right[position]) for position in sorted(right)]


def _leads(phrase: TaughtPhrase, target: str, right: dict[int, set[tuple[int, int]]]) -> bool:
    """Whether a way says `target`; adds to `right` what is chosen along all such ways."""
    seen: dict[tuple[int, int], bool] = {}

    def leads(position: int, offset: int) -> bool:
        if position == len(phrase.text):
            return offset >= len(target) - 1
        key = (position, offset)
        if key in seen:
            return seen[key]
        seen[key] = False
        for i, proposal in enumerate(phrase.at(position)):
            for j, reading in enumerate(proposal.readings):
                behind = _follow(target, offset, phrase.told(position, proposal, reading))
                if behind >= 0 and leads(proposal.stop, behind):
                    right[position].add((i, j))
                    seen[key] = True
        return seen[key]

    return leads(0, 1 if target[0] == " " else 0)


def way(text: str, found: list[TaughtPlace]) -> list[tuple[TaughtPlace, Before]]:
    """The places along the ways of the fewest tokens, each with what is right on them and what was chosen before."""
    by_position = {place.position: place for place in found}
    best: dict[int, int] = {len(text): 0}
    for place in reversed(found):
        stops = [place.proposals[i].stop for i, _ in place.right]
        best[place.position] = 1 + min(best[stop] for stop in stops if stop in best)
    found_way, position, before = [], 0, Before("", {})
    while position < len(text):
        place = by_position[position]
        right = {(i, j) for i, j in place.right if best.get(place.proposals[i].stop, 1 << 30) + 1 == best[position]}
        i, j = min(right)
        found_way.append((place._replace(right=right), before._replace(signs={**before.signs})))
        stop = place.proposals[i].stop
        before = before.then(text[position:stop], place.proposals[i].readings[j].parts[0])
        position = stop
    return found_way


# ---------------------------------------------------------------------------------------------------------------------
# Training


def exponential(x: np.ndarray) -> np.ndarray:
    """e to the power of x <= 0, the same on every machine: by additions and multiplications alone."""
    x = np.maximum(x, -40.0) / 1024.0
    y = 1.0 + x * (1.0 + x * (0.5 + x * (1.0 / 6.0 + x * (1.0 / 24.0))))
    for _ in range(10):
        y = y * y
    return y


class Problem:
    """All choices of the phrases as sparse arrays."""

    def __init__(self) -> None:
        self.ids: dict[tuple[str, str], int] = {}
        self.entry_id: list[int] = []
        self.entry_node: list[int] = []
        self.member_node: list[int] = []
        self.member_candidate: list[int] = []
        self.candidate_choice: list[int] = []
        self.candidate_right: list[bool] = []
        self.choices = 0
        self.nodes = 0

    def add(self, features: list[list[str]], place: TaughtPlace, allowed: Counter[str], least: int) -> None:
        for i, proposal in enumerate(place.proposals):
            kept = [f for f in features[i] if allowed[f] >= least]
            nodes: dict[str, int] = {}
            for j, reading in enumerate(proposal.readings):
                candidate = len(self.candidate_choice)
                self.candidate_choice.append(self.choices)
                self.candidate_right.append((i, j) in place.right)
                for part in reading.parts:
                    if part not in nodes:
                        nodes[part] = self.nodes
                        self.nodes += 1
                        for f in kept:
                            self.entry_id.append(self.ids.setdefault((f, part), len(self.ids)))
                            self.entry_node.append(nodes[part])
                    self.member_node.append(nodes[part])
                    self.member_candidate.append(candidate)
        self.choices += 1

    def fit(self, steps: int, l1: float, l2: float, scale: float, smallest: int) -> np.ndarray:
        eid, enode = np.array(self.entry_id), np.array(self.entry_node)
        mnode, mcand = np.array(self.member_node), np.array(self.member_candidate)
        choice, right = np.array(self.candidate_choice), np.array(self.candidate_right, dtype=np.float64)
        n, candidates = len(self.ids), len(choice)
        w, squares, velocity = np.zeros(n), np.full(n, 1e-3), np.zeros(n)
        starts = np.flatnonzero(np.r_[True, choice[1:] != choice[:-1]])
        importance = np.ones(self.choices)

        def scores(w: np.ndarray) -> np.ndarray:
            node = np.bincount(enode, weights=w[eid], minlength=self.nodes)
            score = np.bincount(mcand, weights=node[mnode], minlength=candidates)
            return score - np.maximum.reduceat(score, starts)[choice]

        for step in range(steps):
            if step >= steps // 2 and step % (steps // 8) == 0:  # what is still chosen wrong counts for more
                kept = np.rint(w * scale) * (np.abs(np.rint(w * scale)) >= smallest) / scale
                score = scores(kept)
                is_right = np.maximum.reduceat(np.where(right > 0, score, -1e9), starts)
                is_wrong = np.maximum.reduceat(np.where(right > 0, -1e9, score), starts)
                importance = np.where(is_right <= is_wrong, importance * 4.0, importance)
                squares = squares * 0.1
            e = exponential(scores(w))
            good = np.where(right > 0, e, 0.0)
            total = np.bincount(choice, weights=e)
            total_good = np.maximum(np.bincount(choice, weights=good), 1e-18)
            gradient_c = (e / total[choice] - good / total_good[choice]) * importance[choice]
            gradient_node = np.bincount(mnode, weights=gradient_c[mcand], minlength=self.nodes)
            gradient = np.bincount(eid, weights=gradient_node[enode], minlength=n) + l2 * w
            squares += gradient * gradient
            velocity = 0.9 * velocity + 0.1 * gradient
            rate = 0.5 / np.sqrt(squares)
            w = w - rate * velocity
            w = np.where(w > 0, np.maximum(w - rate * l1, 0.0), np.minimum(w + rate * l1, 0.0))
        return w


def rounded(ids: dict[tuple[str, str], int], w: np.ndarray, least: int, scale: float) -> dict[str, dict[str, int]]:
    """The weights as integers by feature and part, without the smallest."""
    found: dict[str, dict[str, int]] = {}
    values = np.rint(w * scale).astype(int)
    for (feature, part), i in ids.items():
        if abs(values[i]) >= least:
            found.setdefault(feature, {})[part] = int(values[i])
    return found


Taught = tuple[str, list[TaughtPlace], Mapping[str, Sequence[str]]]
"""A phrase, its places, and the classes of words of its language."""


def train(
    data: list[Taught], *, steps: int = 500, l1: float = 0.0268, l2: float = 0.001, least: int = 2,
    scale: float = 15, smallest: int = 3,
) -> dict[str, dict[str, int]]:  # fmt: skip
    """Weights of parts by feature; one that is there twice (a word nearby) counts twice, as the reader adds it."""
    known: dict[int, KnownWords[tuple[str, ...]]] = {}
    rows = []
    counted: Counter[str] = Counter()
    for text, found, classes in data:
        context = Surroundings(text, known.setdefault(id(classes), named_words(classes)))
        for place, before in way(text, found):
            if len(place.proposals) > 1 or len(place.proposals[0].readings) > 1:
                around = context.at(place.position, before)
                features = [[*around(p.stop), *p.own] for p in place.proposals]
                rows.append((features, place))
                counted.update({f for fs in features for f in fs})
    problem = Problem()
    for features, place in rows:
        problem.add(features, place, counted, least)
    weights = rounded(problem.ids, problem.fit(steps, l1, l2, scale, smallest), smallest, scale)
    kept = sum(map(len, weights.values()))
    print(f"{problem.choices} choices, {len(problem.ids)} weights, {kept} kept, {len(problem.entry_id)} entries")
    return weights


def written(weights: dict[str, dict[str, int]]) -> str:
    """The file of the weights: the names of all parts, then a row a feature with places and weights of parts."""
    often = Counter(part for row in weights.values() for part in row)
    parts = sorted(often, key=lambda part: (-often[part], part))  # short numbers for what is frequent
    places = {part: i for i, part in enumerate(parts)}
    lines = ["# parts; feature\tplace of a part and its weight, and so on", "\t".join(parts)]
    for feature in sorted(weights):
        pairs = " ".join(f"{places[part]}{weight:+}" for part, weight in sorted(weights[feature].items()))
        lines.append(f"{feature}\t{pairs}")
    return "\n".join(lines) + "\n"


def aligned(case: Case) -> Taught | None:
    """An English phrase as the reader takes it, and its places; None where no reading says it.

    The first way that it is said teaches, the others only where no reading says that.
    """
    text = prepared(case.written)
    text = in_ascii(text, without_reading(text))
    following = reader.following(text, STYLE)
    at = cache(lambda position: following(position)[1])

    def told(position: int, proposal: Proposal, reading: SpokenForm) -> str:
        if reading.said is None:
            return _written(text[position : proposal.stop], is_strict)
        said = _said(reading.said, is_strict)
        return said[:-1] if text.startswith(("'s", "'S"), proposal.stop) else said

    for alternatives, is_strict in ((case.said[:1], True), (case.said[:1], False), (case.said, False)):
        if found := places(TaughtPhrase(text, at, told), [_said(said, is_strict) for said in alternatives]):
            return text, found, reader.classes()
    return None


def aligned_by(case: Case, text: str, reader: Reader, following: Following) -> list[TaughtPlace] | None:
    """As `aligned`, for a phrase in the form that its reader takes; spaces and case do not count."""
    compared = cache(reader.compared)
    phrase = TaughtPhrase(
        text,
        cache(lambda position: proposed(position, following)),
        lambda position, proposal, reading: compared(
            text[position : proposal.stop] if reading.said is None else reading.said
        ),
    )
    targets = ([f"{compared(said)} " for said in said_so] for said_so in (case.said[:1], case.said))
    return next((found for target in targets if (found := places(phrase, target))), None)


def aligned_european(case: Case, code: str) -> Taught | None:
    """As `aligned`, for a language with a table."""
    language = european.language_of(code)
    assert language
    following = european_reader.following(case.written, language)
    found = aligned_by(case, case.written, READERS[CODES_BACK[code]], following)
    return (case.written, found, language.classes) if found else None


def aligned_mandarin(case: Case) -> Taught | None:
    """As `aligned`, for Mandarin."""
    text = mandarin.in_one_form(case.written)
    found = aligned_by(case, text, READERS["mandarin"], mandarin.following(text))
    return (text, found, mandarin.CLASSES) if found else None


CODES_BACK = {code: name for name, code in CODES.items()}


def taught(languages: str, without: Collection[str] = ()) -> list[Taught]:
    """What the phrases of "english", "mandarin" or all "european" languages teach, without those of some sets."""
    align: dict[str, Callable[[Case], Taught | None]] = {"english": aligned, "mandarin": aligned_mandarin}
    if languages == "european":
        align = {name: partial(aligned_european, code=code) for name, code in CODES.items()}
    data = []
    for name in align if languages == "european" else (languages,):
        made = carried() if name == "english" else ()
        for case in (*phrases(name), *(Case("carriers", "", text, [said]) for text, said in made)):
            if case.set in without:
                continue
            if found := align[name](case):
                data.append(found)
            else:
                print(f"no reading says {case.written!r} as {case.said[0]!r}")
    return data


WEIGHTS = {
    "english": TABLES / "weights.tsv",
    "european": european.TABLES / "weights.tsv",
    "mandarin": MANDARIN_TABLES / "weights.tsv",
}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "languages", nargs="*", default=list(WEIGHTS), help="english, european, mandarin (default: all)"
    )
    parser.add_argument("--output", type=Path, help="folder of the weights (default: where the readers have theirs)")
    options = parser.parse_args()
    for languages in options.languages:
        path = options.output / f"{languages}.tsv" if options.output else WEIGHTS[languages]
        path.write_text(written(train(taught(languages))), encoding="utf-8")


if __name__ == "__main__":
    main()
