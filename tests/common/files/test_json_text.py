import math

import pytest

from common.files.json_text import parsed


def test_text_and_bytes_are_read():
    assert parsed('{"a": [1, null]}') == parsed(b'{"a": [1, null]}') == {"a": [1, None]}


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "9" * 5000, "{", b"\xff"])
def test_what_is_no_json_is_a_value_error_however_deep(text):
    with pytest.raises(ValueError, match=r"nested too deeply|digits|Expecting|codec|delimiter"):
        parsed(text)


def test_every_integer_that_is_read_has_a_float():
    assert math.isfinite(float(parsed(f"[{'9' * 308}, -{'9' * 308}]")[1]))
    for digits in ("1" + "0" * 308, "-1" + "0" * 308):
        with pytest.raises(ValueError, match="^an integer of 3(09|10) digits: expected at most 308$"):
            parsed(f'{{"score": {digits}}}')
