"""Languages as OpenAI's API names them: codes of ISO 639-1 and English names."""

from collections.abc import Sequence

from trt.serving.admission.limits import RequestError

_NAMES = (
    "af:afrikaans ar:arabic az:azerbaijani be:belarusian bg:bulgarian bs:bosnian ca:catalan cs:czech cy:welsh "
    "da:danish de:german el:greek en:english es:spanish et:estonian fa:persian fi:finnish fr:french gl:galician "
    "he:hebrew hi:hindi hr:croatian hu:hungarian hy:armenian id:indonesian is:icelandic it:italian ja:japanese "
    "kk:kazakh kn:kannada ko:korean lt:lithuanian lv:latvian mi:maori mk:macedonian mr:marathi ms:malay ne:nepali "
    "nl:dutch no:norwegian pl:polish pt:portuguese ro:romanian ru:russian sk:slovak sl:slovenian sr:serbian "
    "sv:swedish sw:swahili ta:tamil th:thai tl:tagalog tr:turkish uk:ukrainian ur:urdu vi:vietnamese zh:mandarin"
)
LANGUAGES = dict(pair.split(":") for pair in _NAMES.split())
"""Names of languages by their codes of ISO 639-1: those that OpenAI lists."""


def code_of(language: str) -> str:
    """The code of a language that is given by its code, with a region or without, or by its name."""
    written = language.strip().lower().replace("_", "-")
    by_name = {name: code for code, name in LANGUAGES.items()} | {"chinese": "zh"}
    return by_name.get(written, written.partition("-")[0])


def check_languages(found: Sequence[str], known: Sequence[str]) -> None:
    """Raises RequestError where a recogniser of languages `known`, by name or code, writes none of those `found`."""
    names = {LANGUAGES.get(language.lower(), language.lower()) for language in known}
    if found and not any(LANGUAGES.get(each.lower().partition("-")[0], each.lower()) in names for each in found):
        wanted, has = ", ".join(found)[:40], ", ".join(sorted(names))
        raise RequestError(400, f"language {wanted!r}: this model writes {has}; see --language", param="language")
