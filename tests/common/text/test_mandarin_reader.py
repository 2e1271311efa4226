import pytest

from common.text.mandarin_reader import mandarin_tokens, spoken_mandarin


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("2024年，有3个人", "二零二四年，有三个人"),
        ("50%的人", "百分之五十的人"),
        ("−5度", "负五度"),
        ("他跑了3.14公里", "他跑了三点一四公里"),
        ("电话13800138000。", "电话一三八零零一三八零零零。"),
        ("１２个", "十二个"),
        ("120,500人", "十二万零五百人"),
        ("007号", "零零七号"),
        ("GPT4很好", "GPT4很好"),
        ("3 apples", "3 apples"),
        ("你…好——吗～", "你。好，，吗，"),
        ("时间：好；", "时间：好；"),
        ("5-6个人", "五到六个人"),
        ("1998-2003年", "一九九八到二零零三年"),
        ("2008年-2012年", "二零零八到二零一二年"),
        ("第3章到第12章", "第三章到第十二章"),
        ("他在15:30到。", "他在十五点三十分到。"),
        ("会议9:05开始", "会议九点零五分开始"),
        ("花了$5.50。", "花了五点五美元。"),
        ("价格€3万", "价格三万欧元"),
        ("1/2的人", "二分之一的人"),
        ("COVID-19疫情", "COVID-19疫情"),
        ("2024-01-05发布", "二零二四年一月五日发布"),
        ("50%-60%的人", "百分之五十到百分之六十的人"),
        ("气温-5℃", "气温零下五摄氏度"),
        ("重5kg，长3-4m", "重五千克，长三到四米"),
        ("2个人，第2章", "两个人，第二章"),
        ("比分3:1", "比分三比一"),
        ("以3-1获胜", "以三比一获胜"),
        ("电话010-12345678", "电话零一零一二三四五六七八"),
        ("算3+2=5", "算三加二等于五"),
        ("20世纪90年代", "二十世纪九十年代"),
        ("Version 2.0, 3 apples. 好", "Version 2.0, 3 apples. 好"),
    ],
)
def test_numbers_beside_chinese_are_said_in_chinese(printed, said):
    assert spoken_mandarin(printed) == said


def test_tokens_have_classes_and_lose_no_character():
    found = mandarin_tokens("我有5-6个iPhone 15")
    assert [(t.written, t.kind) for t in found if t.spoken] == [("5-6", "range")]
    assert "".join(token.written for token in found) == "我有5-6个iPhone 15"
