"""How a log was collected and is written, in a TOML file: `--save-config` writes it and `--config` reads it.

policy = "lil-ucb"
tau = 1.0
family = "normal"
sigma = 1.0
arms = ["A", "B", "C"]

[columns]
arm = "variant"
"""

import json
import math
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from jaxbias._core.errors import ArgumentError, shorten
from jaxbias._core.files import written_whole
from jaxbias.naming.settings import COLUMNS, SETTINGS, Kind, Setting

LARGEST_COUNT = 2**53  # up to here floats are exact
MOST_DOTS = 100  # in a key: a setting has one at most, and Python reads 20,000 of them for ten seconds, 100,000 for minutes
COMMENT = "# How a log was collected: read by `jaxbias debias --config`.\n"


def read_config(path: Path) -> dict[str, Any]:
    """The settings in a file, each checked."""
    try:
        text = path.read_text(encoding="utf-8")
        if any(line.partition("=")[0].count(".") > MOST_DOTS for line in text.splitlines()):
            raise ArgumentError("config", path, "a TOML file", problem=f"is {str(path)!r}, which has a key of too many parts")
        found = tomllib.loads(text)
        return {name: _check(path, name, value) for name, value in found.items()}
    except ArgumentError:
        raise
    except RecursionError as error:
        problem = f"is {str(path)!r}, which has too many brackets inside each other"
        raise ArgumentError("config", path, "a TOML file", problem=problem) from error
    except OSError as error:
        problem = f"is {str(path)!r}, which cannot be read ({error.strerror})"
        raise ArgumentError("config", path, "a TOML file", problem=problem) from error
    except ValueError as error:  # wrong encoding, or not TOML
        raise ArgumentError("config", path, problem=f"is {str(path)!r}, which is not TOML: {error}") from error


def _check(path: Path, name: str, value: Any) -> Any:
    setting = SETTINGS.get(name)
    if setting is None:
        remedy = f"the settings are {', '.join(sorted(SETTINGS))}"
        raise ArgumentError(name, value, subject=f"{path}: {name}", problem="is not a setting", remedy=remedy)
    if setting.kind is Kind.CHOICE and setting.choices is not None:
        choices = list(map(str, setting.choices))
        return setting.choices(value) if value in choices else _refuse(path, setting, value, f"one of {', '.join(choices)}")
    if setting.kind in (Kind.NUMBER, Kind.NUMBERS):
        return _check_number(path, setting, value)
    if setting.kind is Kind.COUNT:
        is_count = isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value) and value == int(value)
        return int(value) if is_count and abs(value) <= LARGEST_COUNT else _refuse(path, setting, value, "a whole number")
    test, allowed = _TESTS[setting.kind]
    return value if test(value) else _refuse(path, setting, value, allowed)


def _refuse(path: Path, setting: Setting, value: Any, allowed: str) -> Any:
    problem = f"is {shorten(json.dumps(value, default=str))}"
    raise ArgumentError(setting.name, value, allowed, subject=f"{path}: {setting.name}", problem=problem)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_columns(value: Any) -> bool:
    return isinstance(value, dict) and set(value) <= set(COLUMNS) and all(map(_is_text, value.values()))


_TESTS = {
    Kind.FLAG: (lambda value: isinstance(value, bool), "true or false"),
    Kind.TEXT: (_is_text, "text"),
    Kind.TEXTS: (_is_texts, "a list of texts"),
    Kind.COLUMN_NAMES: (_is_columns, f"a table with names for {', '.join(COLUMNS)}"),
}


def _check_number(path: Path, setting: Setting, value: Any) -> Any:
    """A number, or a list of them where there may be one for each arm; a word stays as it is."""
    several = setting.kind is Kind.NUMBERS
    parts: list[Any] = value if several and isinstance(value, list) else [value]
    if len(parts) == 1 and parts[0] in setting.words:
        return parts if several else parts[0]
    if not parts or any(isinstance(part, bool) or not isinstance(part, int | float) for part in parts):
        each = ", or a list with one for each arm" if several else ""
        words = "".join(f", or {word!r}" for word in setting.words)
        return _refuse(path, setting, value, f"a number{each}{words}")
    if not all(map(_is_finite, parts)):
        return _refuse(path, setting, value, "finite, as a number with 64 bits")
    numbers = [float(part) for part in parts]
    return numbers if several else numbers[0]


def _is_finite(value: int | float) -> bool:
    """Whether a float can hold it; TOML has inf and nan, and whole numbers with any number of digits."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def write_config(path: Path, settings: Mapping[str, Any]) -> None:
    """Writes settings that `read_config` reads back unchanged; the file is written completely or not at all."""
    import tomli_w

    with written_whole(path) as temporary:
        temporary.write_text(COMMENT + tomli_w.dumps(_plain(settings)), encoding="utf-8")


def _plain(value: Any) -> Any:
    """Values as TOML has them: no enumerations and no numbers of NumPy."""
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items() if part != {}}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, StrEnum):
        return str(value)
    return value.item() if hasattr(value, "item") else value
