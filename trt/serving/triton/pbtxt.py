"""Protobuf's text format, as far as Triton's configurations need it."""

import json
from typing import Any

Block = dict[str, Any]


class Enum(str):
    """A word that is written without quotes."""


def text_of(block: Block, *, indent: str = "") -> str:
    """A message's fields: blocks are messages, lists of blocks repeat them, lists of values are written as one."""
    return "".join(_field(name, value, indent) for name, value in block.items())


def _field(name: str, value: Any, indent: str) -> str:
    if isinstance(value, dict):
        return f"{indent}{name} {{\n{text_of(value, indent=indent + '  ')}{indent}}}\n"
    if isinstance(value, list) and any(isinstance(one, dict) for one in value):
        return "".join(_field(name, one, indent) for one in value)
    return f"{indent}{name}: {_value(value)}\n"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Enum):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=True) if isinstance(value, str) else str(value)
