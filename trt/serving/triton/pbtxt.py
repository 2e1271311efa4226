"""Protobuf's text format, as far as Triton's configurations need it."""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from trt.facts import ModelError

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


def validated(text: str, name: str) -> bool:
    """Whether `text` was read as a model's configuration by tritonclient; False where that is not installed.

    Raises ModelError for a text that is none.
    """
    found = importlib.util.find_spec("tritonclient")
    places = [
        Path(place) / "grpc" / "model_config_pb2.py" for place in (found and found.submodule_search_locations) or ()
    ]
    if not any(place.exists() for place in places):
        return False
    from google.protobuf import text_format

    try:
        text_format.Parse(text, _messages(places[0]).ModelConfig())
    except text_format.ParseError as error:
        raise ModelError(f"configuration of {name}: {error}") from None
    return True


def _messages(place: Path) -> Any:
    """The module of messages alone: its package would import grpc."""
    name = "model_config_pb2"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, place)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]
