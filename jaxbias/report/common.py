"""What every table and document has in common."""

import json
import math
from typing import Any

from rich.console import Console
from rich.table import Table


def to_json(document: Any) -> str:
    """One JSON document; what is not a finite number is null."""
    return json.dumps(_plain(document), allow_nan=False)


def _plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def make_console() -> Console:
    """Standard output, with nothing in the text taken for markup."""
    return Console(highlight=False, markup=False)


def say(console: Console, sentence: str) -> None:
    """A sentence, folded on a terminal only."""
    console.print(sentence, soft_wrap=not console.is_terminal)


def make_table(title: str, *columns: str) -> Table:
    """A table of numbers."""
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def figure(console: Console | None, value: float, stderr: float) -> str:
    """A figure with as many decimals as give its standard error two digits."""
    if not math.isfinite(value):
        return f"{value}"
    if not (math.isfinite(stderr) and stderr > 0):
        return f"{value:.4g}"
    decimals = min(max(1 - math.floor(math.log10(stderr)), 0), 8)
    sign = "+/-" if console is not None and console.options.ascii_only else "±"
    return f"{value:.{decimals}f} {sign} {stderr:.{decimals}f}"
