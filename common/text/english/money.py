"""Money: signs and codes before and behind amounts, ranges, magnitudes, and what it is paid for."""

import re

from common.text.english.tokens import LARGE, NUMBER, Rule, Style, before, before_noun, rule
from common.text.english.units import CURRENCIES, MAGNITUDES, MANY, PAID_PER, PERIODS, UNITS
from common.text.numbers import cardinal, plural

_SIGN = (
    r"(?:(?:USD?|CAD|AUD|NZD|HKD|SGD)\s?\$|AU?\$|CA?\$|HK\$|NZ\$|NT\$|MX\$|S\$|R\$|Rs\.?(?=\s?\d)"
    r"|[$£€¥₹₩₽₿₱฿₫₪₺₴₦₲₡₨₵৳₸₾]|(?:CN|JP)¥|(?<!\b[Ii]n\s)RM(?=\d)|Rp\.?(?=\s?\d)|Dhs?\.?(?=\s?\d)|(?<!-)Fr\.(?=\s?\d)|K[Ss]h\.?(?=\s?\d))"
)
_CODE = (
    "USD|CAD|AUD|EUR|GBP|JPY|CNY|RMB|CHF|INR|SEK|NOK|DKK|PLN|CZK|HUF|KRW|SGD|HKD|NZD|ZAR|RUB|THB|AED|MXN|BRL|BTC"
    "|PKR|ISK|RON|BGN|ILS|UAH|VND|MYR|IDR|NGN|KES|GHS|EGP|SAR|QAR|KWD|BHD|OMR|JOD|UYU|DOP|TWD|LKR|BDT|NPR|JMD|TZS|UGX|KZT|CRC|FJD"
)
# Words or names, too: only behind an amount, or before one of four digits or with a comma.
_CODE_TOO = "TRY|PHP|COP|PEN|MAD|NIS|ARS|CLP|ETH|USDT|LTC"
_EUROPEAN = r"(?:\d{1,3}(?:\.\d{3})*|\d{1,3}(?: \d{3}){1,9}),\d\d(?!\d|,\d)"  # 1.250,50 €
_AMOUNT = rf"(?:{_EUROPEAN}|{NUMBER})"
_PART = (
    rf"(?:[\s-]?({LARGE})\b|\s?(mn|mln|mill?|mio|bil|bln|lakhs?|crores?|(?<=[\d₹] )cr|[kKmMbB]n?|BN|MM|mm|trn?|tn|T)"
    r"(?![\w']|-(?!(?:an?|per)-)[A-Za-z]))?"
)
_TO = rf"(?:\s?-\s?({_AMOUNT}){_PART}(?![\w-]|[.,:]\d|/\d))?"
_PER = (
    r"(?:\s?/\s?(sq\.?\s?\w+|\d{1,4}\s?(?:k?g|m[lL]|L|l|lbs?|oz|m|ft|km|mi|yds?)|[A-Za-z]+(?:/(?:mo|month|yr|year|wk|week|day|hr|hour|night|user|seat|person)(?![A-Za-z]))?)\b"
    r"(?:\.(?=\s[a-z\d(]|[,;)]))?)?"
)
_ARTICLE = re.compile(r"\b(?:a|an|another|this|that|each|every)\s\Z", re.IGNORECASE)
_NOTE = re.compile(
    r"\s(?:bill|note|coin|gift|fine|ticket|cheque|check|voucher|coupon|fee|deposit|discount)|-(?:a|an|per)-\w+\s[a-z]"
)
# What follows "the $20" and is no thing of that price: the $20 my mom gave me, my $5 bought me a coffee, the $300 helps
_NO_PRICE = re.compile(
    r"\s(?:(?:me|my|mine|him|his|her|hers|us|our|your|their|its|them|i|everyone|everybody|someone|somebody|nobody|people|mom"
    r"|mum|dad|grandma|grandpa|plus|minus|times|about|around|against|during|through|toward|towards|without|within|onto|into"
    r"|across|behind|beyond|near|like|via|except|despite|please|anyway|really|just|only|also|even|maybe|never|always|often"
    r"|then|though|altogether|bought|gave|took|ran|won|fell|rose|grew|flew|began|broke|felt|kept|sold|sent|told|wrote|saw"
    r"|cost|put|cut|set|let|hit|kept|became|stood|sat|held|brought|thought|found|stole|bet|gets|do|all|any|some|no|an|the|this|these|those|first|last|\w+ly)\b"
    r"|(?!(?:bus|gas|bonus|shoes|jeans|pants|tickets|shirts|glasses|headphones|boots|sneakers|bills|notes|coins|shares|bonds|cards|fees"
    r"|loans|savings|sales|earnings|prizes|seats|meals|drinks)\b)[a-z]+(?<!s)s\b)",
    re.IGNORECASE,
)
_OF_BUDGETS = re.compile(
    r"\s(?:deficit|budget|fund|deal|package|program|plan|lawsuit|settlement|surplus|stimulus|merger|acquisition|contract"
    r"|bailout|valuation|project|market|industry|jackpot|mansion)\b"
)


