import pytest

from fastpitch.front.markup import Event, MarkupError, parse, unescaped


def test_tags_and_texts_come_in_order():
    assert parse("a <b x=\"1 &lt; 2\" y='z'>c</b><d/> < e", ("b", "d")) == [
        Event("text", "a ", {}),
        Event("start", "b", {"x": "1 < 2", "y": "z"}),
        Event("text", "c", {}),
        Event("end", "b", {}),
        Event("start", "d", {}),
        Event("end", "d", {}),
        Event("text", " < e", {}),
    ]


def test_entities_are_replaced_once():
    assert unescaped("&amp;lt; &#x41;&#66; &unknown; & &copy") == "&lt; AB &unknown; & &copy"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<c>", "<c>: no tag that can be followed; known: b, d"),
        ("<b><d></b></d>", "broken markup: mismatched tag near '<b><d></b></d>'"),
        ("</b>", "broken markup: mismatched tag"),
        ("<b><d>", "broken markup: <d> without its end near '<b><d>'"),
        ("<b x>", "broken markup: not well-formed near '<b x>'"),
        ("<b x='1' x='2'/>", "broken markup: <b> has x twice"),
        ("<![CDATA[ a", r"broken markup: <!\[CDATA\[ without \]\]>"),
        ("<b>" * 99, "broken markup: tags nested more than 64 deep"),
    ],
)
def test_broken_markup_is_shown(text, message):
    with pytest.raises(MarkupError, match=message):
        parse(text, ("b", "d"))
