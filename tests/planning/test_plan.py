"""Plans: their figures against closed forms and other functions of the library, what they refuse, and runs that go on."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.estimators.inversion.anchors import Anchors
from jaxbias.estimators.inversion.question import ask, weigh
from jaxbias.estimators.inversion.together import PLACES, invert_together, pool_anchors
from jaxbias.planning import entry
from jaxbias.planning.measuring import average
from jaxbias.planning.results import Target
from jaxbias.reporting.planning import plan_answer

KEY, MEAN, FAMILY = jax.random.key(0), [1.0, 0.0], jb.Normal(sigma=1.0)
POLICIES = {"greedy": jb.Greedy(), "uniform": jb.Uniform()}
OPTIONS = dict(num_trials=64, num_paths=128)


@pytest.fixture(scope="module")
def found():
    return jb.plan(KEY, POLICIES, FAMILY, MEAN, [20], **OPTIONS)


def test_the_figures_of_uniform_choices_have_closed_forms(found):
    """Pulls are 1 and binomial: the regret is 1 + 9 on average, the interval that of a normal, and nothing is biased."""
    design = found.designs[1]
    assert (design.policy, design.steps, design.logs, design.usable) == ("uniform", 20, 64, 1.0)
    assert abs(design.regret - 10) < 4 * design.regret_stderr
    assert abs(design.bias) < 4 * design.bias_stderr
    counts = 1 + np.arange(19)
    chance = np.exp([_log_binomial(18, pulls - 1) for pulls in counts]) / 2**18
    expected = 1.959964 * np.sum(chance * np.sqrt(1 / counts + 1 / (20 - counts)))
    assert abs(design.half_width - expected) < 4 * design.half_width_stderr
    assert design.half_width_stderr < 0.05 * expected
    power = 0.6  # about P(|N(1 / 0.46, 1)| > 1.96)
    assert abs(design.power - power) < 4 * design.power_stderr
    assert abs(design.coverage - 0.95) < 4 * max(design.coverage_stderr, np.sqrt(0.95 * 0.05 / 64))


def _log_binomial(total, chosen):
    return sum(np.log((total - one) / (chosen - one)) for one in range(chosen))


def test_regret_and_bias_are_those_of_measure_bias(found):
    design = found.designs[0]
    other = jb.measure_bias(jax.random.key(1), jb.Greedy(), FAMILY, MEAN, 20, 20_000)
    assert abs(design.regret - other.regret) < 4 * np.hypot(design.regret_stderr, other.regret_stderr)
    assert abs(design.bias - other.average_bias) < 4 * np.hypot(design.bias_stderr, other.average_bias_stderr)
    assert design.regret < found.designs[1].regret
    assert design.half_width > found.designs[1].half_width  # it earns more, and teaches less


def test_tests_that_share_paths_are_those_that_do_not():
    """Ends of the same logs, in units of their standard errors."""
    logs = jb.simulate(KEY, jb.Greedy(), FAMILY, [0.5, 0.0], 20, 64)
    own = jb.test_inversion(jax.random.key(1), logs, jb.Greedy(), FAMILY, contrast=[[1.0, -1.0]], num_paths=1024)
    question = ask(logs, jb.Greedy(), FAMILY, 1024, None, None)
    shared = invert_together(jax.random.key(2), question, weigh([[1.0, -1.0]], logs), 0.95, 0.0, 2)
    both = np.asarray(own.converged & shared.converged)[:, 0]
    assert both.mean() > 0.8
    for name in ("lower", "upper", "mean"):
        off = np.asarray((getattr(shared, name) - getattr(own, name)) / own.stderr)[both]
        assert np.abs(off).mean() < 0.2, name
        assert abs(off.mean()) < 0.08, name
    off = np.asarray(shared.diagnostics["p_value"] - own.diagnostics["p_value"])[both]
    assert np.abs(off).mean() < 0.05


def test_pooled_anchors_are_quantiles_of_all_logs():
    places = jnp.stack([jnp.linspace(0.0, 1.0, 16), jnp.linspace(2.0, 3.0, 16)])[:, None]  # two logs, one arm
    common = pool_anchors(Anchors(centre=jnp.array([[0.5], [2.5]]), stderr=jnp.ones((2, 1)), places=places))
    assert common.places.shape == (1, PLACES)
    assert float(jnp.mean(common.places < 1.5)) == 0.5
    np.testing.assert_allclose(common.centre, [1.5])


def test_errors_of_averages_allow_for_what_logs_share():
    each = np.array([1.0, 1.0, 3.0, 3.0])
    assert average(each) == (2.0, pytest.approx(np.sqrt(4 / 3 / 4)))
    assert average(each, 2) == (2.0, pytest.approx(1.0))  # two clusters, 1 and 3: the error of their mean
    assert average(np.array([1.0, np.nan, 3.0, np.nan]))[0] == 2.0
    assert np.isnan(average(np.full(4, np.nan))).all()


def test_a_prior_over_means():
    """Draws of it, given or by a function: the better arm, and the pair that is compared, are those of each log."""
    draws = np.array([[0.0, 2.0], [2.0, 0.0]])
    found = jb.plan(KEY, jb.Uniform(), FAMILY, draws, 20, num_trials=64, num_paths=128)
    (design,) = found.designs
    assert abs(design.regret - 20) < 4 * design.regret_stderr
    assert design.best_arm > 0.9
    assert abs(design.coverage - 0.95) < 0.12  # 4 errors of 64 logs
    assert design.power > 0.9  # 4.5 standard errors, with either sign of the second arm less the first

    def prior(key):
        return jnp.where(jax.random.bernoulli(key), jnp.array([0.0, 2.0]), jnp.array([2.0, 0.0]))

    (other,) = jb.plan(KEY, jb.Uniform(), FAMILY, prior, 20, num_trials=64, num_paths=128).designs
    assert abs(other.half_width - design.half_width) < 4 * np.hypot(other.half_width_stderr, design.half_width_stderr)


def test_finished_designs_are_not_measured_again(tmp_path, found, monkeypatch):
    seen = []
    first = jb.plan(KEY, POLICIES, FAMILY, MEAN, [20], folder=tmp_path, progress=seen.append, **OPTIONS)
    assert first.designs == found.designs  # the same key, whatever else is run
    assert [(step.done, step.total, step.share) for step in seen] == [(1, 2, 0.5), (2, 2, 1.0)]
    monkeypatch.setattr(entry, "measure_design", None)
    assert jb.plan(KEY, POLICIES, FAMILY, MEAN, [20], folder=tmp_path, **OPTIONS).designs == found.designs
    with pytest.raises(TypeError):  # another key, level, policy or family: it is measured again
        jb.plan(jax.random.key(1), POLICIES, FAMILY, MEAN, [20], folder=tmp_path, **OPTIONS)
    for changed in (dict(policies=jb.Greedy(tau=0.5)), dict(family=jb.Normal(sigma=2.0)), dict(level=0.9), dict(control=0)):
        arguments = dict(policies={"greedy": jb.Greedy()}, family=FAMILY, mean=MEAN, num_steps=[20], **OPTIONS) | changed
        with pytest.raises(TypeError):
            jb.plan(KEY, folder=tmp_path, **arguments)


def test_printed_and_as_a_frame(found):
    lines = str(found).splitlines()
    assert lines[0] == plan_answer(found)
    assert [line.split()[:2] for line in lines[4:6]] == [["greedy", "20"], ["uniform", "20"]]
    frame = found.to_frame()
    assert list(frame["policy"]) == ["greedy", "uniform"]
    assert {"regret", "bias", "half_width", "coverage", "power", "best_arm"} <= set(frame.columns)
    assert len(jb.plots.plot_plan(found).axes) == 1
    page = jb.reporting.render_plan(dataclasses.replace(found, designs=found.designs[:1]), "jaxbias plan <x>")
    assert "&lt;x&gt;" in page
    assert page.count("<tr>") == 2


def test_the_answer_for_a_goal_has_what_was_measured_there(found):
    design = found.designs[0]._replace(power=0.828, power_stderr=0.053)
    target = Target(design.policy, "power", 0.8, design.steps, design.steps, 0.828, 10)
    answer = plan_answer(dataclasses.replace(found, designs=(design,), targets=(target,)))
    assert answer == "greedy needs 20 steps for a power of 0.8 (measured: 82.8% ± 5.3); 10 are too few."


def test_policies_of_a_list_have_the_names_of_their_classes():
    from jaxbias.planning.checks import name_policies

    assert list(name_policies([jb.Greedy(), jb.Greedy(tau=1.0), jb.Uniform()])) == ["Greedy 1", "Greedy 2", "Uniform"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (dict(policies={}), "policies is empty; it must be one policy or more"),
        (dict(policies=[]), "policies is empty"),
        (dict(num_steps=[20, 1]), r"num_steps is 1; it must be 2 or more \(every arm is pulled once first\)"),
        (dict(num_steps=[20.5]), "num_steps is 20.5"),
        (dict(num_steps=[]), "num_steps is empty; give num_steps, half_width or power"),
        (dict(half_width=0.0), "half_width is 0.0; it must be positive"),
        (dict(half_width=float("nan")), "half_width is nan"),
        (dict(power=1.0), "power is 1.0; it must be above 0 and below 1"),
        (dict(power=0.0), "power is 0.0"),
        (dict(power=0.8, mean=[0.5, 0.5]), "the best arm and the second best do not differ"),
        (dict(power=0.8, mean=[0.5, 0.5, 0.2], control=1), "the best of the other arms and the control do not differ"),
        (dict(power=0.8, mean=[[0.5, 0.4], [0.3, 0.3]]), r"mean is \[0.3, 0.3\]"),
        (dict(control=2), "control is 2; it must be an arm from 0 to 1"),
        (dict(control=True), "control is True"),
        (dict(mean=[1.0]), "mean has one arm"),
        (dict(mean=[1.0, float("inf")]), "mean is .* finite"),
        (dict(mean=1.0), r"mean has shape \(\)"),
        (dict(level=1.0), "level is 1.0"),
        (dict(num_trials=4), "num_trials is 4; it must be 8 or more"),
        (dict(num_paths=10), "num_paths is 10; it must be 100 or more"),
        (dict(max_steps=1, power=0.8), "max_steps is 1; it must be 2 or more"),
        (dict(tolerance=0.0), "tolerance is 0.0"),
        (dict(batch_size=0), "batch_size is 0"),
        (dict(family=jb.Bernoulli(), mean=[0.5, 1.5]), "mean"),
        (dict(family=jb.Normal(sigma=None)), "sigma"),
        (dict(policies=jb.BetaThompson()), "family"),
    ],
)
def test_bad_input_is_refused_before_the_work(unchecked, changed, words):
    arguments = dict(policies=POLICIES, family=FAMILY, mean=MEAN, num_steps=[20]) | changed
    with pytest.raises(ValueError, match=words):
        jb.plan(KEY, **arguments)
