"""Forms, timetables, recipes and addresses of European languages."""

from collections.abc import Iterable

import pytest

from common.text.mandarin.reader import spoken_mandarin
from tests.common.text.test_european import said_in

CASES = {
    "de": {
        "Nach 1 km, noch 1 km weiter": "Nach einem Kilometer, noch einen Kilometer weiter",
        "eine 1-Zimmer-Wohnung, 500-g-Packung": "eine ein-Zimmer-Wohnung, 500-Gramm-Packung",
        "2½ Stunden, ½ l Milch": "zweieinhalb Stunden, ein halber Liter Milch",
        "Größe M, COVID-19, Hin- und Rückweg": "Größe M, COVID-19, Hin- und Rückweg",
        "am Montag, 12.08.2024": "am Montag, zwölften August zweitausendvierundzwanzig",
        "Der II. Weltkrieg, Elisabeth I. lebte": "Der zweite Weltkrieg, Elisabeth die erste lebte",
        "1 neue Nachricht, Nr.5": "eine neue Nachricht, Nummer 5",
        "Ab 89 €/Nacht, 0,99 €/kg": "Ab 89 Euro pro Nacht, 99 Cent pro Kilogramm",
        "Max. 8 Tropfen/Tag": "maximal 8 Tropfen pro Tag",
        "ja und/oder nein": "ja und/oder nein",
        "Preis: 25,– €": "Preis: 25 Euro",
        "Abfahrt 7:02": "Abfahrt 7 Uhr 2",
        "Sieg mit 28:25": "Sieg mit 28 zu 25",
        "vom 12.–15. August": "vom zwölften bis fünfzehnten August",
        "Er kam als 3. ins Ziel.": "Er kam als Dritter ins Ziel.",
        "1 1/2 Std., 1/2 TL": "eineinhalb Stunden, ein halber Teelöffel",
        "3x täglich 1 Tablette": "dreimal täglich eine Tablette",
        "Kapitel 1 Einleitung, 1 Ei": "Kapitel 1 Einleitung, ein Ei",
        "Weg 2, 50667 Köln": "Weg 2, 5 0 6 6 7 Köln",
        "https://z.b. ist keine Abkürzung": "z Punkt b. ist keine Abkürzung",
        "info@a-b.de": "info at a Bindestrich b Punkt de",
        "Version 3.2.1": "Version 3 Punkt 2 Punkt 1",
        "1.000.000 Fans": "1.000.000 Fans",
        "5 + 3 = 8": "5 plus 3 gleich 8",
        "die 1920er": "die neunzehnhundertzwanziger",
        "45k € p.a.": "45 tausend Euro pro Jahr.",
        "Er bekam > 50 %, x > 5": "Er bekam mehr als 50 Prozent, x größer als 5",
        "Kinder <12 Jahren; <b>5</b>": "Kinder weniger als 12 Jahren; <b>5</b>",
        "von 10 -> 20, a->5": "von 10 auf 20, a->5",
        "in °C, 20 °C": "in Grad Celsius, 20 Grad Celsius",
        "10.0.0.1:80, um 10:30": "10 Punkt 0 Punkt 0 Punkt 1 Doppelpunkt 80, um 10 Uhr 30",
    },
    "es": {
        "La II Guerra Mundial, Isabel II": "La segunda Guerra Mundial, Isabel segunda",
        "nº 42, el jueves 5/6": "número 42, el jueves 5 de junio",
        "de lun. a vie.": "de lunes a viernes.",
        "1/2 kg, 1 1/2 h, 3/4 l": "medio kilogramo, una hora y media, 3 cuartos de litro",
        "tel. 91 555 12 34": "teléfono 9 1, 5 5 5, 1 2, 3 4",
        "D. Pedro, s. XIX": "don Pedro, siglo 19",
        "p. 14, art. 3": "página 14, artículo 3",
    },
    "fr": {
        "2 1/2 tasses, n°1": "2 tasses et demie, numéro 1",
        "à 21h00, Henri VIII, taille M": "à vingt et une heures, Henri 8, taille M",
        "Il a ≥ 18 ans": "Il a au moins 18 ans",
        "du lun. au sam. 5": "du lundi au samedi 5",
        "le 1er janv. 2024": "le premier janvier 2024",
        "01 42 68 53 00": "0 1, 42, 68, 53, 0 0",
        "2,3 Md€": "2,3 milliards d'euros",
    },
    "it": {"p. 20, n. 12, 1/2 kg": "pagina 20, numero 12, mezzo chilogrammo", "3x al giorno": "3 volte al giorno"},
    "nl": {
        "ma. t/m vr. 9.00-17.30 uur": "maandag tot en met vrijdag 9 uur tot 17 uur 30",
        "op 12-03-1985": "op 12 maart 19 85",
        "zo is het": "zo is het",
    },
    "sv": {"mån–fre 9–18": "måndag till fredag 9 till 18"},
    "pl": {
        "12 maja 1985 r.": "dwunastego maja tysiąc dziewięćset osiemdziesiątego piątego roku.",
        "w 1985 r. w": "w tysiąc dziewięćset osiemdziesiątym piątym roku w",
    },
    "ru": {"12 мая": "двенадцатого мая"},
}  # fmt: skip

