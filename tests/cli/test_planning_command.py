"""`jaxbias plan` against the call it stands for."""

import json

import jax
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.cli import main

WORDS = ["plan", "--policy", "greedy", "--policy", "uniform", "--mean", "1", "--mean", "0"]
RUN = [*WORDS, "--steps", "20", "--trials", "64", "--paths", "128"]
KEYS = {"policy", "steps", "regret", "bias", "half_width", "coverage", "power", "best_arm"}


def test_the_numbers_are_those_of_the_call(capsys, tmp_path):
    """As JSON first, then as a table, a page and a plot from the designs that were kept."""
    kept = ["--out", str(tmp_path / "kept")]
    assert main([*RUN, *kept, "--json", "--seed", "3"]) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert "jaxbias: 2/2 uniform, 20 steps" in err
    policies = {"greedy": jb.Greedy(), "uniform": jb.Uniform()}
    found = jb.plan(jax.random.key(3), policies, jb.Normal(sigma=1.0), [1.0, 0.0], [20], num_trials=64, num_paths=128)
    for design, other in zip(document["designs"], found.designs, strict=True):
        assert set(design) >= KEYS | {f"{name}_stderr" for name in KEYS - {"policy", "steps"}}
        assert design["policy"] == other.policy
        np.testing.assert_allclose([design["regret"], design["half_width"]], [other.regret, other.half_width])
    assert document["settings"]["seed"] == 3
    files = {"--report": tmp_path / "plan.html", "--plot": tmp_path / "plan.svg"}
    assert main([*RUN, *kept, "--seed", "3", "--quiet", *(str(word) for pair in files.items() for word in pair)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "The difference is that of the best arm and the second best" in out
    assert f"The page is in {files['--report']}." in out
    page = files["--report"].read_text()
    assert page.count('<th scope="row">') == 2
    assert "jaxbias plan --policy greedy" in page
    assert "<svg" in files["--plot"].read_text()


def test_a_goal_that_is_not_reached_is_said(capsys):
    words = [*WORDS, "--half-width", "0.001", "--max-steps", "600", "--trials", "64", "--paths", "128"]
    assert main([*words, "--quiet"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "greedy does not reach a half-width of 0.001: with 600 steps, the most that were tried, it is " in out
    assert main([*words, "--json", "--quiet"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [target["steps"] for target in document["targets"]] == [None, None]
    assert document["designs"] == []


@pytest.mark.parametrize(
    ("words", "start"),
    [
        (["plan", "--mean", "1", "--mean", "0", "--steps", "20"], "jaxbias: Missing option '--policy'"),
        (WORDS, "jaxbias: --steps is empty; give --steps, --half-width or --power"),
        ([*WORDS, "--steps", "1"], "jaxbias: --steps is 1; it must be 2 or more"),
        ([*WORDS, "--half-width", "0"], "jaxbias: --half-width is 0.0; it must be positive"),
        ([*WORDS, "--power", "1"], "jaxbias: --power is 1.0; it must be above 0 and below 1"),
        ([*WORDS[:-1], "1", "--power", "0.8"], "jaxbias: --mean is [1.0, 1.0]: the best arm and the second best do not differ"),
        ([*WORDS, "--steps", "20", "--control", "2"], "jaxbias: --control is 2; it must be an arm from 0 to 1"),
        ([*WORDS, "--policy", "greedy", "--steps", "20"], "jaxbias: --policy greedy is given twice"),
        ([*WORDS, "--steps", "20", "--gamma", "0.5"], "jaxbias: --gamma is not a setting of these policies"),
        ([*WORDS, "--steps", "20", "--report", "no/such/page.html"], "jaxbias: --report is 'no/such/page.html'"),
        ([*WORDS, "--steps", "20", "--plot", "plan.html"], "jaxbias: --plot is 'plan.html'"),
        ([*WORDS, "--steps", "20", "--prior", "draws.csv"], "jaxbias: --mean and --prior are both given"),
        (["plan", "--policy", "greedy", "--steps", "20"], "jaxbias: --mean is not given"),
        (["plan", "--policy", "greedy", "--prior", "no-such.csv", "--steps", "20"], "jaxbias: --prior is 'no-such.csv'"),
    ],
)
def test_bad_input_is_one_line(capsys, words, start):
    assert main(words) == 2
    assert capsys.readouterr().err.startswith(start)
