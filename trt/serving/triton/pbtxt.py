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


def tensor(name: str, kind: str, *dims: int, **more: Any) -> Block:
    """An input or an output of a model: its type, such as FP32, and its dimensions but for that of the batch."""
    return {"name": name, "data_type": Enum(f"TYPE_{kind}"), "dims": list(dims), **more}


def python_model(
    name: str, inputs: list[Block], outputs: list[Block], *, most: int, delay_ms: float | None = None
) -> Block:
    """A model of Triton's Python back end, of at most so many requests in a batch; `delay_ms`: how long a request waits
    for others, None for one that waits for none."""
    delay = None if delay_ms is None else {"max_queue_delay_microseconds": round(1000 * delay_ms)}
    return {
        "name": name,
        "backend": "python",
        "max_batch_size": most,
        "input": inputs,
        "output": outputs,
        "instance_group": [{"count": 1, "kind": Enum("KIND_CPU")}],  # of the tensors: the model finds its device
        **({} if delay is None else {"dynamic_batching": delay}),
    }
