"""What may stand at a place of a text in a European language."""

import re
from collections.abc import Iterable
from functools import cache, lru_cache

from common.text.engine.choose import Proposal, SpokenForm
from common.text.engine.shapes import Shapes, TokenShape, matched, shape
from common.text.european import fractions, say
from common.text.european.language import WITH_ORDINAL_DOT, Language
from common.text.european.numbers import gender, noun_behind

_GROUPS = r"\d{1,3}(?:[ \u00a0\u2009\u202f'’]\d{3}){1,5}"
_DOTS = r"\d{1,3}(?:\.\d{3}){1,5}"
_NUMBER = rf"(?:(?:{_GROUPS}(?![\d'’])|{_DOTS}(?!\d))(?:,\d{{1,9}}(?!\d))?|\d{{1,60}}(?:[.,]\d{{1,60}}(?!\d))?)"
_AMOUNT = rf"(?P<whole>(?:{_GROUPS}(?![\d'’])|{_DOTS}(?!\d)|\d{{1,15}}))(?:[.,](?P<cents>\d{{1,2}}(?!\d)|[-–—]+))?"
_DATE = r"(?P<day>\d{1,2})(?P<mark>[./-])(?P<month>\d{1,2})(?P=mark)(?P<year>\d{4}%s)(?![\d/]|[.-]\d)"
_HOUR = r"(?P<hour>\d{1,2})(?::|%s)(?P<minute>[0-5]\d)(?![\d:]|\.\d)"
_PARTS = "½⅓⅔¼¾"
_ELECTRONIC = shape(
    "electronic",
    r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,6}|(?:https?://|www\.)[^\s<>\"]*[\w/]",
    say.electronic,
)
_MAY_BE_ELECTRONIC = re.compile(r"\w@\w|://|www\.")


def _behind(firsts: str, *also: str) -> str:
    """A pattern of what follows the first digits of a number: more, what begins with one of `firsts`, or `also`."""
    return "|".join([f"0[{re.escape(firsts)} ]", "0['’.,]0", *also])


