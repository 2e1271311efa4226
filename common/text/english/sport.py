"""Numbers of sport: sets of tennis, records of seasons, counts and formations, paces and races, home runs."""

import re

from common.text.english.tokens import Rule, Style, anywhere, before, rule
from common.text.numbers import cardinal, in_pairs, pair

_PLAYED = re.compile(
    r"\b(?:won|wins?|win|beat|beats|def|defeat\w*|lost|sets?|match|tennis|final|down|upset)\b|\bd\.\s[A-Z]", re.I
)
_SET = r"(?:6-[0-4]|[0-4]-6|7-[56]|[56]-7)"


def _set(match: re.Match[str], style: Style) -> str | None:
    """6-4, 3-6, 7-6 (7-3): six four, three six, seven six, seven three."""
    if not anywhere(match.string, _PLAYED):
        return None
    return " ".join(cardinal(number) for number in re.findall(r"\d+", match[0]))


_RECORD_AHEAD = re.compile(r"\b(?:(?:record|mark)\s(?:of|to|at|is|was)|start\s(?:of|to))(?:\sa)?\s\(?\Z")
_MOVED_AHEAD = re.compile(
    r"\b(?:improv(?:e|es|ed|ing)\s(?:\w+\s){0,2}|(?:fell|falls?|dropp?(?:s|ed|ing)?|slipp?(?:s|ed)?)\s(?:(?:the\s)?[A-Z]\w+\s)?)to\s\(?\Z"
)
_OF_SPORT = re.compile(
    r"\b(?:teams?|season|games?|coach|leagues?|playoffs?|wins?|won|lost|loss|conference|overall|record|improved\sto(?=\s\d))\b"
)
_PLAYED_AHEAD = re.compile(
    r"(?<!odds )(?<!\b[Tt]here )(?:\b(?:are|is|was|were|went|go|goes|sits?|stands?|finish(?:ed|es)?"
    r"|start(?:ed|s)?(?:\sout)?)|'(?:re|s))(?:\snow)?(?:\s(?:an?|at))?\s\(?\Z"
)
_OF_A_SEASON = re.compile(
    r"\)?\s(?:overall|(?:in|over)\s(?:their|his|her|its|our|my)\s(?:last|past|first|previous)\s"
    r"(?:\d+|two|three|four|five|six|seven|eight|nine|ten|dozen)\b|(?:on|in)\sthe\s(?:season|year|road|division|conference|league|series)(?!'|\s(?:of|to|table))"
    r"|all-time|lifetime|(?:this|last)\sseason|in\s(?:\w+\s)?(?:conference|league|division|district|games|play)\b(?!\swith))"
)
_RECORD_BEHIND = re.compile(
    r"\s(?:overall\s|home\s|road\s|career\s)?"
    r"(?:records?\b(?!\s(?:label|player|deal|store|collect|shop|compan|producer|high|low|temp))"
    r"|start\b(?!\s(?:time|range|date|page|up|point|position|line)))"
)
_OWN_AHEAD = re.compile(r"\b(?:an?|the|this|that|their|its|his|her|our|my|your)\s(?:\w+\s)?\Z", re.IGNORECASE)
_UNBEATEN_AHEAD = re.compile(r"\b(?:we|they|you)(?:'re|\sare|\swere|\swent)\s(?:now\s)?\Z", re.IGNORECASE)
_STANDS_ALONE = re.compile(r"\s?(?:[!.,;?)]|\Z)|\s(?:baby|now|so\sfar|since|after|to\sstart|and)\b")
_SCORE_AHEAD = re.compile(r"\b(?:score|result|game|match|final|it)(?:\s(?:was|is)|'s)\s\Z", re.IGNORECASE)
_UNIT_BEHIND = re.compile(
    r"\s?(?:[%°]|(?:[mck]m|ft|mph|kph|hrs?|mins?|secs?|lbs?|k?g|mg|ml|yds?|mi|pts?)\b|of\s\d"
    r"|percent|per\scent|(?:an?|per|each|every)\s[a-z]|\w*(?:met|lit)(?:er|re)s?\b|(?!(?:this|across|as|is|was|has|versus|vs)\b)[a-z]+s\b|(?:inches|feet)\b)"
)
_HOW_MANY = re.compile(
    r"\b(?:temperatures?|temps|highs|lows|ages|prices|costs|numbers|totals?|classes|sizes|attendance|enrollment|hours"
    r"|seats|rows|staff|crowds?|rainfall|rulings?|votes?|decisions?|verdicts?|splits?|polls?|courts?|committees?|jury|senate|senators)"
    r"\s(?:are|is|was|were|went|stands?|(?:fell|falls?|dropp?(?:s|ed)|slipp?(?:s|ed))\sto)\s\Z",
    re.IGNORECASE,
)


