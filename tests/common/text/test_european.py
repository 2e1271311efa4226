"""Abbreviations, units, ordinals and dates of European languages, which espeak-ng would spell."""

import pytest

from common.text.european import european_tokens, is_abbreviation, language_of

SAID = {
    "de": {
        "Am 3. Mai kam Dr. Müller mit 5 kg.": "Am dritten Mai kam Doktor Müller mit 5 Kilogramm.",
        "Der 2. Weltkrieg endete 1945.": "Der zweite Weltkrieg endete neunzehnhundertfünfundvierzig.",
        "am 1. und 2. Januar": "am ersten und zweiten Januar",
        "Es waren 3. Dann ging er.": "Es waren 3. Dann ging er.",
        "um 14:30 Uhr, z. B. in der Hauptstr. 7": "um 14 Uhr 30, zum Beispiel in der Hauptstraße 7",
        "am 24.12.2023 u.a.": "am vierundzwanzigsten Dezember zweitausenddreiundzwanzig unter anderem.",
        "100 km/h bei 20 °C, 1.500 Euro": "100 Kilometer pro Stunde bei 20 Grad Celsius, 1.500 Euro",
        "https://z.b. bleibt": "https://z.b. bleibt",
        "Das ist Version 2.1.": "Das ist Version 2.1.",
        "So. Jetzt gehen wir.": "So. Jetzt gehen wir.",
        "So. 10 Uhr, am So. nicht": "Sonntag 10 Uhr, am Sonntag nicht",
        "Das ist Max. Er hat max. 5 kg.": "Das ist Max. Er hat maximal 5 Kilogramm.",
        "Helmut S. kam, siehe S. 7": "Helmut S. kam, siehe Seite 7",
    },
    "es": {"El Sr. García, p. ej., en EE. UU.": "El señor García, por ejemplo, en Estados Unidos."},
    "fr": {"M. Dupont, 50 av. J.-C., pèse 70 kg": "monsieur Dupont, 50 avant Jésus-Christ, pèse 70 kilogrammes"},
    "it": {"Il Sig. Rossi, ecc.": "Il signor Rossi, eccetera.", "il 1° maggio": "il primo maggio"},
    "pt": {"R$ 5": "5 reais", "A Dra. Costa corre 5 km": "A doutora Costa corre 5 quilómetros"},
    "nl": {"€ 5,50 of $3": "5,50 euro of 3 dollar", "Dhr. Jansen, bijv.": "de heer Jansen, bijvoorbeeld."},
    "de_AT": {"Am 3. Mai kam Dr. Müller.": "Am dritten Mai kam Doktor Müller."},
    "da": {"den 3. maj": "den tredje maj"},
    "cs": {"3. května": "3. května"},
}


@pytest.mark.parametrize(
    ("language", "written", "said"), [(name, *case) for name, table in SAID.items() for case in table.items()]
)
def test_what_is_written_short_is_put_in_words(language, written, said):
    found = european_tokens(written, language)
    assert "".join(token.written for token in found) == written
    assert "".join(token.written if token.spoken is None else token.spoken for token in found) == said


def test_languages_without_a_table_are_left_to_espeak():
    assert language_of("hi") is None
    assert language_of("de-AT") is language_of("de")
    assert is_abbreviation("Dr.", "de_AT")
    assert [token.spoken for token in european_tokens("5 किलो", "hi")] == [None]
    assert not is_abbreviation("Dr.", "hi")
