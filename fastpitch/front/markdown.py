"""Markdown as it is read aloud: its words without its marks, a block a line."""

import re
from collections.abc import Iterator

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_BREAK = re.compile(r"<[bh]r\s*/?>", re.IGNORECASE)
_HTML = re.compile(  # tags that SSML has not, and <p>, whose attributes there are others
    r"</?(?:a|abbr|b|big|blockquote|center|code|dd|del|details|div|dl|dt|em|figcaption|figure|font|h[1-6]|i|img|ins|kbd"
    r"|li|ol|p|picture|pre|q|small|source|span|strong|summary|sup|table|tbody|td|tfoot|th|thead|tr|tt|u|ul|video)"
    r"(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)
_FRONT_MATTER = re.compile(r"\A---\s*\n.*?\n(?:---|\.\.\.)\s*(?:\n|\Z)", re.DOTALL)
_FENCE = re.compile(r"\s{0,3}(?:```|~~~)")
_RULE = re.compile(r"\s{0,3}([-*_=])(?:\s*\1){1,}\s*")  # also the line under a heading
_TABLE_RULE = re.compile(r"\s*\|?(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?\s*)?")
_REFERENCE = re.compile(r"\s{0,3}\[[^\]]+\]:\s+\S+.*")
_BEGINS_BLOCK = re.compile(r"\s*(?:#{1,6}\s+|[-*+]\s+(?:\[[ xX]\]\s+)?|\d{1,3}[.)]\s+|(?:>\s?)+)")
_WITHIN = tuple(
    (re.compile(pattern), said)
    for pattern, said in (
        (r"!?\[([^\[\]]*)\]\([^()\s]*(?:\s+\"[^\"]*\")?\)", r"\1"),  # links and pictures
        (r"!?\[([^\[\]]+)\]\[[^\[\]]*\]", r"\1"),
        (r"<((?:https?|mailto):[^\s<>]+)>", r"\1"),
        (r"`+([^`]+)`+", r"\1"),
        (r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1", r"\2"),
        (r"~~(?=\S)(.+?)(?<=\S)~~", r"\1"),
        (r"(?<![\w*])\*(?=\S)([^*]+?)(?<=\S)\*(?![\w*])", r"\1"),
        (r"(?<![\w_])_(?=\S)([^_]+?)(?<=\S)_(?![\w_])", r"\1"),
        (r"\\([\\`*_{}\[\]()#+.!|~>-])", r"\1"),
    )
)


def plain(text: str) -> str:
    """The words of a Markdown text: wrapped lines joined, a heading, a paragraph, an item or a row of a table a line.

    Links and pictures are said by their words, tables by their cells; code is kept, the marks around it are not, nor
    are tags of HTML.
    """
    text = _COMMENT.sub("", _FRONT_MATTER.sub("", text.replace("\r\n", "\n")))
    text = _HTML.sub("", _BREAK.sub(" ", text))
    return "\n".join(block for block in map(_said, _blocks(text)) if block)


def _blocks(text: str) -> Iterator[str]:
    """What is said in one go."""
    waiting: list[str] = []
    in_code = False
    for line in [*text.split("\n"), ""]:
        if _FENCE.match(line):
            in_code, line = not in_code, ""
        begins = in_code or "|" in line or bool(_BEGINS_BLOCK.match(line))
        passed_over = not line.strip() or _RULE.fullmatch(line) or _TABLE_RULE.fullmatch(line)
        if waiting and (begins or passed_over):
            yield " ".join(waiting)
            waiting = []
        if passed_over or _REFERENCE.fullmatch(line):
            continue
        if in_code or line.lstrip().startswith("#"):
            yield line.strip()
        else:
            waiting.append(line.strip())


def _said(block: str) -> str:
    while (mark := _BEGINS_BLOCK.match(block)) and mark.end() < len(block):
        block = block[mark.end() :]
    if block.startswith("|") or block.endswith("|"):
        block = ", ".join(cell.strip() for cell in re.split(r"(?<!\\)\|", block.strip("|")) if cell.strip())
    for pattern, said in _WITHIN:
        block = pattern.sub(said, block)
    return block.strip().rstrip("#").rstrip()
