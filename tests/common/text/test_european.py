"""Abbreviations, units, ordinals and dates of European languages, which espeak-ng would spell."""

from collections.abc import Iterable

import pytest

from benchmarks.normalization import CODES, READERS, misread, phrases
from common.text.european.language import is_abbreviation, language_of
from common.text.european.reader import european_tokens

SAID = {
    "de": {
        "Am 3. Mai kam Dr. Müller mit 5 kg.": "Am dritten Mai kam Doktor Müller mit 5 Kilogramm.",
        "Der 2. Weltkrieg endete 1945.": "Der zweite Weltkrieg endete neunzehnhundertfünfundvierzig.",
        "am 1. und 2. Januar": "am ersten und zweiten Januar",
        "Es waren 3. Dann ging er.": "Es waren 3. Dann ging er.",
        "um 14:30 Uhr, z. B. in der Hauptstr. 7": "um 14 Uhr 30, zum Beispiel in der Hauptstraße 7",
        "am 24.12.2023 u.a.": "am vierundzwanzigsten Dezember zweitausenddreiundzwanzig unter anderem.",
        "100 km/h bei 20 °C, 1.500 Euro": "100 Kilometer pro Stunde bei 20 Grad Celsius, 1.500 Euro",
        "Das ist Version 2.1.": "Das ist Version 2.1.",
        "So. Jetzt gehen wir.": "So. Jetzt gehen wir.",
        "So. 10 Uhr, am So. nicht": "Sonntag 10 Uhr, am Sonntag nicht",
        "Das ist Max. Er hat max. 5 kg.": "Das ist Max. Er hat maximal 5 Kilogramm.",
        "Helmut S. kam, siehe S. 7": "Helmut S. kam, siehe Seite 7",
        "Das kostet $5 Mio. und $1 Mrd. Gewinn.": "Das kostet 5 Millionen Dollar und eine Milliarde Dollar Gewinn.",
        "Es waren $5 Mio.": "Es waren 5 Millionen Dollar.",
        "1 Mio. Menschen, 2 Std.": "eine Million Menschen, 2 Stunden.",
        "1 kg, 1 h, 2 h": "ein Kilogramm, eine Stunde, 2 Stunden",
        "-1 °C, 1/2 l": "minus ein Grad Celsius, ein halber Liter",
        "Mo–Fr 9–17 Uhr, So. geschlossen": "Montag bis Freitag 9 bis 17 Uhr, Sonntag geschlossen",
        "Mo. bis Fr. von 9 bis 17 Uhr": "Montag bis Freitag von 9 bis 17 Uhr",
        "Fr. Müller kommt am Fr., 3. Mai.": "Frau Müller kommt am Freitag, dritten Mai.",
        "So und Mo, do it": "Sonntag und Montag, do it",
        "am 24/12/2023": "am vierundzwanzigsten Dezember zweitausenddreiundzwanzig",
        "am 34/12/2023": "am 34/12/2023",
        "12,50 €, 0,45 €, 20–30 €": "12 Euro 50, 45 Cent, 20 bis 30 Euro",
        "Das sind 2,3 Mrd. €.": "Das sind 2,3 Milliarden Euro.",
        "4,7 %, 85 m², 3 EL, 6,2 l/100 km": "4,7 Prozent, 85 Quadratmeter, 3 Esslöffel, 6,2 Liter auf 100 Kilometer",
        "um 19.30 Uhr, 10:00–11:30 Uhr": "um 19 Uhr 30, 10 bis 11 Uhr 30",
        "Kaiser Wilhelm II. ging, das 3:1 fiel": "Kaiser Wilhelm der zweite ging, das 3 zu 1 fiel",
        "Etwa 1/3 der Leute, Tel.: 030 123456": "Etwa ein Drittel der Leute, Telefon: 0 3 0, 1 2 3 4 5 6",
    },
    "es": {
        "3,50 €, la 2ª planta, n.º 5": "3 euros con 50, la segunda planta, número 5",
        "Felipe VI, el siglo XX, 15:45 h": "Felipe sexto, el siglo 20, 15 45",
        "El Sr. García, p. ej., en EE. UU.": "El señor García, por ejemplo, en Estados Unidos.",
        "$5 millones, $1, 1 h, 24/12/2023": "5 millones de dólares, un dólar, una hora, 24 de diciembre de 2023",
    },
    "fr": {
        "12,50 €, 20 %, 14h30": "12 euros 50, 20 pour cent, 14 heures 30",
        "le 1er mai, au 19e siècle, Louis XIV": "le premier mai, au dix-neuvième siècle, Louis 14",
        "M. Dupont, 50 av. J.-C., pèse 70 kg": "monsieur Dupont, 50 avant Jésus-Christ, pèse 70 kilogrammes",
        "1,5 kg, 1 h, 1 000 kg, le 1/5/2024": "1,5 kilogramme, une heure, 1000 kilogrammes, le premier mai 2024",
    },
    "it": {
        "Il sig. Rossi e la sig.ra Bo": "Il signor Rossi e la signora Bo",
        "Il Sig. Rossi, ecc.": "Il signor Rossi, eccetera.", "il 1° maggio": "il primo maggio",
        "$3 mln, 1 h, 0,5 h": "3 milioni di dollari, un'ora, 0,5 ore",
    },
    "pt": {
        "R$ 5": "5 reais", "A Dra. Costa corre 5 km": "A doutora Costa corre 5 quilómetros",
        "R$ 1, 1,5 h": "um real, 1,5 hora",
    },
    "nl": {
        "De 2e verdieping om 14.30 uur": "De tweede verdieping om 14 uur 30",
        "€ 5,50 of $3": "5 euro 50 of 3 dollar", "Dhr. Jansen, bijv.": "de heer Jansen, bijvoorbeeld.",
        "€ 1, $5 mln.": "één euro, 5 miljoen dollar.",
    },
    "sv": {
        "1 kg, 2 h, t.ex. 100 kr, den 24/12/2023": "ett kilogram, 2 timmar, till exempel 100 kronor, "
        "den tjugofjärde december 2023",
    },
    "tr": {"100 km/h, 20 °C, 50 TL, 24.12.2023": "saatte 100 kilometre, 20 santigrat derece, 50 lira, 24 Aralık 2023"},
    "ru": {
        "В 2020 г., 20%": "В две тысячи двадцатом году, 20 процентов",
        "1 кг, 2 кг, 5 кг, 21 кг, 11 кг, 1,5 кг": "один килограмм, 2 килограмма, 5 килограммов, 21 килограмм, "
        "11 килограммов, 1,5 килограмма",
        "$5 млн, 03.01.2000": "5 миллионов долларов, третьего января двухтысячного года",
        "24/12/2023": "двадцать четвёртого декабря две тысячи двадцать третьего года",
    },
    "pl": {
        "5,50 zł o godz. 14:30": "5 złotych 50 groszy o godzinie czternastej 30",
        "2 kg, 5 kg, 22 kg, 12 kg, 1,5 kg": "2 kilogramy, 5 kilogramów, 22 kilogramy, 12 kilogramów, 1,5 kilograma",
        "$5 mln, 100 zł": "5 milionów dolarów, 100 złotych",
        "3.01.1999": "trzeciego stycznia tysiąc dziewięćset dziewięćdziesiątego dziewiątego roku",
        "01.01.0000": "pierwszego stycznia 0 roku",
    },
    "de_AT": {"Am 3. Mai kam Dr. Müller.": "Am dritten Mai kam Doktor Müller."},
    "da": {"den 3. maj": "den tredje maj"},
    "cs": {"3. května": "3. května"},
}  # fmt: skip


