"""Mandarin as it is spoken: numbers, dates, times, money, measures and ranges in Chinese words.

The design is that of `common.text.english`: one pass from left to right, in which each piece of a text is classified
once, by what it is and what stands beside it, and each class has its reading. What stands beside English is left to it.
"""

import re
import string
from collections.abc import Callable, Iterator
from typing import NamedTuple

from common.text.english.style import anywhere, text_before
from common.text.mandarin import HAN, PUNCTUATION, cardinal, digits
from common.text.token import Token

_VARIANTS = str.maketrans(
    {"…": "。", "—": "，", "～": "，", "·": " ", "『": "「", "』": "」", "−": "-", "　": " ", "％": "%", "．": "."}
    | {chr(ord(plain) + 0xFEE0): plain for plain in string.digits + string.ascii_letters}
    | {"￥": "¥", "＄": "$", "－": "-"}
)


def spoken_mandarin(text: str) -> str:
    """`text` with what stands beside Chinese characters in Chinese words, and its punctuation in one form.

    2024年 → 二零二四年, 3个 → 三个, 50%的 → 百分之五十的, −5度 → 负五度, 5-6个人 → 五到六个人.
    """
    return "".join(token.written if token.spoken is None else token.spoken for token in mandarin_tokens(text))


def mandarin_tokens(text: str) -> list[Token]:
    """All of `text` in tokens, in its order; what is written is of the same length as it was given."""
    return list(_tokens(_in_one_form(text)))


def _in_one_form(text: str) -> str:
    text = re.sub(r"(?<=\d)[～~—–](?=[\d¥$€£])", "-", text)  # a range, not a pause
    if _ELECTRONIC.search(text) and _BESIDE.search(text):
        text = _ELECTRONIC.sub(lambda address: address[0].replace(".", "点"), text)
    return text.translate(_VARIANTS)


_ELECTRONIC = re.compile(
    r"(?<![\w.])(?:[\w-]{1,60}@)?(?:[A-Za-z\d-]{1,60}\.){1,5}(?:com|cn|net|org|edu|gov|io|tv|cc|me|info)(?![\w.-])",
    re.ASCII,
)


# ---------------------------------------------------------------------------------------------------------------------
# Numbers

_VALUE = r"\d+(?:,\d{3})*(?:\.\d+)?(?![\d])"
_LARGE = "[万亿千百]+"
_LONGEST_COUNTED = 8  # digits; longer numbers without commas are those of telephones and accounts


def _number(value: str) -> str:
    """A number as it is counted, or digit by digit where it is a code."""
    whole, _, decimals = value.partition(".")
    is_long = len(whole) > (12 if "," in whole else _LONGEST_COUNTED)
    whole = whole.replace(",", "")
    words = digits(whole) if is_long or (len(whole) > 1 and whole.startswith("0")) else cardinal(int(whole))
    return words + ("点" + digits(decimals) if decimals else "")


def _amount(value: str) -> str:
    """As `_number`, without zeros at the end of the decimals, as prices have them."""
    return _number(value.rstrip("0").rstrip(".") if "." in value else value)


# Words that count, before which 2 is 两.
_COUNTED = (
    "个|只|条|张|本|位|名|次|天|周|年(?!级|代)|岁|小时|分钟|秒|种|家|件|辆|块|倍|句|首|封|杯|瓶|台|套|双|对|棵"
    "|斤|公斤|公里|米|吨|元|万|千|亿|点(?!\\d)|片|粒|颗|碗|盒|包|袋|箱|串|根|支|枝|朵|头|匹|群|间|页|项|份|幅|届|场|部|篇|款|滴|勺|步|站|趟|遍|顿|口|人|户|所|艘|架|扇|面|餐|克|升|星期|个月|夜|晚"
)
# Before these, a number is a code, and so it is in front of those.
_CODE_AHEAD = re.compile(
    r"(?:(?:邮编|邮政编码|车牌号?|号码|账号|密码|验证码|编号|学号|工号|房号|尾号|[Qq]{2}号?|微信号?|ID|电话|热线)(?:码|号)?"
    r"(?:是|为|：|:)?|拨打?|致电|打)\s?\Z"
)
_CODE_BEHIND = re.compile(r"\s?(?:路(?:公交|车)|国道|高校|工程|晚会|航班|次(?:列车|航班|高铁)|房间|教室|病房)")
_SHORT_YEAR_AHEAD = re.compile(r"(?:是|在|从|于|到|自|截至)\s?\Z")
_SHORT_YEAR_BEHIND = re.compile(r"(?:毕业|出生|入学|建成|的?时候|[春夏秋冬初底末]|至今|以[来后前])")
_WON = re.compile(
    r"(?:[、，,和]\s?\d+:\d+){0,6}\s?(?:获胜|战胜|击败|大胜|险胜|取胜|胜(?!任|地|诉|利)|赢|领先|落后|逼平|战平|不敌|负于|拿下"
    r"|[平负](?=了|[，。！？；、\s]|\Z))"
)
# ---------------------------------------------------------------------------------------------------------------------
# Classes

