"""Fitted noise against SciPy's optimiser, its own likelihood, and the truth it was simulated from."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

import jaxbias as jb
from jaxbias.likelihood import selection_log_probs


def total(history, policy):
    chosen = selection_log_probs(policy, history.arms, history.rewards, history.forced_steps, history.num_arms)
    return jnp.sum(chosen)


def run(policy, seed=0, num_steps=200, means=(1.0, 0.5, 0.0)):
    return jb.simulate(jax.random.key(seed), policy, jb.Normal(), list(means), num_steps=num_steps)


@pytest.mark.parametrize(
    ("truth", "name", "bounds"),
    [
        (jb.Greedy(tau=0.5), "tau", (1e-3, 50)),
        (jb.LilUCB(tau=1.0), "tau", (1e-3, 50)),
        (jb.EpsilonGreedy(epsilon=0.3), "epsilon", (1e-6, 1 - 1e-6)),
        (jb.EpsilonGreedy(epsilon=0.1, tau=0.5), "tau", (1e-3, 50)),
    ],
    ids=["greedy", "lil-ucb", "epsilon", "tau-of-epsilon-greedy"],
)
def test_the_maximum_and_the_interval_are_those_of_scipy(truth, name, bounds):
    with jax.enable_x64(True):
        history = run(truth)
        found = jb.policy_fit.fit_settings(history, truth, [name])
        at = jax.jit(lambda value: total(history, dataclasses.replace(truth, **{name: value})))

        def lost(value):
            return -float(at(float(value)))

        best = optimize.minimize_scalar(lost, bounds=bounds, method="bounded", options={"xatol": 1e-7})
        fitted = found.fitted[name]
        assert fitted.value == pytest.approx(best.x, rel=2e-3)
        assert found.log_prob == pytest.approx(-best.fun, abs=1e-5)
        assert getattr(found.policy, name) == fitted.value
        drop = stats.chi2.ppf(0.95, 1) / 2
        for end, outermost in ((fitted.lower, bounds[0]), (fitted.upper, bounds[1])):
            exact = optimize.brentq(lambda value: lost(value) - best.fun - drop, best.x, outermost)
            assert end == pytest.approx(exact, rel=0.01)


@pytest.mark.slow
def test_two_settings_at_once():
    with jax.enable_x64(True):
        truth = jb.EpsilonGreedy(epsilon=0.3, tau=0.3)
        history = run(truth, num_steps=300)
        found = jb.policy_fit.fit_settings(history, truth, ["tau", "epsilon"])

        at = jax.jit(lambda tau, epsilon: total(history, jb.EpsilonGreedy(epsilon=epsilon, tau=tau)))

        def lost(values):
            return -float(at(float(np.exp(values[0])), float(np.clip(values[1], 0, 1))))

        best = optimize.minimize(lost, [np.log(0.3), 0.3], method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9})
        assert found.log_prob >= -best.fun - 1e-4
        assert found.fitted["epsilon"].value == pytest.approx(best.x[1], abs=0.01)
        assert found.fitted["tau"].lower < 0.3 < found.fitted["tau"].upper
        assert found.fitted["epsilon"].lower < 0.3 < found.fitted["epsilon"].upper


@pytest.mark.slow
def test_intervals_cover():
    covered = []
    for seed in range(100):
        fitted = jb.policy_fit.fit_settings(run(jb.Greedy(tau=0.7), seed=seed, means=(1.0, 0.0)), jb.Greedy(), ["tau"]).fitted[
            "tau"
        ]
        covered.append(fitted.lower <= 0.7 <= fitted.upper)
    assert np.mean(covered) == pytest.approx(0.95, abs=4 * np.sqrt(0.95 * 0.05 / 100))


def test_no_noise_is_found_as_none():
    fitted = jb.policy_fit.fit_settings(run(jb.Greedy()), jb.Greedy(tau=3.0), ["tau"]).fitted["tau"]
    assert (fitted.value, fitted.lower) == (0.0, 0.0)
    assert 0 < fitted.upper < 1


def test_choices_that_have_nothing_to_do_with_the_rewards():
    history = run(jb.Uniform())
    fitted = jb.policy_fit.fit_settings(history, jb.Greedy(), ["tau"]).fitted["tau"]
    assert fitted.upper == pytest.approx(1000 * np.std(np.asarray(history.rewards)), rel=1e-3)
    assert jb.policy_fit.fit_settings(history, jb.EpsilonGreedy(), ["epsilon"]).fitted["epsilon"].upper == 1.0


@pytest.mark.parametrize(
    ("policy", "name"),
    [(jb.LilUCB(), "epsilon"), (jb.Uniform(), "tau"), (jb.Greedy(), "ties"), (jb.Greedy(tau=lambda _: 1.0), "tau")],
)
def test_what_cannot_be_fitted_is_refused(policy, name):
    with pytest.raises(jb.ArgumentError, match=f"names has '{name}'; it must be ") as error:
        jb.policy_fit.fit_settings(run(jb.Uniform(), num_steps=10), policy, [name])
    assert error.value.argument == "names"
