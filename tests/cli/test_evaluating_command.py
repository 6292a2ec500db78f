"""`jaxbias evaluate` against the call it stands for."""

import json

import jax
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.cli import main

WORDS = ["evaluate", "--policy", "greedy", "--mean", "1", "--mean", "0.5", "--steps", "8", "--trials", "100"]
METHODS = ["--method", "sample_mean", "--method", "confidence_sequence"]


def test_the_numbers_are_those_of_the_call(capsys):
    assert main([*WORDS, *METHODS, "--json", "--seed", "3"]) == 0
    document = json.loads(capsys.readouterr().out)
    methods = ["sample_mean", "confidence_sequence"]
    found = jb.evaluate(jax.random.key(3), jb.Greedy(), jb.Normal(), [1.0, 0.5], 8, methods=methods, num_trials=100)
    assert list(document["methods"]) == methods
    for name in ("bias", "bias_stderr", "mse", "mse_stderr", "coverage", "coverage_stderr", "width", "width_stderr"):
        np.testing.assert_allclose(document["methods"]["sample_mean"][name], getattr(found.methods["sample_mean"], name))
    assert document["settings"]["steps"] == 8


def test_a_table_and_why_a_method_does_not_apply(capsys):
    assert main([*WORDS, *METHODS, "--method", "conditional_mle"]) == 0
    printed = capsys.readouterr().out
    assert "Averages over arms" in printed
    assert "conditional_mle does not apply" in printed


def test_a_picture(capsys, tmp_path):
    for name in ("found.png", "found.svg"):
        assert main([*WORDS, *METHODS, "--plot", str(tmp_path / name)]) == 0
    assert (tmp_path / "found.png").read_bytes().startswith(b"\x89PNG")
    assert "coverage" in (tmp_path / "found.svg").read_text().lower()
    assert "Root mean squared error by pulls" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "start"),
    [
        (["--plot", "found.html"], "jaxbias: --plot is 'found.html'"),
        (["--method", "nonsense"], "jaxbias: --method has 'nonsense'"),
        (["--trials", "1"], "jaxbias: --trials is 1"),
        (["--steps", "1"], "jaxbias: --steps is 1"),
    ],
)
def test_bad_input_is_one_line(capsys, words, start):
    assert main([*WORDS, *words]) == 2
    assert capsys.readouterr().err.startswith(start)