# What looks like one of those classes and is everyday text: as it is written, where nothing else stands behind =>.
EVERYDAY = {
    "de": (
        "10000 Menschen kamen.|25000 Euro kostet das.|12000 Euro Strafe|Im Jahr 2023, 50000 Besucher kamen"
        "|12345 Mitarbeiter|20123 Meilen|Verkauft wurden Hefte, 12345 Bücher und mehr|5 Äpfel/Birnen"
        "|10 Mitarbeiter/innen gesucht"
        "|Am 12.05.23 war es.=>Am zwölften Mai 23 war es.|Eintritt 10 €/ermäßigt 8 €=>Eintritt 10 Euro/ermäßigt 8 Euro"
        "|Nach 10 Min. 2 Eier=>Nach 10 Minuten 2 Eier|Am Wall 3, 28195 Bremen=>Am Wall 3, 2 8 1 9 5 Bremen"
        "|10115 Berlin=>1 0 1 1 5 Berlin|2 3/4 Std. lang=>zwei drei Viertel Stunden lang|25,- Euro=>25 Euro"
        "|Er kam um 9 h.=>Er kam um 9 Uhr.|Es dauert 2 h.=>Es dauert 2 Stunden.|3 x 4 m=>3 mal 4 Meter"
        "|In 10115 Berlin ist es laut.=>In 1 0 1 1 5 Berlin ist es laut.|in 12500 Haushalten|in 10000 Jahren"
        "|unter 6 J. frei=>unter 6 Jahren frei|5 J. alt=>5 Jahre alt|3.500 € brutto/Monat=>3.500 Euro brutto pro Monat"
        "|Am 2.3.81 war es.=>Am zweiten März 81 war es.|2.3.45 Seiten|mehr als 1. Und"
        "|Er kam als 1. an.=>Er kam als Erster an.|Sie als 3.=>Sie als Dritte.|kleiner als 3.=>kleiner als 3."
        "|mind. 3, rd. 5, erm. 2 Euro=>mindestens 3, rund 5, ermäßigt 2 Euro"
        "|Die Quote liegt bei 2:15.|5 Tage/Woche=>5 Tage pro Woche|Python 3.10.12=>Python 3 Punkt 10 Punkt 12"
    ),
    "fr": (
        "5 hommes/femmes|Il habite au bord de la mer, 12 rue du Port.|la mer 3 fois|la mer. 12 bateaux passent"
        "|mar. 5 mai=>mardi 5 mai|2 heures/jour=>2 heures par jour|49 €/nuit=>49 euros par nuit|25,- euros=>25 euros"
    ),
    "es": (
        "20 alumnos/alumnas|Estoy en el mar, 3 horas.|Son 750 000 000 euros.=>Son 750000000 euros."
        "|600 700 800 euros=>600700800 euros"
        "|912 345 acciones=>novecientas doce mil trescientas cuarenta y cinco acciones"
        "|5 mar 2024=>5 marzo 2024|lun. 5 de mayo=>lunes 5 de mayo|3 veces/semana=>3 veces por semana"
        "|Llámame al 612 345 678 mañana=>Llámame al 6 1 2, 3 4 5, 6 7 8 mañana"
        "|Llame al 600 700 800.=>Llame al 6 0 0, 7 0 0, 8 0 0."
    ),
    "it": "5 ragazzi/ragazze|il mar 3 volte|gio. 5 maggio=>giovedì 5 maggio|2 volte/giorno=>2 volte a giorno",
    "pt": "ter 3 filhos",
    "nl": "zo en zo|ma. 5 mei=>maandag 5 mei|zo en zo, ma. 5 mei=>zo en zo, maandag 5 mei",
}  # fmt: skip


