"""Help texts that fit 80 columns: a flag has no type, and a list of names is in the text, where no name is broken in two."""

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

SHORT = 14  # letters of choices that fit into the narrow column of types
WORDS = {"float": "NUMBER", "int": "INTEGER", "str": "TEXT", "path": "FILE"}  # what the library calls a type, and what we do


class _Tidy:
    """Sets what the help shows for the type of each option, where the option does not say it itself."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters of the command, with `--help`."""
        parameters: list[Any] = super().get_params(ctx)  # pyright: ignore  (of the command that this is mixed into)
        for parameter in parameters:
            if parameter.param_type_name == "argument":
                parameter.display_type_rich = lambda ctx: ctx and None  # its text says what it is
            elif parameter.metavar is None:
                _tidy(parameter, ctx)
        return parameters


class Command(_Tidy, TyperCommand):
    """A command with a tidy help."""


class Group(_Tidy, TyperGroup):
    """The program itself, with a tidy help."""


class App(typer.Typer):
    """An application whose commands have a tidy help."""

    def command(self, *names: Any, **options: Any) -> Any:
        """Registers a command."""
        return super().command(*names, **{"cls": Command, **options})


def _tidy(parameter: Any, ctx: Any) -> None:
    if parameter.is_flag:
        parameter.metavar = ""
        return
    shown = parameter.display_type(ctx) if hasattr(parameter, "display_type") else parameter.type.get_metavar(parameter, ctx)
    words = (shown or parameter.type.name).lower().strip("<>[]").removeprefix("list[").removesuffix(" range")
    if "|" not in words:
        parameter.metavar = WORDS.get(words, words.upper())
    elif len(words) <= SHORT:
        parameter.metavar = words
    else:
        parameter.metavar = "NAME"
        parameter.help = f"{parameter.help} One of: {words.replace('|', ', ')}."