_CURRENCIES = {"¥": "元", "$": "美元", "€": "欧元", "£": "英镑"}
_UNITS = {
    "km/h": "千米每小时", "m/s": "米每秒",
    "μg/m³": "微克每立方米", "µg/m³": "微克每立方米", "mg/m³": "毫克每立方米", "μg": "微克",
    "mg/L": "毫克每升", "kWh": "千瓦时", "dB": "分贝", "mmHg": "毫米汞柱", "kcal": "千卡", "rpm": "转每分",
    "km²": "平方千米", "m²": "平方米", "m2": "平方米", "m³": "立方米",
    "m3": "立方米",
    "km": "千米", "cm": "厘米", "mm": "毫米", "m": "米", "kg": "千克", "mg": "毫克", "g": "克", "ml": "毫升",
    "mL": "毫升",
    "L": "升", "kW": "千瓦", "W": "瓦", "V": "伏", "Hz": "赫兹", "kHz": "千赫", "MHz": "兆赫", "GHz": "吉赫",
    "GB": "吉字节",
    "MB": "兆字节", "TB": "太字节", "h": "小时", "min": "分钟", "s": "秒", "℃": "摄氏度", "㎡": "平方米",
    "㎞": "千米", "㎏": "千克", "㎝": "厘米", "㎜": "毫米", "°C": "摄氏度", "℉": "华氏度",
    "°F": "华氏度", "°": "度", "%": "%", "‰": "‰",
}  # fmt: skip
_UNIT = "|".join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True))
_BEAT = "战胜|击败|大胜|险胜|获胜|取胜|逼平|不敌|负于"
_SCORE = re.compile(
    rf"(?:比分(?:[是为：:]|定格在|来到|变成|变为|达到?|锁定在)?|(?:{_BEAT})(?:[^。，！？\d]{{1,8}}队)?)(?:\s?\d+:\d+[、，,和]){{0,6}}\s?\Z"
)


def _year_first(match: re.Match[str]) -> str | None:
    in_year, month, day = match[1], int(match[3]), int(match[4])
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        return None
    return f"{digits(in_year)}年{cardinal(month)}月{cardinal(day)}日"


def _years(match: re.Match[str]) -> str:
    first, last, suffix = match[1], match[2], match[3]
    return digits(first) + (f"到{digits(last)}" if last else "") + suffix


def _short_year(match: re.Match[str]) -> str | None:
    """98年毕业 is 1998; 98年 alone is how long it took."""
    is_year = _SHORT_YEAR_AHEAD.search(text_before(match)) or _SHORT_YEAR_BEHIND.match(match.string, match.end())
    return f"{digits(match[1])}年" if is_year else None


_LASTED = re.compile(r"(?:跑了|用时|耗时|时长|成绩(?:是|为)?|花了|用了|共计|历时)\s?\Z")


def _length(match: re.Match[str]) -> str | None:
    """他跑了2:05:30: how long, not when."""
    hours, minutes, seconds = (int(part) for part in match.groups())
    if not _LASTED.search(text_before(match)) or minutes > 59 or seconds > 59:
        return None
    return f"{'两' if hours == 2 else cardinal(hours)}小时{cardinal(minutes)}分{cardinal(seconds)}秒"


def _large_range(match: re.Match[str]) -> str:
    """5万-8万元"""
    first, first_large, last, last_large = match.groups()
    return f"{_counted(first, first_large)}{first_large}到{_counted(last, last_large)}{last_large}"


def _feast(match: re.Match[str]) -> str | None:
    """3/8妇女节"""
    month, day = int(match[1]), int(match[2])
    return f"{cardinal(month)}月{cardinal(day)}日" if 1 <= month <= 12 and 1 <= day <= 31 else None


_DATED = re.compile(
    r"(?:定[于在]|改[到至]|推迟到|提前到|开始于|日期|日子|截止|期限|生日|时间|截至)(?:是|为|：|:|到|在)?\s?\Z"
)


def _day(match: re.Match[str]) -> str | None:
    """截止日期是12/31"""
    return _feast(match) if _DATED.search(text_before(match)) else None


_MEASURED_BLOOD = re.compile(r"(?:血压|高压|低压)[^\d，。]{0,6}\Z")


