"""Results that show themselves: on a terminal, in a notebook, in a plot; with a word on what ± is, and without the extras."""

import html
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import jaxbias as jb
from jaxbias.reporting.answer import answer_sentence
from jaxbias.reporting.plots.accepting import bias_of
from jaxbias.reporting.sentences import fit_sentence

KEY, POLICY, FAMILY = jax.random.key(0), jb.Greedy(tau=0.5), jb.Normal(sigma=1.0)
LABELS = ("today", "<b>new</b>")


@pytest.fixture(scope="module")
def history():
    return jb.simulate(KEY, POLICY, FAMILY, [1.0, 0.5], num_steps=30)


@pytest.fixture(scope="module")
def results(history):
    """One of each kind."""
    labels = np.array(LABELS)[np.asarray(history.arms)]
    frame = pd.DataFrame({"arm": labels, "reward": np.asarray(history.rewards)})
    methods = ["sample_mean", "shrinkage"]
    analysis = jb.debias(KEY, frame, POLICY, FAMILY, methods=methods, arms=LABELS, control="today", evaluate=False)
    plan = jb.plan(KEY, {"greedy": POLICY}, FAMILY, [1.0, 0.0], num_steps=[20], num_trials=32, num_paths=128)
    return {
        "analysis": analysis,
        "summary": jb.measure_bias(KEY, POLICY, FAMILY, [1.0, 0.5], num_steps=16, num_trials=500),
        "estimate": jb.sample_mean(history),
        "evaluation": jb.evaluate(KEY, POLICY, FAMILY, [1.0, 0.5], 16, methods=methods, num_trials=50),
        "comparison": analysis.comparison,
        "contrasts": analysis.decisions.contrasts,
        "plan": plan,
    }


KINDS = ("analysis", "summary", "estimate", "evaluation", "comparison", "contrasts", "plan")


@pytest.mark.parametrize("kind", KINDS)
def test_text_and_page_say_the_same(results, kind):
    text, page = str(results[kind]), results[kind]._repr_html_()
    words = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())
    for line in text.splitlines():
        for part in re.split(r"\s{2,}", line.strip()):
            assert " ".join(part.split()) in words
    assert page.count("<table>") == page.count("<caption") >= 1
    assert "<script" not in page
    assert "object at 0x" not in text


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_with_plus_and_minus_says_what_it_is(results, kind):
    for table in re.findall(r"<table>.*?</table>", results[kind]._repr_html_(), re.DOTALL):
        caption, body = table.split("</caption>")
        assert ("±" in body) <= ("standard error" in caption)


def test_the_analysis_begins_with_its_answer_and_shows_its_figures(results):
    analysis = results["analysis"]
    lines = str(analysis).splitlines()
    assert lines[0] == answer_sentence(analysis)
    rows = {label: next(line for line in lines if line.startswith(label)) for label in LABELS}
    for arm, label in enumerate(LABELS):
        shown = [float(word) for word in re.findall(r"-?\d+\.\d+", rows[label])]
        figures = [float(getattr(analysis.estimate, name)[arm]) for name in ("mean", "stderr", "lower", "upper")]
        assert shown == pytest.approx([float(analysis.comparison.estimates["sample_mean"].mean[arm]), *figures], abs=0.00501)
    assert "<b>" not in analysis._repr_html_()


def test_an_analysis_that_is_not_trusted_says_so(results):
    wrong = pd.DataFrame({"arm": list("AB" * 20), "reward": np.tile([1.0, 0.0], 20)})
    found = jb.debias(KEY, wrong, jb.Greedy(), FAMILY, methods=["sample_mean", "confidence_sequence"], evaluate=False)
    assert str(found).startswith("Do not decide from these figures yet: ")
    assert fit_sentence(found) in str(found)


def test_several_logs_are_averaged():
    many = jb.simulate(KEY, POLICY, FAMILY, [1.0, 0.5], num_steps=30, num_trials=4)
    estimate = jb.sample_mean(many)
    assert "averages over 4 logs" in str(estimate)
    shown = re.search(r"^0 +(-?[\d.]+) ", str(estimate), re.MULTILINE)
    assert float(shown[1]) == pytest.approx(float(estimate.mean[:, 0].mean()), abs=0.00501)


def test_a_traced_estimate_has_no_numbers_to_show():
    shown = []

    @jax.jit
    def mean_of(rewards):
        estimate = jb.sample_mean(jb.History(arms=jnp.array([0, 1, 0]), rewards=rewards, num_arms=2))
        shown.append((str(estimate), estimate._repr_html_()))
        return estimate.mean

    mean_of(jnp.ones(3))
    assert shown[0][0].startswith("Estimate(method='sample_mean'")
    assert shown[0][1] is None


def test_printing_needs_none_of_the_extras():
    code = (
        "import sys\n"
        "for name in ('rich', 'typer', 'pandas', 'matplotlib', 'jinja2', 'pyarrow'): sys.modules[name] = None\n"
        "import jax, jaxbias as jb\n"
        "history = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.5], num_steps=12)\n"
        "print(jb.sample_mean(history))\n"
        "print(jb.compare(jax.random.key(0), history, None, jb.Normal(), methods=['sample_mean']))\n"
        "print(jb.measure_bias(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.5], num_steps=8, num_trials=100))\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert found.stdout.count("±") > 5


def test_plots_accept_each_of_them(results):
    analysis, plots = results["analysis"], jb.plots
    for given in (analysis, analysis.comparison, results["estimate"]):
        assert plots.plot_estimates(given).axes[0].get_xlabel() == "mean reward"
    labels = [label.get_text().split("\n")[0] for label in plots.plot_estimates(analysis).axes[0].get_yticklabels()]
    assert labels == list(LABELS)
    assert len(plots.plot_bias(results["summary"]).axes) == 1
    assert len(plots.plot_evaluation(results["evaluation"]).axes) == 3
    assert plots.plot_contrasts(analysis).axes[0].get_xlabel() == "difference to today"
    assert len(plots.plot_answer(analysis).axes) == 1
    assert len(plots.plot_plan(results["plan"]).axes) == 1


def test_a_plot_says_what_it_cannot_draw(results):
    with pytest.raises(jb.ArgumentError, match="evaluation is not in this analysis"):
        jb.plots.plot_evaluation(results["analysis"])
    with pytest.raises(jb.ArgumentError, match="bias is of type int; it must be an Analysis or an ArmBias"):
        bias_of(3, None)