def told(code: str, table: Iterable[str]) -> dict[str, str]:
    return {written: " ".join(said.split()) for written, said in said_in(code, table).items()}


@pytest.mark.parametrize("code", EVERYDAY)
def test_a_rare_class_has_its_evidence_beside_the_number(code: str) -> None:
    cases = [case.partition("=>") for case in EVERYDAY[code].split("|")]
    table = {written: said or written for written, _, said in cases}
    assert told(code, table) == table


@pytest.mark.parametrize("code", CASES)
def test_forms_are_said_as_a_person_says_them(code: str) -> None:
    assert told(code, CASES[code]) == CASES[code]


def test_mandarin_forms() -> None:
    cases = {
        "清朝（1644-1911）": "清朝（一六四四到一九一一）",
        "月薪8k-12k": "月薪八千到一万二千",
        "4K电视": "四K电视",
        "比分是21:19": "比分是二十一比十九",
        "评分9.2/10": "评分九点二",
        "3单元502室": "三单元五零二室",
        "版本v2.3.1": "版本v二点三点一",
        "3+5=8": "三加五等于八",
        "汇率为1:7.25": "汇率为一比七点二五",
    }
    for written, said in cases.items():
        assert spoken_mandarin(written).replace("(", "（").replace(")", "）") == said


