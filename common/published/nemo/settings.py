"""Descriptions of models by others, read setting by setting: what is not known is named, not ignored."""

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from common.runs.checkpoint import CheckpointError

_NO_DEFAULT = object()


class NemoSettings:
    """The settings of a section. Every one is taken once; `done` names those that nobody asked for."""

    def __init__(self, values: Any, name: str, source: str):
        if not isinstance(values, Mapping):
            raise CheckpointError(f"{source}: expected settings under {name}, found {type(values).__name__}")
        inner = values.get("params")  # of NeMo before 1.0, which had `cls` in place of `_target_`
        if isinstance(inner, Mapping) and values.keys() <= {"cls", "params"}:
            values = {"_target_": values.get("cls"), **inner}
        self._left, self.name, self.source = dict(values), name, source

    def take(self, key: str, default: Any = _NO_DEFAULT) -> Any:
        """A setting; `default` where it is absent or null. Raises CheckpointError where there is no default."""
        value = self._left.pop(key, None)
        if value is None:
            if default is _NO_DEFAULT:
                raise CheckpointError(f"{self.source}: says nothing of {self._full(key)}")
            return default
        return value

    def number(self, key: str, default: Any = _NO_DEFAULT, *, least: int = 1, most: int = 65_536) -> int:
        """A setting that is a whole number, at least `least`, and no larger than any model could have it."""
        value = self.take(key, default)
        if type(value) is not int or not least <= value <= most:
            raise self._refused(key, f"{value!r}: expected a whole number from {least} to {most}")
        return value

    def real(self, key: str, default: Any = _NO_DEFAULT) -> float:
        """A setting that is a number, of at least 0."""
        value = self.take(key, default)
        if type(value) not in (int, float) or not 0 <= value <= sys.float_info.max:
            raise self._refused(key, f"{value!r}: expected a number of at least 0")
        return float(value)

    def numbers(self, key: str) -> tuple[int, ...]:
        """A setting that is a list of whole numbers."""
        value = self.take(key)
        if not isinstance(value, list) or not all(type(n) is int for n in value):
            raise self._refused(key, f"{value!r}: expected whole numbers")
        return tuple(value)

    def flag(self, key: str, default: bool) -> bool:
        """A setting that is true or false."""
        value = self.take(key, default)
        if not isinstance(value, bool):
            raise self._refused(key, f"{value!r}: expected true or false")
        return value

    def choice(self, key: str, default: Any, choices: Mapping[Any, Any]) -> Any:
        """What `choices` make of a setting. Raises CheckpointError for another one."""
        value = self.take(key, default)
        try:
            return choices[value]
        except (KeyError, TypeError):
            raise self._refused(key, f"{value!r} is not known; expected {' or '.join(map(repr, choices))}") from None

    def expect(self, key: str, *values: Any) -> None:
        """A setting whose other values would mean a model that is not built here; absent and null are the first."""
        value = self.take(key, values[0])
        if value not in values:
            raise self._refused(key, f"{value!r} is not known; expected {' or '.join(map(repr, values))}")

    def of_class(self, *names: str) -> None:
        """Raises CheckpointError unless the class that it is a section of, if it names one, is one of `names`.

        Others may have the same settings and weights, and compute something else.
        """
        found = self.take("_target_", names[0])
        if str(found).rpartition(".")[2] not in names:
            raise self._refused("_target_", f"{found!r} is not known; expected {' or '.join(names)}")

    def section(self, key: str) -> "NemoSettings":
        """The settings under one of these."""
        return NemoSettings(self.take(key), self._full(key), self.source)

    def ignore(self, keys: Iterable[str]) -> None:
        """Settings that do not change what a trained model computes."""
        for key in keys:
            self._left.pop(key, None)

    def done(self) -> None:
        """Raises CheckpointError if a setting has not been asked for, and says something."""
        left = [self._full(key) for key, value in self._left.items() if value not in (None, False)]
        if left:
            raise CheckpointError(f"{self.source}: {', '.join(left[:5])}: a setting that is not known")

    def _refused(self, key: str, why: str) -> CheckpointError:
        return CheckpointError(f"{self.source}: {self._full(key)} = {why}")

    def _full(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key
