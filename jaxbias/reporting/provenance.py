"""What is needed to get the same figures again."""

import dataclasses
import platform
from collections.abc import Sequence
from typing import Any

from jaxbias._core.version import __version__
from jaxbias.analysis.findings import Analysis
from jaxbias.reporting.formatting import count_pulls, given, interval
from jaxbias.reporting.labels import plain_text


def describe_provenance(analysis: Analysis, command: str | None) -> dict[str, str]:
    """The command, the random key, the settings and the versions, by name."""
    fitted = {
        f"{name} (estimated)": f"{given(value.value)} {interval(value.lower, value.upper)}".strip()
        for name, value in analysis.fitted.items()
    }
    log = f"{plain_text(analysis.log.name)}, {count_pulls(analysis.log.history.num_steps)}, arms: {len(analysis.labels)}"
    return {
        **describe_run(command, analysis.key_words),
        "log": log,
        "policy": "not given" if analysis.policy is None else describe_settings(analysis.policy),
        **fitted,
        "family": describe_settings(analysis.family),
        "level of the intervals": given(analysis.comparison.level),
        "methods tried": ", ".join([*analysis.comparison.estimates, *analysis.comparison.reasons]),
        **describe_software(in_float64=True),
    }


def describe_run(command: str | None, key_words: Sequence[int]) -> dict[str, str]:
    """What was typed, where something was, and the random key."""
    typed = {} if command is None else {"command": plain_text(command)}
    return {**typed, "random key": " ".join(map(str, key_words))}


def describe_software(*, in_float64: bool = False) -> dict[str, str]:
    """The versions that the figures depend on."""
    import jax

    precision = ", in float64" if in_float64 else ""
    return {
        "jaxbias": __version__,
        "jax": f"{jax.__version__} on {jax.default_backend()}{precision}",
        "Python": f"{platform.python_version()} on {platform.platform()}",
    }


def describe_settings(thing: Any) -> str:
    """A policy or family with its settings, without addresses in memory."""
    if dataclasses.is_dataclass(thing):
        values = {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}
    else:
        values = dict(getattr(thing, "__dict__", {}))
    return plain_text(f"{type(thing).__name__}({', '.join(f'{name}={_setting(value)}' for name, value in values.items())})")


def _setting(value: Any) -> str:
    if callable(value):
        return getattr(value, "__qualname__", type(value).__name__)
    if hasattr(value, "tolist"):
        value = value.tolist()
    return repr(value) if isinstance(value, str | int | float | list | tuple | bool | None) else type(value).__name__
