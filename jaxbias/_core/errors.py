"""Errors as values: which argument is wrong, what it was, and what it must be.

The library and the command line have different names for one argument (`num_steps` and `--steps`). So an error is raised once,
with the argument, and each of them puts it into words with its own names: `str(error)` for the library, `error.describe(name_of)`
for any other front end. No layer reads the sentences of another.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

NameOf = Callable[[str], str]
Words = str | Callable[[NameOf], str]  # a phrase, or where it names other arguments, a function of how arguments are called

LONGEST_VALUE = 200  # characters of a value in a message


class ArgumentError(ValueError):
    """An argument that cannot be used.

        {subject} {problem}; it must be {allowed}; {remedy}

    Arguments:
        argument: which one, such as "num_steps" or "policy.tau".
        value: what it was.
        allowed: what it must be; it completes "it must be ...".
        subject: what is wrong, where that is not the argument itself, such as a row of a file.
        problem: what is wrong with it, where that is not its value; without it "is {value}".
        remedy: what else to do.

    >>> str(ArgumentError("num_steps", 0, "1 or more"))
    'num_steps is 0; it must be 1 or more'
    >>> error = ArgumentError("num_steps", 9, lambda name: f"at most {name('max_steps')}")
    >>> error.describe({"num_steps": "--steps", "max_steps": "--max-steps"}.get)
    '--steps is 9; it must be at most --max-steps'
    """

    def __init__(
        self,
        argument: str,
        value: Any = None,
        allowed: Words = "",
        *,
        subject: Words = "",
        problem: Words = "",
        remedy: Words = "",
    ) -> None:
        super().__init__(argument, value, allowed)
        self.argument = argument
        self.value = value
        self.allowed = allowed
        self.subject = subject
        self.problem = problem
        self.remedy = remedy

    def describe(self, name_of: NameOf) -> str:
        """The sentence, with arguments as `name_of` calls them."""
        subject = _say(self.subject, name_of) or name_of(self.argument)
        problem = _say(self.problem, name_of) or f"is {show(self.value)}"
        allowed, remedy = _say(self.allowed, name_of), _say(self.remedy, name_of)
        parts = [f"{subject} {problem}", f"it must be {allowed}" if allowed else "", remedy]
        return "; ".join(part for part in parts if part)

    def renamed(self, names: Mapping[str, str]) -> "ArgumentError":
        """The same error of a function that has another name for the argument."""
        argument = names.get(self.argument, self.argument)
        words: Any = dict(subject=self.subject, problem=self.problem, remedy=self.remedy)
        return type(self)(argument, self.value, self.allowed, **words)

    def __reduce__(self) -> tuple[Any, ...]:
        """As its sentence, since words that are functions cannot be pickled."""
        return _from_words, (self.argument, str(self))

    def __str__(self) -> str:
        """The sentence, with arguments as the library calls them."""
        return self.describe(lambda argument: argument)


def _from_words(argument: str, words: str) -> ArgumentError:
    subject, _, problem = words.partition(" ")
    return ArgumentError(argument, subject=subject, problem=problem)


def _say(words: Words, name_of: NameOf) -> str:
    return words if isinstance(words, str) else words(name_of)


def show(value: Any) -> str:
    """A value in a message: not too long, and whole numbers of NumPy as numbers."""
    if isinstance(value, np.generic):
        value = value.item()
    if hasattr(value, "tolist") and hasattr(value, "shape"):
        text = np.array2string(np.asarray(value), threshold=8, separator=", ")
    elif type(value).__repr__ is object.__repr__:
        text = f"an object of class {type(value).__name__}"  # and not where it is in memory
    else:
        text = repr(value)
    return shorten(text)


def shorten(text: str) -> str:
    """Its beginning and its end, if it is long."""
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE // 2]}…{text[-LONGEST_VALUE // 2 :]}"


def refuse_first(argument: str, wrong: Any, values: Any, allowed: Words = "", problem: str = "") -> None:
    """Raises at the first step of the first trial that is wrong, with the value there; arrays are (steps,) or (trials, steps)."""
    wrong, values = np.atleast_2d(wrong), np.atleast_2d(values)
    if wrong.any():
        trial, step = np.argwhere(wrong)[0]
        where = f"step {step}" if wrong.shape[0] == 1 else f"trial {trial}, step {step}"
        value = values[trial, step]
        raise ArgumentError(argument, value, allowed, problem=f"is {show(value)} at {where}{problem}")