def _pressure(match: re.Match[str]) -> str | None:
    """血压120/80"""
    is_pressure = _MEASURED_BLOOD.search(text_before(match))
    return f"{_number(match[1])}，{_number(match[2])}" if is_pressure else None


def _each(match: re.Match[str]) -> str:
    """50元/人"""
    return f"{_amount(match[1])}{match[2] or ''}{match[3]}每"


def _clocks(match: re.Match[str]) -> str | None:
    first, last = _said_clock(match[1], match[2], None), _said_clock(match[3], match[4], None)
    return f"{first}到{last}" if first and last else None


def _clock(match: re.Match[str]) -> str | None:
    return _said_clock(match[1], match[2], match[3])


def _said_clock(hour: str, minute: str, seconds: str | None) -> str | None:
    hours, minutes = int(hour), int(minute)
    if hours > 24 or minutes > 59 or (seconds and int(seconds) > 59):
        return None
    said = ("两" if hours == 2 else cardinal(hours)) + "点"
    if minutes or seconds:
        said += ("零" if 0 < minutes < 10 else "") + cardinal(minutes) + "分"
    return said + (("零" if int(seconds) < 10 else "") + cardinal(int(seconds)) + "秒" if seconds else "")


def _money(match: re.Match[str]) -> str:
    sign, first, last, large = match[1], match[2], match[3], match[4] or ""
    said = _amount(first) + (f"到{_amount(last)}" if last else "")
    return f"{said}{large}{_CURRENCIES[sign]}"


def _measure(match: re.Match[str]) -> str | None:
    first, last, unit = match[2], match[4], match[5]
    first_unit = match[3]
    if first_unit and first_unit != unit:
        return None
    is_degree = unit in ("℃", "°C", "℉", "°F")
    sign = ("零下" if is_degree else "负") if match[1] else ""
    if unit in ("%", "‰"):
        of = "百分之" if unit == "%" else "千分之"
        return f"{sign}{of}{_number(first)}" + (f"到{of}{_number(last)}" if last else "")
    said = f"{sign}{_number(first)}" + (f"到{_number(last)}" if last else "")
    return said + _UNITS[unit]


def _range(match: re.Match[str]) -> str:
    first, last = match[1], match[2]
    if _SCORE.search(text_before(match)) or _WON.match(match.string, match.end()):
        return f"{_number(first)}比{_number(last)}"
    return f"{_number(first)}到{_counted(last, match.string[match.end() : match.end() + 9])}"


def _counted(value: str, behind: str) -> str:
    return "两" if value == "2" and re.match(rf"\s?(?:{_COUNTED})", behind) else _number(value)


def _fraction(match: re.Match[str]) -> str | None:
    top, bottom = int(match[1]), int(match[2])
    return f"{cardinal(bottom)}分之{cardinal(top)}" if bottom else None


def _calculation(match: re.Match[str]) -> str:
    signs = {"+": "加", "-": "减", "×": "乘以", "*": "乘以", "÷": "除以", "/": "除以", "=": "等于"}
    return "".join(
        signs[part] if part in signs else _number(part) for part in re.findall(rf"{_VALUE}|[^\s\d]", match[0])
    )


_COMPARISONS = {
    "<": "小于",
    ">": "大于",
    "≤": "小于等于",
    "≥": "大于等于",
    "≠": "不等于",
    "<=": "小于等于",
    ">=": "大于等于",
}


def _compared(match: re.Match[str]) -> str | None:
    """气温>30度, 5<8; a tag or an arrow is none"""
    is_arrow = text_before(match)[-1:] in ("-", "=", "<", "")
    return None if is_arrow else _COMPARISONS[match[0].strip()]


def _code(match: re.Match[str]) -> str | None:
    is_code = _CODE_AHEAD.search(text_before(match)) or _CODE_BEHIND.match(match.string, match.end())
    return digits(match[0]) if is_code else None


def _with_letters(match: re.Match[str]) -> str:
    """A4 → A四; G102 → G一零二; PM2.5 → PM二点五"""
    letters, number = match[1], match[2]
    if number.count(".") > 1:
        return letters + "点".join(map(_number, number.split(".")))
    return letters + (digits(number) if number.isdigit() and len(number) > 2 else _number(number))


def _score(match: re.Match[str]) -> str | None:
    """比分是21:19"""
    is_score = _SCORE.search(text_before(match)) or _WON.match(match.string, match.end())
    return f"{_number(match[1])}比{_number(match[2])}" if is_score else None


_MARKED = re.compile(r"(?:评分|打分|得分|分数|评价|豆瓣|口碑)(?:为|是|：|:)?\s?\Z")


