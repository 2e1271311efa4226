import pytest

from common.text.mandarin import phones as mandarin
from tests.data import shared


@pytest.mark.parametrize(
    ("pinyin", "expected"),
    [
        line.split(": ")
        for line in (
            "zhuang1: ZH U ANG 1", "ni3: N I 3", "hao3: H AO 3", "xue2: X VE 2", "yue4: Y VE 4", "lue4: L VE 4",
            "nüe4: N VE 4", "lv4: L V 4", "yuan2: Y V AN 2", "juan1: J V AN 1", "xun2: X VN 2", "yun4: Y VN 4",
            "qu4: Q V 4", "lun2: L UN 2", "luan4: L U AN 4", "jiong3: J I ONG 3", "diu1: D IU 1", "shuo1: SH U O 1",
            "wo3: W O 3", "wu3: W U 3", "yi1: Y I 1", "yong4: Y ONG 4", "you3: Y OU 3", "er2: ^ ER 2", "a5: ^ A 5",
            "ou3: ^ OU 3", "ang2: ^ ANG 2", "n2: N EN 2", "ng2: N EN 2", "r5: ^ ER 5", "gui4: G UI 4",
        )
    ],
)  # fmt: skip
def test_a_syllable_has_an_initial_a_final_and_a_tone(pinyin, expected):
    assert " ".join(mandarin.syllable(pinyin)) == expected


@pytest.mark.parametrize(("pinyin", "message"), [("hao", "expected a syllable of pinyin"), ("blx1", "no syllable")])
def test_what_is_no_syllable_is_named(pinyin, message):
    with pytest.raises(ValueError, match=f"'{pinyin}': {message}"):
        mandarin.syllable(pinyin)


def test_tones_change_beside_others_if_asked_for():
    with_sandhi, without = ([p[-1] for p in mandarin.phones("你好再见", tone_sandhi=on)] for on in (True, False))
    assert with_sandhi == ["2", "3", "4", "4"]
    assert without == ["3", "3", "4", "4"]


def test_a_character_that_pypinyin_does_not_know_has_no_phones():
    assert mandarin.phones("你\U00030000好", tone_sandhi=False)[1] == ()


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "零"), (10, "十"), (12, "十二"), (20, "二十"), (105, "一百零五"), (110, "一百一十"), (1005, "一千零五"),
        (1050, "一千零五十"), (10_010, "一万零一十"), (120_500, "十二万零五百"), (100_000_005, "一亿零五"),
        (1_000_100, "一百万零一百"), (2024, "二千零二十四"),
    ],
)  # fmt: skip
def test_numbers_are_counted(number, said):
    assert mandarin.cardinal(number) == said


def test_every_character_of_the_aishell_excerpt_has_phones():
    transcript = shared("data/mandarin-mini/data_aishell/transcript/aishell_transcript_v0.8.txt")
    lines = [line.split(" ", 1)[1] for line in transcript.read_text(encoding="utf-8").splitlines()]
    allowed = {*mandarin.PHONES, *mandarin.TONES}
    for line in lines:
        phones = mandarin.phones(line, tone_sandhi=True)
        assert len(phones) == len(line)
        assert all(of_one and allowed.issuperset(of_one) for of_one in phones)
