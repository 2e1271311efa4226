import pytest

from common.text.english.say_as import SayAsError, say_as


def test_text_is_said_as_what_it_is():
    cases = [
        ("characters", "", "AB-1", "ay b dash one"),
        ("spell-out", "", "go!", "g o exclamation mark"),
        ("cardinal", "", "-1,205.50", "minus one thousand two hundred five point five zero"),
        ("cardinal", "", "007", "seven"),
        ("cardinal", "", "1,000", "one thousand"),
        ("cardinal", "", "1,000,000", "one million"),
        ("cardinal", "", "12,034", "twelve thousand thirty four"),
        ("cardinal", "", "12 034", "twelve thousand thirty four"),
        ("cardinal", "", "1\u2009000\u00a0000", "one million"),
        ("cardinal", "", "10,00,000", "ten lakh"),
        ("cardinal", "", "-007", "minus seven"),
        ("cardinal", "", "−5", "minus five"),
        ("cardinal", "", "00.5", "zero point five"),
        ("cardinal", "", "000", "zero"),
        ("number", "", "12 034", "twelve thousand thirty four"),
        ("ordinal", "", "1,000", "one thousandth"),
        ("ordinal", "", "1 000th", "one thousandth"),
        ("unit", "", "12,034 km", "twelve thousand thirty four kilometers"),
        ("currency", "", "$1 000", "one thousand dollars"),
        ("fraction", "", "9/4", "nine quarters"),
        ("fraction", "", "-3/2", "minus three halves"),
        ("fraction", "", "22 / 7", "twenty two sevenths"),
        ("fraction", "", "9⁄4", "nine quarters"),
        ("fraction", "", "1/1", "one over one"),
        ("fraction", "", "5+1/2", "five and a half"),
        ("year", "", "1990s", "nineteen nineties"),
        ("ordinal", "", "21st", "twenty first"),
        ("cardinal", "", "VII", "seven"),
        ("ordinal", "", "XIV", "fourteenth"),
        ("fraction", "", "2½", "two and a half"),
        ("digits", "", "20 25", "two zero two five"),
        ("telephone", "", "+1 (800) ABC", "one, eight zero zero, ay b c"),
        ("fraction", "", "2 3/4", "two and three quarters"),
        ("year", "", "1905", "nineteen oh five"),
        ("date", "mdy", "12/31/99", "december thirty first nineteen ninety nine"),
        ("date", "dmy", "5 May 2001", "the fifth of may two thousand one"),
        ("date", "yyyymmdd", "20240105", "january fifth twenty twenty four"),
        ("date", "my", "1/2024", "january twenty twenty four"),
        ("year", "", "476 BC", "four seventy six b c"),
        ("year", "", "44 B.C.E.", "forty four b c e"),
        ("year", "", "AD 79", "ay d seventy nine"),
        ("ordinal", "", "121", "one hundred twenty first"),
        ("year", "", "476", "four seventy six"),
        ("date", "", "1/2", "january second"),
        ("time", "", "10:05", "ten oh five"),
        ("time", "", "7:30 pm", "seven thirty p m"),
        ("duration", "", "2:15:30", "two hours fifteen minutes and thirty seconds"),
        ("measure", "", "5 in", "five inches"),
        ("currency", "", "$5", "five dollars"),
        ("number", "", "1984", "one thousand nine hundred eighty four"),
        ("address", "", "12 Elm St.", None),
        ("time", "", "soon", None),
    ]
    assert [(how, form, text, say_as(text, how, form)) for how, form, text, _ in cases] == cases


@pytest.mark.parametrize(
    ("how", "form", "text", "message"),
    [
        ("song", "", "a", '<say-as interpret-as="song">: expected one of characters, spell-out'),
        ("ordinal", "", "a", "<say-as interpret-as=\"ordinal\">: 'a' is none"),
        ("fraction", "", "1/0", "'1/0' is none"),
        ("fraction", "", "3/4 cup", "'3/4 cup' is none"),
        ("cardinal", "", "12abc", "'12abc' is none"),
        ("cardinal", "", "12-13", "'12-13' is none"),
        ("cardinal", "", "1/2", "'1/2' is none"),
        ("cardinal", "", "1 2", "'1 2' is none"),
        ("cardinal", "", "--5", "'--5' is none"),
        ("ordinal", "", "hello 3rd", "'hello 3rd' is none"),
        ("year", "", "1905-06", "'1905-06' is none"),
        ("date", "mm", "1/2", "expected a date of as many parts as its format"),
        ("date", "d", "32", "'32' in '32' is no day"),
    ],
)
def test_what_cannot_be_said_so_is_named(how, form, text, message):
    with pytest.raises(SayAsError, match=message):
        say_as(text, how, form)


@pytest.mark.parametrize(
    ("how", "text", "said"),
    [("cardinal", "1984", "one thousand nine"), ("year", "1984", "nineteen eighty"), ("date", "3/4", "march fourth"),
     ("fraction", "3/4", "three quarters")],
)  # fmt: skip
def test_the_same_text_is_said_as_each_of_its_kinds(how, text, said):
    assert (say_as(text, how) or "").startswith(said)
