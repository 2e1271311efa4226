"""`--help` of commands with many options: a line for each of those that most people use; `--help-all` has the rest."""

import ast
import dataclasses
import inspect
import re
import textwrap
import typing
from typing import Any, Literal

WIDTH = 118


def short_help(cls: type[Any], program: str, description: str) -> str:
    """The manual of a command whose options are the dataclass `cls`; `COMMON` names the usual ones, if it has them."""
    positional = [name for name, hint in _hints(cls).items() if "Positional" in repr(hint)]
    usage = " ".join([program, *(name.upper().removesuffix("S") for name in positional), "[--OPTION VALUE ...]"])
    lines = [f"usage: {usage}", "", description.split("\n\n")[0], *_examples(description), "", "The usual options:"]
    for name in cls.COMMON:
        owner, *path = cls, *name.split(".")
        for part in path[:-1]:
            hint = _hints(owner)[part]
            if any(getattr(mark, "name", None) == "" for mark in typing.get_args(hint)):
                name = name.removeprefix(f"{part}.")  # a group that puts no name before its options
            owner = _bare(hint)
        if path[-1] not in owner.__dataclass_fields__:
            continue
        field = owner.__dataclass_fields__[path[-1]]
        hint, (said, *_) = _bare(_hints(owner)[path[-1]]), re.split(r"[.;:](?:\s|$)", _help(owner, path[-1]))
        choices = f" ({', '.join(map(str, typing.get_args(hint)))})" if typing.get_origin(hint) is Literal else ""
        default = field.default if isinstance(field.default, str | int | float) and field.default != "" else None
        known = "" if default is None or isinstance(default, bool) else f" [{default}]"
        text = textwrap.shorten(said + choices + known, WIDTH - 32, placeholder=" …")
        lines.append(f"  --{name:<28}{text}")
    return "\n".join([*lines, "", "All options: --help-all"])


def _examples(description: str) -> list[str]:
    """The lines of a docstring that are set apart."""
    found = [line for line in description.splitlines() if line.startswith("    ")]
    return ["", *found] if found else []


def _hints(cls: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(cls, include_extras=True)


def _bare(hint: Any) -> Any:
    return typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint


def _help(cls: type[Any], name: str) -> str:
    """The string under the field of that name, where the class has it or the one that it inherits it from."""
    for owner in filter(dataclasses.is_dataclass, cls.__mro__):
        (found,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
        assert isinstance(found, ast.ClassDef)
        for field, after in zip(found.body, found.body[1:], strict=False):
            is_field = isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            if is_field and field.target.id == name and isinstance(after, ast.Expr):  # type: ignore[union-attr]
                return " ".join(ast.literal_eval(after.value).split())
    return ""
