"""The pages that are made from the command line itself and from CONTRIBUTING.md, when the site is built."""

import enum
import re
import typing
from pathlib import Path
from typing import Any

from typer.main import get_command

INTRODUCTION = """# Commands

Made from the command line itself, so that it has every command and every option. `jaxbias COMMAND --help` prints the same.

The exit code is 0 if all is well, 1 if an estimate should not be relied on (or a table of the paper does not agree), 2 for bad
input. Results go to standard output. Progress and warnings go to standard error.
"""


def commands_page() -> str:
    """Every command with every option, as Markdown."""
    from jaxbias.cli import app

    group: Any = get_command(app)
    parts = [INTRODUCTION, "## jaxbias\n", options_tables(group)]
    for name, command in group.commands.items():
        parts += [f"## jaxbias {name}\n", plain(command.help or ""), "", options_tables(command)]
    return "\n".join(parts) + "\n"


def options_tables(command: Any) -> str:
    """One table for each group of options, in the order of the help text."""
    groups: dict[str, list[str]] = {}
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        title = getattr(parameter, "rich_help_panel", None) or (
            "Arguments" if parameter.param_type_name == "argument" else "Options"
        )
        groups.setdefault(title, []).append(option_row(parameter))
    groups.setdefault("Options", []).append("| `-h`, `--help` | Show the help text and exit. |")
    head = ["| option | meaning |", "|---|---|"]
    return "\n\n".join("\n".join([f"**{title}**\n", *head, *rows]) for title, rows in groups.items()) + "\n"


def option_row(parameter: Any) -> str:
    """Names, what may be given, and what it means."""
    if parameter.param_type_name == "argument":
        names = f"`{(parameter.metavar or parameter.name).strip('[]').upper()}`"
    else:
        names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    text = plain(parameter.help or "")
    default = parameter.default
    if getattr(parameter, "show_default", False) and isinstance(default, int | float | str) and not isinstance(default, bool):
        text += f" Default: {default}."
    return f"| {names} | {text}{value_of(parameter)} |"


def value_of(parameter: Any) -> str:
    """The words that may be given, or the kind of value; nothing for a flag."""
    if getattr(parameter, "is_flag", False) or parameter.param_type_name == "argument":
        return ""
    kind = annotation_of(parameter)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return "<br>*One of* " + ", ".join(f"`{member.value}`" for member in kind) + repeated(parameter)
    word = parameter.metavar or {int: "whole number", float: "number", Path: "file"}.get(kind, "text")
    limits = [f", at least {parameter.min:g}"] if getattr(parameter, "min", None) is not None else []
    return "<br>*Value:* " + word.replace("|", " or ").strip("[]") + "".join(limits) + repeated(parameter)


def annotation_of(parameter: Any) -> Any:
    """The type of one value, as the command declares it."""
    kind = parameter.type_descriptor.annotation  # of typer 0.29 and later
    arguments = [one for one in typing.get_args(kind) if one is not type(None)]
    return arguments[0] if arguments else kind


def repeated(parameter: Any) -> str:
    """Whether an option may be given several times."""
    return "; may be repeated" if getattr(parameter, "multiple", False) else ""


def plain(text: str) -> str:
    """Without line breaks, and with bars that do not end a cell."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def contributing_page(root: Path) -> str:
    """CONTRIBUTING.md as a page: links to files of the repository become their names."""
    text = (root / "CONTRIBUTING.md").read_text()
    return re.sub(r"\[([^\]]+)\]\((?!https?:|#)([^)]+)\)", r"\1 (`\2`)", text)
