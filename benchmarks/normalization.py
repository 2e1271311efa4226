"""Phrases that are read as a person would say them: how many of them, how long a sentence takes, how long an import.

    python benchmarks/normalization.py [--languages NAME...] [--cases FILE] [--sentences FILE]
    python benchmarks/normalization.py [--languages NAME...] [--sets SET... | --without SET...]

The phrases stand in benchmarks/phrases, a file a language, and another in `taught`: set, author, date, class,
written, said, where [this|that] is either, and so is what stands on either side of " || ". Sets were written before
the reader was run on them, and have taught it since: --sets reads some alone, --without trains without some and reads
those. A phrase counts where all its words are expected ones, by the voice's reader; case, punctuation, hyphens and
the words and, of and the are forgiven. FILE of --cases has published cases, class, written, said, with whole
alternatives after " | "; they count for the labels of recognisers, and spaces are forgiven, too. --sentences are
lines whose time is taken, or LJSpeech's metadata.
Appends rows to the results of benchmarks.
"""

import argparse
import itertools
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import torch

from common.benchmark import append_row, compare, spread
from common.text.mandarin.phones import HAN, PUNCTUATION
from common.text.mandarin.reader import spoken_mandarin
from common.text.normalize import normalize_english
from common.text.numbers import in_words
from common.text.spoken import LETTER_A, spoken_english

PHRASES = Path(__file__).resolve().parent / "phrases"
FORGIVEN = frozenset(["and", "of", "the"])
IMPORT = "import time; start = time.process_time(); import common.text.spoken; print(time.process_time() - start)"


class Case(NamedTuple):
    """A phrase, its set and class, and all that it may be read as."""

    set: str
    kind: str
    written: str
    said: list[str]


class Reader(NamedTuple):
    """What reads phrases, and the form in which its words are compared."""

    read: Callable[[str], str]
    compared: Callable[[str], str]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--languages", nargs="*", help="languages to count (default: all of benchmarks/phrases)")
    parser.add_argument("--cases", type=Path, help="published cases: category, written, spoken | alternative")
    parser.add_argument("--sentences", type=Path, help="lines to take the time of (default: the English phrases)")
    parser.add_argument("--show", action="store_true", help="show the phrases that are read otherwise")
    parser.add_argument("--without", nargs="*", default=[], help="sets to read with weights trained without them")
    parser.add_argument("--sets", nargs="*", default=[], help="sets to read, without taking times (default: all)")
    options = parser.parse_args()
    if options.without:
        read_without(options.languages or ["english"], options.without, show=options.show)
        return
    for language in options.languages or sorted(path.stem for path in PHRASES.glob("*.tsv")):
        for name, group in itertools.groupby(phrases(language), lambda case: case.set):
            if not options.sets or name in options.sets:
                report(f"{language} {name}", list(group), READERS.get(language, VOICE), show=options.show)
    if options.sets:
        return
    if options.cases:
        report("public cases", published(options.cases), LABELS, show=options.show)
    written = [case.written for case in phrases("english")]
    if options.sentences:
        written = [line.split("|")[1 if "|" in line else 0] for line in options.sentences.read_text().splitlines()]
    report_times(written)


def phrases(language: str) -> list[Case]:
    """The phrases of a language, in their order: its sets, then, of `taught`, what was written to teach alone."""
    found = []
    for path in (PHRASES / f"{language}.tsv", *PHRASES.glob(f"taught/{language}.tsv")):
        for line in path.read_text(encoding="utf-8").splitlines()[1:]:
            name, _, _, kind, written, said = line.split("\t")
            found.append(Case(name, kind, written, [r for whole in said.split(" || ") for r in expanded(whole)]))
    return found


