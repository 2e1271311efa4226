"""`python -m common.text "It cost $5M." …`: how a text is divided, what its tokens are taken for, and what is said."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from common import config
from common.text.engine.token import Token
from common.text.english.reader import why
from common.text.english.style import Style
from common.text.normalize import label_tokens, normalize_english
from common.text.readings import Readings, ReadingsError, read_readings
from common.text.spoken import spoken_english, voice_tokens


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Tokens, classes and readings of English texts."""

    texts: Annotated[tuple[str, ...], Positional, arg(metavar="TEXT")] = ()
    """Texts to explain."""
    reader: Literal["voice", "labels"] = "voice"
    """Use of the words: a voice, which needs spelled capitals, or the labels of a recogniser."""
    readings: Path | None = None
    """TOML or JSON file of readings of your own, in the tables words (SQL = "sequel") and units (kn = "knot")."""
    why: Annotated[tuple[str, ...], arg(metavar="TEXT")] = ()
    """Texts whose tokens are explained, too: the readings that each could have, their scores, and what decided."""


_VOICE = Style(for_voice=True)


def main(cfg: Explanation) -> None:
    """Prints a table for each text and what is said. Raises ConfigError if there is none."""
    if not cfg.texts + cfg.why:
        raise config.ConfigError("no texts: name some, in quotes; see --help")
    own = read_readings(cfg.readings) if cfg.readings else Readings()
    readings, units = dict(own.words), dict(own.units)
    for text in cfg.texts + cfg.why:
        if cfg.reader == "voice":
            found = list(voice_tokens(text, readings=readings, units=units))
            said = spoken_english(text, readings=readings, units=units)
        else:
            found, said = list(label_tokens(text, readings=readings)), normalize_english(text, readings=readings)
        print(explained(found))
        for written, reasons in why("".join(token.written for token in found), _VOICE) if text in cfg.why else ():
            print(f"{written!r}: " + ", ".join(f"{said} {score}" for said, score in reasons.readings[:6]))
            print("    by " + ", ".join(f"{feature} {weight:+}" for feature, weight in reasons.deciding))
        print(f"→ {said}\n")
    if cfg.why:
        print(_FEATURES)


_FEATURES = """\
w= the word, s= its shape or sign, p= n= the word before and behind (p: n: its class, pp= nn= two words, pn= one on
either side, p2= n2= the second), < > what stands against it or within eight words, k= the last class, all: anywhere"""


def explained(found: list[Token]) -> str:
    """A line for each token: written, class, reading."""
    rows = [(repr(t.written)[1:-1], t.kind, _reading(t)) for t in found if t.kind != "space"]
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    return "\n".join(f"{a:{widths[0]}}  {b:{widths[1]}}  {c}".rstrip() for a, b, c in rows)


def _reading(token: Token) -> str:
    if token.spoken is None:
        return token.written if token.kind == "word" else "(as it stands, if the reader has it)"
    return token.spoken or "(not said)"


if __name__ == "__main__":
    config.run(main, Explanation, __doc__, ReadingsError)
