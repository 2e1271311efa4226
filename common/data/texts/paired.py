"""English sentences with their translations into German, from one grammar of paired rules.

A rule has both languages, whose words stand in another order: participles and infinitives at the end, the time before
the subject, articles and adjectives by gender and case, pronouns by gender. So a translation is exact, and known; every
English sentence has one, and no two have the same.
"""

from typing import NamedTuple

import numpy as np

from common.data.texts.sentences import Subset, correct_articles, subset_of

_RULES = (
    ("{s} {v.past} {o}", "{s.nom} hat {o.acc} {v.participle}"),
    ("{s} {v.past} {o} {past}", "{past.de} hat {s.nom} {o.acc} {v.participle}"),
    ("{s} {v.past} {o} {place}", "{s.nom} hat {o.acc} {place.de} {v.participle}"),
    ("{future} {s} will {v} {o}", "{future.de} wird {s.nom} {o.acc} {v.de}"),
    ("{s} will {v} {o} {future}", "{s.nom} wird {future.de} {o.acc} {v.de}"),
    ("{s} can't {v} {o}", "{s.nom} kann {o.acc} nicht {v.de}"),
    ("{s} wants to {v} {o} {future}", "{s.nom} will {future.de} {o.acc} {v.de}"),
    ("did {s} {v} {o}", "hat {s.nom} {o.acc} {v.participle}"),
    ("where did {s} {v} {o}", "wo hat {s.nom} {o.acc} {v.participle}"),
    ("{s} didn't {v} {o} {past}", "{past.de} hat {s.nom} {o.acc} nicht {v.participle}"),
    ("{name} said that {s} {i.past} {place}", "{name.de} sagte dass {s.nom} {place.de} {i.preterite}"),
    ("{s} {i.past} {place} because it was {weather}",
     "weil es {weather.de} war hat {s.nom} {place.de} {i.participle}"),
    ("{s} {i.past} {place} {past}", "{past.de} hat {s.nom} {place.de} {i.participle}"),
    ("if it is {weather} {s} will {i} {place}", "wenn es {weather.de} ist wird {s.nom} {place.de} {i.de}"),
    ("there were {many} {place}", "{place.de} gab es {many.acc}"),
    ("{thing} is {quality} but {s} {v.past} it",
     "{thing.nom} ist {quality.de} aber {s.nom} hat {thing.pronoun} {v.participle}"),
    ("please {v} {o} {future}", "bitte {future.de} {o.acc} {v.de}"),
    ("{s} found {many} and {thing}", "{s.nom} hat {many.acc} und {thing.acc} gefunden"),
)  # fmt: skip


class _Phrase(NamedTuple):
    """A noun with what stands before it; `pronoun` is that of the accusative."""

    en: str
    nom: str
    acc: str
    pronoun: str = ""

    def __format__(self, _: str) -> str:
        return self.en


class _Word(NamedTuple):
    """A word, or some, in both languages; of verbs the infinitive, and the forms of the past."""

    en: str
    de: str
    past: str = ""
    participle: str = ""
    preterite: str = ""

    def __format__(self, _: str) -> str:
        return self.en


def _words(table: str) -> tuple[_Word, ...]:
    return tuple(_Word(*row.split("/")) for row in table.split("|"))


