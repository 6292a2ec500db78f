"""Where XLA finds no memory, a method is left out, and a command ends in one line."""

from importlib import import_module

import jax
import numpy as np
import pytest

import jaxbias as jb
from jaxbias._core.memory import refusing_what_has_no_room
from jaxbias.cli import main
from jaxbias.estimators.registry import METHODS

NO_ROOM = "RESOURCE_EXHAUSTED: Out of memory allocating 45101958192 bytes."
HISTORY = jb.History(arms=np.array([0, 1] * 6), rewards=np.arange(12.0), num_arms=2)


def fail(message):
    def function(*_, **__):
        raise jax.errors.JaxRuntimeError(message)

    return function


def test_it_is_a_refusal_that_says_how_much():
    words = r"^shrinkage needs 45 GB of memory at once, more than there is; take fewer rows"
    with pytest.raises(jb.ArgumentError, match=words), refusing_what_has_no_room("shrinkage"):
        fail(NO_ROOM)()


def test_other_errors_of_jax_are_not_hidden():
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL"), refusing_what_has_no_room("shrinkage"):
        fail("INTERNAL: 5 bytes")()


def test_a_method_without_room_is_left_out_of_a_comparison(monkeypatch):
    monkeypatch.setattr(import_module(METHODS["shrinkage"].module), "shrinkage", fail(NO_ROOM))
    found = jb.compare(jax.random.key(0), HISTORY, None, jb.Normal(), methods=["sample_mean", "shrinkage"])
    assert list(found.estimates) == ["sample_mean"]
    assert "45 GB" in str(found.reasons["shrinkage"])


def test_a_command_without_room_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr("jaxbias.simulate", fail(NO_ROOM))
    monkeypatch.setattr("jaxbias.measure_bias", fail(NO_ROOM))
    assert main(["simulate", "--quiet"]) == 2
    assert capsys.readouterr().err.startswith(
        "jaxbias: the command needs 45 GB of memory at once, more than there is; take fewer"
    )