def _record(match: re.Match[str], style: Style) -> str | None:
    """We are 21-9 this season: twenty one and nine; but they won 3-1."""
    text, behind = match.string, match.end()
    if _UNIT_BEHIND.match(text, behind) or match[0] == "50-50" or before(match, _HOW_MANY):
        return None
    is_record = (
        before(match, _RECORD_AHEAD)
        or (before(match, _MOVED_AHEAD) and anywhere(text, _OF_SPORT))
        or (_RECORD_BEHIND.match(text, behind) and (before(match, _OWN_AHEAD) or text.startswith(" record", behind)))
        or (_OF_A_SEASON.match(text, behind) and (before(match, _GOES_ON) or before(match, _PLAYED_AHEAD)))
        or (before(match, _TEAM_AHEAD) and text.startswith(")", behind) and anywhere(text, _OF_TEAMS))
        or (before(match, _PLAYED_AHEAD) and anywhere(text, _OF_STANDINGS))
        or (before(match, _TEAM_IS) and _STANDS_ALONE.match(text, behind))
        or (match[0].endswith("-0") and before(match, _UNBEATEN_AHEAD) and _STANDS_ALONE.match(text, behind))
    )
    if not is_record or before(match, _SCORE_AHEAD):
        return None
    *first, last = (cardinal(number) for number in match[0].split("-"))
    return f"{' '.join(first)} and {last}"


_TEAM_IS = re.compile(
    r"\b[Tt]he\s(?!Scores?|Results?|Odds)[A-Z][\w']+(?:\s[A-Z]\w+)?\s(?:are|were|finished|started|went|sit\sat|stand\sat)(?:\snow)?\s\Z"
)
_TEAM_AHEAD = re.compile(r"\b[A-Z][a-z]+s?\s\(\Z")
_OF_TEAMS = re.compile(
    r"\b(?:hosts?|visits?|faces?|plays?|take\son|takes\son|season|playoffs?|at\shome|seeds?|defeated|tip-?off|kick-?off)\b"
)
_OF_STANDINGS = re.compile(
    r"\b(?:[AN]FC|NFL|NBA|MLB|NHL|WNBA|NCAA|Big\sTen|division|conference|playoffs?|standings|seed|wild\scard|unbeaten|undefeated)\b"
)
_GOES_ON = re.compile(r"\d-\d{1,3}\s(?:[\w-]+\s){1,3}and\s\Z")  # 14-3 overall and 6-1 in conference play


def _side_by_side(match: re.Match[str], style: Style) -> str:
    """a 3-2 count, a 4-3 defense"""
    return f"{cardinal(match[1])} {cardinal(match[2])}"


def _pace(match: re.Match[str], style: Style) -> str:
    """6:30/mi → six thirty per mile"""
    minutes = f"{cardinal(match[1])} {pair(match[2]) if match[2] != '00' else 'minutes'}"
    return f"{minutes} per {'kilometer' if match[3].startswith('k') else 'mile'}"


_CRICKET = re.compile(
    r"\b(?:overs|ov|wickets?|innings|batsm[ae]n|bowled|declared|cricket|all out|at (?:lunch|tea|stumps))\b"
)
_ON_A_DAY = re.compile(r"\b(?:on|by|since|until|till|from)\s\Z", re.IGNORECASE)


def _wickets(match: re.Match[str], style: Style) -> str | None:
    """287/6 in 50 overs → two hundred eighty seven for six"""
    is_score = int(match[1]) > 10 >= int(match[2]) or int(match[2]) > 10 >= int(match[1])
    is_score = is_score and anywhere(match.string, _CRICKET) and match[0] != "24/7"
    if int(match[1]) <= 12 and before(match, _ON_A_DAY):
        return None
    return f"{cardinal(match[1])} for {cardinal(match[2])}" if is_score else None


_BASEBALL = re.compile(
    r"\b(?:RBIs?|batt(?:ing|ed)|homers?|inning\w*|ERA|pitch\w*|doubles|triples|steals|hit)\b|\.\d{3}\b"
)


