"""The flags of a dataclass of options: their names, the manual that `--help` prints, the nearest to one there is not.

A class names the options that most people use in `USUAL`, a dict of headings and flags: `--help` prints a line for each
of these, `--help-all` every option in full. Where a class names none, `--help` has a line for every option.
"""

import ast
import dataclasses
import difflib
import functools
import inspect
import itertools
import math
import re
import shutil
import sys
import textwrap
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

OTHER_NAMES = {"learning_rate": "lr", "num_epochs": "epochs", "max_steps": "steps", "num_workers": "workers"}
"""How other programs call settings, and the last part of their names here."""
NAME_COLUMNS = 28


class Flag(NamedTuple):
    """An option: its name with the groups before it ("optim.lr"), and what its field says of it."""

    name: str
    aliases: tuple[str, ...]
    hint: Any
    default: Any
    """`dataclasses.MISSING` where it must be given."""
    told: str
    group: str
    """The heading that it stands under."""
    positional: str
    """What stands for it in the usage of the command; empty of a flag."""


FILES = Flag(
    *("CONFIG.toml", (), Path, ()),
    "File of settings, as in configs/; a later file takes precedence over those before it, and options over all files. "
    "The names of options may be written with - or _.",
    *("Arguments", "[CONFIG.toml ...]"),
)


def flags(cls: type[Any], default: Any = None, prefix: str = "", group: str = "Options") -> Iterator[Flag]:
    """All options of a class, those of the groups in it too; `default` is an instance, of the values that stand."""
    from tyro.conf import Positional, Suppress

    hints = typing.get_type_hints(cls, include_extras=True)
    told = _docstrings(typing.cast(Any, cls))  # mypy holds that classes cannot be hashed
    for field in dataclasses.fields(cls):
        hint, *marks = typing.get_args(hints[field.name]) if _is_annotated(hints[field.name]) else (hints[field.name],)
        if Suppress in marks:
            continue
        name = next((m.name for m in marks if getattr(m, "name", None) is not None), field.name)
        factory: Any = field.default_factory
        value = field.default if factory is dataclasses.MISSING else factory()
        value = value if default is None else getattr(default, field.name, value)
        kind = hint if inspect.isclass(hint) and dataclasses.is_dataclass(hint) else type(value)
        if dataclasses.is_dataclass(kind):
            inner = None if value is dataclasses.MISSING else value
            heading = _first_sentence(inspect.getdoc(kind) or field.name).rstrip(".") if name else group
            yield from flags(kind, inner, f"{prefix}{name}." if name else prefix, heading)
            continue
        shown = next((m.metavar for m in marks if getattr(m, "metavar", None)), field.name.upper())
        aliases = tuple(alias for m in marks for alias in getattr(m, "aliases", None) or ())
        positional = shown if Positional in marks else ""
        yield Flag(f"{prefix}{name}", aliases, hint, value, told.get(field.name, ""), group, positional)


def manual(
    cls: type[Any], description: str, default: Any = None, *, whole: bool = False, takes_files: bool = False
) -> str:
    """What `--help` prints, or `--help-all` where `whole`; with a line about TOML files if `takes_files`."""
    every = [*([FILES] if takes_files else []), *flags(cls, default)]
    arguments, listed = ([flag for flag in every if bool(flag.positional) == wanted] for wanted in (True, False))
    groups, usual = {"Arguments": arguments}, getattr(cls, "USUAL", None)
    if whole or usual is None:
        for flag in listed:
            groups.setdefault(flag.group, []).append(flag)
    else:
        by_name = {flag.name: flag for flag in listed}
        groups |= {heading: [by_name[n] for n in names if n in by_name] for heading, names in usual.items()}
    shown = [f"{flag.positional}{' ...' if typing.get_origin(flag.hint) is tuple else ''}" for flag in arguments]
    parts = [part for part in description.strip("\n").split("\n\n") if not part.startswith("Shapes:")]
    if not whole:  # what it does, and examples
        parts = [part for i, part in enumerate(parts) if i == 0 or part.startswith("    ")]
    lines = [" ".join(["usage:", program(), *shown, "[--OPTION VALUE ...]"]), "", "\n\n".join(parts).rstrip()]
    for heading, some in groups.items():
        lines += (
            ["", f"{heading}:", *(_line(flag, whole=whole or bool(flag.positional)) for flag in some)] if some else []
        )
    count = f"all {len(listed)} options, each" if len(listed) > 1 else "its option"
    return "\n".join([*lines, *([] if whole else ["", f"--help-all: {count} in full"])])


def unknown(cls: type[Any], arguments: Sequence[str]) -> str | None:
    """What to say of the first flag that does not exist, with the most similar one; None where all do."""
    known = {flag.name for flag in flags(cls)}
    aliases = {alias for flag in flags(cls) for alias in flag.aliases}
    for word in arguments:
        written = word.partition("=")[0]
        flag = written[2:].replace("-", "_")
        if not re.fullmatch(r"--[a-zA-Z][\w.-]*", written) or flag in known or written.replace("_", "-") in aliases:
            continue
        ends = sorted(n for n in known if n.split(".")[-1] == OTHER_NAMES.get(flag, flag.split(".")[-1]))
        near = ends[:1] or difflib.get_close_matches(flag, sorted(known), n=1)
        return f"there is no --{flag}" + (f"; did you mean --{near[0]}?" if near else "; see --help-all")
    return None