def _marks(match: re.Match[str]) -> str | None:
    """评分9.2/10"""
    return _number(match[1]) if _MARKED.search(text_before(match)) else None


_PAID = re.compile(r"(?:薪|工资|投资|资金|收入|奖金|粉丝|房租|预算)[^\d。，！？]{0,4}\Z")
_PAID_BEHIND = re.compile(r"\s?(?:元|块|美元|美金|欧元|人民币|个?粉丝|的?(?:[月年底起]薪|薪|工资))")


def _thousands(match: re.Match[str]) -> str | None:
    """月薪8k-12k; but 4K画面"""
    is_paid = match[2] or _PAID.search(text_before(match)) or _PAID_BEHIND.match(match.string, match.end())
    said = [cardinal(round(float(value.replace(",", "")) * 1000)) for value in match.groups() if value]
    return "到".join(said) if is_paid else None


_ROOM_AHEAD = re.compile(r"(?:单元|[座栋幢楼层])\s?\Z|房间号?[：:为是]?\s?\Z")


def _room(match: re.Match[str]) -> str | None:
    """3单元502室, 房间号：806"""
    return digits(match[0]) if _ROOM_AHEAD.search(text_before(match)) else None


def _plain(match: re.Match[str]) -> str:
    said = (
        _number(match[2])
        if match.string.endswith("第", 0, match.start(2))
        else _counted(match[2], match.string[match.end() : match.end() + 9])
    )
    sign = "到" if match[1] and _PLACED.search(text_before(match)) else "负" if match[1] else ""  # 5月1日-5日
    return sign + said


_PLACED = re.compile(r"\d\s?[日月号年点分时周楼层元]\Z")


class _Rule(NamedTuple):
    """A class of tokens: what they look like, and their reading, which may be None: then they are of another class."""

    kind: str
    pattern: re.Pattern[str]
    reading: Callable[[re.Match[str]], str | None]


