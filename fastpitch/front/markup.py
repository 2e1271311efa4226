"""Marked-up text as a list of tags and texts, in one pass from left to right, with a limit to nesting.

A document is XML, and read strictly: nothing outside of it is opened, and no entities of its own are expanded. In any
other text a `<` that begins no tag and a `&` that begins no entity stand for themselves, as people write them. Time
grows linearly with the length of the text, whatever it holds.
"""

import html
import re
from collections.abc import Collection
from typing import Any, Literal, NamedTuple, NoReturn
from xml.parsers import expat

MAX_DEPTH = 64


class MarkupError(ValueError):
    """Markup that is broken, in one line that shows the place."""


class MarkupEvent(NamedTuple):
    """A text, the beginning of a tag with its attributes, or its end."""

    kind: Literal["text", "start", "end"]
    value: str
    attributes: dict[str, str]


_NAME = r"[A-Za-z][\w:.-]*+"
_TAG = re.compile(
    rf"<(/?)({_NAME})((?:\s++[\w:.-]++\s*+=\s*+(?:\"[^\"<]*+\"|'[^'<]*+'))*+)\s*+(/?)>"
)  # possessive: what is no tag is found out without trying again
_ATTRIBUTE = re.compile(r"([\w:.-]++)\s*+=\s*+(?:\"([^\"<]*+)\"|'([^'<]*+)')")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_BEGUN = re.compile(rf"</?({_NAME})(?=[\s/>])")
_CDATA = "<![CDATA["
_SPECIAL = (("<!--", "-->"), (_CDATA, "]]>"))
_DECLARATION = re.compile(r"\ufeff?\s*(?:<\?xml\s[^<>]*\?>)?")
_STANDALONE = b'<?xml version="1.0" standalone="yes"?>'  # so that every entity that is not declared is an error
_HINT = "every <tag> needs its </tag>, and <break/> its slash"


def unescaped(text: str) -> str:
    """`text` with its entities replaced: AT&amp;T → AT&T, &#233; → é; other & stand for themselves."""
    return _ENTITY.sub(lambda entity: html.unescape(entity[0]), text) if "&" in text else text


def parse_document(text: str) -> list[MarkupEvent]:
    """The tags and texts of an XML document, in order. Raises MarkupError for what is not well-formed.

    What a DOCTYPE names outside of the document is not opened, and entities that it declares are refused: neither can a
    document read files, nor grow to more than its length.
    """
    events: list[MarkupEvent] = []
    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise MarkupError(f"broken markup: tags nested more than {MAX_DEPTH} deep near {near(parser)}")
        events.append(MarkupEvent("start", name, attributes))

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        events.append(MarkupEvent("end", name, {}))

    def declared(name: str, *_: Any) -> NoReturn:
        raise MarkupError(
            f"<!ENTITY {name[:40]}>: entities are not expanded here; write what it stands for in its place"
        )

    def near(parser: expat.XMLParserType) -> str:
        at = parser.CurrentByteIndex - len(_STANDALONE)
        around = content[max(0, at - 20) : max(0, at) + 20]
        return repr(" ".join(around.decode("utf-8", "ignore").split()))

    content = text[_DECLARATION.match(text).end() :].encode("utf-8", "surrogatepass")  # type: ignore[union-attr]
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = parser.specified_attributes = True
    parser.StartElementHandler, parser.EndElementHandler, parser.EntityDeclHandler = start, end, declared
    parser.CharacterDataHandler = lambda said: events.append(MarkupEvent("text", said, {}))
    try:
        parser.Parse(_STANDALONE + content, True)
    except expat.ExpatError as error:
        found = expat.ErrorString(error.code)
        raise MarkupError(f"broken markup: {found} near {near(parser)}; {_HINT}; & is &amp; and < is &lt;") from None
    return events


def parse(text: str, known: Collection[str]) -> list[MarkupEvent]:
    """The tags and texts of `text`, in order; tags that are not nested properly are MarkupError.

    So are beginnings of tags of `known` that are none.
    """
    events: list[MarkupEvent] = []
    open_tags: list[str] = []
    position = begun = 0  # text is read up to `position`; what waits to be a text began at `begun`

    def say(stop: int) -> None:
        if stop > begun:
            events.append(MarkupEvent("text", unescaped(text[begun:stop]), {}))

    while (position := text.find("<", position)) >= 0:
        if special := next((pair for pair in _SPECIAL if text.startswith(pair[0], position)), None):
            opening, closing = special
            stop = text.find(closing, position + len(opening))
            if stop < 0:
                raise MarkupError(f"broken markup: {opening} without {closing} near {_near(text, position)}")
            say(position)
            if opening == _CDATA:
                events.append(MarkupEvent("text", text[position + len(opening) : stop], {}))
            position = begun = stop + len(closing)
        else:
            if not (tag := _TAG.match(text, position)):
                attempt = _BEGUN.match(text, position)
                if attempt and attempt[1] in known:
                    raise MarkupError(f"broken markup: not well-formed near {_near(text, position)}; {_HINT}")
                position += 1
                continue
            say(position)
            events += _tag(tag, open_tags)
            position = begun = tag.end()
    say(len(text))
    if open_tags:
        end = text.rstrip()[-20:]
        raise MarkupError(f"broken markup: <{open_tags[-1]}> without its end near {end!r}; {_HINT}")
    return events


def _tag(tag: re.Match[str], open_tags: list[str]) -> list[MarkupEvent]:
    """The events of a tag, which is entered into the open ones or taken from them."""
    closes, name, written, is_empty = tag.groups()
    if closes:
        if written or is_empty or not open_tags or open_tags[-1] != name:
            raise MarkupError(f"broken markup: mismatched tag near {_near(tag.string, tag.start())}; {_HINT}")
        open_tags.pop()
        return [MarkupEvent("end", name, {})]
    attributes: dict[str, str] = {}
    for attribute in _ATTRIBUTE.finditer(written):
        if attribute[1] in attributes:
            raise MarkupError(f"broken markup: <{name}> has {attribute[1]} twice near {_near(tag.string, tag.start())}")
        attributes[attribute[1]] = unescaped(attribute[2] if attribute[2] is not None else attribute[3])
    if is_empty:
        return [MarkupEvent("start", name, attributes), MarkupEvent("end", name, {})]
    open_tags.append(name)
    if len(open_tags) > MAX_DEPTH:
        raise MarkupError(
            f"broken markup: tags nested more than {MAX_DEPTH} deep near {_near(tag.string, tag.start())}"
        )
    return [MarkupEvent("start", name, attributes)]


def _near(text: str, position: int) -> str:
    return repr(" ".join(text[max(0, position - 20) : position + 20].split()))
