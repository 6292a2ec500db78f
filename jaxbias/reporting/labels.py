"""Labels of arms as text: on one line, shortened, in quotes, and in lists."""

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from jaxbias._core.errors import ArgumentError

LONGEST_IN_SENTENCE = 80  # characters: many labels begin and end alike
LONGEST_IN_PLOT = 18  # beside an axis
LONGEST_IN_TABLE = 40  # of the terminal
MOST_NAMED = 5  # arms in a sentence


def plain_text(text: str) -> str:
    """The text on one line, without control characters and marks that change its direction.

    >>> plain_text("two\\nlines\\x00"), plain_text("\\x00")
    ('two lines', "'\\\\x00'")
    """
    kept = "".join(" " if char.isspace() else char for char in text if char.isspace() or _is_text(char))
    return " ".join(kept.split()) or ascii(text)


def _is_text(char: str) -> bool:
    joins, in_no_document = "\u200c\u200d", "\ufffe\uffff"  # emoji and some scripts need the first; XML refuses the second
    return char in joins or (char not in in_no_document and unicodedata.category(char) not in ("Cc", "Cf", "Cs"))


def shorten(text: str, longest: int) -> str:
    """The text without its middle where it is too long, as long labels often begin alike.

    >>> shorten("treatment group 17", 11)
    'treat…up 17'
    """
    tail = (longest - 1) // 2
    return text if len(text) <= longest else f"{text[: longest - 1 - tail]}…{text[len(text) - tail :]}"


def quote(label: str) -> str:
    """The label in quotes, shortened for a sentence.

    >>> quote("A"), len(quote("a" * 1000))
    ("'A'", 82)
    """
    return repr(shorten(label, LONGEST_IN_SENTENCE))


def short_names(labels: Sequence[str] | None, num_arms: int, longest: int = LONGEST_IN_PLOT) -> list[str]:
    """A short name for each arm, different from all others; without labels, its number."""
    if labels is None:
        return [f"arm {arm}" for arm in range(num_arms)]
    if len(labels) != num_arms:
        raise ArgumentError("labels", labels, problem=f"has {len(labels)} labels", remedy=f"give {num_arms}, one for each arm")
    short = [shorten(plain_text(str(label)), longest) for label in labels]
    return [name if short.count(name) == 1 else f"{arm}: {name[: longest - 5]}" for arm, name in enumerate(short)]


def join(parts: Sequence[str]) -> str:
    """Several words or clauses as one.

    >>> join(["a", "b", "c"]), join(["a"]), join([])
    ('a, b and c', 'a', '')
    """
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)


def name_some(labels: Iterable[str], most: int = MOST_NAMED) -> str:
    """The labels in quotes; of many, the first, and how many others there are.

    >>> name_some("AB"), name_some("ABCD", most=2)
    ("'A' and 'B'", "'A', 'B' and 2 more")
    """
    names = [quote(label) for label in labels]
    return join([*names[:most], f"{len(names) - most} more"] if len(names) > most else names)


def name_arms(labels: Sequence[str], arms: Sequence[int]) -> str:
    """The labels of these arms in quotes; of many, if they are all arms, how many there are."""
    every = len(arms) == len(labels) > MOST_NAMED
    return f"all {len(arms)} arms" if every else name_some(labels[arm] for arm in arms)


def policy_title(policy: Any) -> str:
    """The name of a policy, with those that it is wrapped around.

    >>> import jaxbias as jb
    >>> policy_title(jb.Greedy()), policy_title(jb.Floored(jb.TopTwo(jb.Thompson())))
    ('Greedy', 'Floored(TopTwo(Thompson))')
    """
    inner = getattr(policy, "policy", None)
    return type(policy).__name__ if inner is None else f"{type(policy).__name__}({policy_title(inner)})"
