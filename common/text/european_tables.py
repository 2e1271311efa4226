"""What European languages write shorter than they say it: abbreviations, units, currencies, months, by language.

Forms that depend on the number are divided by "/". The first one is that of one, with its article ("una hora/horas"),
the last one that of many. Russian has one with its number, one, two to four, and many; Polish one with its number, two
to four, many, and that of fractions. {} is where the number goes if it does not go before.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Language(NamedTuple):
    """What a language writes shorter than it says it."""

    abbreviations: Mapping[str, str]
    """With their dots, as they are written: {"z. B.": "zum Beispiel"}. A space in one may be missing."""
    units: Mapping[str, str]
    """Words for units behind a number, in their forms: {"kg": "ein Kilogramm/Kilogramm"}."""
    never_last: str = ""
    """More abbreviations that end no sentence, without their dot, as a pattern."""
    currencies: str = ""
    """Words for $, €, £ and ¥, in their forms. The signs stand before their amount, the words behind it."""
    scales: Mapping[str, str] = {}
    """Words like "million" behind an amount, in their forms, with what stands between them and the currency."""
    months: str = ""
    """In dates."""
    date: str = "{day} {month} {year}"
    """How a date is said."""
    has_ordinal_dot: bool = False
    """Whether "3." is the third."""


LATIN_UNITS = ("km/h", "°C", "kg", "g", "km", "m", "cm", "mm", "l", "h", "min")
RUSSIAN_UNITS = ("км/ч", "°C", "кг", "г", "км", "м", "см", "мм", "л", "ч", "мин")


MORE_UNITS = ("%", "€", "£", "m²", "km²", "m³", "ml", "mg", "t", "ha", "kWh", "W", "GB", "MB", "l/100 km", "m/s")


def _units(names: str, written: tuple[str, ...] = LATIN_UNITS, more: str = "") -> dict[str, str]:
    others = zip(MORE_UNITS, more.split("|"), strict=True) if more else ()
    return dict(zip(written, names.split("|"), strict=True)) | {unit: name for unit, name in others if name}


_GERMAN = Language(
    abbreviations={
        "z. B.": "zum Beispiel", "d. h.": "das heißt", "u. a.": "unter anderem", "o. ä.": "oder ähnlich",
        "i. d. R.": "in der Regel", "u. U.": "unter Umständen", "v. Chr.": "vor Christus", "n. Chr.": "nach Christus",
        "s. o.": "siehe oben", "s. u.": "siehe unten", "Dr.": "Doktor", "Prof.": "Professor", "Hr.": "Herr",
        "Hrn.": "Herrn", "Fr.": "Frau", "Nr.": "Nummer", "Fa.": "Firma", "Jg.": "Jahrgang", "zw.": "zwischen",
        "Hbf.": "Hauptbahnhof", "lt.": "laut", "Erw.": "Erwachsene", "ff.": "folgende", "zzgl.": "zuzüglich",
        "Pck.": "Päckchen", "Pkg.": "Packung", "Msp.": "Messerspitze", "Ki.": "Kinder", "geb.": "geboren",
        "gest.": "gestorben", "Whg.": "Wohnung", "Zi.": "Zimmer", "Anm.": "Anmerkung", "Art.": "Artikel",
        "Abs.": "Absatz", "Pl.": "Platz", "Stck.": "Stück", "tägl.": "täglich", "mtl.": "monatlich",
        "jährl.": "jährlich", "gem.": "gemäß", "z. T.": "zum Teil", "z. Zt.": "zur Zeit", "v. a.": "vor allem",
        "a. D.": "außer Dienst", "Tsd.": "Tausend", "Aufl.": "Auflage", "Hrsg.": "Herausgeber", "Pfd.": "Pfund",
        "Dipl.-Ing.": "Diplomingenieur", "Einw.": "Einwohner", "Mwst.": "Mehrwertsteuer", "MwSt.": "Mehrwertsteuer",
        "Co.": "Co", "u.": "und", "St.": "Sankt", "Str.": "Straße", "Tel.": "Telefon",
        "Jh.": "Jahrhundert", "Mio.": "Millionen", "Mrd.": "Milliarden", "bzw.": "beziehungsweise", "ca.": "circa",
        "usw.": "und so weiter", "etc.": "et cetera", "inkl.": "inklusive", "exkl.": "exklusive", "evtl.": "eventuell",
        "mind.": "mindestens", "erm.": "ermäßigt", "rd.": "rund", "tgl.": "täglich", "wtl.": "wöchentlich",
        "wöchentl.": "wöchentlich", "monatl.": "monatlich", "zuzügl.": "zuzüglich", "abzgl.": "abzüglich",
        "einschl.": "einschließlich", "ausschl.": "ausschließlich", "allg.": "allgemein", "insb.": "insbesondere",
        "insbes.": "insbesondere", "urspr.": "ursprünglich", "gegr.": "gegründet", "versch.": "verschiedene",
        "zus.": "zusammen", "durchschn.": "durchschnittlich", "entspr.": "entsprechend", "Ltg.": "Leitung",
        "Abt.": "Abteilung", "Verf.": "Verfasser", "Verl.": "Verlag", "Nrn.": "Nummern",
        "ggf.": "gegebenenfalls", "vgl.": "vergleiche", "sog.": "sogenannt", "max.": "maximal", "min.": "minimal",
        "Std.": "Stunden", "Min.": "Minuten", "Sek.": "Sekunden", "Abb.": "Abbildung", "Kap.": "Kapitel",
        "Bd.": "Band", "S.": "Seite", "Jan.": "Januar", "Feb.": "Februar", "Aug.": "August", "Sept.": "September",
        "Okt.": "Oktober", "Nov.": "November", "Dez.": "Dezember", "Mo.": "Montag", "Di.": "Dienstag",
        "Mi.": "Mittwoch", "Do.": "Donnerstag", "Sa.": "Samstag", "So.": "Sonntag",
    },
    units=_units(
        "ein Kilometer pro Stunde/Kilometer pro Stunde|ein Grad Celsius/Grad Celsius|ein Kilogramm/Kilogramm"
        "|ein Gramm/Gramm|ein Kilometer/Kilometer|ein Meter/Meter|ein Zentimeter/Zentimeter|ein Millimeter/Millimeter"
        "|ein Liter/Liter|eine Stunde/Stunden|eine Minute/Minuten",
        more=(
            "ein Prozent/Prozent|ein Euro/Euro|ein Pfund/Pfund|ein Quadratmeter/Quadratmeter|"
            "ein Quadratkilometer/Quadratkilometer|ein Kubikmeter/Kubikmeter|ein Milliliter/Milliliter|"
            "ein Milligramm/Milligramm|eine Tonne/Tonnen|ein Hektar/Hektar|"
            "eine Kilowattstunde/Kilowattstunden|ein Watt/Watt|ein Gigabyte/Gigabyte|ein Megabyte/Megabyte|"
            "ein Liter auf 100 Kilometer/Liter auf 100 Kilometer|ein Meter pro Sekunde/Meter pro Sekunde"
        ),
    ) | {
        "EL": "ein Esslöffel/Esslöffel", "TL": "ein Teelöffel/Teelöffel",
        "mAh": "eine Milliamperestunde/Milliamperestunden",
        "kW": "ein Kilowatt/Kilowatt", "V": "ein Volt/Volt", "Hz": "ein Hertz/Hertz", "MHz": "ein Megahertz/Megahertz",
        "GHz": "ein Gigahertz/Gigahertz", "dl": "ein Deziliter/Deziliter", "cl": "ein Zentiliter/Zentiliter",
        "kcal": "eine Kilokalorie/Kilokalorien", "dB": "ein Dezibel/Dezibel", "TB": "ein Terabyte/Terabyte",
        "kB": "ein Kilobyte/Kilobyte", "hPa": "ein Hektopascal/Hektopascal",
        "CHF": "ein Schweizer Franken/Schweizer Franken",
        "s": "eine Sekunde/Sekunden", "ms": "eine Millisekunde/Millisekunden", "qm": "ein Quadratmeter/Quadratmeter",
        "qkm": "ein Quadratkilometer/Quadratkilometer", "Pck.": "ein Päckchen/Päckchen", "J.": "ein Jahr/Jahre",
        "Pkg.": "eine Packung/Packungen", "°": "ein Grad/Grad", "Wo.": "eine Woche/Wochen",
        "EUR": "ein Euro/Euro", "MBit/s": "ein Megabit pro Sekunde/Megabit pro Sekunde",
        "Std.": "eine Stunde/Stunden", "Min.": "eine Minute/Minuten", "Sek.": "eine Sekunde/Sekunden",
        "Mio.": "eine Million/Millionen", "Mrd.": "eine Milliarde/Milliarden",
    },
    never_last=r"Dipl|Ing|geb|gest|verh|Hl|Mag|Art|Abs|Anm|Aufl|\w+str|Chr|[^\W\d_]",
    currencies="ein Dollar/Dollar|ein Euro/Euro|ein Pfund/Pfund|ein Yen/Yen",
    scales={
        "Tsd.": "tausend", "k": "tausend", "Mio.": "eine Million/Millionen", "Mrd.": "eine Milliarde/Milliarden",
        "Million": "eine Million/Millionen", "Millionen": "Millionen", "Milliarde": "eine Milliarde/Milliarden",
        "Milliarden": "Milliarden",
    },
    months="Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember",
    has_ordinal_dot=True,
)  # fmt: skip
_SPANISH = Language(
    abbreviations={
        "EE. UU.": "Estados Unidos", "a. C.": "antes de Cristo", "d. C.": "después de Cristo", "p. ej.": "por ejemplo",
        "Sr.": "señor", "Sra.": "señora", "Srta.": "señorita", "Sres.": "señores", "Dr.": "doctor", "Dra.": "doctora",
        "n.º": "número", "Ud.": "usted", "Uds.": "ustedes", "núm.": "número", "pág.": "página", "págs.": "páginas",
        "etc.": "etcétera",
        "aprox.": "aproximadamente", "Avda.": "avenida", "Av.": "avenida", "tel.": "teléfono", "cap.": "capítulo",

        "Prof.": "profesor", "ss.": "siguientes", "Dña.": "doña", "dto.": "descuento",
        "C/": "calle", "Pza.": "plaza", "pza.": "plaza", "Ctra.": "carretera", "ctra.": "carretera",
        "izq.": "izquierda",
        "dcha.": "derecha", "cda.": "cucharada", "cdas.": "cucharadas", "cdta.": "cucharadita",
        "cdtas.": "cucharaditas",
        "Depto.": "departamento", "Tfno.": "teléfono", "tfno.": "teléfono", "Gral.": "general", "Sta.": "santa",
        "Sto.": "santo", "máx.": "máximo", "mín.": "mínimo", "min.": "minutos",
    },
    units=_units(
        "un kilómetro por hora/kilómetros por hora|un grado Celsius/grados Celsius|un kilogramo/kilogramos"
        "|un gramo/gramos|un kilómetro/kilómetros|un metro/metros|un centímetro/centímetros|un milímetro/milímetros"
        "|un litro/litros|una hora/horas|un minuto/minutos",
        more=(
            "un por ciento/por ciento|un euro/euros|una libra/libras|un metro cuadrado/metros cuadrados|"
            "un kilómetro cuadrado/kilómetros cuadrados|un metro cúbico/metros cúbicos|"
            "un mililitro/mililitros|un miligramo/miligramos|una tonelada/toneladas|una hectárea/hectáreas|"
            "un kilovatio hora/kilovatios hora|un vatio/vatios|un gigabyte/gigabytes|un megabyte/megabytes|"
            "un litro a los 100 kilómetros/litros a los 100 kilómetros|"
            "un metro por segundo/metros por segundo"
        ),
    ),
    never_last=r"Dña|Lic|Ing|Arq|Gral|Mons|vs|EE|p|[^\W\d_]",
    currencies="un dólar/dólares|un euro/euros|una libra/libras|un yen/yenes",
    scales={"millón": "un millón de/millones de", "millones": "millones de", "mil": "mil"},
    months="enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre",
    date="{day} de {month} de {year}",
)  # fmt: skip
_FRENCH = Language(
    abbreviations={
        "av. J.-C.": "avant Jésus-Christ", "apr. J.-C.": "après Jésus-Christ", "p. ex.": "par exemple",
        "c.-à-d.": "c'est-à-dire", "M.": "monsieur", "MM.": "messieurs", "Mme": "madame", "Mmes": "mesdames",
        "Mlle": "mademoiselle", "Dr": "docteur", "Pr": "professeur", "St": "saint", "Ste": "sainte", "n°": "numéro",
        "etc.": "et cetera", "env.": "environ", "chap.": "chapitre", "tél.": "téléphone", "bd": "boulevard",
        "éd.": "édition",
        "av.": "avenue", "boul.": "boulevard", "imp.": "impasse", "rte": "route", "bât.": "bâtiment",
        "appt": "appartement", "c. à s.": "cuillères à soupe", "c. à c.": "cuillères à café",
        "càs": "cuillères à soupe",
        "càc": "cuillères à café", "qté": "quantité", "dép.": "département", "tjrs": "toujours", "rdv": "rendez-vous",
        "svp": "s'il vous plaît", "ss.": "suivantes", "suiv.": "suivantes",
        "cf.": "confer", "max.": "maximum", "min.": "minutes",
    },
    units=_units(
        "un kilomètre par heure/kilomètres par heure|un degré Celsius/degrés Celsius|un kilogramme/kilogrammes"
        "|un gramme/grammes|un kilomètre/kilomètres|un mètre/mètres|un centimètre/centimètres|un millimètre/millimètres"
        "|un litre/litres|une heure/heures|une minute/minutes",
        more=(
            "un pour cent/pour cent|un euro/euros|une livre/livres|un mètre carré/mètres carrés|"
            "un kilomètre carré/kilomètres carrés|un mètre cube/mètres cubes|un millilitre/millilitres|"
            "un milligramme/milligrammes|une tonne/tonnes|un hectare/hectares|"
            "un kilowattheure/kilowattheures|un watt/watts|un gigaoctet/gigaoctets|un mégaoctet/mégaoctets|"
            "un litre aux 100 kilomètres/litres aux 100 kilomètres|un mètre par seconde/mètres par seconde"
        ),
    ),
    never_last=r"art|vol|pp|hab|av|apr|c\.-à-d|[^\W\d_]",
    currencies="un dollar/dollars|un euro/euros|une livre/livres|un yen/yens",
    scales={
        "million": "un million de/millions de", "millions": "millions de", "milliard": "un milliard de/milliards de",
        "milliards": "milliards de", "mille": "mille", "Md": "un milliard de/milliards de",
        "Mds": "milliards de", "M": "un million de/millions de",
    },
    months="janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre|décembre",
)  # fmt: skip
_ITALIAN = Language(
    abbreviations={
        "a.C.": "avanti Cristo", "d.C.": "dopo Cristo", "p. es.": "per esempio", "Sig.ra": "signora", "Sig.": "signor",
        "sig.ra": "signora", "dott.ssa": "dottoressa", "prof.ssa": "professoressa", "sig.": "signor", "dott.": "dottor",
        "Sigg.": "signori", "Dott.ssa": "dottoressa", "Dott.": "dottor", "Dr.": "dottor", "Prof.": "professor",
        "Avv.": "avvocato", "Ing.": "ingegner", "ecc.": "eccetera", "pag.": "pagina", "tel.": "telefono", "S.": "san",
        "ca.": "circa", "min.": "minuti", "ss.": "seguenti", "sec.": "secolo", "P.zza": "piazza", "p.zza": "piazza",
        "C.so": "corso", "c.so": "corso", "V.le": "viale", "v.le": "viale", "L.go": "largo", "q.b.": "quanto basta",
        "gg.": "giorni", "Prof.ssa": "professoressa", "prof.": "professor", "avv.": "avvocato", "Spett.": "spettabile",
    },
    units=_units(
        "un chilometro orario/chilometri orari|un grado Celsius/gradi Celsius|un chilogrammo/chilogrammi"
        "|un grammo/grammi|un chilometro/chilometri|un metro/metri|un centimetro/centimetri|un millimetro/millimetri"
        "|un litro/litri|un'ora/ore|un minuto/minuti",
        more=(
            "un per cento/per cento|un euro/euro|una sterlina/sterline|un metro quadrato/metri quadrati|"
            "un chilometro quadrato/chilometri quadrati|un metro cubo/metri cubi|un millilitro/millilitri|"
            "un milligrammo/milligrammi|una tonnellata/tonnellate|un ettaro/ettari|"
            "un chilowattora/chilowattora|un watt/watt|un gigabyte/gigabyte|un megabyte/megabyte|"
            "un litro per 100 chilometri/litri per 100 chilometri|un metro al secondo/metri al secondo"
        ),
    ),
    never_last=r"On|Mons|art|cap|fig|vol|[^\W\d_]",
    currencies="un dollaro/dollari|un euro/euro|una sterlina/sterline|uno yen/yen",
    scales={
        "mln": "un milione di/milioni di", "mld": "un miliardo di/miliardi di", "milione": "un milione di/milioni di",
        "milioni": "milioni di", "miliardo": "un miliardo di/miliardi di", "miliardi": "miliardi di", "mila": "mila",
    },
    months="gennaio|febbraio|marzo|aprile|maggio|giugno|luglio|agosto|settembre|ottobre|novembre|dicembre",
)  # fmt: skip
_PORTUGUESE = Language(
    abbreviations={
        "a.C.": "antes de Cristo", "d.C.": "depois de Cristo", "p. ex.": "por exemplo", "Sr.": "senhor",
        "Sra.": "senhora", "Dr.": "doutor", "Dra.": "doutora", "Prof.": "professor", "Profa.": "professora",
        "Av.": "avenida", "R.": "rua", "etc.": "et cetera", "pág.": "página", "tel.": "telefone", "nº": "número",
        "aprox.": "aproximadamente", "min.": "minutos",
    },
    units=_units(
        "um quilómetro por hora/quilómetros por hora|um grau Celsius/graus Celsius|um quilograma/quilogramas"
        "|um grama/gramas|um quilómetro/quilómetros|um metro/metros|um centímetro/centímetros|um milímetro/milímetros"
        "|um litro/litros|uma hora/horas|um minuto/minutos",
        more=(
            "um por cento/por cento|um euro/euros|uma libra/libras|um metro quadrado/metros quadrados|"
            "um quilómetro quadrado/quilómetros quadrados|um metro cúbico/metros cúbicos|"
            "um mililitro/mililitros|um miligrama/miligramas|uma tonelada/toneladas|um hectare/hectares|"
            "um quilowatt-hora/quilowatts-hora|um watt/watts|um gigabyte/gigabytes|um megabyte/megabytes|"
            "um litro por 100 quilómetros/litros por 100 quilómetros|"
            "um metro por segundo/metros por segundo"
        ),
    ),
    never_last=r"Eng|Exmo|art|cap|vol|[^\W\d_]",
    currencies="um dólar/dólares|um euro/euros|uma libra/libras|um iene/ienes",
    scales={
        "milhão": "um milhão de/milhões de", "milhões": "milhões de", "mi": "um milhão de/milhões de",
        "bilhões": "bilhões de", "bi": "um bilhão de/bilhões de", "mil": "mil",
    },
    months="janeiro|fevereiro|março|abril|maio|junho|julho|agosto|setembro|outubro|novembro|dezembro",
    date="{day} de {month} de {year}",
)  # fmt: skip
_DUTCH = Language(
    abbreviations={
        "v. Chr.": "voor Christus", "n. Chr.": "na Christus", "d.w.z.": "dat wil zeggen", "o.a.": "onder andere",
        "m.a.w.": "met andere woorden", "t/m": "tot en met", "bijv.": "bijvoorbeeld", "bv.": "bijvoorbeeld",
        "dhr.": "de heer", "mevr.": "mevrouw", "mw.": "mevrouw", "dr.": "dokter", "prof.": "professor",
        "nr.": "nummer", "blz.": "bladzijde", "enz.": "enzovoort", "ca.": "circa", "St.": "Sint", "str.": "straat",
        "tel.": "telefoon", "p.p.": "per persoon", "p.st.": "per stuk", "max.": "maximaal", "incl.": "inclusief",
        "excl.": "exclusief", "a.u.b.": "alstublieft", "mln.": "miljoen", "mld.": "miljard", "min.": "minuten",
    },
    units=_units(
        "één kilometer per uur/kilometer per uur|één graad Celsius/graden Celsius|één kilogram/kilogram|één gram/gram"
        "|één kilometer/kilometer|één meter/meter|één centimeter/centimeter|één millimeter/millimeter|één liter/liter"
        "|één uur/uur|één minuut/minuten",
        more=(
            "één procent/procent|één euro/euro|één pond/pond|één vierkante meter/vierkante meter|"
            "één vierkante kilometer/vierkante kilometer|één kubieke meter/kubieke meter|"
            "één milliliter/milliliter|één milligram/milligram|één ton/ton|één hectare/hectare|"
            "één kilowattuur/kilowattuur|één watt/watt|één gigabyte/gigabyte|één megabyte/megabyte|"
            "één liter per 100 kilometer/liter per 100 kilometer|één meter per seconde/meter per seconde"
        ),
    ) | {"km/u": "één kilometer per uur/kilometer per uur", "u": "één uur/uur", "el": "één eetlepel/eetlepels"},
    never_last=r"ir|drs|ing|mr|art|jl|[^\W\d_]",
    currencies="één dollar/dollar|één euro/euro|één pond/pond|één yen/yen",
    scales={"mln.": "miljoen", "mld.": "miljard", "miljoen": "miljoen", "miljard": "miljard", "duizend": "duizend"},
    months="januari|februari|maart|april|mei|juni|juli|augustus|september|oktober|november|december",
)  # fmt: skip
_SWEDISH = Language(
    abbreviations={
        "t. ex.": "till exempel", "bl. a.": "bland annat", "d. v. s.": "det vill säga", "dvs.": "det vill säga",
        "m. m.": "med mera", "o. s. v.": "och så vidare", "osv.": "och så vidare", "s. k.": "så kallad",
        "f. d.": "före detta", "e. Kr.": "efter Kristus", "f. Kr.": "före Kristus", "p. g. a.": "på grund av",
        "m. fl.": "med flera", "kl.": "klockan", "nr": "nummer", "ca": "cirka", "st.": "stycken", "tel.": "telefon",
        "milj.": "miljoner", "resp.": "respektive", "inkl.": "inklusive", "exkl.": "exklusive", "jan.": "januari",
        "feb.": "februari", "aug.": "augusti", "sept.": "september", "okt.": "oktober", "nov.": "november",
        "dec.": "december",
    },
    units=_units(
        "en kilometer i timmen/kilometer i timmen|en grad Celsius/grader Celsius|ett kilogram/kilogram|ett gram/gram"
        "|en kilometer/kilometer|en meter/meter|en centimeter/centimeter|en millimeter/millimeter|en liter/liter"
        "|en timme/timmar|en minut/minuter",
        more=(
            "en procent/procent|en euro/euro|ett pund/pund|en kvadratmeter/kvadratmeter|"
            "en kvadratkilometer/kvadratkilometer|en kubikmeter/kubikmeter|en milliliter/milliliter|"
            "ett milligram/milligram|ett ton/ton|ett hektar/hektar|en kilowattimme/kilowattimmar|"
            "en watt/watt|en gigabyte/gigabyte|en megabyte/megabyte|"
            "en liter per 100 kilometer/liter per 100 kilometer|en meter per sekund/meter per sekund"
        ),
    ) | {"kr": "en krona/kronor", "tim": "en timme/timmar"},
    never_last=r"[^\W\d_]",
    currencies="en dollar/dollar|en euro/euro|ett pund/pund|en yen/yen",
    scales={
        "miljon": "en miljon/miljoner", "miljoner": "miljoner", "milj.": "en miljon/miljoner", "mn": "miljoner",
        "miljard": "en miljard/miljarder", "miljarder": "miljarder", "mdr": "miljarder", "tusen": "tusen",
    },
    months="januari|februari|mars|april|maj|juni|juli|augusti|september|oktober|november|december",
)  # fmt: skip
_TURKISH = Language(
    abbreviations={
        "M. Ö.": "milattan önce", "M. S.": "milattan sonra", "Dr.": "doktor", "Prof.": "profesör", "Doç.": "doçent",
        "vb.": "ve benzeri", "vs.": "vesaire", "örn.": "örneğin", "bkz.": "bakınız", "Sn.": "sayın", "Av.": "avukat",
        "Cad.": "caddesi", "Sok.": "sokağı", "Mah.": "mahallesi", "No.": "numara", "Tel.": "telefon", "yy.": "yüzyıl",
        "dk.": "dakika",
    },
    units=_units(
        "saatte {} kilometre|santigrat derece|kilogram|gram|kilometre|metre|santimetre|milimetre|litre|saat|dakika",
        more=(
            "yüzde {}|avro|sterlin|||||||||||||"
        ),
    ) | {"km/sa": "saatte {} kilometre", "sa": "saat", "dk": "dakika", "TL": "lira", "₺": "lira"},
    never_last=r"Yrd|Alb|Gen|Müh|Öğr|[^\W\d_]",
    currencies="dolar|avro|sterlin|yen",
    scales={"bin": "bin", "milyon": "milyon", "milyar": "milyar", "mn": "milyon", "mr": "milyar"},
    months="Ocak|Şubat|Mart|Nisan|Mayıs|Haziran|Temmuz|Ağustos|Eylül|Ekim|Kasım|Aralık",
    has_ordinal_dot=True,
)  # fmt: skip
_RUSSIAN = Language(
    abbreviations={
        "т. е.": "то есть", "и т. д.": "и так далее", "и т. п.": "и тому подобное", "т. к.": "так как",
        "и др.": "и другие", "до н. э.": "до нашей эры", "н. э.": "нашей эры", "напр.": "например", "ул.": "улица",
        "пр.": "проспект", "руб.": "рублей", "тыс.": "тысяч", "млн": "миллионов", "млрд": "миллиардов",
        "стр.": "страница", "им.": "имени", "проф.": "профессор", "см.": "смотри", "тел.": "телефон", "кв.": "квартира",
        "мин.": "минут", "гг.": "годов", "рис.": "рисунок",
    },
    units=_units(
        "один километр в час/километр в час/километра в час/километров в час"
        "|один градус Цельсия/градус Цельсия/градуса Цельсия/градусов Цельсия"
        "|один килограмм/килограмм/килограмма/килограммов|один грамм/грамм/грамма/граммов"
        "|один километр/километр/километра/километров|один метр/метр/метра/метров"
        "|один сантиметр/сантиметр/сантиметра/сантиметров|один миллиметр/миллиметр/миллиметра/миллиметров"
        "|один литр/литр/литра/литров|один час/час/часа/часов|одна минута/минута/минуты/минут",
        RUSSIAN_UNITS,
        more=(
            "один процент/процент/процента/процентов|один евро/евро/евро/евро|один фунт/фунт/фунта/фунтов|||"
            "||||||||||"
        ),
    ) | {"руб.": "один рубль/рубль/рубля/рублей", "₽": "один рубль/рубль/рубля/рублей"},
    never_last=r"акад|гл|обл|св|[^\W\d_]",
    currencies="один доллар/доллар/доллара/долларов|один евро/евро|один фунт/фунт/фунта/фунтов|одна иена/иена/иены/иен",
    scales={
        "тыс.": "одна тысяча/тысяча/тысячи/тысяч", "млн": "один миллион/миллион/миллиона/миллионов",
        "млрд": "один миллиард/миллиард/миллиарда/миллиардов", "тысяч": "тысяч", "миллион": "миллион",
        "миллиона": "миллиона", "миллионов": "миллионов", "миллиарда": "миллиарда", "миллиардов": "миллиардов",
    },
    months="января|февраля|марта|апреля|мая|июня|июля|августа|сентября|октября|ноября|декабря",
    date="{day} {month} {year} года",
)  # fmt: skip
_POLISH = Language(
    abbreviations={
        "m. in.": "między innymi", "n. e.": "naszej ery", "p. n. e.": "przed naszą erą", "np.": "na przykład",
        "itd.": "i tak dalej", "itp.": "i tym podobne", "tzn.": "to znaczy", "tj.": "to jest", "tzw.": "tak zwany",
        "dr": "doktor", "prof.": "profesor", "inż.": "inżynier", "ul.": "ulica", "al.": "aleja", "wg": "według",
        "nr": "numer", "str.": "strona", "ok.": "około", "św.": "święty", "mln": "milionów", "mld": "miliardów",
        "tys.": "tysięcy", "tel.": "telefon", "o godz.": "o godzinie", "godz.": "godzina", "pkt": "punkt",
        "por.": "porównaj", "ur.": "urodzony", "zm.": "zmarł", "woj.": "województwo",
    },
    units=_units(
        "jeden kilometr na godzinę/kilometry na godzinę/kilometrów na godzinę/kilometra na godzinę"
        "|jeden stopień Celsjusza/stopnie Celsjusza/stopni Celsjusza/stopnia Celsjusza"
        "|jeden kilogram/kilogramy/kilogramów/kilograma|jeden gram/gramy/gramów/grama"
        "|jeden kilometr/kilometry/kilometrów/kilometra|jeden metr/metry/metrów/metra"
        "|jeden centymetr/centymetry/centymetrów/centymetra|jeden milimetr/milimetry/milimetrów/milimetra"
        "|jeden litr/litry/litrów/litra|jedna godzina/godziny/godzin/godziny|jedna minuta/minuty/minut/minuty",
        more=(
            "jeden procent/procent|jedno euro/euro|jeden funt/funty/funtów/funta|||||||||||||"
        ),
    ) | {"zł": "jeden złoty/złote/złotych/złotego", "godz.": "jedna godzina/godziny/godzin/godziny"},
    never_last=r"gen|hab|mgr|ks|płk|[^\W\d_]",
    currencies=(
        "jeden dolar/dolary/dolarów/dolara|jedno euro/euro|jeden funt/funty/funtów/funta|jeden jen/jeny/jenów/jena"
    ),
    scales={
        "tys.": "jeden tysiąc/tysiące/tysięcy/tysiąca", "mln": "jeden milion/miliony/milionów/miliona",
        "mld": "jeden miliard/miliardy/miliardów/miliarda", "tysięcy": "tysięcy", "milion": "milion",
        "miliony": "miliony", "milionów": "milionów", "miliardy": "miliardy", "miliardów": "miliardów",
    },
    months=(
        "stycznia|lutego|marca|kwietnia|maja|czerwca|lipca|sierpnia|września|października|listopada|grudnia"
    ),
    date="{day} {month} {year} roku",
    has_ordinal_dot=True,
)  # fmt: skip

LANGUAGES: dict[str, Language] = {
    "de": _GERMAN, "es": _SPANISH, "fr": _FRENCH, "it": _ITALIAN, "pt": _PORTUGUESE, "nl": _DUTCH, "sv": _SWEDISH,
    "tr": _TURKISH, "ru": _RUSSIAN, "pl": _POLISH,
    **{
        code: Language({}, {}, "[^\\W\\d_]", has_ordinal_dot=True)
        for code in ("da nb no fi cs sk hu hr sl bs sr et lv is lb").split()  # noqa: SIM905
    },
}  # fmt: skip