def said_in(code: str, table: Iterable[str]) -> dict[str, str]:
    """What is said of each, of which no character is lost."""
    found = {written: european_tokens(written, code) for written in table}
    assert ["".join(token.written for token in tokens) for tokens in found.values()] == list(found)
    return {written: "".join(t.written if t.spoken is None else t.spoken for t in found[written]) for written in found}


@pytest.mark.parametrize("language", SAID)
def test_what_is_written_short_is_put_in_words(language):
    assert said_in(language, SAID[language]) == SAID[language]


def test_languages_without_a_table_are_left_to_espeak():
    assert language_of("hi") is None
    assert language_of("de-AT") is language_of("de")
    assert is_abbreviation("Dr.", "de_AT")
    assert [token.spoken for token in european_tokens("5 किलो", "hi")] == [None]
    assert not is_abbreviation("Dr.", "hi")


AGREEING = {
    "de": "um 1 Uhr=>um ein Uhr|mit 1 Frau=>mit einer Frau|für 1 Tag=>für einen Tag"
    "|vor 1 Monat=>vor einem Monat|in 1 h=>in einer Stunde"
    "|Kapitel 1 Einleitung=>Kapitel 1 Einleitung|CHF 1'250.–=>1250 Franken|€ 5,-=>5 Euro|ein 3er=>ein Dreier"
    "|die 90er Jahre=>die neunziger Jahre|5 x 3=>5 mal 3|3 × 4 m=>3 mal 4 Meter",
    "es": "21 kilómetros=>veintiún kilómetros|200 personas=>doscientas personas|1 hora=>una hora"
    "|31 días=>treinta y un días|21 km=>veintiún kilómetros"
    "|el 21 de mayo=>el 21 de mayo|capítulo 1 final=>capítulo 1 final"
    "|1 1/2 h=>una hora y media|los 200 que van=>los 200 que van|21 %=>21 por ciento|5 x 3=>5 por 3",
    "fr": "1 fille=>une fille|21 pages=>vingt et une pages|71 voix=>71 voix|1 234 567 habitants=>1234567 habitants"
    "|1 h 30 min=>une heure 30 minutes|5 x 3=>5 fois 3|3 × 4 m=>3 sur 4 mètres|06 12 34 56 78=>0 6, 12, 34, 56, 78",
    "it": "1 ora=>un'ora|1 studente=>uno studente|1 zaino=>uno zaino|1 casa=>una casa|1 amico=>un amico|pagina 1 nuova"
    "=>pagina 1 nuova|3 × 4 m=>3 per 4 metri",
    "pt": "2 horas=>duas horas|200 casas=>duzentas casas|2 livros=>2 livros|21 pessoas=>vinte e uma pessoas",
}


