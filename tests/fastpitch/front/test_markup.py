import pytest

from fastpitch.front.markup import MarkupError, MarkupEvent, parse, parse_document, unescaped


def test_tags_and_texts_come_in_order():
    assert parse("a <b x=\"1 &lt; 2\" y='z'>c</b><d/> < e", ("b", "d")) == [
        MarkupEvent("text", "a ", {}),
        MarkupEvent("start", "b", {"x": "1 < 2", "y": "z"}),
        MarkupEvent("text", "c", {}),
        MarkupEvent("end", "b", {}),
        MarkupEvent("start", "d", {}),
        MarkupEvent("end", "d", {}),
        MarkupEvent("text", " < e", {}),
    ]


def test_entities_are_replaced_once():
    assert unescaped("&amp;lt; &#x41;&#66; &unknown; & &copy") == "&lt; AB &unknown; & &copy"


@pytest.mark.parametrize(
    ("text", "message"),
    [
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


def test_a_document_has_the_events_of_text_and_none_of_its_declarations():
    inside = "<b x=\"1 &lt; 2\" y='z'>c &#233;<d/><![CDATA[<e> &]]><!-- f --></b>"
    declared = (
        '<?xml version="1.0" encoding="UTF-16"?>\n<!DOCTYPE b PUBLIC "-//W3C//DTD" "http://x/y" [<!ELEMENT b ANY> '
    )
    for before in ("", "\ufeff", f'{declared}<!ATTLIST b z CDATA "w">]>\n'):
        assert parse_document(before + inside) == [
            MarkupEvent("start", "b", {"x": "1 < 2", "y": "z"}),
            MarkupEvent("text", "c é", {}),
            MarkupEvent("start", "d", {}),
            MarkupEvent("end", "d", {}),
            MarkupEvent("text", "<e> &", {}),
            MarkupEvent("end", "b", {}),
        ]


LAUGHS = '<!DOCTYPE b [<!ENTITY a "ha"><!ENTITY c "&a;&a;&a;&a;&a;&a;&a;&a;">]><b>&c;</b>'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAUGHS, "<!ENTITY a>: entities are not expanded here; write what it stands for"),
        ('<!DOCTYPE b [<!ENTITY x SYSTEM "file:///etc/passwd">]><b>&x;</b>', "<!ENTITY x>: entities are not expanded"),
        ('<!DOCTYPE b [<!ENTITY % x SYSTEM "http://x/">%x;]><b/>', "<!ENTITY x>: entities are not expanded"),
        ('<!DOCTYPE b SYSTEM "http://x/y.dtd"><b>&eacute;</b>', "broken markup: undefined entity near"),
        ("<!DOCTYPE b SYSTEM 'http://x/y.dtd'><b x='&eacute;'/>", "broken markup: undefined entity near"),
        ("<b>R&D</b>", "broken markup: not well-formed .invalid token. near '<b>R&D</b>'; .* & is &amp; and < is &lt;"),
        ("<b>", "broken markup: no element found"),
        ("<b></b><b/>", "broken markup: junk after document element near '<b></b><b/>'"),
        ("<b x='1' x='2'/>", "broken markup: duplicate attribute"),
        ("<b>\x00</b>", "broken markup: not well-formed"),
        ("<b>\ud800</b>", "broken markup: not well-formed"),
        ("<b>" * 99, "broken markup: tags nested more than 64 deep"),
    ],
)
def test_a_document_that_is_not_well_formed_or_asks_for_more_than_itself_is_refused(text, message):
    with pytest.raises(MarkupError, match=message) as caught:
        parse_document(text)
    assert "\n" not in str(caught.value)