@cache
def _shapes(language: Language) -> Shapes:
    """The shapes of numbers and signs."""
    code, firsts = language.code, language.firsts
    scales, units, currencies = language.names("scale"), language.names("unit"), language.names("currency")
    between, behind = language.said("hours", "between") or "(?!)", language.said("hours", "behind")
    scale = rf"(?:\s?(?P<scale>{scales})(?![\w]))?"
    found = [
        shape("number", _NUMBER, say.number, "0"),
        shape("number", r"\d{1,60}", say.number, "0"),
        shape("telephone", r"\d{1,5}(?:(?:[ /.-]|\s/\s)\d{2,8}){1,6}(?![.,]?\d)", say.telephone, "0[ /.-][0/]"),
        shape("points", r"\d{1,3}(?:\.\d{1,3}){2,4}(?::\d{2,5})?(?![\d:])", say.points, r"0\.0"),
        shape("length", r"\d{1,2}:[0-5]\d:[0-5]\d(?:\s?(?:Std\.|h(?!\w)))?(?![\d:])", say.length, "0:0"),
        shape("length", r"\d{1,3}:[0-5]\d\s?(?:[Mm]in\.?|Minuten)(?!\w)", say.length, "0:0"),
        shape("length", r"(?:\d{1,2}\s?h\s?)?\d{1,3}['’′]\s?[0-5]\d(?:[\"″]|['’]{2})(?!\w)", say.length,
              "0(?:['’′]|h0| h)"),
        shape("clock", _HOUR % between + behind, say.clock, "0(?:[:.h]| a)"),
        shape("date", _DATE % (r"|\d\d" if code in ("de", "fr", "es", "it", "pt") else ""), say.date, "0[./-]0"),
        shape("date", r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)(?![\d-])", say.date, "0-0"),
        shape("measure", rf"(?P<number>{_NUMBER})\s?(?P<unit>{units})(?![\w]|['’][^\W\d_])(?:\.(?=\s[a-zà-ÿ]))?",
              say.measure, _behind(firsts("unit"))),
        shape("money", rf"{_AMOUNT}{scale}\s?(?P<behind>{currencies}|[Ee]uros?)(?!\w)", say.amount,
              _behind("Ee" + firsts("currency") + firsts("scale"), "0[.,][-–—]")),
        shape("money", r"(?P<whole>\d{1,6})(?P<behind>[€£$])(?P<cents>\d\d)(?P<scale>)(?!\d)", say.amount, "0[€£$]"),
        shape("height", r"(\d)\s?(m)\s?(\d\d)(?!\w|[.,]\d)", say.height, "0(?:m| m)"),
        shape("scaled", rf"(?P<number>{_NUMBER})\s?(?P<scale>{scales})(?!\w)", say.scaled,
              _behind(firsts("scale"))),
        shape("date", r"(?P<day>\d{1,2})/(?P<month>\d{1,2})(?P<year>)(?![\d/])", say.date, "0/0"),
        shape("even", r"(?P<whole>\d{1,9}),(?P<cents>[-–—]+)(?P<scale>)", say.amount, "0,[-–—]"),
        shape("fraction", rf"(?:(?P<whole>\d{{1,3}})(?:\s|(?=[{_PARTS}])))?"
              rf"(?:(?P<top>\d{{1,2}}(?:[.,]\d{{1,2}})?)/(?P<bottom>\d{{1,2}})(?![\w/])|(?P<sign>[{_PARTS}]))"
              rf"(?:\s?(?P<unit>{units})(?!\w))?", fractions.fraction, f"0(?:[/.,]0|[{_PARTS} ])|[{_PARTS}]"),
        shape("mixed", r"(?P<whole>\d{1,3})\s?(?:1/2|½)\s(?P<noun>[^\W\d_]{2,20})(?!\w)", fractions.mixed,
              "0(?:/0|½| [0½])"),
        shape("times", r"(\d{1,2})\s?[x×](?=\s[^\W\d_])", say.times, "0(?:[x×]| [a×])"),
        shape("elided", r"1[ \u00a0](?=([^\W\d_]+))", say.elided, "0 a"),
    ]  # fmt: skip
    if endings := language.names("ending").replace("(?!)", ""):
        mark = "[:-]" if code in ("sv", "ru") else r"\.?"
        ordinal = rf"(\d{{1,3}}){mark}({endings})(?!\w)"
        found.append(shape("ordinal", ordinal, say.ordinal, rf"0[{re.escape(firsts('ending'))}:.-]"))
    if code in WITH_ORDINAL_DOT:
        found.append(shape("dotted", r"(\d{1,2})\.(?=\s*(?:[^\W\d_]|[-–/]\s?\d|\Z)|,\s)", say.dotted, r"0\."))
    if code == "de":
        found += [
            shape("date", r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>)(?!\d)", say.date, r"0\.0"),
            shape("compound", rf"(?P<number>\d+(?:,\d+)?)-(?P<unit>{units})(?=-)", say.compound, "0(?:-|,0)"),
            shape("single", r"1(?=-(?!zu-)[^\W\d_])", say.single, "0-a"),
            shape("decade", r"(\d{1,2}|[12]\d\d0)er(n?)(?!\w)", say.decade, "0ea"),
        ]
    if code in ("ru", "pl"):
        found.append(shape("year", r"(\d{4})\s?[гr]\.(?!\w)", say.days, "0[гr ]"))
    money = rf"(?P<ahead>{currencies}|US\$|Fr\.)\s?{_AMOUNT}{scale}(?![\d:])(?:\sUSD)?"
    telephone = r"\+?\(?\d{1,5}\)?(?:(?:[ /.-]|\s/\s)\(?\d{1,8}\)?){1,6}(?![.,]?\d)"
    per = rf"/\s?((?:{language.names('unit', 'per')})|[^\W\d_]{{3,20}})(?!\w)"
    return Shapes([
        *found,
        shape("money", money, say.amount, f"[UF{re.escape(firsts('currency'))}]"),
        shape("telephone", telephone, say.telephone, "[+(]"),
        shape("per", per, say.per, "/"),
        shape("sign", rf"(?:{language.names('sign')})", say.sign, f"[{re.escape(firsts('sign'))} ]"),
    ])  # fmt: skip