def _before_price(match: re.Match[str]) -> bool:
    """The $40 shirt; $1.2 trillion deficit."""
    if match[0][-1].isalpha() and _OF_BUDGETS.match(match.string, match.end()):
        return True
    return before_noun(match) and not _NO_PRICE.match(match.string, match.end())


_RESOLUTIONS = frozenset(["144", "240", "360", "480", "540", "576", "720", "1080", "1440", "2160", "4320"])


_THOUSANDS = re.compile(r"\d{1,3}(?:\.\d{3})*\.\d00")


def _plain(number: str) -> str:
    """`1.250,50` → 1250.50"""
    return number.replace(".", "").replace(" ", "").replace(",", ".") if re.fullmatch(_EUROPEAN, number) else number


def _amount(number: str, magnitude: str | None, currency: str, *, one: bool = False) -> str:
    singular, several, one_part, many_parts = CURRENCIES[currency]
    number = _plain(number)
    if currency in ("€", "EUR", "Rp", "R$", "CHF") and _THOUSANDS.fullmatch(number):
        number = number.replace(".", "")
    if magnitude:
        return f"{_large(number, magnitude)} {singular if one else several}"
    whole, _, parts = number.partition(".")
    if len(parts) == 3 and parts.endswith("0"):
        parts = parts[:2]
    if len(parts) == 1:
        parts += "0"
    if len(parts) != 2 or not many_parts:
        return f"{cardinal(number)} {singular if number == '1' or one else several}"
    spoken = []
    if whole.strip("0"):
        spoken.append(f"{cardinal(whole)} {singular if whole == '1' or one else several}")
    if not spoken and parts == "00":
        spoken.append(f"{cardinal(whole or '0')} {several}")
    elif parts != "00":
        of_one = parts == "01" or (one and one_part != "penny")  # a $0.99 app
        spoken.append(f"{cardinal(str(int(parts)))} {one_part if of_one else many_parts}")
    return " ".join(spoken)


def _large(number: str, magnitude: str) -> str:
    return f"{cardinal(number)} {MAGNITUDES.get(magnitude, magnitude)}"


def _spelled(said: str, style: Style) -> str:
    return re.sub(r"\bus\b", style.letters("us"), said) if style.for_voice else said


def _money(match: re.Match[str], style: Style) -> str | None:
    """$5M, $5-10, €1.5M-2M, $1.2-1.5M, $10/hr."""
    currency, minus, number, large, letter, last, last_large, last_letter, code, per = match.groups()
    currency = code or re.sub(r"[\s.]", "", currency)
    if currency == "INR" and len(number) < 4 and float(number) < 10 and not (large or letter):  # of blood that clots
        return None
    one = before(match, _ARTICLE) or bool(_NOTE.match(match.string, match.end())) or _before_price(match)
    magnitude, last_magnitude = large or letter, last_large or last_letter
    if last:
        has_cents = re.search(r"[.,]\d\d\Z", number) and not (magnitude or last_magnitude)
        first = _large(number, magnitude) if magnitude else cardinal(_plain(number))
        first = _amount(number, None, currency) if has_cents else first
        both = magnitude and not last_magnitude and last == number
        said = f"{first} to {_amount(last, magnitude if both else last_magnitude, currency, one=one)}"
    else:
        said = _amount(number, magnitude, currency, one=one)
    said = f"minus {said}" if minus else said
    return _spelled(said, style) + (_per(per) if per else "")


