"""Words of European languages for forms, timetables, recipes and addresses, by language."""

from typing import NamedTuple


class Words(NamedTuple):
    """What a language says for forms."""

    per: str
    """8 €/night"""
    times: str
    """3x; {} is where the number goes if it does not go before."""
    days: str
    """The days of the week cut short, in any number of forms, and their names: "lun lunes|…"."""
    until: str
    """Words between two days or times, as a pattern."""
    to: str
    """What a dash between two days is said as."""
    references: str
    """Before a number, with a dot: "p página|art artículo"."""
    halves: str
    """A half of something masculine, feminine and neuter, and what stands between other parts and a unit."""
    and_a_half: str
    """Behind a whole number."""
    marks: str
    """@ . / - _ in addresses."""
    equals: str
    plus: str
    periods: str = ""
    """What things are counted per: "2 comprimidos/día"."""


FORMS = {
    "de": Words(
        "pro", "{}mal", "", "", "bis",
        "km Kilometer|Max maximal|Min mindestens|Pos Position|Bl Blatt|Z Zeile|Ziff Ziffer",
        "ein halber|eine halbe|ein halbes|", "", "at|Punkt|Schrägstrich|Bindestrich|Unterstrich", "gleich", "plus",
        "Tag|Nacht|Woche|Monat|Jahr|Stunde|Minute|Sekunde|Person|Stück|Kilo|Kilogramm|Gramm|Liter"
        "|Meter|Kilometer|Quadratmeter|Packung|Portion|Mahlzeit",
    ),
    "fr": Words(
        "par", "fois", "lun lundi|mar mardi|mer mercredi|jeu jeudi|ven vendredi|sam samedi|dim dimanche",
        "au|à|et|ou", "à",
        "p page|pp pages|art article|al alinéa|chap chapitre|fig figure|vol volume|t tome|éd édition|réf référence",
        "un demi|une demi|un demi|de ", "et demi", "arobase|point|slash|tiret|tiret bas", "égale", "plus",
        "jour|nuit|semaine|mois|an|année|heure|minute|seconde|personne|pièce|kilo|litre|mètre"
        "|kilomètre|portion|repas",
    ),
    "es": Words(
        "por", "veces",
        "lun lunes|mar martes|mié miércoles|mier miércoles|jue jueves|vie viernes|sáb sábado|sab sábado|dom domingo",
        "a|al|y|o|hasta", "a", "p página|pp páginas|art artículo|cap capítulo|fig figura|vol volumen|núm número",
        "medio|media|medio|de ", "y medio", "arroba|punto|barra|guion|guion bajo", "igual a", "más",
        "día|noche|semana|mes|año|hora|minuto|segundo|persona|pieza|kilo|litro|metro|kilómetro"
        "|ración|comida",
    ),
    "it": Words(
        "a", "volte", "lun lunedì|mar martedì|mer mercoledì|gio giovedì|ven venerdì|sab sabato|dom domenica",
        "al|a|e|o", "a",
        "p pagina|pp pagine|art articolo|cap capitolo|fig figura|vol volume|n numero|nn numeri|par paragrafo",
        "mezzo|mezza|mezzo|di ", "e mezzo", "chiocciola|punto|barra|trattino|trattino basso", "uguale", "più",
        "giorno|notte|settimana|mese|anno|ora|minuto|secondo|persona|pezzo|chilo|litro|metro"
        "|chilometro|porzione|pasto",
    ),
    "pt": Words(
        "por", "vezes",
        "seg segunda|ter terça|qua quarta|qui quinta|sex sexta|sáb sábado|sab sábado|dom domingo", "a|à|ao|e|ou|até",
        "a", "p página|pp páginas|art artigo|cap capítulo|fig figura|vol volume|n número",
        "meio|meia|meio|de ", "e meio", "arroba|ponto|barra|hífen|sublinhado", "igual a", "mais",
        "dia|noite|semana|mês|ano|hora|minuto|segundo|pessoa|peça|quilo|litro|metro|quilómetro"
        "|quilômetro|refeição",
    ),
    "nl": Words(
        "per", "keer", "ma maandag|di dinsdag|wo woensdag|do donderdag|vr vrijdag|za zaterdag|zo zondag",
        "t/m|tot|en|of", "tot", "p pagina|art artikel|hfst hoofdstuk|fig figuur|afb afbeelding|jl jongstleden",
        "een halve|een halve|een half|", "en een half",
        "apenstaartje|punt|slash|streepje|liggend streepje", "is", "plus",
        "dag|nacht|week|maand|jaar|uur|minuut|seconde|persoon|stuk|kilo|liter|meter|kilometer"
        "|portie|maaltijd",
    ),
    "sv": Words(
        "per", "gånger", "mån måndag|tis tisdag|ons onsdag|tors torsdag|tor torsdag|fre fredag|lör lördag|sön söndag",
        "till|och|eller", "till", "s sida|kap kapitel|fig figur|art artikel",
        "en halv|en halv|ett halvt|", "och en halv", "snabel-a|punkt|snedstreck|bindestreck|understreck",
        "är lika med", "plus",
        "dag|dygn|natt|vecka|månad|år|timme|minut|sekund|person|styck|kilo|liter|meter|kilometer"
        "|portion|måltid",
    ),
    "pl": Words(
        "za", "razy",
        "pon poniedziałek|pn poniedziałek|wt wtorek|śr środa|czw czwartek|pt piątek|sob sobota"
        "|nd niedziela|niedz niedziela",
        "do|i|lub", "do", "s strona|art artykuł|rozdz rozdział|rys rysunek|ust ustęp|tab tabela",
        "pół|pół|pół|", "i pół", "małpa|kropka|ukośnik|myślnik|podkreślenie", "równa się", "plus",
    ),
    "ru": Words(
        "за", "раза", "пн понедельник|вт вторник|ср среда|чт четверг|пт пятница|сб суббота|вс воскресенье",
        "по|до|и", "по", "с страница|ст статья|гл глава|рис рисунок|п пункт|табл таблица",
        "пол|пол|пол|", "с половиной", "собака|точка|слэш|дефис|подчёркивание", "равно", "плюс",
    ),
}  # fmt: skip