_PIECE = re.compile(r"[^\W\d_]+|\d+|[^\w\s]|\s+|_")
_NUMERAL = (
    shape(
        "numeral",
        r"((?![LCDM](?![IVXLCDM]))[IVXLCDM]{1,8}(?=[\s.,;:!?)]|\Z|\.?[-–][IVX]+(?!\w))|I(?=er|re)|[IVX]{1,8}(?=e(?!r)|[.è]))"
        r"(er?|re|ème|\.)?(?![\w'])",
        say.numeral,
    ),
)
_MONTH = (shape("month", r"([^\W\d_]{3,5})\.?(?!\w)", say.month),)
_TIMES = re.compile(r"\d[x×]\d")  # 13x18 cm
_VERSION = re.compile(r"\d{1,9}(?:\.\d{1,9})+")
_AFTER_A_DAY = re.compile(r"\d(?:er|º|°|\.|\sde)?\s\Z")
_BEFORE_A_YEAR = re.compile(r"\.?\s(?:del?\s)?(?:1[89]|20)\d\d(?!\d)")
_RANGE_AHEAD = re.compile(r"([^\W\d_]{3,9})\.?\s?[-–]\s?\Z")
_RANGE_BEHIND = re.compile(r"\.?\s?[-–]\s?([^\W\d_]{3,9})(?!\w)")
_DAY_AHEAD = re.compile(r"([^\W\d_]{1,12})\.?\s?\Z")


_NUMERALS = re.compile(r".?[IVX.][-–][IVX]+(?!\w)")  # siglos XV-XVI
_ENDS_IN_UNIT = re.compile(r"\d\s?[^\W\d_]{1,3}\Z")
_FARTHEST = 60  # characters that are passed over in one piece


def electronic(text: str, language: Language) -> dict[int, Proposal]:
    """The electronic addresses of `text`, by their place."""
    if not _MAY_BE_ELECTRONIC.search(text):
        return {}
    own = [SpokenForm(("text",), None)]
    found = _ELECTRONIC.pattern.finditer(text)
    return {m.start(): Proposal(m.end(), [], list(say.electronic(m, language)) or own) for m in found}


def following(
    text: str, language: Language, addresses: dict[int, Proposal], position: int
) -> tuple[int, list[Proposal]]:
    """The next place where something may stand that does not stand for itself, and what."""
    for m in _PIECE.finditer(text, position):
        start = m.start()
        if start > position + _FARTHEST:
            return start, []
        if start in addresses:
            return start, [addresses[start]]
        if m[0][0].isalpha():
            found = _at_word(text, m, language)
            if not found and (place := _suffixed(text, m, language)):
                return place
        elif m[0][0].isdecimal():
            found = _at_digit(text, start, language)
        else:
            found = _at_sign(text, start, language) if not m[0].isspace() else []
        if found:
            return start, found
    return len(text), []


def _features(proposals: list[Proposal], text: str, language: Language) -> list[Proposal]:
    """With what the language and the noun behind tell."""
    found = []
    for stop, own, readings in proposals:
        noun = noun_behind(text, stop)
        kind = gender(noun, language) if noun else ""
        found.append(Proposal(stop, _with_gender(tuple(own), language.code, kind), readings))
    return found


@lru_cache(maxsize=4096)
def _with_gender(own: tuple[str, ...], code: str, kind: str) -> tuple[str, ...]:
    about = [code, *([f"g={kind}"] if kind else [])]
    return (*own, *about, *(f"{own[0]} {name}" for name in about))


_NOUNS = re.compile(r"\s?%|(?:\s?[-–,]\s?\d{1,2})*(?:\s[^\W\d_]|-J).{0,46}|[^\W\d_]", re.DOTALL)
"""What readings of a match depend on behind it: what is counted, a month, a percent sign."""


def _matched(shapes: Iterable[TokenShape], text: str, start: int, language: Language) -> list[Proposal]:
    return matched(shapes, text, start, language, language.memory, _NOUNS)


