"""What European languages write shorter than they say it, by language: tables/*.tsv, and where their sentences end.

A row of a table has its kind, what is written, what is said, and a class. Forms that depend on the number are divided
by "/": the first is that of one, with its article ("una hora/horas"), the last that of many. Russian has one with its
number, one, two to four, and many; Polish one with its number, two to four, many, and that of fractions. {} is where
the number goes if it does not go before.
"""

import re
from collections import defaultdict
from functools import cache, cached_property
from pathlib import Path

from common.text.engine.choose import SpokenForm, read_table
from common.text.engine.shapes import Memory, either, reading

TABLES = Path(__file__).parent / "tables"
WITH_ORDINAL_DOT = frozenset("de tr pl da nb no fi cs sk hu hr sl bs sr et lv is lb".split())  # noqa: SIM905
_SHORT = ("abbreviation", "month", "day", "reference", "unit", "currency")


class Language:
    """The table of a language."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.rows: dict[str, dict[str, list[list[str]]]] = defaultdict(lambda: defaultdict(list))
        """Rows by kind and by what is written."""
        self.memory: Memory = {}
        """Readings of matches in this language."""
        for path in (TABLES / "all.tsv", TABLES / f"{code}.tsv"):
            for kind, written, *said in read_table(path) if path.is_file() else ():
                self.rows[kind][written].append(said)

    def said(self, kind: str, written: str) -> str:
        """What the table says of something; "" where it has none."""
        return self.rows[kind][written][0][0] if written in self.rows[kind] else ""

    def listed(self, kind: str) -> list[str]:
        """The words of a row that lists some."""
        return self.said(kind, "").split()

    def names(self, *kinds: str) -> str:
        """A pattern of all that is written of some kinds."""
        return either({written for kind in kinds for written in self.rows[kind]}) or "(?!)"

    def firsts(self, kind: str) -> str:
        """What is written of a kind begins with one of these."""
        return "".join({written[0] for written in self.rows[kind]})

    @cached_property
    def shorts(self) -> dict[str, list[SpokenForm]]:
        """What a short form may stand for, by how it is written, without its spaces."""
        found: dict[str, list[SpokenForm]] = defaultdict(list)
        for kind in _SHORT:
            for written, rows in self.rows[kind].items():
                forms = [written, f"{written}."] if kind in ("day", "reference") else [written]
                for form in {form.replace(" ", "") for form in forms}:
                    for short in (
                        {form, form[0].upper() + form[1:]}
                        if len(form.rstrip(".")) > 1 and kind not in ("unit", "currency")
                        else {form}
                    ):
                        for said in rows:
                            self._add(found[short], kind, said[0])
        return dict(found)

    def _add(self, readings: list[SpokenForm], kind: str, said: str) -> None:
        forms = said.split("/") if kind in ("unit", "currency") else [said]
        if "{}" in said or len(forms) == 4:
            return
        if kind not in ("unit", "currency"):
            new = [reading(f"{kind} a:{said.replace(' ', '_')}", said)]
        else:
            one = [reading("unit one", without_article(forms[0]))] if len(forms) > 1 else []
            new = [reading("unit several", forms[-1]), *one]
        known = {(other.parts[0], other.said) for other in readings}
        readings += [form for form in new if (form.parts[0], form.said) not in known]

    @cached_property
    def short(self) -> re.Pattern[str]:
        """A pattern of the short forms, the longest first, their spaces as they may be missing."""
        spaced = {written for kind in _SHORT for written in self.rows[kind] if " " in written}
        known = {*self.shorts, *spaced, *(written[0].upper() + written[1:] for written in spaced)}
        return re.compile(
            rf"(?:{either(known).replace(chr(92) + ' ', chr(92) + 's?') or '(?!)'})(?![^\W\d_])(?:(?<=\W)|(?!\d))"
        )

    @cached_property
    def scaled(self) -> re.Pattern[str]:
        """A number with its scale ahead of a place: 150 Mio., 3 millones de."""
        return re.compile(rf"\d\s?(?:{self.names('scale')})(?:\sd[ei])?\s\Z")

    @cached_property
    def first_words(self) -> frozenset[str]:
        """Words that a short form may begin with."""
        known = {written for kind in _SHORT for written in self.rows[kind]}
        known |= {written[0].upper() + written[1:] for written in known}
        return frozenset(found[0] for short in known if (found := re.match(r"[^\W\d_]+", short)))

    @cached_property
    def classes(self) -> dict[str, list[str]]:
        """The classes of words, for the model."""
        found: dict[str, set[str]] = defaultdict(set)
        for kind in (*_SHORT, "scale"):
            for written, rows in self.rows[kind].items():
                for word in (written, *(word for row in rows for word in re.split("[ /]", row[0]))):
                    if word[-1:].isalpha():
                        found[word.lower().rstrip(".")].add(f"@{kind}")
        for name, kind in (("months", "month"), ("periods", "period")):
            for word in self.listed(name):
                found[word.lower()].add(f"@{kind}")
        for kind, rows in self.rows["class"].items():
            for word in rows[0][0].split():
                found[word.lower()].add(f"@{kind}")
        for word, kinds in self.genders.items():
            if kinds in ("stop", "label") and word[0] != "-":
                found[word].add(f"@{kinds}")
        for word in self.labels:
            found[word].add("@label")
        return {word: sorted(kinds) for word, kinds in found.items()}

    @cached_property
    def genders(self) -> dict[str, str]:
        """Genders, or "stop" for what is no noun, by word, and by ending with its hyphen."""
        rows = ((kind, found) for kind, found in self.rows["gender"].items() if kind != "label")
        return {word.lower(): kind for kind, found in rows for row in found for word in row[0].split()}

    @cached_property
    def labels(self) -> frozenset[str]:
        """Words that a number behind them belongs to."""
        return frozenset(self.said("gender", "label").split())

    @cached_property
    def of_months(self) -> re.Pattern[str]:
        """What stands behind a day: a month, and other days before it."""
        months = either([*self.listed("months"), *self.rows["month"]]) or "(?!)"
        return re.compile(rf"(?:\s?[-–,]\s?\d{{1,2}}|\s[^\W\d_]{{1,2}}\s\d{{1,2}})*\s(?:de\s)?(?:{months})(?!\w)")

    @cached_property
    def abbreviated(self) -> re.Pattern[str]:
        """What ends in an abbreviation that a sentence goes on behind."""
        last = {"usw.", "etc.", "ecc.", "enz.", "EE. UU.", "Jh."}
        known = {short for kind in ("abbreviation", "month") for short in self.rows[kind]} | {
            f"{day}." for day in self.rows["day"] if self.code == "de"
        }
        known = {short for short in known if short[-1] == "." and short not in last}
        first = {short[0].upper() + short[1:] for short in known if short != "max."}
        pattern = either(known | first).replace("\\ ", r"\s?") or "(?!)"
        never_last = self.said("never last", "") or r"[^\W\d_]"
        return re.compile(rf"(?:\A|[\s(\"“„«'])(?:{pattern}|(?:{never_last})\.)\Z")


def without_article(form: str) -> str:
    """una hora → hora"""
    return re.sub(r"^(?:\w+ |un')", "", form)


LANGUAGES = frozenset(path.stem for path in TABLES.glob("??.tsv")) | WITH_ORDINAL_DOT


def code_of(name: str) -> str:
    """The code of a language by its name in espeak or a BCP 47 tag: de-AT is de."""
    return name.lower().replace("_", "-").partition("-")[0]


def language_of(name: str) -> Language | None:
    """The table of a language; None where there is none."""
    return _language(code) if (code := code_of(name)) in LANGUAGES else None


@cache
def _language(code: str) -> Language:
    return Language(code)


# ---------------------------------------------------------------------------------------------------------------------
# Ends of sentences

_AHEAD_OF_ANOTHER = re.compile(r"\s*\w+\s\d{1,2}\.")


def is_ordinal(before: str, word: str, name: str, after: str = "") -> bool:
    """Whether a text that ends in a number and a dot, such as "am 3.", goes on with `word` in the same sentence.

    `after` is all that follows: "am 1. und 2. Januar".
    """
    code = code_of(name)
    if re.fullmatch("und|oder|bis", word) and _AHEAD_OF_ANOTHER.match(after):
        return True
    if code not in WITH_ORDINAL_DOT or not re.search(r"(?<![\w.,:])\d{1,2}\.\Z", before[-8:]):
        return False
    language = language_of(name)
    starters = language.said("class", "starter").split() if language else ()
    return word.lower() not in starters if code == "de" else not word[:1].isupper()


def is_abbreviation(before: str, name: str, after: str = "") -> bool:
    """Whether a text that ends in a dot ends in an abbreviation of the language, behind which a sentence goes on.

    `after` is all that follows: a sentence that begins with "So." says so, and nothing of Sunday.
    """
    if before.strip() == "So." and re.match(r"\s*[\d,/–-]", after) is None:
        return False
    language = language_of(name)
    return language is not None and bool(language.abbreviated.search(before[-60:]))
