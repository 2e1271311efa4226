"""Marked-up text as a list of tags and texts, in one pass from left to right, with a limit to nesting.

The tags are those of one vocabulary; a `<` that begins no tag and a `&` that begins no entity stand for themselves, as
people write them. Time grows linearly with the length of the text, whatever it holds.
"""

import difflib
import html
import re
from collections.abc import Collection
from typing import Literal, NamedTuple

MAX_DEPTH = 64


class MarkupError(ValueError):
    """Markup that is broken, in one line that shows the place."""


class Event(NamedTuple):
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
_SPECIAL = (("<!--", "-->"), (_CDATA, "]]>"), ("<?xml", "?>"), ("<!DOCTYPE", ">"))
_HINT = "every <tag> needs its </tag>, and <break/> its slash"


def unescaped(text: str) -> str:
    """`text` with its entities replaced: AT&amp;T → AT&T, &#233; → é; other & stand for themselves."""
    return _ENTITY.sub(lambda entity: html.unescape(entity[0]), text) if "&" in text else text


def parse(text: str, known: Collection[str]) -> list[Event]:
    """The tags and texts of `text`, in order; tags that are not nested properly, or not of `known`, are MarkupError."""
    events: list[Event] = []
    open_tags: list[str] = []
    position = begun = 0  # text is read up to `position`; what waits to be a text began at `begun`

    def say(stop: int) -> None:
        if stop > begun:
            events.append(Event("text", unescaped(text[begun:stop]), {}))

    while (position := text.find("<", position)) >= 0:
        if special := next((pair for pair in _SPECIAL if text.startswith(pair[0], position)), None):
            opening, closing = special
            stop = text.find(closing, position + len(opening))
            if stop < 0:
                raise MarkupError(f"broken markup: {opening} without {closing} near {_near(text, position)}")
            say(position)
            if opening == _CDATA:
                events.append(Event("text", text[position + len(opening) : stop], {}))
            position = begun = stop + len(closing)
        else:
            if not (tag := _TAG.match(text, position)):
                attempt = _BEGUN.match(text, position)
                if attempt and attempt[1] in known:
                    raise MarkupError(f"broken markup: not well-formed near {_near(text, position)}; {_HINT}")
                position += 1
                continue
            say(position)
            events += _tag(tag, open_tags, known)
            position = begun = tag.end()
    say(len(text))
    if open_tags:
        end = text.rstrip()[-20:]
        raise MarkupError(f"broken markup: <{open_tags[-1]}> without its end near {end!r}; {_HINT}")
    return events


def _tag(tag: re.Match[str], open_tags: list[str], known: Collection[str]) -> list[Event]:
    """The events of a tag, which is entered into the open ones or taken from them."""
    closes, name, written, is_empty = tag.groups()
    if name not in known:
        nearest = difflib.get_close_matches(name.lower(), known, 1)
        hint = f"the nearest is <{nearest[0]}>; " if nearest else ""
        raise MarkupError(f"{tag[0][:80]}: no tag that can be followed; {hint}known: {', '.join(known)}")
    if closes:
        if written or is_empty or not open_tags or open_tags[-1] != name:
            raise MarkupError(f"broken markup: mismatched tag near {_near(tag.string, tag.start())}; {_HINT}")
        open_tags.pop()
        return [Event("end", name, {})]
    attributes: dict[str, str] = {}
    for attribute in _ATTRIBUTE.finditer(written):
        if attribute[1] in attributes:
            raise MarkupError(f"broken markup: <{name}> has {attribute[1]} twice near {_near(tag.string, tag.start())}")
        attributes[attribute[1]] = unescaped(attribute[2] if attribute[2] is not None else attribute[3])
    if is_empty:
        return [Event("start", name, attributes), Event("end", name, {})]
    open_tags.append(name)
    if len(open_tags) > MAX_DEPTH:
        raise MarkupError(
            f"broken markup: tags nested more than {MAX_DEPTH} deep near {_near(tag.string, tag.start())}"
        )
    return [Event("start", name, attributes)]


def _near(text: str, position: int) -> str:
    return repr(" ".join(text[max(0, position - 20) : position + 20].split()))
