"""The rules of `common.data.texts.sentences` in German: some hundred and fifty words, in sentences of 3 to 12 words."""

RULES = {
    "sentence": (
        "{wer} {tat} {was}|{wer} {tat} {was} {wo}|{wer} {tat} {was} {wann}|{wann} {tat} {wer} {was}"
        "|{wann} {ging} {wer} {wo}|{wer} {ging} {wie} {wo}|{wo} {ging} {wer} {wie}|{name} und {name} {taten} {was} {wo}"
        "|{wer} sagte dass {wer} {wie} {ging}|wo {tat} {wer} {was}|warum {tat} {wer} {was}|wer {tat} {was} {wo}"
        "|es war {wetter} und {wer} {ging} {wo}|bitte {tu} {was} {bald}|{name} wohnt in {stadt} mit {zahl} {tieren}"
        "|der zug nach {stadt} kommt um {stunde} uhr|wie viele {dinge} {tat} {name} {wann}|es gab {zahl} {dinge} {wo}"
        "|{was_n} kostete {zahl} euro|{was_n} war {wie_es_ist} aber {wer} {tat} {was}"
        "|{wer} {ging} {wo} weil es {wetter} war"
        "|morgen wird {wer} {was} {inf}|wir werden {bald} {was} {inf}|ich kann {was} nicht {inf}"
        "|niemand {tat} {was} {wie}"
        "|{wer} hat {was} nie gesehen|hast du {was} {wo} gesehen|{zahl} {tiere} {gingen} {wie} {wo}"
    ),
    "wer": (
        "der {m}|die {f}|das {n}|ein {m}|eine {f}|der {art}e {m}|die {art}e {f}"
        "|das {art}e {n}|{name}|mein {m}|unsere {f}"
    ),
    "was": (
        "den {ding_m}|die {ding_f}|das {ding_n}|einen {ding_m}|eine {ding_f}|ein {ding_n}|den {form}en {ding_m}"
        "|die {form}e {ding_f}|das {form}e {ding_n}|{zahl} {dinge}|{zahl} {form}e {dinge}|seinen {ding_m}|ihre {ding_f}"
    ),
    "was_n": "der {ding_m}|die {ding_f}|das {ding_n}|der {form}e {ding_m}|die {form}e {ding_f}",
    "wo": (
        "im {ort}|in der {ort_f}|hinter der {ort_f}|neben dem {ort}|vor dem {ort}|auf dem weg nach {stadt}|in {stadt}"
        "|am {ort}|unter der {ort_f}"
    ),
    "wann": "gestern|am {tag}|im {monat}|nach dem {essen}|um {stunde} uhr|heute morgen|jeden {tag}|im sommer",
    "bald": "morgen|am {tag}|vor dem {essen}|um {stunde} uhr|im winter",
    "m": "hund|fuchs|vogel|könig|lehrer|bruder|vater|onkel|freund|nachbar",
    "f": "katze|ziege|königin|schwester|mutter|lehrerin|freundin|tante",
    "n": "pferd|mädchen|schaf|kind|tier",
    "tiere": "hunde|füchse|katzen|vögel|pferde|ziegen|schafe",
    "tieren": "hunden|katzen|vögeln|pferden|ziegen|schafen",
    "name": "anna|emma|oliver|walter|jürgen|käthe",
    "stadt": "berlin|köln|münchen|paris|hamburg|zürich",
    "ding_m": "apfel|kuchen|hut|mantel|tisch|schlüssel|brief",
    "ding_f": "flasche|lampe|uhr|gitarre|tür|tasche|blume",
    "ding_n": "buch|bild|fenster|messer|brot|rad",
    "dinge": "äpfel|kuchen|hüte|tische|schlüssel|flaschen|lampen|uhren|türen|bücher|bilder|fenster|messer|blumen",
    "form": "alt|klein|rot|grün|blau|schwer|kalt|dünn|neu|schön",
    "art": "jung|still|müd|hungrig|faul|klug|fröhlich",
    "wie_es_ist": "schön|schwer|neu|zu klein|sehr alt|nicht rot",
    "wetter": "kalt|windig|dunkel|sonnig|warm",
    "ort": "garten|haus|park|markt|dorf|wald|zimmer",
    "ort_f": "küche|schule|brücke|kirche|mühle",
    "tat": "kaufte|fand|verlor|öffnete|brauchte|trug|malte|wusch|suchte|nahm",
    "taten": "kauften|fanden|verloren|öffneten|brauchten|trugen|suchten",
    "tu": "bring|hol|öffne|such|wasch|nimm",
    "inf": "kaufen|finden|öffnen|suchen|tragen|waschen|malen",
    "ging": "schlief|lachte|wartete|tanzte|lief|sang",
    "gingen": "schliefen|warteten|tanzten|liefen|sangen",
    "wie": "leise|langsam|wieder|zusammen|ohne ein wort|fröhlich",
    "zahl": "zwei|drei|vier|fünf|sechs|sieben|acht|zehn|zwölf|dreizehn|hundert",
    "stunde": "zwei|drei|vier|fünf|sechs|sieben|acht|zehn",
    "tag": "montag|dienstag|freitag|samstag|sonntag",
    "monat": "januar|märz|juli|oktober",
    "essen": "frühstück|mittagessen|abendessen",
}
