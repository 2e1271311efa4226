"""Configuration: frozen dataclass <- TOML file (with `extends`) <- command-line flags.

A dataclass beside its owner is schema, defaults and help. A TOML file holds only what differs from it, or from the
file it extends; flags are parsed by tyro. Whatever is wrong is reported in one line that names the file, the key and
the nearest right key.
"""

import contextlib
import dataclasses
import difflib
import io
import json
import math
import os
import re
import sys
import tomllib
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

from common import flags, starting
from common.files.atomic import decoded
from common.interruption import discard_output, ended_by_the_user

T = TypeVar("T")


class ConfigError(ValueError):
    """A configuration that cannot be used: an unknown key, a wrong type, a missing or broken file."""


def check_not_negative(settings: Any, *names: str) -> None:
    """Raises ValueError, which names the setting, if one is below 0, infinite or NaN; for a `__post_init__`."""
    for name in names:
        if not 0 <= getattr(settings, name) < math.inf:
            raise ValueError(f"{name} = {getattr(settings, name)}: expected a number of at least 0")


def check_positive(settings: Any, *names: str, or_infinite: bool = False) -> None:
    """As `check_not_negative`, of what must not be 0 either."""
    for name in names:
        value = getattr(settings, name)
        if not value > 0 or (value == math.inf and not or_infinite):
            raise ValueError(f"{name} = {value}: expected a number above 0")


def check_shares(settings: Any, *names: str) -> None:
    """As `check_not_negative`, of probabilities and other parts of a whole."""
    for name in names:
        if not 0 <= getattr(settings, name) <= 1:
            raise ValueError(f"{name} = {getattr(settings, name)}: expected 0 to 1")


def load(cls: type[T], *files: str | Path) -> T:
    """Builds `cls` from its defaults and `files`, later ones over earlier ones. Raises ConfigError."""
    settings: dict[str, Any] = {}
    for file in files:
        settings = _merged(settings, read_toml(find(file)))
        build(cls, settings, str(file))  # so that a mistake is reported with the file that made it
    return build(cls, settings, ", ".join(map(str, files)))


def find(name: str | Path) -> Path:
    """The TOML file `name` if there is one, else the one of that name that comes with these packages.

    "configs/jasper/toy.toml" and "jasper/toy" name the same file from anywhere.
    """
    path = Path(name)
    if path.is_absolute() or path.is_file():
        return path
    relative = Path(*path.parts[1:]) if path.parts[:1] == ("configs",) else path
    own = packaged() / relative
    found = own if own.suffix == ".toml" else own.with_name(f"{own.name}.toml")
    return found if found.is_file() else path


def packaged() -> Path:
    """The folder of the configurations that come with these packages: in a wheel, or in the repository."""
    installed = Path(__file__).with_name("configs")
    return installed if installed.is_dir() else Path(__file__).parents[1] / "configs"


