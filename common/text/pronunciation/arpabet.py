"""ARPAbet, the phonemes of CMUdict, and how the international phonetic alphabet is written in it.

A vowel carries its stress: AH0 none, AH1 primary, AH2 secondary.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache

VOWELS = ("AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW")
CONSONANTS = (
    "B", "CH", "D", "DH", "F", "G", "HH", "JH", "K", "L", "M", "N", "NG", "P", "R", "S", "SH", "T", "TH", "V", "W",
    "Y", "Z", "ZH",
)  # fmt: skip
PHONEMES = tuple(sorted([*CONSONANTS, *(vowel + stress for vowel in VOWELS for stress in ("", "0", "1", "2"))]))
"""All 84, a vowel without stress too, in alphabetical order, which is that of the published symbol sets."""

_SIBILANTS = frozenset(["S", "Z", "SH", "ZH", "CH", "JH"])
_VOICELESS = frozenset(["P", "T", "K", "F", "TH"])


class ArpabetError(ValueError):
    """A phoneme that ARPAbet does not have, or a sound that it cannot write."""


def parse(text: str) -> list[str]:
    """The phonemes of "HH AH0 L OW1", in any case. Raises ArpabetError that names the one that is none."""
    phonemes = text.upper().split()
    if not phonemes:
        raise ArpabetError(f"{text!r}: no phoneme in it; expected ARPAbet such as HH AH0 L OW1")
    known = _known()
    for phoneme in phonemes:
        if phoneme not in known:
            raise ArpabetError(f"{phoneme!r} in {text!r} is no phoneme; expected ARPAbet such as HH AH0 L OW1")
    return phonemes


def with_s(phonemes: Sequence[str]) -> list[str]:
    """A word with the s of plural, possessive or third person: K AE1 T → K AE1 T S."""
    last = phonemes[-1]
    ending = ["IH0", "Z"] if last in _SIBILANTS else ["S"] if last in _VOICELESS else ["Z"]
    return [*phonemes, *ending]


def from_ipa(text: str) -> list[str]:
    """English in the international phonetic alphabet, `həlˈoʊ`, as ARPAbet. Raises ArpabetError.

    Stress marks stand before the vowel (as espeak writes them) or before the syllable (as dictionaries do).
    """
    phonemes: list[str] = []
    stress = "0"
    for mark, symbol, unknown in _ipa_pattern().findall(text):
        if unknown:
            raise ArpabetError(f"{unknown!r} in {text!r} is no sound of English in IPA; expected such as həlˈoʊ")
        if mark:
            stress = _STRESS[mark]
            continue
        for phoneme in _IPA.get(symbol, ()):
            is_vowel = phoneme in VOWELS
            phonemes.append(phoneme + stress if is_vowel else phoneme)
            stress = "0" if is_vowel else stress
    if not phonemes:
        raise ArpabetError(f"{text!r}: no sound in it; expected IPA such as həlˈoʊ")
    return phonemes


def symbols(phonemes: Iterable[str]) -> tuple[str, ...]:
    """The phonemes as they are named in symbol sets, which have letters too: @HH @AH0."""
    return tuple("@" + phoneme for phoneme in phonemes)


_STRESS = {"ˈ": "1", "'": "1", "ˌ": "2"}

_IPA: dict[str, tuple[str, ...]] = {
    **{sound: (sound.upper(),) for sound in "bdfklmnpstvwz"},
    "h": ("HH",), "ɦ": ("HH",), "j": ("Y",), "ɡ": ("G",), "g": ("G",), "ŋ": ("NG",), "θ": ("TH",), "ð": ("DH",),
    "ʃ": ("SH",), "ʒ": ("ZH",), "tʃ": ("CH",), "dʒ": ("JH",), "ʧ": ("CH",), "ʤ": ("JH",), "ɹ": ("R",), "r": ("R",),
    "ɾ": ("T",), "ʔ": ("T",), "ɫ": ("L",), "x": ("K",), "ç": ("HH",), "ɬ": ("L",), "ʍ": ("W",), "ɲ": ("N", "Y"),
    "l̩": ("AH", "L"), "n̩": ("AH", "N"), "m̩": ("AH", "M"), "əl": ("AH", "L"),
    "i": ("IY",), "iː": ("IY",), "ɪ": ("IH",), "ᵻ": ("IH",), "ɨ": ("IH",), "y": ("UW",), "ɛ": ("EH",), "e": ("EH",),
    "eɪ": ("EY",), "eː": ("EY",), "æ": ("AE",), "a": ("AA",), "aː": ("AA",), "ɑ": ("AA",), "ɑː": ("AA",),
    "ɒ": ("AA",), "ɔ": ("AO",), "ɔː": ("AO",), "o": ("OW",), "oː": ("OW",), "oʊ": ("OW",), "əʊ": ("OW",),
    "ʊ": ("UH",), "u": ("UW",), "uː": ("UW",), "ʌ": ("AH",), "ə": ("AH",), "ɐ": ("AH",), "ɚ": ("ER",), "ɝ": ("ER",),
    "ɜː": ("ER",), "ɜ": ("ER",), "aɪ": ("AY",), "aʊ": ("AW",), "ɔɪ": ("OY",), "ɔɹ": ("AO", "R"), "oːɹ": ("AO", "R"),
    "ɔːɹ": ("AO", "R"), "ɑːɹ": ("AA", "R"), "ɛɹ": ("EH", "R"), "ɪɹ": ("IH", "R"), "ʊɹ": ("UH", "R"),
    "aɪɚ": ("AY", "ER"), "aɪə": ("AY", "AH"), "iə": ("IY", "AH"), "ø": ("ER",), "œ": ("ER",), "ɑ̃": ("AA", "N"),
    "ɔ̃": ("AO", "N"), "æ̃": ("AE", "N"),
}  # fmt: skip


@cache
def _known() -> frozenset[str]:
    return frozenset(PHONEMES)


@cache
def _ipa_pattern() -> re.Pattern[str]:
    """Stress, the longest sound that fits, or a character that is neither; what has no sound is passed over."""
    sounds = "|".join(re.escape(sound) for sound in sorted(_IPA, key=len, reverse=True))
    return re.compile(rf"([ˈˌ'])|({sounds}|[ː̩̃ʲʰ.‿͡\s_|-])|(.)")


_SAMPA_AND_IPA = r"""
A ɑ { æ 6 ɐ Q ɒ E ɛ @ ə 3 ɜ I ɪ O ɔ 2 ø 9 œ & ɶ U ʊ } ʉ V ʌ Y ʏ 1 ɨ 7 ɤ M ɯ 8 ɵ @` ɚ 3` ɝ @\ ɘ 3\ ɞ B β C ç D ð F ɱ G ɣ
H ɥ J ɲ K ɬ L ʎ N ŋ P ʋ R ʁ S ʃ T θ W ʍ X χ Z ʒ 4 ɾ 5 ɫ ? ʔ v\ ʋ r\ ɹ h\ ɦ s\ ɕ z\ ʑ x\ ɧ j\ ʝ l\ ɺ p\ ɸ R\ ʀ G\ ɢ N\ ɴ
B\ ʙ J\ ɟ L\ ʟ M\ ɰ K\ ɮ H\ ʜ X\ ħ ?\ ʕ d` ɖ t` ʈ n` ɳ s` ʂ z` ʐ l` ɭ r` ɽ r\` ɻ " ˈ % ˌ : ː :\ ˑ _j ʲ ' ʲ _h ʰ _w ʷ
"""
_SIGNS = {"~": "\u0303", "_~": "\u0303", "=": "\u0329", "_=": "\u0329", "_0": "\u0325", "_d": "\u032a", "_^": "\u032f"}
_SAMPA = dict(zip(_SAMPA_AND_IPA.split()[::2], _SAMPA_AND_IPA.split()[1::2], strict=True)) | _SIGNS | {"-": ""}
_SAMPA_SYMBOL = re.compile("|".join(map(re.escape, sorted(_SAMPA, key=len, reverse=True))))


def ipa_of_sampa(text: str) -> str:
    """X-SAMPA (Wells 1995), `h@"l@U`, in the international phonetic alphabet; what it does not have stays."""
    return _SAMPA_SYMBOL.sub(lambda symbol: _SAMPA[symbol[0]], text)
