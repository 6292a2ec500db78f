"""Numbers as text: one format for each kind of number, wherever it is shown."""

import math
from typing import Any

import numpy as np

NONE = "\N{EN DASH}"  # a number that does not exist
ALIKE = 10  # standard errors that differ by less than this factor share their decimals, which is one digit too many at most
MOST_DECIMALS = 6  # with more, most of them are zeros, and the number is written with an exponent


def decimals(stderr: float) -> int | None:
    """How many decimals give this standard error two digits; None where there is no error."""
    if not (math.isfinite(stderr) and stderr > 0):
        return None
    return max(1 - math.floor(math.log10(stderr)), 0)


def number(value: Any, stderr: Any = math.nan) -> str:
    """A number with the decimals of its standard error, or with four digits where it has none.

    >>> number(0.98765, 0.0321), number(1234567.8, 450.0), number(1.2e-9, 3.4e-10), number(2 / 3), number(float("-inf"))
    ('0.988', '1,234,568', '1.20e-09', '0.6667', '-∞')
    >>> number(-0.0004, 0.032)
    '0.000'
    """
    value, places = float(value) + 0.0, decimals(float(stderr))  # + 0.0: no minus zero
    if math.isnan(value):
        return NONE
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if places is None or (value == 0 and places > MOST_DECIMALS):
        return f"{value:.4g}"
    if places > MOST_DECIMALS:
        return f"{value:.{max(places + math.floor(math.log10(abs(value))), 0)}e}"
    text = f"{value:,.{places}f}"
    return text.lstrip("-") if float(text.replace(",", "")) == 0 else text  # no minus zero after rounding either


def figure(value: Any, stderr: Any, decimals_of: Any = None, unit: str = "") -> str:
    """A number with its standard error, where it has one; both are rounded like `decimals_of`, by default the error itself.

    >>> figure(0.98765, 0.0321), figure(98.765, 3.21, unit="%"), figure(2 / 3, float("nan"))
    ('0.988 ± 0.032', '98.8% ± 3.2', '0.6667')
    """
    value, stderr = float(value), float(stderr)
    error = stderr if decimals_of is None else decimals_of
    if not (math.isfinite(value) and math.isfinite(stderr) and stderr > 0):
        return f"{number(value, error)}{unit}"
    return f"{number(value, error)}{unit} ± {number(stderr, error)}"


def interval(lower: Any, upper: Any, stderr: Any = math.nan) -> str:
    """An interval, rounded like a number with this standard error; nothing where an end does not exist.

    >>> interval(0.5, 1.25, 0.1), interval(0.5, float("nan"))
    ('[0.50, 1.25]', '')
    """
    return f"[{number(lower, stderr)}, {number(upper, stderr)}]" if lower <= upper else ""


def share_decimals(stderrs: Any) -> np.ndarray:
    """The standard errors by which a column is rounded: the smallest where they are alike, so that the column lines up."""
    stderrs = np.asarray(stderrs, np.float64)
    usable = stderrs[np.isfinite(stderrs) & (stderrs > 0)]
    alike = len(usable) and usable.max() <= ALIKE * usable.min()
    return np.full(len(stderrs), usable.min()) if alike else stderrs


def count(value: Any) -> str:
    """A whole number.

    >>> count(1234567)
    '1,234,567'
    """
    return f"{int(value):,}"


def count_pulls(pulls: Any) -> str:
    """A number of pulls.

    >>> count_pulls(1), count_pulls(1234)
    ('1 pull', '1,234 pulls')
    """
    return f"{count(pulls)} pull" + ("" if pulls == 1 else "s")


def sample_size(effective: float) -> str:
    """An effective sample size, which need not be whole.

    >>> sample_size(12.345), sample_size(1234.5)
    ('12.3', '1,234')
    """
    return f"{effective:,.0f}" if effective >= 100 else f"{effective:.3g}"


def p_value(value: float) -> str:
    """A p-value with its letter.

    >>> p_value(0.0324), p_value(1e-5)
    ('p = 0.032', 'p < 0.001')
    """
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"


def probability(value: float) -> str:
    """A probability, to two digits however small it is.

    >>> probability(1 / 3), probability(1.234e-5)
    ('0.33', '1.2e-05')
    """
    return f"{value:.2g}"


def unit_mean(value: float) -> str:
    """A mean of rewards of 0 and 1.

    >>> unit_mean(1.0)
    '1.00'
    """
    return f"{value:.2f}"


def average_count(value: float) -> str:
    """An average of whole numbers.

    >>> average_count(12.3456)
    '12.35'
    """
    return f"{value:.2f}"


def in_errors(value: float | None) -> str:
    """A distance in standard errors.

    >>> in_errors(4.321)
    '4.3'
    """
    return NONE if value is None else f"{value:.1f}"


def percent(value: float) -> str:
    """A share in percent.

    >>> percent(0.1234)
    '12.3%'
    """
    return f"{value:.1%}"


def level(value: float) -> str:
    """The level of an interval.

    >>> level(0.95), level(0.999)
    ('95%', '99.9%')
    """
    return f"{100 * value:g}%"


def given(value: float) -> str:
    """A number that somebody typed.

    >>> given(0.5), given(3.0)
    ('0.5', '3')
    """
    return f"{value:g}"