def _home_runs(match: re.Match[str], style: Style) -> str | None:
    """.287 with 12 HR: h r; but 24 HR service"""
    if not anywhere(match.string, _BASEBALL):
        return None
    return f"{cardinal(match[1])} {style.letters('hr')}{match[2] and chr(39) + 's'}"


_STATS_AHEAD = re.compile(
    r"\b(?:triple-double:?|double-double:?|had|has|with|averag\w+|post(?:s|ed|ing)|line(?:\sof|:)|dropp?(?:s|ed)?|put\sup|put(?:s|ting)\sup|slash(?:ed|ing)?)(?:\san?)?\s\Z"
)


def _stats(match: re.Match[str], style: Style) -> str | None:
    """28/7/11, and no day"""
    is_line = before(match, _STATS_AHEAD)
    return " ".join(cardinal(n) for n in match[0].split("/")) if is_line else None


_TENNIS = re.compile(
    r"\b(?:serv(?:e|es|ing|ice)|deuce|advantage|ace|tennis|break\spoint|game\spoint|set\spoint|match\spoint|rally)\b"
)
_COUNTED_AHEAD = re.compile(
    r"\b(?:ages?|aged|about|around|roughly|by|in|of|over|under|takes?|than|within)\s\Z", re.IGNORECASE
)


def _points(match: re.Match[str], style: Style) -> str | None:
    """40-30, second serve; 15-0: fifteen love"""
    if before(match, _COUNTED_AHEAD) or not anywhere(match.string, _TENNIS):
        return None
    return " ".join("love" if n == "0" else cardinal(n) for n in match[0].split("-"))


_DEFEATED = re.compile(r"\b[A-Z][\w'-]+\s\Z")

WORD_RULES: tuple[Rule, ...] = (
    rule(
        "abbreviation",
        r"def\.(?=\s[A-Z])",
        lambda match, style: "defeated" if before(match, _DEFEATED) else None,
    ),
)
RULES: tuple[Rule, ...] = (
    rule(
        "average",
        r"\.(\d{3})/\.(\d{3})(?:/\.(\d{3}))?(?!\w)",
        lambda m, s: " ".join(in_pairs(n) if n[0] != "0" else cardinal(n) for n in m.groups() if n),
    ),
    rule(
        "score",
        r"(?:0|15|30|40)-(?:0|15|30|40)(?=\s*(?:[,;:!?)]|\.(?!\d)|\Z)|\s(?:up|down|ahead|behind|lead)\b)(?!,\d)",
        _points,
    ),
    rule("score", r"[1-9]\d?/[1-9]?\d/[1-9]?\d(?![\w/])", _stats),
    rule("score", rf"(?:{_SET})(?=,?\s{_SET}|\s\(\d{{1,2}}-\d{{1,2}}\))(?!\w)", _set),
    rule("score", rf"(?:(?<=\d-\d,\s)|(?<=\d-\d\s)|(?<=\),\s)){_SET}(?!\w)", _set),
    rule("score", r"(?<=[67]-[67]\s\()\d{1,2}-\d{1,2}(?=\))", _set),
    rule("score", r"\d{1,3}-\d{1,3}(?:-\d{1,2})?(?![\w-]|[.,:/]\d)", _record),
    rule("height", r"([4-7])-(\d{1,2})(?=,\s\d{3}\s?(?:lbs?|pounds)\b)", _side_by_side),
    rule("score", r"(\d{1,3})/(\d{1,3})(?![\w/]|[.,]\d)", _wickets),
    rule("score", r"(\d)-(\d)(?=\s(?:defen[cs]e|formation|zone|(?<=[0-3]-[0-2]\s)count)\b)", _side_by_side),
    rule("time", r"(\d{1,2}):([0-5]\d)(?:\s?/\s?|\sper\s)(mi(?:les?)?|km?|kilomet(?:er|re))(?!\w)", _pace),
    rule("distance", r"(\d{1,3})[kK](?=:?\s(?:in\s)?\d{1,2}:\d\d(?!\d))", lambda m, s: f"{cardinal(m[1])} k"),
    rule("number", r"(\d{1,3})\sHR(s?)(?!\w)", _home_runs),
    rule(
        "score", r"(\d{1,2}(?:\.\d)?)\sovs?\b\.?", lambda m, s: f"{cardinal(m[1])} {'over' if m[1] == '1' else 'overs'}"
    ),
    rule(
        "average",
        r"\.(\d)00(?=\s(?:record|ball|team|mark|season|winning|baseball|club|hitter)\b)",
        lambda m, s: f"{cardinal(m[1])} hundred",
    ),
)