@pytest.mark.parametrize("code", AGREEING)
def test_a_number_agrees_with_what_it_counts(code: str) -> None:
    table = dict(case.split("=>") for case in AGREEING[code].split("|"))
    assert {written: said.strip() for written, said in said_in(code, table).items()} == table


@pytest.mark.parametrize(
    ("code", "before", "text", "said"),
    [
        ("es", "El 3 de feb. 2024", "El 3 feb. 2024", "El 3 de febrero de 2024"),
        ("es", "El 3 de feb. y", "El 3 de feb. 2024", "El 3 de febrero de 2024"),
        ("de", "1 ist da", "1 Frau, mit 1 Frau", "eine Frau, mit einer Frau"),
        ("de", "am 2.1.", "um 2.1 %", "um 2.1 Prozent"),
    ],
)
def test_what_was_read_before_changes_nothing(code: str, before: str, text: str, said: str) -> None:
    european_tokens(before, code)
    assert (
        "".join(token.written if token.spoken is None else token.spoken for token in european_tokens(text, code))
        == said
    )


@pytest.mark.parametrize("language", CODES)
def test_a_memory_of_matches_tells_what_no_memory_tells(language: str) -> None:
    texts = [case.written for case in phrases(language)[::7]]
    known = language_of(CODES[language])
    assert known
    remembered = [european_tokens(text, known.code) for text in texts]
    for text, found in zip(texts, remembered, strict=True):
        known.memory.clear()
        assert european_tokens(text, known.code) == found


@pytest.mark.parametrize("language", [*CODES, "mandarin"])
def test_phrases_are_read_as_a_person_reads_them(language: str) -> None:
    wrong = misread(phrases(language), READERS[language])
    assert len(wrong) <= 0.005 * len(phrases(language)), [(case.written, said) for case, said in wrong]