_WORDS = {
    "v": _words(
        "buy/kaufen/bought/gekauft|find/finden/found/gefunden|open/öffnen/opened/geöffnet|carry/tragen/carried/getragen"
        "|paint/malen/painted/gemalt|wash/waschen/washed/gewaschen|lose/verlieren/lost/verloren"
        "|need/brauchen/needed/gebraucht|forget/vergessen/forgot/vergessen"
    ),
    "i": _words(
        "sleep/schlafen/slept/geschlafen/schlief|laugh/lachen/laughed/gelacht/lachte|sing/singen/sang/gesungen/sang"
        "|wait/warten/waited/gewartet/wartete|dance/tanzen/danced/getanzt/tanzte"
    ),
    "past": _words(
        "yesterday/gestern|on monday/am montag|in january/im januar|this morning/heute morgen"
        "|after lunch/nach dem essen|last summer/letzten sommer"
    ),
    "future": _words("tomorrow/morgen|on friday/am freitag|in july/im juli|in the winter/im winter|soon/bald"),
    "place": _words(
        "in the garden/im garten|in the house/im haus|in the park/im park|in the kitchen/in der küche"
        "|behind the school/hinter der schule|under the bridge/unter der brücke|in the village/im dorf"
        "|near the church/neben der kirche|in london/in london|in the forest/im wald"
    ),
    "name": _words("anna/anna|emma/emma|oliver/oliver|walter/walter"),
    "quality": _words(
        "old/alt|small/klein|red/rot|green/grün|blue/blau|heavy/schwer|cold/kalt|thin/dünn|new/neu|beautiful/schön"
    ),
    "temper": _words("young/jung|quiet/still|happy/froh|hungry/hungrig|lazy/faul|clever/klug"),
    "weather": _words("cold/kalt|windy/windig|dark/dunkel|warm/warm|sunny/sonnig"),
    "number": _words("two/zwei|three/drei|four/vier|five/fünf|six/sechs|seven/sieben|eight/acht|ten/zehn"),
}
# English, German and its gender, and the plurals.
_THINGS = (
    "hat/hut/m/hats/hüte|key/schlüssel/m/keys/schlüssel|coat/mantel/m/coats/mäntel|table/tisch/m/tables/tische"
    "|bottle/flasche/f/bottles/flaschen|lamp/lampe/f/lamps/lampen|guitar/gitarre/f/guitars/gitarren"
    "|flower/blume/f/flowers/blumen|book/buch/n/books/bücher|picture/bild/n/pictures/bilder"
    "|window/fenster/n/windows/fenster|knife/messer/n/knives/messer"
)
_SOMEBODY = (
    "dog/hund/m|fox/fuchs/m|teacher/lehrer/m|brother/bruder/m|king/könig/m|cat/katze/f|goat/ziege/f|queen/königin/f"
    "|sister/schwester/f|horse/pferd/n|child/kind/n|sheep/schaf/n"
)
# Articles, and the endings of adjectives after them, of masculine, feminine and neuter: nominative, accusative.
_ARTICLES = {
    "the": (("der die das", "e e e"), ("den die das", "en e e")),
    "a": (("ein eine ein", "er e es"), ("einen eine ein", "en e es")),
    "my": (("mein meine mein", "er e es"), ("meinen meine mein", "en e es")),
}
_PRONOUNS = "ihn sie es"


def pairs(count: int, *, subset: Subset = "train", seed: int = 0) -> list[tuple[str, str]]:
    """`count` different sentences of lower-case words, each with its translation; no subset has one of another.

    The first ones do not depend on `count`.
    """
    random = np.random.default_rng([seed, len(subset)])
    found: dict[str, str] = {}
    while len(found) < count:
        english, german = _RULES[int(random.integers(len(_RULES)))]
        slots = {name: _drawn(name, random) for name in ("s", "o", "many", "thing", *_WORDS)}
        sentence = correct_articles(english.format_map(slots))
        if subset_of(sentence) == subset:
            found[sentence] = german.format_map(slots)
    return list(found.items())


def _drawn(name: str, random: np.random.Generator) -> _Word | _Phrase:
    def one(kind: str) -> _Word:
        words = _WORDS[kind]
        return words[int(random.integers(len(words)))]

    if name in _WORDS:
        return one(name)
    if name == "many" or (name == "o" and random.random() < 0.2):
        thing, number = _row(_THINGS, random), one("number")
        quality = one("quality") if random.random() < 0.5 else None
        english = f"{number.en} {quality.en} {thing[3]}" if quality else f"{number.en} {thing[3]}"
        german = f"{number.de} {quality.de}e {thing[4]}" if quality else f"{number.de} {thing[4]}"
        return _Phrase(english, german, german)
    if name == "s" and random.random() < 0.2:
        someone = one("name")
        return _Phrase(someone.en, someone.de, someone.de)
    noun = _row(_SOMEBODY if name == "s" else _THINGS, random)
    gender = "mfn".index(noun[2])
    article = "the" if name == "thing" else ("the", "a", "my")[int(random.integers(3))]
    quality = one("temper" if name == "s" else "quality") if random.random() < 0.4 else None
    nominative, accusative = (
        f"{articles.split()[gender]} {quality.de}{endings.split()[gender]} {noun[1]}"
        if quality
        else f"{articles.split()[gender]} {noun[1]}"
        for articles, endings in _ARTICLES[article]
    )
    english = f"{article} {quality.en} {noun[0]}" if quality else f"{article} {noun[0]}"
    return _Phrase(english, nominative, accusative, _PRONOUNS.split()[gender])


def _row(table: str, random: np.random.Generator) -> list[str]:
    rows = table.split("|")
    return rows[int(random.integers(len(rows)))].split("/")