_SEEN = "(?:电视|视频|屏|显示|分辨率|画质|高清|超清|影|直播|投影|摄)"  # 4K is a resolution there
_SOLD = "人天月年晚小时次斤公件个位张台份平间夜瓶盒米吨"
_RULES = tuple(
    _Rule(kind, re.compile(pattern), reading)
    for kind, pattern, reading in (
        ("date", r"(\d{1,2})/(\d{1,2})(?=[^\d/，。、的\s]{0,3}节)", _feast),
        ("date", r"(\d{1,2})/(\d{1,2})(?![\d/])", _day),
        ("pressure", r"(\d{2,3})/(\d{2,3})(?![\d/])", _pressure),
        ("money", rf"({_VALUE})({_LARGE})?(元|块|美元|欧元|英镑)/(?=[{_SOLD}])", _each),
        ("date", r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?!\d)", _year_first),
        ("year", r"(\d{4})年?\s?[-至到]\s?(\d{4})(\s?年)", _years),
        ("year", r"(?<=[（(])(\d{4})\s?-\s?(\d{4})()(?=[）)])", _years),
        ("year", r"(\d{4})()(\s?年(?!的?(?:历史|时间|以上|之久)))", _years),
        ("year", r"(\d{2})年(?!代|级|的?(?:历史|时间|以上|之久))", _short_year),
        ("year", r"(\d[05])后(?=[^来面天边的]|的?(?:青年|年轻|一代)|\Z)", lambda match: f"{digits(match[1])}后"),
        ("version", r"\d+(?:\.\d+){2,}", lambda match: "点".join(map(_number, match[0].split(".")))),
        ("score", r"(\d{1,3}):(\d{1,3})(?![\d:.])", _score),
        ("time", r"(\d{1,2}):(\d{2}):(\d{2})(?![\d:])", _length),
        ("range", rf"({_VALUE})({_LARGE})\s?-\s?({_VALUE})({_LARGE})", _large_range),
        ("time", r"(\d{1,2}):(\d{2})\s?-\s?(\d{1,2}):(\d{2})(?![\d:])", _clocks),
        ("time", r"(\d{1,2}):(\d{2})(?::(\d{2}))?(?![\d:])", _clock),
        ("code", r"\d{3,}(?![\d.,:-])", _code),
        ("code", r"\d{3,4}(?=\s?[室号房]?(?:[，。,\s]|\Z))", _room),
        ("ratio", r"(\d+(?:\.\d+)?):(\d+(?:\.\d+)?)(?!\d)", lambda match: f"{_number(match[1])}比{_number(match[2])}"),
        ("range", r"([1-9]\d{0,2}0{2,6})-([1-9]\d{0,2}0{2,6})(?=\s?[元块万千人个名米件])", _range),
        ("code", r"1\d{4}(?=(?:客服)?热线)|9\d{4}(?=(?:客服)?热线)", lambda match: digits(match[0])),
        ("telephone", r"(\d{3,4}(?:-\d{3,4})?-\d{4,8})(?!\d)", lambda match: digits(re.sub(r"\D", "", match[1]))),
        ("money", rf"([¥$€£])\s?({_VALUE})(?:\s?-\s?[¥$€£]?({_VALUE}))?({_LARGE})?", _money),
        ("math", rf"{_VALUE}(?:\s?[-+×÷*/]\s?{_VALUE}){{1,20}}\s?=(?:\s?-?{_VALUE})?", _calculation),
        ("math", rf"{_VALUE}(?:\s?[+×÷*]\s?{_VALUE}){{1,20}}", _calculation),
        ("math", r"(?:[<>]=?|[≤≥≠])\s?(?=[-¥$€£]?\d)", _compared),
        ("measure", rf"(-)?({_VALUE})\s?(?:({_UNIT})?\s?-\s?({_VALUE})\s?)?({_UNIT})(?![A-Za-z])", _measure),
        ("magnitude", rf"({_VALUE})[kK](?:\s?-\s?({_VALUE})[kK])?(?![A-Za-z])(?!\s?{_SEEN})", _thousands),
        ("range", rf"({_VALUE})\s?-\s?({_VALUE})", _range),
        ("marks", rf"({_VALUE})/(5|10|100)(?![\d/])", _marks),
        ("fraction", r"(\d+)/(\d+)(?![\d/])", _fraction),
        ("name", r"(\d{1,2})([A-Z]{1,2})(?![A-Za-z\d])", lambda match: _number(match[1]) + match[2]),
        ("number", rf"(-)?({_VALUE})", _plain),
    )
)  # fmt: skip
_BESIDE = re.compile(rf"[{HAN}{PUNCTUATION}]")
_HAN = re.compile(f"[{HAN}]")
_LATIN = frozenset(string.ascii_letters)
_LETTER = re.compile(r"[^\W\d_]")
_NEAR = 200  # characters
_PASSED_OVER = " \t\n,.;:!?()\"'-/%°℃<>≤≥≠0123456789"
_NAME = _Rule("name", re.compile(r"([A-Za-z]{1,12})(\d+(?:\.\d+)*)(?![A-Za-z\d])"), _with_letters)
_NAMED = rf"(?<![A-Za-z\d-])(?:[A-Za-z]{{1,2}}(?=\d)|[A-Za-z]{{2,11}}[a-z](?=\d{{1,4}}[{HAN}]))"  # A4, Win10系统
_BEGINS = re.compile(rf"[\d¥$€£<>≤≥≠-]|{_NAMED}")
_GAP = re.compile(rf"(?:(?!{_NAMED})[^\d¥$€£<>≤≥≠-])+|.", re.DOTALL)


def _tokens(text: str) -> Iterator[Token]:
    position = 0
    has_chinese = bool(_BESIDE.search(text)) or not re.search(r"[^\W\d_]", text)
    while position < len(text):
        token = _classified(text, position) if has_chinese and _BEGINS.match(text, position) else None
        if token is None:
            gap = _GAP.match(text, position)
            token = Token(gap[0] if gap else text[position], "text", None)
        position += len(token.written)
        yield token


def _classified(text: str, position: int) -> Token | None:
    is_compared = text[position] in "<>≤≥≠"
    if not is_compared and re.search(r"(?:[A-Za-z\d]|[A-Za-z]-|\d\.)\Z", text[max(0, position - 2) : position]):
        return None  # COVID-19, GPT4
    for kind, pattern, reading in _RULES if text[position] not in string.ascii_letters else (_NAME,):
        match = pattern.match(text, position)
        if not match or (text[match.end() : match.end() + 1] in _LATIN and not _HAN.search(match[0][-1])):
            continue
        if not _stands_beside_chinese(text, match):
            return None
        if (said := reading(match)) is not None:
            return Token(match[0], kind, said)
    return None


def _stands_beside_chinese(text: str, match: re.Match[str]) -> bool:
    """Whether the nearest letter behind or ahead is Chinese, or one within."""
    if not anywhere(text, _LETTER):
        return True
    ahead = text[max(0, match.start() - _NEAR) : match.start()].rstrip(_PASSED_OVER)[-1:]
    behind = text[match.end() : match.end() + _NEAR].lstrip(_PASSED_OVER)[:1]
    return any(map(_BESIDE.search, (ahead, match[0], behind)))