def _at_digit(text: str, start: int, language: Language) -> list[Proposal]:
    shapes = _shapes(language).at(text, start)
    if text[start - 1 : start].isalpha() and start and not _TIMES.match(text, max(0, start - 2)):
        if not _VERSION.match(text, start):
            return []
        shapes = tuple(found for found in shapes if found.name in ("number", "points"))
    quote = text.rfind('"', max(0, start - 80), start)  # where it opens, the next one ends it, and says no inches
    is_quoted = quote >= 0 and not text[max(0, quote - 1) : quote].isalnum()
    is_quoted |= text[start : start + 4].isdecimal()
    found = [p for p in _matched(shapes, text, start, language) if not (is_quoted and text[p.stop - 1] in "'\"")]
    return _features(found, text, language)


def _at_word(text: str, m: re.Match[str], language: Language) -> list[Proposal]:
    start, word = m.start(), m[0]
    if start and text[start - 1].isalpha():
        return []
    found: list[Proposal] = []
    if word in language.first_words:
        found += _shorts(text, start, language)
    if not found and word.lower() in language.truncated and _GOES_ON.match(text, m.end()):
        own = ["s=truncated", f"w={word}"]
        found.append(Proposal(m.end() + 1, own, [SpokenForm(("truncated",), language.truncated[word.lower()])]))
    if word[0] in "IVXLCDM" and word.rstrip("er").isupper() and not text[start - 1 : start].isdecimal():
        found += _matched(_NUMERAL, text, start, language)
    if 2 < len(word) < 6 and _is_dated(text, start, m.end(), language):
        found += matched(_MONTH, text, start, language)  # whose readings depend on what stands ahead, too
    is_sign = word in language.rows["sign"] and any(map(str.isdecimal, text[max(0, start - 2) : start + 3]))
    if is_sign or word in _codes(language):
        found += _matched(_shapes(language).at(text, start), text, start, language)
    if found:
        found.insert(0, Proposal(m.end(), [*found[0].own, f"w={word}"], [SpokenForm(("word",), None)]))
    return _features(found, text, language)


def _is_dated(text: str, start: int, stop: int, language: Language) -> bool:
    """Whether a word stands behind a day, before a year, or in a range of months: ene.-mar."""
    ahead = text[max(0, start - 14) : start]
    others = (_RANGE_AHEAD.search(ahead), _RANGE_BEHIND.match(text, stop))
    is_in_range = any(other and other[1].lower() in _calendar(language) for other in others)
    return is_in_range or bool(_AFTER_A_DAY.search(ahead) or _BEFORE_A_YEAR.match(text, stop))


def _shorts(text: str, start: int, language: Language) -> list[Proposal]:
    """What short forms may stand there, with and without the dot at their end."""
    found = []
    if short := language.short.match(text, start):
        goes_on = re.match(
            r"\s*(?:[\da-z]|[IVX]{2})", text[short.end() : short.end() + 4]
        )  # so that its dot ends no sentence
        for written in (short[0],) if goes_on else dict.fromkeys((short[0], short[0].rstrip("."))):
            known, stop = language.shorts.get("".join(written.split()), ()), start + len(written)
            if readings := [r for r in known if _may_stand(text, start, stop, r.parts[0], language)]:
                own = ["s=short", f"w={written}", f"dot={written[-1] == '.'}", f"long={min(len(written), 5)}"]
                if written in _WORD.findall(text[max(0, start - 12) : start] + " " + text[stop : start + 20]):
                    own.append("twice")  # zo en zo
                found.append(Proposal(stop, own, readings))
    return found


