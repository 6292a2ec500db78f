"""Confidence sequences of differences: against their formulas, a brute-force search of pairs, and never missing too often."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import betaln

import jaxbias as jb
from jaxbias.estimators.confidence_sequence.estimator import _ends, _seen_by_step
from jaxbias.estimators.confidence_sequence.mixtures import best_ratio, student_ends

KEY = jax.random.key(0)


@pytest.fixture(autouse=True)
def in_float64():
    with jax.enable_x64(True):
        yield


def a_log(policy, family, mean, num_steps=60):
    return jb.simulate(KEY, policy, family, jnp.asarray(mean), num_steps=num_steps)


def test_normal_is_its_closed_form():
    sigma, alpha = np.array([1.0, 2.0, 0.5]), 0.05
    history = a_log(jb.UCB1(), jb.Normal(sigma=jnp.asarray(sigma)), [1.0, 0.5, 0.0])
    found = jb.confidence_sequence(history, jb.Normal(sigma=jnp.asarray(sigma)), control=1)
    pulls, mean = np.asarray(history.statistics.pulls), np.asarray(history.statistics.mean)
    rho = sigma**2 * 50 / best_ratio(alpha)
    spread = (pulls * sigma**2 + rho) / pulls**2
    length = np.log(1 + pulls * sigma**2 / rho) / 2
    half = np.sqrt(2 * (np.log(1 / alpha) + length + length[1]) * (spread + spread[1]))
    assert np.isnan(found.mean[1])
    for arm in (0, 2):
        np.testing.assert_allclose(found.mean[arm], mean[arm] - mean[1], rtol=1e-12)
        np.testing.assert_allclose(found.upper[arm] - found.mean[arm], half[arm], rtol=5e-4)
        np.testing.assert_allclose(found.mean[arm] - found.lower[arm], half[arm], rtol=5e-4)
        assert found.upper[arm] - found.mean[arm] <= half[arm] * (1 + 1e-12)


def test_bernoulli_is_the_widest_of_all_pairs():
    """The difference of all pairs of rates whose two martingales together have not outdone 1 / alpha."""
    history, alpha = a_log(jb.BetaThompson(), jb.Bernoulli(), [0.6, 0.4], 120), 0.1
    found = jb.confidence_sequence(history, jb.Bernoulli(), level=1 - alpha, control=0)
    pulls, total = (np.asarray(part, float) for part in (history.statistics.pulls, history.statistics.total))
    worth, rate = 200 / best_ratio(alpha), np.linspace(1e-4, 1 - 1e-4, 4001)
    log_m = [
        betaln(rate * worth + s, (1 - rate) * worth + n - s)
        - betaln(rate * worth, (1 - rate) * worth)
        - s * np.log(rate)
        - (n - s) * np.log(1 - rate)
        for n, s in zip(pulls, total, strict=True)
    ]
    inside = log_m[0][:, None] + log_m[1][None] <= np.log(1 / alpha)
    apart = rate[None] - rate[:, None]
    np.testing.assert_allclose(found.lower[1], apart[inside].min(), atol=2e-3)
    np.testing.assert_allclose(found.upper[1], apart[inside].max(), atol=2e-3)


def test_bounded_rewards_share_alpha():
    history = a_log(jb.EpsilonGreedy(epsilon=0.5), jb.Bernoulli(), [0.6, 0.4, 0.5], 600)
    found = jb.confidence_sequence(history, None, bounds=(0.0, 1.0), control=2, trajectory=True)
    alone = jb.confidence_sequence(history, None, bounds=(0.0, 1.0), level=0.975, trajectory=True)
    lower, upper = alone.diagnostics["lower_by_step"], alone.diagnostics["upper_by_step"]
    # What is clipped to the range on the way is not clipped here: where neither is at an end they agree.
    inner = np.asarray((lower > 0) & (upper < 1))
    both = inner[:, :2] & inner[:, 2:]
    assert both.sum() > 10
    found_lower = np.asarray(found.diagnostics["lower_by_step"])[:, :2]
    np.testing.assert_allclose(found_lower[both], np.asarray(lower[:, :2] - upper[:, 2:])[both], atol=1e-12)


def test_without_sigma_each_arm_has_half_of_alpha():
    """The t martingales of two arms are no martingale together, as each looks at its own arm only."""
    history, alpha = a_log(jb.UCB1(), jb.Normal(sigma=1.0), [1.0, 0.5, 0.0]), 0.05
    found = jb.confidence_sequence(history, jb.Normal(sigma=None), control=1)
    seen = jax.tree.map(lambda leaf: leaf[-1], _seen_by_step(history))
    lower, upper = student_ends(seen, 50 / best_ratio(alpha), np.log(alpha / 2))
    for arm in (0, 2):
        np.testing.assert_allclose(found.lower[arm], lower[arm] - upper[1], rtol=1e-9)
        np.testing.assert_allclose(found.upper[arm], upper[arm] - lower[1], rtol=1e-9)


def test_refused_and_never_pulled():
    history = jb.History(arms=jnp.array([0, 0, 1]), rewards=jnp.array([1.0, 2.0, 3.0]), num_arms=3)
    with pytest.raises(jb.ArgumentError, match="an arm from 0 to 2"):
        jb.confidence_sequence(history, jb.Normal(), control=3)
    found = jb.confidence_sequence(history, jb.Normal(), control=2)
    assert found.status.tolist()[:2] == [jb.Status.NEVER_PULLED] * 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["normal", "bernoulli", "bounded"])
def test_differences_that_ever_miss(name):
    """2,000 runs of 2,000 steps, looked at after every step; with Bernoulli rewards after each of 100, and then every 20th."""
    policy = jb.LilUCB() if name == "normal" else jb.EpsilonGreedy(epsilon=0.3)
    family: Any = jb.Normal(sigma=1.0) if name == "normal" else jb.Bernoulli()
    missed = []
    for part in range(8):
        key = jax.random.key(part)
        history = jb.simulate(key, policy, family, [0.5, 0.4], num_steps=2000, num_trials=250, progress=False)
        if name == "bernoulli":
            looks = np.concatenate([np.arange(2, 100), np.arange(100, 2000, 20)])
            seen = jax.tree.map(lambda leaf, looks=looks: leaf[:, looks], _seen_by_step(history))
            worth = 200 / best_ratio(0.05)
            lower, upper = _ends(seen, family, None, worth=worth, alpha=0.05, control=0)
        else:
            options: Any = dict(bounds=(0.0, 1.0)) if name == "bounded" else {}
            found = jb.confidence_sequence(history, None if options else family, control=0, trajectory=True, **options)
            lower, upper = found.diagnostics["lower_by_step"], found.diagnostics["upper_by_step"]
        missed.append(np.any((np.asarray(lower)[..., 1] > -0.1) | (np.asarray(upper)[..., 1] < -0.1), axis=1))
    print(name, "ever missed", np.mean(missed))
    assert np.mean(missed) < 0.05
