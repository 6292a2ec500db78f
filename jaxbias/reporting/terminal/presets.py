"""What `jaxbias presets` prints."""

from collections.abc import Mapping
from typing import Any

from jaxbias.reporting.formatting import given
from jaxbias.reporting.terminal.common import make_console, say


def print_presets(presets: Mapping[Any, Any]) -> None:
    """Prints what each `Preset` stands for, and where that was read."""
    console = make_console()
    for name, preset in presets.items():
        said = f"{name}: --policy {preset.policy} {_options(preset)}"
        say(console, f"{said}. {preset.tool}; read in {preset.source}.{f' Note: {preset.note}.' if preset.note else ''}")


def _options(preset: Any) -> str:
    plain = {name: value[0] if isinstance(value, list) else value for name, value in preset.settings.items()}
    words = {name: given(value) if isinstance(value, float) else value for name, value in plain.items()}
    return " ".join(f"--{name.replace('_', '-')} {value}" for name, value in words.items())