def with_values(cls: type[Any], arguments: Sequence[str]) -> list[str]:
    """Yes-or-no flags may stand without a value, at the end or before another flag."""
    alone = {f"--{flag.name}" for flag in flags(cls) if flag.hint in (bool, bool | None)}
    given: list[str] = []
    for argument, following in itertools.pairwise([*arguments, "--"]):
        given.append(argument)
        if argument.replace("-", "_").replace("__", "--", 1) in alone and following.startswith("-"):
            given.append("True")
    return given


def told_of(boxed: str) -> str:
    """What tyro says of a mistake in a box, in parts between rules, in one line without the titles of the parts."""
    text = re.sub(r"\x1b\[[0-9;]*m|[│╭╮╰╯]", " ", boxed).replace("─", "-")
    titles = (
        r"For full helptext|(Unrecognized|Required) options$|Argument helptext|Value error|(Invalid|Missing) [a-z]+$"
    )
    parts = [" ".join(part.split()) for part in re.split(r"-{6,}", text)]
    said = "; ".join(re.sub(r"^Error parsing \w+: ", "", part) for part in parts if part and not re.match(titles, part))
    if wrong := re.match(r"Error parsing --(\S+): no type matching (.*?) could be instantiated from \[(.*?)\]", said):
        return f"--{wrong[1].replace('-', '_')}: expected {wrong[2]}, found {wrong[3]}"
    if missing := re.match(r"Missing from .*?: (.*) \(required\)", said):
        return _missing(missing[1].split(" (required) "))
    return re.sub(r"^Unrecognized options: (.*)", r"not expected: \1; see --help", said)


def _missing(told: Sequence[str]) -> str:
    """What to say of arguments that must be given; each is told as its names and its help."""
    names = [re.sub(r"^-\w \S+, ", "", one).split(" ")[0] for one in told]
    if len(told) > 1 or names[0].startswith("-"):
        return f"{', '.join(names)}: missing; see --help"
    return f"{names[0]} is missing: {told[0].removeprefix(names[0]).strip(' .')}; see --help"


def program() -> str:
    """How the command that runs was called: "python -m jasper.train", "speech train"."""
    spec, called = getattr(sys.modules["__main__"], "__spec__", None), [w for w in sys.orig_argv[1:] if w != "-m"]
    if [Path(word).name for word in called[:1]] == ["speech"]:
        return " ".join(["speech", *called[1:2]])
    return f"python -m {spec.name.removesuffix('.__main__')}" if spec is not None else f"python {sys.argv[0]}"


def _line(flag: Flag, *, whole: bool) -> str:
    """An option in one line, or in as many as it takes where `whole`."""
    name = flag.positional or ", ".join([f"--{flag.name}", *(alias for alias in flag.aliases if len(alias) == 2)])
    choices = f" ({', '.join(found)})" if (found := [str(choice) for choice in _choices(flag.hint)]) else ""
    has_default = isinstance(flag.default, str | int | float | Path | tuple) and flag.default not in ("", (), math.inf)
    shown = ", ".join(map(str, flag.default)) if isinstance(flag.default, tuple) else str(flag.default)
    known = choices + (f" [{shown}]" if has_default and flag.default is not False and not flag.positional else "")
    columns = min(max(shutil.get_terminal_size((100, 24)).columns, 80), 118)
    before, room = f"  {name:<{NAME_COLUMNS - 2}} ", columns - max(NAME_COLUMNS, len(name) + 2) - 1
    if whole:
        return "\n".join(textwrap.wrap(before + flag.told + known, columns, subsequent_indent=" " * (NAME_COLUMNS + 1)))
    said = _first_sentence(flag.told).rstrip(".").split("; ")[0]
    if len(said + known) > room:
        said = said.split(": ")[0]
    known = known if len(said + known) <= room or not choices else known.replace(choices, "")
    known = known if len(said + known) <= room or len(known) < 20 else ""
    return before + textwrap.shorten(said, max(room - len(known), 20), placeholder=" …") + known


def _choices(hint: Any) -> Iterator[Any]:
    """The values that a `Literal` allows, alone or in a union or a tuple."""
    for part in typing.get_args(hint):
        yield from [part] if typing.get_origin(hint) is Literal else _choices(part)


def _first_sentence(text: str) -> str:
    return " ".join(re.split(r"(?<=\.)\s", text.strip(), maxsplit=1)[0].split())


def _is_annotated(hint: Any) -> bool:
    return typing.get_origin(hint) is typing.Annotated


@functools.cache
def _docstrings(cls: Any) -> dict[str, str]:
    """The strings under the fields of a class and of those that it inherits from, by the names of the fields."""
    found: dict[str, str] = {}
    for owner in filter(dataclasses.is_dataclass, reversed(inspect.getmro(cls))):
        try:
            (node,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
        except (OSError, SyntaxError):  # where there is no source
            continue
        body = node.body if isinstance(node, ast.ClassDef) else []
        for part, after in itertools.pairwise(body):
            match part, after:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[name] = " ".join(text.split())
    return found