CLASSES = {
    "de": [
        ("Apr.–Juni, Zeit 3:12:07 h", "April bis Juni, Zeit 3 Stunden 12 Minuten 7 Sekunden"),
        ("1/2 Liter Wasser", "ein halber Liter Wasser"),
        ("1/2 Stunde", "eine halbe Stunde"),
        ("12 V und 5 A", "12 Volt und 5 Ampere"),
        ("die Klasse 5 A", "die Klasse 5 A"),
        ("3:2 n. V.", "3 zu 2 nach Verlängerung."),
        ("Karl d. Gr.", "Karl der Große."),
        ("als der 2. Weltkrieg begann", "als der zweite Weltkrieg begann"),
        ("in der 2. Woche", "in der zweiten Woche"),
        ("78 m², 2. OG", "78 Quadratmeter, zweites Obergeschoss"),
        ("1. Teil", "erster Teil"),
        ("am 2. Tag", "am zweiten Tag"),
        ("Kapitel IV", "Kapitel 4"),
        ("Version 2.1", "Version 2 Punkt 1"),
        ("10 - 4 = 6", "10 minus 4 gleich 6"),
        ("10 - 4 Uhr", "10 bis 4 Uhr"),
        ("100 ml = 2 €", "100 Milliliter gleich 2 Euro"),
        ("Fr., 5.4.", "Freitag, fünfter April."),
        ("Fr. Meier, Zimmer 5", "Frau Meier, Zimmer 5"),
        ("Ich nehme 1/2 l Milch.", "Ich nehme einen halben Liter Milch."),
        ("unter Karl V. in Rom", "unter Karl dem fünften in Rom"),
        ("Musik aus den 70ern", "Musik aus den Siebzigern"),
        ("am Rathauspl. 3", "am Rathausplatz 3"),
        ("J. S. Bach", "J. S. Bach"),
        ("So hatte ``Nicht'' in der Schweiz Schuchmann's.", "So hatte ``Nicht'' in der Schweiz Schuchmann's."),
        ("in Tel Aviv, Tel. 3", "in Tel Aviv, Telefon 3"),
    ],
    "fr": [
        ("Tél. 06.21.43.65.87, ou le 3639", "téléphone 0 6, 21, 43, 65, 87, ou le 36 39"),
        ("Un CD et un CV, et/ou un DVD", "Un CD et un CV, et ou un DVD"),
        ("5 av. Foch", "5 avenue Foch"),
        ("50 av. J.-C.", "50 avant Jésus-Christ."),
        ("500 $ US", "500 dollars américains"),
        ("la 2nde Guerre", "la seconde Guerre"),
        ("48'30\" au km 12", "48 minutes 30 secondes au kilomètre 12"),
        ('un écran 27" et le "Top 50"', 'un écran 27 pouces et le "Top 50"'),
        ("Elle mesure 1m65.", "Elle mesure un mètre 65."),
        ("à 12€50, photo 13x18 cm", "à 12 euros 50, photo 13 sur 18 centimètres"),
        ("le 80e, au 5e sans ascens., svp", "le quatre-vingtième, au cinquième sans ascenseur, s'il vous plaît"),
        ("le 1/4 de finale", "le quart de finale"),
        ("élu par l'Académie, par 36 à 32", "élu par l'Académie, par 36 à 32"),
        ("Le 5 l'équipe a 5 l d'eau.", "Le 5 l'équipe a 5 litres d'eau."),
        ('- Le 14 mars : "2,5 milliards de francs"', '- Le 14 mars : "2,5 milliards de francs"'),
        ("une portion de mer (par ex. au sud)", "une portion de mer (par exemple au sud)"),
    ],
    "it": [
        ("dalle 8.30 alle 12.30", "dalle 8 e 30 alle 12 e 30"),
        ("sono 8.30 euro", "sono 8.30 euro"),
        ("via S. Paolo, apr.-giu.", "via san Paolo, aprile a giugno."),
        ("cap. V", "capitolo 5"),
        ("4 mln a testa, 3 mln di euro", "4 milioni a testa, 3 milioni di euro"),
        ("all'1:30, #clima", "all'una e 30, hashtag clima"),
        ("nato il 03/07/85", "nato il 3 luglio 1985"),
        ("tra l'uno e l'altro un po' d'acqua", "tra l'uno e l'altro un po' d'acqua"),
        ("La banca italiana ha via Roma 12/A", "La banca italiana ha via Roma 12/A"),
    ],
    "es": [
        ("3 millones de €", "3 millones de euros"),
        ("la versión 2.0", "la versión 2 punto 0"),
        ("son 2.0 metros", "son 2.0 metros"),
        ("Ver págs. 3 y 4", "Ver páginas 3 y 4"),
        ("a la 1 y a las 21", "a la una y a las veintiuna"),
        ("el 3.º piso, 3.º dcha.", "el tercer piso, tercero derecha."),
        ("de abr.-jun. por 3.000.000 €", "de abril a junio por 3.000.000 de euros"),
        ("el III milenio, la III edición", "el tercer milenio, la tercera edición"),
        ("el 31 dic. 2023", "el 31 de diciembre de 2023"),
        ("2 kg. de pan", "2 kilogramos de pan"),
        ("el rey Mojmír I y Tutmosis III", "el rey Mojmír primero y Tutmosis tercero"),
        ("El 0.87 % y 19,6 hab/km²", "El 0.87 por ciento y 19,6 habitantes por kilómetro cuadrado"),
    ],
}


@pytest.mark.parametrize("code", CLASSES)
def test_classes_of_one_language(code: str) -> None:
    assert told(code, dict(CLASSES[code])) == dict(CLASSES[code])