def _per(unit: str) -> str:
    if "/" in unit:
        return "".join(map(_per, unit.split("/")))
    words = unit.replace(".", "").replace("sq ", "sq").split()
    if unit.startswith("sq") and len(unit) > 3 and not unit.startswith("squ"):
        return f" per square {UNITS.get(words[0][2:], words[0][2:])}"
    if unit == "ea":
        return " each"
    if several := re.fullmatch(r"(\d+)\s?([A-Za-z]+)", unit):
        name = UNITS.get(several[2]) or UNITS.get(several[2].lower()) or several[2]
        return f" per {cardinal(several[1])} {MANY.get(name) or plural(name)}"
    return f" per {PERIODS.get(unit) or UNITS.get(unit) or UNITS.get(unit.lower()) or unit}"


_RATE_AHEAD = re.compile(r"\d\s?[A-Z]{3}\s?=\s?\Z")


def _money_behind(match: re.Match[str], style: Style) -> str:
    number, large, letter, currency, per = match.groups()
    if before(match, _RATE_AHEAD) and "." in number:  # 1 USD = 0.92 EUR
        return _spelled(f"{cardinal(number)} {CURRENCIES[currency][1]}", style)
    said = _spelled(_amount(number, large or letter, currency, one=_before_price(match)), style)
    return said + _per(per) if per else said


def _price(match: re.Match[str], style: Style) -> str:
    """$/hr, without an amount."""
    return CURRENCIES[match[1]][1] + _per(match[2])


def _pence(match: re.Match[str], style: Style) -> str | None:
    if match[1] in _RESOLUTIONS:
        return None
    return f"{cardinal(match[1])} {'penny' if match[1] == '1' else 'pence'}"


def _ticker(match: re.Match[str], style: Style) -> str | None:
    """$AAPL → the letters of a share; but $HOME."""
    return style.letters(match[1]) if not re.search(r"[A-Z]*(?:HOME|PATH|USER)", match[1]) else None


def _lost(match: re.Match[str], style: Style) -> str:
    """$(3.2) million, as accounts write a loss"""
    return f"minus {_amount(match[2], match[3] or match[4], match[1])}"


def _paid(match: re.Match[str], style: Style) -> str:
    """£500pw, $20pp"""
    return f"{_amount(match[2], match[3], match[1])} per {PAID_PER[match[4]]}"


_NOTES = {"1": "ones", "5": "fives", "10": "tens", "20": "twenties", "50": "fifties", "100": "hundreds"}
_MANY = {"10": "tens", "100": "hundreds", "1000": "thousands", "1,000": "thousands"}


def _notes(match: re.Match[str], style: Style) -> str:
    """in $20s, $100s of dollars, $10s of millions"""
    sign, number, large = match.groups()
    if large:
        return f"{_MANY.get(number) or plural(cardinal(number))} of {large} of {CURRENCIES[sign][1]}"
    return _NOTES.get(number) or f"{plural(cardinal(number))} of {CURRENCIES[sign][1]}"


def _grouped(match: re.Match[str], style: Style) -> str:
    """€1 250, 12 500 kr"""
    sign, number, behind = match.groups()
    currency = sign or behind
    return f"{cardinal(number.replace(' ', ''))} {CURRENCIES[currency][1]}"


