"""Weights in place of the policy: the same estimates, and nothing outside the family's range that is called converged."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.estimators.compare import compare
from jaxbias.policy_fit import policy_weights

STEPS, BATCH = 60, 12
NORMAL, BERNOULLI = (jb.Normal(), [1.0, 0.75, 0.5]), (jb.Bernoulli(), [0.6, 0.5, 0.4])
SETTINGS = {
    "thompson": (jb.Thompson(), *NORMAL),
    "beta-thompson": (jb.BetaThompson(), *BERNOULLI),
    "epsilon-greedy, normal": (jb.EpsilonGreedy(epsilon=0.2), *NORMAL),
    "epsilon-greedy, bernoulli": (jb.EpsilonGreedy(epsilon=0.2), *BERNOULLI),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_weights_give_what_the_policy_gives(name):
    policy, family, mean = SETTINGS[name]
    with jax.enable_x64(True):
        for size in (None, BATCH):
            options = {} if size is None else {"batch_size": size}
            history = jb.simulate(jax.random.key(3), policy, family, mean, num_steps=STEPS, **options)
            weights = policy_weights(history, policy)
            assert weights.shape == (STEPS if size is None else STEPS // BATCH, 3)
            for estimator in (jb.adaptive_weighting, jb.propensity_weighting):
                by_policy, by_weights = (
                    estimator(history, policy, family),
                    estimator(history, family=family, propensities=weights),
                )
                for field in ("mean", "stderr", "lower", "upper"):
                    np.testing.assert_allclose(getattr(by_weights, field), getattr(by_policy, field), rtol=1e-6, atol=1e-12)
                assert by_weights.status.tolist() == by_policy.status.tolist()


def test_compare_uses_the_weights_of_every_arm_and_only_those():
    policy, family, mean = SETTINGS["epsilon-greedy, normal"]
    history = jb.simulate(jax.random.key(3), policy, family, mean, num_steps=STEPS)
    weights = policy_weights(history, policy).astype(np.float32)
    methods, key = ("adaptive_weighting", "propensity_weighting"), jax.random.key(0)
    whole = compare(key, history, None, family, methods=methods, propensities=weights)
    assert list(whole.estimates) == list(methods)
    chosen = np.nan_to_num(weights[np.arange(STEPS), np.asarray(history.arms)], nan=1.0)
    pulled = compare(key, history, None, family, methods=methods, propensities=chosen)
    assert list(pulled.estimates) == ["propensity_weighting"]
    assert str(pulled.reasons["adaptive_weighting"]) == (
        "policy is None; it must be the policy that chose the arms for adaptive_weighting; or the log must have the probability "
        "of every arm"
    )
    np.testing.assert_allclose(pulled.estimates[methods[1]].mean, whole.estimates[methods[1]].mean, rtol=1e-6)
    known = compare(key, history, policy, family, methods=methods, propensities=chosen)  # adaptive_weighting by the policy
    np.testing.assert_allclose(known.estimates[methods[0]].mean, whole.estimates[methods[0]].mean, rtol=1e-5)


@pytest.mark.parametrize("family", [jb.Bernoulli(), jb.Poisson(), jb.Exponential()], ids=lambda family: type(family).__name__)
def test_nothing_outside_the_range_is_called_converged(family):
    """Pulls of arms that had next to no chance: scores of a million, of both signs."""
    generator, num_logs, steps = np.random.default_rng(0), 200, 20
    weights = generator.dirichlet([0.05, 1.0], size=(num_logs, steps)).astype(np.float32)
    weights = np.clip(weights, 1e-6, None) / np.clip(weights, 1e-6, None).sum(axis=-1, keepdims=True)
    rewards = generator.integers(0, 2, size=(num_logs, steps)).astype(np.float32) + (0.5 if type(family) is jb.Exponential else 0)
    arms = jnp.asarray(generator.integers(0, 2, size=(num_logs, steps)), jnp.int32)
    history = jb.History(arms=arms, rewards=jnp.asarray(rewards), num_arms=2)
    low, high = family.mean_range
    for estimator in (jb.adaptive_weighting, jb.propensity_weighting):
        plain, found = (estimator(history, family=one, propensities=jnp.asarray(weights)) for one in (None, family))
        outside = (np.asarray(plain.mean) < low) | (np.asarray(plain.mean) > high)
        assert not np.asarray(found.converged)[outside].any()
        inside = np.asarray(found.converged)
        assert inside.any()
        for part in (found.mean, found.lower, found.upper):
            values = np.asarray(part)[np.isfinite(np.asarray(found.mean))]
            assert ((values >= low) & (values <= high)).all()
    assert outside.any() or estimator is jb.propensity_weighting  # a weighted average stays inside by itself