def _may_stand(text: str, start: int, stop: int, kind: str, language: Language) -> bool:
    """Whether a short form has what its kind needs.

    A reference needs a number behind it, a day without a dot a number or another day nearby, a unit of letters a per
    ahead; a short form may not stand against figures, nor a single letter against an apostrophe ('s.).
    """
    ahead = text[max(0, start - 24) : start]
    if kind == "reference":
        return _NUMBERED.match(text, stop) is not None and not ahead[-1:].isdecimal()
    if kind == "abbreviation":
        return not ahead[-1:].isdecimal() and not (_ENGLISH_S.search(ahead) and text.startswith("s.", start))
    if kind == "day" and text[stop - 1] != ".":
        near = _PIECE.findall(f"{ahead} {text[stop : stop + 24]}")
        is_timed = any(map(str.isdecimal, text[stop : stop + 9]))
        return is_timed or any(word.lower() in _days(language) for word in near)
    if kind != "unit":
        return True
    if not text[start].isalpha():
        return text[start] not in _MARKS  # behind a number they are measures
    if _ELISION.match(text, stop):
        return False
    per = re.search(rf"(?:(?<!\d)/|(?<!\w){language.said('say', 'per') or '(?!)'}\s)\Z", ahead)
    is_counted = stop - start > 1 or any(map(str.isdecimal, ahead))
    return (per is not None and is_counted) or language.scaled.search(ahead) is not None


_MARKS = "'’′\"″*"
_ALNUM, _DIGIT = re.compile(r"[^\W_]"), re.compile(r"\d")
_ELISION = re.compile(r"['’][^\W\d_]")  # l'acqua
_ENGLISH_S = re.compile(r"\w['’]\Z")
_WORD = re.compile(r"[^\W\d_]+")
_GOES_ON = re.compile(r"\.(?:[,;:)]|\s[a-zà-ÿ\d])")  # a dot that ends no sentence
_NUMBERED = re.compile(r"\.?\s?(?:\d|[IVX]+(?!\w))")


@cache
def _codes(language: Language) -> frozenset[str]:
    """The words that an amount of money may begin with."""
    return frozenset(["Fr", "US", *(re.split(r"\W", sign)[0] for sign in language.rows["currency"])])


def _suffixed(text: str, m: re.Match[str], language: Language) -> tuple[int, list[Proposal]] | None:
    """Hauptstr."""
    for written, rows in language.rows["suffix"].items():
        start = m.end() - len(written) + 1
        if start > 0 and text.startswith(written, start) and text[start - 1].isalpha():
            return start, [Proposal(m.end() + 1, [], [SpokenForm(("suffix",), rows[0][0])])]
    return None


def _at_sign(text: str, start: int, language: Language) -> list[Proposal]:
    character, behind, ahead = text[start], text[start + 1 : start + 2], text[start - 1 : start] if start else ""
    if character in ".:" and not (ahead.isdecimal() and behind.isdecimal()):
        return []
    if character in "-–—−*" and behind.isspace() and not text[:start].strip():  # the first of a list
        return []
    if not _ALNUM.search(text, max(0, start - 2), start + 4):
        return []
    if (
        character == "-"
        and ahead.isalpha()
        and not (behind.isalpha() or _ENDS_IN_UNIT.search(text[max(0, start - 5) : start]))
    ):  # Hin- und Rückflug, A-6
        return []
    if character == "-" and ahead.isdecimal() and text.startswith((" bis ", " und ", " oder "), start + 1):
        return []
    if character in "-–−" and (
        behind.isalpha()
        or (character != "−" and not _DIGIT.search(text, max(0, start - 2), start + 6))  # between words
    ):
        day = _DAY_AHEAD.search(text[max(0, start - 14) : start])
        if not (day and day[1].lower() in _calendar(language)) and not _NUMERALS.match(text, max(0, start - 2)):
            return []
    if character == "/" and ahead.isdecimal() and behind.isupper():  # 12/A
        return []
    found = _matched(_shapes(language).at(text, start), text, start, language)
    if character in language.first_signs:
        found += _shorts(text, start, language)
    if found and not any(proposal.readings[0].said is None for proposal in found):
        found.insert(0, Proposal(start + 1, found[0].own, [SpokenForm(("sign",), None)]))
    return _features(found, text, language)


@cache
def _days(language: Language) -> frozenset[str]:
    return frozenset(day.lower() for day in language.rows["day"])


@cache
def _calendar(language: Language) -> frozenset[str]:
    """Days and months, of which ranges are made: Mo–Fr, Jan.–März."""
    months = [month.lower()[:length] for month in language.listed("months") for length in (3, 4, 5, None)]
    return _days(language).union(months)
