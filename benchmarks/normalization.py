"""Phrases that are read as a person would say them: how many of them, how long a sentence takes, how long an import.

    python benchmarks/normalization.py [--cases FILE] [--sentences FILE] [--show] [--first SET...]

The phrases stand in benchmarks/phrases: class, written, said, where [this|that] is either, and so is what stands on
either side of " || ". Each set was written before the reader was run on it; its first try has a row of its own, since
the classes of its faults are mended now. A phrase counts where all its words are expected ones, by the voice's reader;
case, punctuation, hyphens and the words and, of and the are forgiven. FILE of --cases has published cases of the same
form, with whole alternatives after " | "; they count for the labels of recognisers, and spaces are forgiven, too.
--sentences are lines whose time is taken, or LJSpeech's metadata. Appends rows to the results of benchmarks.
"""

import argparse
import itertools
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch

from common.benchmark import append_row, measure, spread
from common.text.mandarin import HAN
from common.text.mandarin_reader import spoken_mandarin
from common.text.normalize import normalize_english
from common.text.numbers import in_words
from common.text.spoken import LETTER_A, spoken_english

PHRASES = Path(__file__).resolve().parent / "phrases"
FORGIVEN = frozenset(["and", "of", "the"])
IMPORT = "import time; start = time.process_time(); import common.text.spoken; print(time.process_time() - start)"


class Case(NamedTuple):
    """A phrase, and all that it may be read as."""

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
    parser.add_argument("--cases", type=Path, help="published cases: category, written, spoken | alternative")
    parser.add_argument("--sentences", type=Path, help="lines to take the time of (default: the English phrases)")
    parser.add_argument("--show", action="store_true", help="show the phrases that are read otherwise")
    parser.add_argument(
        "--first", type=Path, nargs="*", help="sets to count alone, as a first try: no mend has seen them yet"
    )
    options = parser.parse_args()
    if options.first:
        for path in options.first:
            report(f"{path.stem}, first try", cases(path), reader_of(path), show=options.show)
        return
    written: list[str] = []
    for path in sorted(PHRASES.glob("*.tsv")):
        phrases, reader = cases(path), reader_of(path)
        report(path.stem, phrases, reader, show=options.show)
        written += [case.written for case in phrases] if reader is VOICE else []
    if options.cases:
        report("public cases", cases(options.cases, groups=False), LABELS, show=options.show)
    if options.sentences:
        written = [line.split("|")[1 if "|" in line else 0] for line in options.sentences.read_text().splitlines()]
    report_times(written)


def cases(path: Path, *, groups: bool = True) -> list[Case]:
    """The cases of a file; with `groups`, [this|that] within what is said, otherwise alternatives of the whole."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("# "):
            kind, written, said = line.split("\t")
            whole = said.split(" || " if groups else " | ")
            found.append(Case(kind, written, [r for w in whole for r in expanded(w)] if groups else whole))
    return found


def expanded(said: str) -> Iterator[str]:
    """All readings: [this|that] one → this one, that one."""
    parts = [part.split("|") if i % 2 else [part] for i, part in enumerate(re.split(r"\[(.*?)\]", said))]
    return map("".join, itertools.product(*parts))


def misread(phrases: list[Case], reader: Reader) -> list[tuple[Case, str]]:
    """The phrases that are read otherwise than expected, and how."""
    found: list[tuple[Case, str]] = []
    for case in phrases:
        own = EUROPEAN.get(case.kind, reader)
        said = own.compared(own.read(case.written))
        if said not in map(own.compared, case.said):
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
        passes = measure(partial(_read_all, reader, texts), device=device, clock=time.process_time)
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


def _words(said: str) -> str:
    words = re.sub(r"[^\w']", " ", said.lower()).split()
    return " ".join("a" if word == LETTER_A else word for word in words if word not in FORGIVEN)


def _letters(said: str) -> str:
    return _words(said).replace(" ", "").replace("'", "")


def _mandarin(text: str) -> str:
    """As the voice's front end reads it: what is not Chinese by the English reader."""
    return re.sub(rf"[^{HAN}]*\w[^{HAN}]*", lambda run: spoken_english(run[0]), spoken_mandarin(text))


def _european(code: str) -> Reader:
    """As espeak-ng is given it: what our tables leave in digits is counted as the language counts."""
    from common.text.european import european_tokens

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
        return "".join(t.written if t.spoken is None else t.spoken for t in european_tokens(text, code))

    return Reader(read, compared)


DECIMAL_MARKS = {
    "de": "komma", "fr": "virgule", "es": "coma", "it": "virgola", "pt": "vírgula", "nl": "komma", "pl": "przecinek",
    "sv": "komma", "ru": "запятая",
}  # fmt: skip
VOICE = Reader(spoken_english, _words)
LABELS = Reader(normalize_english, _letters)
MANDARIN = Reader(_mandarin, _letters)


EUROPEAN = {code: _european(code) for code in DECIMAL_MARKS}  # by the class of a phrase


def reader_of(path: Path) -> Reader:
    """What reads a set, by its name."""
    name = path.stem.partition("_")[0]
    return {"mandarin": MANDARIN, "labels": LABELS}.get(name, VOICE)


if __name__ == "__main__":
    main()