def published(path: Path) -> list[Case]:
    """The cases of a file of class, written, said, with alternatives of the whole after a bar."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return [Case("", row[0], row[1], row[2].split(" | ")) for row in rows if not row[0].startswith("# ")]


def read_without(languages: list[str], sets: list[str], *, show: bool) -> None:
    """Reports sets of English or European languages, read with weights that have not seen them."""
    from common.text.engine.choose import Chooser
    from common.text.english import reader
    from common.text.european import reader as european
    from common.text.mandarin import reader as mandarin
    from scripts.train_reader import taught, train

    for language in languages:
        kind = language if language in ("english", "mandarin") else "european"
        weights = train(taught(kind, sets))
        if language == "english":
            reader.model = lambda weights=weights: Chooser(weights, reader.classes())
        elif language == "mandarin":
            mandarin.model = lambda weights=weights: Chooser(weights, mandarin.CLASSES)
        else:
            european.model = cache(lambda table, weights=weights: Chooser(weights, table.classes))
        for name, group in itertools.groupby((c for c in phrases(language) if c.set in sets), lambda case: case.set):
            report(f"{language} {name}, trained without", list(group), READERS.get(language, VOICE), show=show)


def expanded(said: str) -> Iterator[str]:
    """All readings: [this|that] one → this one, that one."""
    parts = [part.split("|") if i % 2 else [part] for i, part in enumerate(re.split(r"\[(.*?)\]", said))]
    return map("".join, itertools.product(*parts))


def misread(phrases: list[Case], reader: Reader) -> list[tuple[Case, str]]:
    """The phrases that are read otherwise than expected, and how."""
    found: list[tuple[Case, str]] = []
    for case in phrases:
        said = reader.compared(reader.read(case.written))
        if said not in map(reader.compared, case.said):
            found.append((case, said))
    return found


def report(name: str, phrases: list[Case], reader: Reader, *, show: bool) -> None:
    """Appends the row of one set."""
    wrong = misread(phrases, reader)
    for case, said in wrong if show else ():
        print(f"{case.kind}: {case.written}\n   said      {said}\n   expected  {case.said[0]}")
    right = len(phrases) - len(wrong)
    row: dict[str, str | int | float] = {"metric": "right", "set": name, "phrases": len(phrases), "right": right}
    _append(row | {"percent": round(100 * right / len(phrases), 1)})


def report_times(texts: list[str]) -> None:
    """Appends the rows of the time of a text, one thread and processor time, and of a fresh import."""
    device = torch.device("cpu")
    for name, reader in (("a voice", VOICE), ("labels", LABELS)):
        passes = compare({"": partial(_read_all, reader, texts)}, device=device, clock=time.process_time)[""]
        _append(
            {
                "metric": "ms",
                "what": f"a text, for {name}",
                "texts": len(texts),
                "spread": spread(passes),
                "p50": passes.percentile(50) / len(texts),
            }
        )
    fresh = sorted(
        float(subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    )
    _append({"metric": "ms", "what": "import", "p50": 1e3 * fresh[2]})


def _read_all(reader: Reader, texts: list[str]) -> None:
    for text in texts:
        reader.read(text)


def _append(row: dict[str, str | int | float]) -> None:
    row = {name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()}
    print(row)
    append_row("normalization", row, device=torch.device("cpu"))


# ---------------------------------------------------------------------------------------------------------------------
# Readers


def compared_words(said: str, *, strictly: bool = False) -> str:
    """What is compared of a reading: its words in small letters, without those that are forgiven."""
    words = re.sub(r"[^\w']", " ", said.lower()).split()
    if strictly:
        return " ".join(words)
    return " ".join("a" if word == LETTER_A else word for word in words if word not in FORGIVEN)


def _letters(said: str) -> str:
    return compared_words(said).replace(" ", "").replace("'", "")


def compared_mandarin(said: str) -> str:
    """As the voice's front end says it: what is not Chinese by the English reader."""
    return _letters(re.sub(rf"[^{HAN}{PUNCTUATION}]+", lambda run: spoken_english(run[0]), said))


def _european(code: str) -> Reader:
    """As espeak-ng is given it: what our tables leave in digits is counted as the language counts."""

    def counted(number: re.Match[str]) -> str:
        whole, _, decimals = re.sub(r"[.\s\u00a0\u202f](?=\d{3}(?!\d))", "", number[0]).replace(".", ",").partition(",")
        digits = " ".join(in_words(int(digit), code, "cardinal") or digit for digit in decimals)
        words = in_words(int(whole), code, "cardinal") or whole
        return f" {words} {DECIMAL_MARKS[code]} {digits} " if decimals else f" {words} "

    def compared(said: str) -> str:
        said = re.sub(r"\d{1,3}(?:[.\s\u00a0\u202f]\d{3})+(?:,\d+)?(?!\d)|\d+(?:[.,]\d+)?", counted, said.lower())
        said = re.sub(r"-(?=\s*[^\W\d_])", " ", said.replace("ß", "ss"))
        return re.sub(r"[^\w%]|_", "", said.lower())

    def read(text: str) -> str:
        from common.text.european.reader import european_tokens

        return "".join(t.written if t.spoken is None else t.spoken for t in european_tokens(text, code))

    return Reader(read, compared)


DECIMAL_MARKS = {
    "de": "komma", "fr": "virgule", "es": "coma", "it": "virgola", "pt": "vírgula", "nl": "komma", "pl": "przecinek",
    "sv": "komma", "ru": "запятая", "tr": "virgül",
}  # fmt: skip
VOICE = Reader(spoken_english, compared_words)
LABELS = Reader(normalize_english, _letters)
MANDARIN = Reader(spoken_mandarin, compared_mandarin)


CODES = {
    "german": "de", "french": "fr", "spanish": "es", "italian": "it", "portuguese": "pt", "dutch": "nl", "polish": "pl",
    "swedish": "sv", "russian": "ru", "turkish": "tr",
}  # fmt: skip
READERS = {
    "labels": LABELS, "mandarin": MANDARIN, **{language: _european(code) for language, code in CODES.items()}
}  # fmt: skip


if __name__ == "__main__":
    main()
