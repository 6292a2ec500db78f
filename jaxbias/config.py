"""How a log was collected and is written, in a TOML file beside it: what `--save-config` writes and `--config` reads.

policy = "lil-ucb"
tau = 1.0
family = "normal"
sigma = 1.0
arms = ["A", "B", "C"]

[columns]
arm = "variant"
"""

import json
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from jaxbias.files import written_whole
from jaxbias.naming import ESTIMATED, FIT, Allocation, FamilyName, Opening, PolicyName, Ties

WORDS: dict[str, type[StrEnum]] = {"policy": PolicyName, "family": FamilyName, "ties": Ties, "opening": Opening}
WORDS |= {"allocation": Allocation}
TEXTS = ("separator", "decimal", "title", "description", "source", "stop_arm")
FITTED = ("tau", "epsilon")
NUMBERS = ("tau", "epsilon", "beta", "delta", "gamma", "level")
NUMBERS += ("stop_difference", "stop_mean", "stop_first", "stop_every", "max_steps")
NUMBERS_PER_ARM = ("prior_mean", "prior_sigma", "policy_sigma", "prior_success", "prior_failure", "balls", "added", "sigma")
LISTS = ("arms", "method")
COLUMNS = ("arm", "reward", "batch", "propensity", "time", "forced", "trial")
KEYS = sorted({*WORDS, *TEXTS, *NUMBERS, *NUMBERS_PER_ARM, *LISTS, "columns"})


def read_config(path: Path) -> dict[str, Any]:
    """The settings in a file, each checked."""
    try:
        text = path.read_text(encoding="utf-8")
        found = tomllib.loads(text)
    except OSError as error:
        raise ValueError(f"--config is {str(path)!r}: {error.strerror}; allowed: a TOML file that can be read") from error
    except ValueError as error:  # of the encoding, or of TOML itself
        raise ValueError(f"--config is {str(path)!r}, which is not TOML: {error}") from error
    return {name: _checked(path, name, value) for name, value in found.items()}


def _checked(path: Path, name: str, value: Any) -> Any:
    def wrong(allowed: str) -> ValueError:
        return ValueError(f"{path}: {name} is {json.dumps(value, default=str)}; allowed: {allowed}")

    if name not in KEYS:
        raise ValueError(f"{path}: {name} is not a setting; allowed: {', '.join(KEYS)}")
    if name in WORDS:
        words = list(map(str, WORDS[name]))
        if value not in words:
            raise wrong(", ".join(words))
        return WORDS[name](value)
    if name in TEXTS and not isinstance(value, str):
        raise wrong("text")
    if name in LISTS and not (isinstance(value, list) and all(isinstance(part, str) for part in value)):
        raise wrong("a list of texts")
    if name == "columns" and not _are_columns(value):
        raise wrong(f"names of columns for {', '.join(COLUMNS)}")
    if name in NUMBERS or name in NUMBERS_PER_ARM:
        return _number(name, value, wrong)
    return value


def _are_columns(value: Any) -> bool:
    return isinstance(value, dict) and set(value) <= set(COLUMNS) and all(isinstance(part, str) for part in value.values())


def _number(name: str, value: Any, wrong: Any) -> Any:
    if value == FIT and name in FITTED:
        return value
    if name == "sigma" and value in (*ESTIMATED, *([word] for word in ESTIMATED)):
        return value if isinstance(value, list) else [value]
    parts: list[Any] = value if isinstance(value, list) and name in NUMBERS_PER_ARM else [value]
    if not parts or any(isinstance(part, bool) or not isinstance(part, int | float) for part in parts):
        raise wrong("a number" + (", or a list with one for each arm" if name in NUMBERS_PER_ARM else ""))
    numbers = [float(part) for part in parts]
    return numbers if name in NUMBERS_PER_ARM else numbers[0]


def write_config(path: Path, settings: Mapping[str, Any]) -> None:
    """Writes settings that `read_config` reads back as they are; the file is there whole or not at all."""
    plain = {name: value for name, value in settings.items() if not isinstance(value, Mapping)}
    lines = ["# How a log was collected: read by `jaxbias debias --config`."]
    lines += [f"{name} = {_toml(value)}" for name, value in plain.items()]
    for name, table in settings.items():
        if isinstance(table, Mapping) and table:
            lines += ["", f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in table.items())]
    with written_whole(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _toml(value: Any) -> str:
    """A value as TOML: its strings and lists are written as JSON's, but for the escape of DEL."""
    plain = [part.item() if hasattr(part, "item") else part for part in value] if isinstance(value, list | tuple) else value
    return json.dumps(plain, ensure_ascii=False).replace("\x7f", "\\u007f")
