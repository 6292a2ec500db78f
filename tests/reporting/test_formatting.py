"""Numbers and labels as text."""

import math

import numpy as np
import pytest

from jaxbias.reporting.formatting import NONE, decimals, figure, interval, number, share_decimals
from jaxbias.reporting.labels import LONGEST_IN_PLOT, LONGEST_IN_SENTENCE, name_arms, quote, short_names, shorten


@pytest.mark.parametrize(
    ("value", "stderr", "shown"),
    [
        (0.98765, 0.0321, "0.988"),
        (0.98765, 0.0999, "0.988"),
        (0.98765, 0.1, "0.99"),
        (12345.6, 12.0, "12,346"),
        (12345.6, 1.2, "12,345.6"),
        (-1.2e-9, 3.4e-10, "-1.20e-09"),
        (0.0, 1e-9, "0"),
        (2 / 3, math.nan, "0.6667"),
        (2 / 3, 0.0, "0.6667"),
        (math.nan, 1.0, NONE),
        (math.inf, 1.0, "∞"),
        (-math.inf, 1.0, "-∞"),
    ],
)
def test_figures_have_the_digits_they_deserve(value, stderr, shown):
    assert number(value, stderr) == shown


def test_decimals_give_the_error_two_digits():
    errors = [123.0, 12.3, 1.23, 0.123, 0.00999, 0.01]
    assert [decimals(error) for error in errors] == [0, 0, 1, 2, 4, 3]
    assert decimals(0.0) is None
    assert decimals(math.inf) is None


def test_figures_of_like_errors_have_the_same_decimals():
    np.testing.assert_array_equal(share_decimals([0.2, 0.05, np.nan, 0.1]), [0.05] * 4)
    np.testing.assert_array_equal(share_decimals([0.2, 0.001]), [0.2, 0.001])
    np.testing.assert_array_equal(share_decimals([np.nan, 0.0]), [np.nan, 0.0])


def test_a_figure_without_an_error_is_a_number():
    for stderr in (0.0, math.nan, math.inf):
        assert figure(2 / 3, stderr) == "0.6667"
    assert figure(math.nan, 0.1) == NONE
    assert figure(1.5, 0.2, 0.01) == "1.500 ± 0.200"


def test_an_interval_may_be_open_or_absent():
    assert interval(-math.inf, 1.0, 0.1) == "[-∞, 1.00]"
    assert interval(1.0, 0.0) == ""


# Labels


def test_labels_that_begin_and_end_alike_are_told_apart():
    names = short_names(["same beginning " + "x" * 40 + f"{arm} same ending" for arm in range(3)], 3)
    assert len(set(names)) == 3
    assert max(map(len, names)) <= LONGEST_IN_PLOT


@pytest.mark.parametrize("length", [10, 11, 80, 81, 500])
def test_a_shortened_label_keeps_its_ends(length):
    text = "".join(str(place % 10) for place in range(length))
    for longest in (10, 11, 80):
        short = shorten(text, longest)
        assert len(short) == min(length, longest)
        head, _, tail = short.partition("…")
        assert text.startswith(head)
        assert text.endswith(tail)
    assert len(quote(text)) <= LONGEST_IN_SENTENCE + 2


def test_of_many_arms_some_are_named():
    labels = tuple("ABCDEFGH")
    assert name_arms(labels, range(8)) == "all 8 arms"
    assert name_arms(labels, range(7)) == "'A', 'B', 'C', 'D', 'E' and 2 more"
    assert name_arms(labels[:2], (0, 1)) == "'A' and 'B'"