_COST_AHEAD = re.compile(
    r"\b(?:costs?|for|only|just|pays?|paid|worth|saves?|saved|fell|rose|dropped|gained|up|down)(?:\s(?:by|only|just))?\s\Z"
)
# Codes of diagnoses: ICD-10 code R10.30
_CODED_AHEAD = re.compile(
    r"\b(?:codes?|ICD[\w-]{0,6}|sections?|diagnos[ie]s|rev\.|revision|version):?\s\Z|[A-Z]\d\d\.\d{1,3},?\s(?:(?:and|or)\s)?\Z"
)
_COIN_BEHIND = re.compile(r"\s(?:each|coins?|off|stamps?|pieces?|an?\s|per\s|more|less)|/[a-z]")


def _cents(match: re.Match[str], style: Style) -> str | None:
    """Only 50c each; but wash it at 60c."""
    is_price = before(match, _COST_AHEAD) or _COIN_BEHIND.match(match.string, match.end())
    return f"{cardinal(match[1])} {'cent' if match[1] == '1' else 'cents'}" if is_price else None


RULES: tuple[Rule, ...] = (
    rule("money", rf"([$£€])({NUMBER})\s?([kKmM])?(pppn|pcm|pw|pp|pm|ph|pa|pn)(?!\w)", _paid),
    rule("money", r"([$£€])(\d[\d,]*)s(?!\w)(?:\sof\s(thousands|millions|billions|trillions))?", _notes),
    rule("money", r"([€])\s?(\d{1,3}(?: \d{3}){1,9})()(?![\d.,])", _grouped),
    rule(
        "money",
        rf"\$\s?({NUMBER})(?:\s({LARGE}))?\s(U\.?S\.?\s)?dollars?\b",
        lambda m, s: _spelled(_amount(m[1], m[2], "US$" if m[3] else "$"), s),
    ),
    rule("money", rf"()(\d{{1,3}}(?: \d{{3}}){{1,9}})\s?(€|kr|(?:{_CODE})\b)(?!\w)", _grouped),
    rule(
        "money",
        r"R(\d{1,3}(?:,\d{3})+(?:\.\d\d)?|\d+\.\d\d)(?![\w.])",
        lambda m, s: None if before(m, _CODED_AHEAD) else _amount(m[1], None, "ZAR"),
    ),
    rule(
        "money",
        rf"({_CODE_TOO})\s(\d{{1,3}}(?:,\d{{3}})+(?:\.\d\d)?|\d{{4,}}|\d+\.\d\d)(?![\w.])",
        lambda m, s: _amount(m[2], None, m[1]),
    ),
    rule(
        "money",
        rf"({NUMBER})\s({_CODE_TOO})(?!\w|\s?\d|\s(?!(?:for|to|and|or|in|per|an?|each|at|on|from|of|is|was)\b)[a-z])",
        lambda m, s: _amount(m[1], None, m[2]),
    ),
    rule("money", rf"([$£€])\(({NUMBER})\)(?:\s({LARGE})\b|\s?([kKmMbB]n?)(?!\w))?", _lost),
    rule("money", r"(\d{1,2})/(?=[$£€]\d)", lambda match, style: f"{cardinal(match[1])} for "),
    rule(
        "money",
        rf"({_SIGN}|\$(?:US|NZ|HK|AU|CAN?)(?=\d)|(?:{_CODE})\s?)\s?(-)?({_AMOUNT}){_PART}{_TO}(?:\s?({_CODE})\b)?{_PER}",
        _money,
    ),
    rule(
        "money",
        rf"({_AMOUNT}){_PART}\s?([£€¥₹¢₩₽₿฿₫₪₺₴]|円|(?:{_CODE})\b|zl|Kc|kr(?=[\s,.;:!?)]|\Z)|\$(?!\d)){_PER}",
        _money_behind,
    ),
    rule("money", r"([$£€¥₹])/([a-zA-Z]+)\b", _price),
    rule("money", r"\$([A-Z]{2,5})(?!\w)", _ticker),
    rule("money", rf"({NUMBER})\s(Fr)\.(?!\s?[A-Z])", lambda m, s: _amount(m[1], None, m[2])),
    rule("money", r"(\d+)p\b", _pence),
    rule("money", r"([1-9]\d?)c(?![\w-])", _cents),
)
