"""What several shapes of English need: signs and their readings."""

import re

from common.text.choose import SpokenForm, read_table
from common.text.english.say import TABLES
from common.text.shapes import reading

ALNUM = re.compile(r"[A-Za-z]{0,6}\d[A-Za-z]{0,6}(?!\w)")
SIGN_ROWS: dict[str, list[SpokenForm]] = {}
for _sign, _said, _kind in (([*row, "", ""])[:3] for row in read_table(TABLES / "signs.tsv")):
    SIGN_ROWS.setdefault(_sign, []).append(reading(f"{_kind} s:{_sign}", _said))
