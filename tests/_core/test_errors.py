"""Errors as values: the same one in the words of the library and of another front end."""

import pickle

import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias._core.errors import ArgumentError, refuse_first, show

OPTIONS = {"num_steps": "--steps", "max_steps": "--max-steps"}


def test_it_is_a_value_error_that_knows_its_argument():
    assert jb.ArgumentError is ArgumentError
    with pytest.raises(ValueError, match=r"^num_steps is 0; it must be 1 or more$") as error:
        raise ArgumentError("num_steps", 0, "1 or more")
    assert (error.value.argument, error.value.value, error.value.allowed) == ("num_steps", 0, "1 or more")


@pytest.mark.parametrize(
    ("options", "text", "by_options"),
    [
        ({"allowed": "1 or more"}, "num_steps is 0; it must be 1 or more", "--steps is 0; it must be 1 or more"),
        ({}, "num_steps is 0", "--steps is 0"),
        ({"problem": "is missing"}, "num_steps is missing", "--steps is missing"),
        ({"subject": "row 3", "allowed": "1"}, "row 3 is 0; it must be 1", "row 3 is 0; it must be 1"),
        ({"remedy": "try another"}, "num_steps is 0; try another", "--steps is 0; try another"),
        (
            {"allowed": lambda name: f"at most {name('max_steps')}", "remedy": lambda name: f"raise {name('max_steps')}"},
            "num_steps is 0; it must be at most max_steps; raise max_steps",
            "--steps is 0; it must be at most --max-steps; raise --max-steps",
        ),
        (
            {"subject": lambda name: f"the end of {name('num_steps')}", "problem": lambda name: f"passes {name('max_steps')}"},
            "the end of num_steps passes max_steps",
            "the end of --steps passes --max-steps",
        ),
    ],
)
def test_its_sentence(options, text, by_options):
    error = ArgumentError("num_steps", 0, **options)
    assert str(error) == text
    assert error.describe(OPTIONS.__getitem__) == by_options


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.int64(3), "3"),
        (np.float32(0.5), "0.5"),
        ("greedy", "'greedy'"),
        (np.array([1.0, -1.0]), "[ 1., -1.]"),
        (jnp.array([1, 2]), "[1, 2]"),
        (np.arange(1000), "[  0,   1,   2, ..., 997, 998, 999]"),
        (None, "None"),
    ],
)
def test_values_in_messages(value, text):
    assert show(value) == text


def test_a_long_value_is_cut_in_the_middle():
    text = show("start" + "x" * 1000 + "end")
    assert len(text) == 201
    assert (text[:6], text[-4:]) == ("'start", "end'")


@pytest.mark.parametrize(
    ("values", "where"),
    [([1.0, np.nan, np.nan], "nan at step 1"), ([[1.0, 2.0], [3.0, np.nan]], "nan at trial 1, step 1")],
)
def test_the_first_that_is_wrong_is_named(values, where):
    with pytest.raises(ArgumentError, match=f"^rewards is {where}, here; it must be finite$") as error:
        refuse_first("rewards", np.isnan(values), values, "finite", ", here")
    assert error.value.argument == "rewards"
    assert np.isnan(error.value.value)
    refuse_first("rewards", np.zeros_like(values, dtype=bool), values, "finite")


def test_it_can_be_sent_to_another_process():
    """As its sentence, also where some of its words are functions."""
    error = ArgumentError("num_steps", 0, lambda name: f"at most {name('max_steps')}", remedy="try another")
    there = pickle.loads(pickle.dumps(error))
    assert (there.argument, str(there)) == ("num_steps", "num_steps is 0; it must be at most max_steps; try another")


def test_it_can_be_renamed():
    """For a function that has another name for the argument; what it does not know stays."""
    error = ArgumentError("num_trials", 0, "1 or more", remedy="try another")
    assert str(error.renamed({"num_trials": "num_paths"})) == "num_paths is 0; it must be 1 or more; try another"
    assert str(error.renamed({"mean": "means"})) == str(error)