def read_toml(path: Path, _seen: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The settings of a TOML file over those of the file it `extends` (a path relative to itself).

    Raises ConfigError.
    """
    if path.resolve() in _seen:
        raise ConfigError(f"{path}: extends itself by way of {_seen[-1]}")
    try:
        settings = tomllib.loads(decoded(path.read_bytes()))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file" + _nearest_file(path)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: not valid TOML: it is nested too deeply") from None
    except ValueError as error:  # of TOML itself, and integers of more digits than Python reads
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    base = settings.pop("extends", None)
    if base is None:
        return settings
    if not isinstance(base, str) or "\0" in base:
        raise ConfigError(f"{path}: extends = {base!r}: expected the path of one TOML file")
    return _merged(read_toml(path.parent / base, (*_seen, path.resolve())), settings)


def build(cls: type[T], settings: Mapping[str, Any], source: str, _prefix: str = "") -> T:
    """An instance of dataclass `cls` from nested `settings`; `source` is named in the messages of ConfigError."""
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in settings:
        if key not in fields:
            near = difflib.get_close_matches(key, fields, n=1)
            hint = f"did you mean {_prefix}{near[0]}?" if near else f"known: {', '.join(sorted(fields))}"
            raise ConfigError(f"{source}: unknown key {_prefix}{key}; {hint}")
    over = {key: _over_default(fields[key], value) for key, value in settings.items()}
    values = {key: _convert(value, hints[key], source, f"{_prefix}{key}") for key, value in over.items()}
    try:
        return cls(**values)
    except (TypeError, ValueError) as error:
        message = re.sub(r"^\w+(\.\w+)*\.__init__\(\) ", "", str(error))
        raise ConfigError(f"{source}: {_prefix.rstrip('.') or cls.__name__}: {message}") from None


def command_line(cls: type[T], arguments: Sequence[str] | None = None, *, description: str) -> T:
    """`cls` from the command line: TOML files first (see `find`), then flags. A mistake exits with status 2."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    files = []
    while arguments and (arguments[0].endswith(".toml") or find(arguments[0]).suffix == ".toml"):
        files.append(arguments.pop(0))
    with reported():
        if arguments and not arguments[0].startswith("-"):
            path = Path(arguments[0]).with_suffix(".toml")
            raise ConfigError(f"{arguments[0]}: no such configuration" + _nearest_file(path))
        return parse_flags(cls, load(cls, *files), arguments, description=description, takes_files=True)


@contextlib.contextmanager
def reported(*kinds: type[Exception]) -> Iterator[None]:
    """Ends the program with one line and status 2, in place of a traceback, at ConfigError and errors of `kinds`.

    Its user may end it without one too.
    """
    expected: tuple[type[Exception], ...] = (ConfigError, *kinds)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names of files that are no text are printed nevertheless
            stream.reconfigure(errors="backslashreplace")
    try:
        with ended_by_the_user():
            yield
    except Exception as error:
        told = _told(error) if isinstance(error, expected) else starting.what_to_install(error)
        if not told and not isinstance(error, expected):
            raise
        print(f"error: {told}", file=sys.stderr)
        try:
            sys.stdout.flush()
        except (AttributeError, OSError, ValueError):  # a full disk: what is left cannot be written at the end either
            discard_output()
        raise SystemExit(2) from None


def _told(error: Exception) -> str:
    """What an error says; of the system's, which file and why, without their number."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error)


def run(main: Callable[[T], Any], cls: type[T], description: str | None, *kinds: type[Exception]) -> NoReturn:
    """A command whose flags are those of `cls`: ends with the status that `main` returns, if any, or as `reported`."""
    with reported(*kinds):
        status = main(parse_flags(cls, None, sys.argv[1:], description=description or ""))
        sys.exit(status if isinstance(status, int) else 0)


def parse_flags(
    cls: type[T], default: T | None, arguments: Sequence[str], *, description: str, takes_files: bool = False
) -> T:
    """`default` (None: that of the fields) with the flags in `arguments` over it.

    Raises ConfigError; `--help` and `--help-all` print the manual and exit. It mentions TOML files if `takes_files`.
    """
    if asked := {"-h", "--help", "--help-all"} & set(arguments):
        print(flags.manual(cls, description, default, whole="--help-all" in asked, takes_files=takes_files))
        raise SystemExit(0)
    import tyro

    said = io.StringIO()
    arguments = flags.with_values(cls, arguments)
    arguments = [{"true": "True", "false": "False"}.get(argument, argument) for argument in arguments]
    markers = (tyro.conf.AvoidSubcommands, tyro.conf.FlagConversionOff)
    start = tyro.MISSING_NONPROP if default is None else default
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            return tyro.cli(cls, default=start, args=arguments, config=markers)
    except SystemExit:
        raise ConfigError(f"command line: {flags.unknown(cls, arguments) or flags.told_of(said.getvalue())}") from None
    except (TypeError, ValueError) as error:  # a __post_init__ that refuses a combination
        raise ConfigError(f"command line: {error}") from None


def to_dict(config: Any) -> dict[str, Any]:
    """Nested plain values (numbers, strings, lists, dicts), as saved in checkpoints; `build` reads them back."""
    return {field.name: _plain(getattr(config, field.name)) for field in dataclasses.fields(config)}


def to_toml(config: Any) -> str:
    """The whole resolved configuration as TOML text; fields that are None are left out."""
    return "\n".join(_toml_lines(to_dict(config), ())).lstrip("\n") + "\n"


def _over_default(field: "dataclasses.Field[Any]", value: Any) -> Any:
    """A table holds only what differs from the field's default, which may not be that of the field's class."""
    factory: Any = field.default_factory
    default = field.default if factory is dataclasses.MISSING else factory()
    if not isinstance(value, Mapping) or not dataclasses.is_dataclass(default) or isinstance(default, type):
        return value
    return _merged(to_dict(default), value)


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are merged key by key; anything else, lists too, is replaced."""
    merged = dict(base)
    for key, value in over.items():
        both_tables = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both_tables else value
    return merged


def _convert(value: Any, hint: Any, source: str, key: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _convert(value, arguments[0], source, key)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _convert(value, next(a for a in arguments if a is not type(None)), source, key)
    if origin is Literal:
        if value not in arguments:
            near = difflib.get_close_matches(str(value), map(str, arguments), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"{source}: {key} = {value!r}: expected one of {', '.join(map(repr, arguments))}{hint}")
        return value
    if dataclasses.is_dataclass(hint) and isinstance(value, Mapping):
        return build(typing.cast(type, hint), value, source, f"{key}.")
    if origin is tuple and isinstance(value, list | tuple):
        items = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else list(arguments)
        if len(items) == len(value):
            return tuple(
                _convert(v, a, source, f"{key}[{i}]") for i, (v, a) in enumerate(zip(value, items, strict=True))
            )
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise ConfigError(f"{source}: {key}: expected a number below 1e308, found one of many digits") from None
    if hint is Path and isinstance(value, str):
        return Path(value)
    if isinstance(hint, type) and isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    expected = getattr(hint, "__name__", str(hint)) if origin is None else str(hint).replace("typing.", "")
    raise ConfigError(f"{source}: {key} = {value!r}: expected {expected}, found {type(value).__name__}")


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _toml_lines(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    lines = [] if not path else ["", f"[{'.'.join(path)}]"]
    lines += [f"{k} = {_toml_value(v)}" for k, v in table.items() if v is not None and not isinstance(v, Mapping)]
    for key, value in table.items():
        if isinstance(value, Mapping):
            lines += _toml_lines(value, (*path, key))
    return lines


def _toml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k} = {_toml_value(v)}" for k, v in value.items() if v is not None) + "}"
    if isinstance(value, list):
        one_a_line = value and isinstance(value[0], Mapping)
        return (
            "[\n    " + ",\n    ".join(map(_toml_value, value)) + ",\n]"
            if one_a_line
            else f"[{', '.join(map(_toml_value, value))}]"
        )
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _nearest_file(path: Path) -> str:
    folder = path.parent if any(path.parent.glob("*.toml")) else packaged() / path.parent.name
    near = difflib.get_close_matches(path.stem, [p.stem for p in folder.glob("*.toml")], n=1)
    return f"; did you mean {path.parent / near[0]}.toml?" if near else ""
