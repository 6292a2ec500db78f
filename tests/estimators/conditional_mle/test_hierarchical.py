"""The posterior mean given the arms: against quadrature over means and prior, against shrinkage, and what it refuses."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import betaln, expit, logsumexp, xlog1py, xlogy
from scipy.stats import norm

import jaxbias as jb
from jaxbias._core.jit import compiled
from jaxbias.estimators.estimate import Status
from jaxbias.likelihood import selection_log_probs

KEY = jax.random.key(1)
ARMS = jnp.array([0, 1, 1, 0, 1, 1, 0, 1])
LOGS = {"mixed": [1, 0, 1, 0, 0, 1, 0, 1], "no success": [0, 0, 1, 0, 1, 1, 0, 1], "equal": [1, 1, 0, 0, 1, 0, 0, 0]}
POLICIES = {"greedy": jb.Greedy(tau=0.3), "epsilon-greedy": jb.EpsilonGreedy(tau=0.2), "uniform": jb.Uniform()}


def log_of(rewards, forced=None):
    return jb.History(arms=ARMS, rewards=jnp.asarray(rewards, float), num_arms=2, forced=forced)


def estimate_by(history, policy, family, **options):
    return jb.conditional_mle(KEY, history, policy, family, prior="hierarchical", **options)


@compiled
def path_log_probs(policy, paths, history):
    return jax.vmap(lambda rewards: jnp.sum(selection_log_probs(policy, ARMS, rewards, history.forced_steps, 2)))(paths)


def bernoulli_truth(policy, history):
    """Posterior mean and standard deviation: every path of rewards, and grids of the two log-odds, of log M and of m's."""
    paths = np.array(list(itertools.product([0.0, 1.0], repeat=8)))
    log_weight = np.asarray(path_log_probs(policy, jnp.asarray(paths), history))
    chosen = np.asarray(ARMS)[:, None] == np.arange(2)
    pulls, sums, total = chosen.sum(axis=0), paths @ chosen, np.asarray(history.rewards) @ chosen
    line = np.linspace(-16, 16, 161)
    mean = expit(line)
    ends = lambda arm, success: xlogy(success, mean) + xlog1py(pulls[arm] - success, -mean)
    rows = [[ends(arm, one[arm]) for one in sums] for arm in (0, 1)]
    arms = logsumexp(log_weight[:, None, None] + np.stack(rows[0])[:, :, None] + np.stack(rows[1])[:, None], axis=0)
    likelihood = ends(0, total[0])[:, None] + ends(1, total[1])[None] - arms
    place, centre = np.linspace(-9, 9, 61), np.linspace(-12, 12, 61)
    worth, middle = (2 / np.sum(1 / pulls) * np.exp(place))[:, None], expit(centre)[None]
    hyper = (place - 2 * np.log1p(np.exp(place)))[:, None] + np.log(middle * (1 - middle)) / 2
    shapes = (worth * middle).ravel(), (worth * (1 - middle)).ravel()
    density = xlogy(shapes[0][:, None], mean) + xlog1py(shapes[1][:, None], -mean) - betaln(*shapes)[:, None]
    weight = np.exp(density)  # (settings, line), the same for both arms
    prior = np.einsum("s,si,sj->ij", np.exp(hyper.ravel()), weight, weight)
    posterior = prior * np.exp(likelihood - likelihood.max())
    posterior /= posterior.sum()
    margins = posterior.sum(axis=1), posterior.sum(axis=0)
    averages = np.array([margin @ mean for margin in margins])
    return averages, np.sqrt([margin @ (mean - average) ** 2 for margin, average in zip(margins, averages, strict=True)])


@pytest.mark.parametrize("policy", POLICIES)
def test_bernoulli_rewards_against_quadrature(one_of, policy):
    """The maximum is up to a whole standard deviation away from it."""
    with jax.enable_x64(True):
        policy = one_of(POLICIES, policy)
        for rewards in LOGS.values():
            history = log_of(rewards)
            found, (mean, deviation) = estimate_by(history, policy, jb.Bernoulli()), bernoulli_truth(policy, history)
            assert (np.abs(found.mean - mean) < 0.15 * deviation).all()  # of three to five pulls
            np.testing.assert_allclose(found.stderr, deviation, rtol=0.2)
            assert (np.asarray(found.status) == Status.CONVERGED).all()


def normal_truth(policy, history):
    """Posterior mean and standard deviation, by `conditional_log_likelihood` on a grid of the two means."""
    pulls = np.asarray(history.statistics.pulls)
    side = np.linspace(-6, 6, 49)
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2) + np.asarray(history.statistics.mean)
    many = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (len(grid), *leaf.shape)), history)
    likelihood = np.asarray(jb.conditional_log_likelihood(KEY, many, policy, jb.Normal(), jnp.asarray(grid), num_paths=256))
    typical, place = np.mean(1 / pulls), np.linspace(-12, 12, 121)
    spread = np.sqrt(2 * typical * np.exp(place))
    prior = norm.pdf((grid[:, 1] - grid[:, 0])[:, None] / spread) / spread @ (np.exp(place) / (1 + np.exp(place)) ** 2)
    posterior = prior * np.exp(likelihood - likelihood.max())
    posterior /= posterior.sum()
    mean = posterior @ grid
    return mean, np.sqrt(posterior @ (grid - mean) ** 2)


def test_normal_rewards_against_quadrature():
    with jax.enable_x64(True):
        policy = jb.Greedy(tau=0.5)
        history = jb.simulate(jax.random.key(3), policy, jb.Normal(), [1.0, 0.5], num_steps=8, num_trials=3)
        found = estimate_by(history, policy, jb.Normal())
        for trial in range(3):
            mean, deviation = normal_truth(policy, history.trial(trial))
            assert (np.abs(found.mean[trial] - mean) < 0.1 * deviation).all()
            np.testing.assert_allclose(found.stderr[trial], deviation, rtol=0.1)


FAMILIES = {"normal": jb.Normal(sigma=2.0), "bernoulli": jb.Bernoulli(), "poisson": jb.Poisson(), "exponential": jb.Exponential()}


@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_choice_that_depends_on_rewards_it_is_shrinkage(family):
    """In intervals too; a log alone is as it is among others."""
    family = FAMILIES[family]
    history = jb.simulate(jax.random.key(0), jb.Uniform(), family, [0.6, 0.4], num_steps=8, num_trials=3)
    found, expected = estimate_by(history, jb.Uniform(), family, num_paths=512), jb.shrinkage(history, family)
    scale = np.asarray(expected.upper - expected.lower) / 4
    for name in ("mean", "lower", "upper"):
        off = np.abs(getattr(found, name) - getattr(expected, name)) / scale
        assert off.max() < (0.06 if name == "mean" else 0.4)
    assert found.method == "conditional_posterior"
    assert found.converged.all()
    if isinstance(family, jb.Bernoulli):  # whose sums are exact, whatever the key
        alone = estimate_by(history.trial(1), jb.Uniform(), family)
        np.testing.assert_allclose(alone.mean, found.mean[1], rtol=1e-5)


def test_the_derivative_has_the_prior_in_it():
    """Against central differences in the rewards; by Laplace's method, so not to the last digit. The maximum moves far more."""
    with jax.enable_x64(True):
        history, family = log_of(LOGS["mixed"]), jb.Bernoulli()
        moved = lambda rewards: dataclasses.replace(history, rewards=rewards)
        mean = jax.jit(lambda rewards: estimate_by(moved(rewards), jb.Greedy(tau=0.3), family).mean)
        jacobian = np.asarray(jax.jacrev(mean)(history.rewards))[:, :2]
        away = lambda row, by: mean(history.rewards.at[row].add(by))
        differences = np.stack([(away(row, 0.05) - away(row, -0.05)) / 0.1 for row in (0, 1)], axis=1)
        np.testing.assert_allclose(jacobian, differences, atol=0.15 * np.abs(differences).max())
        plain = jax.jacrev(lambda rewards: jb.conditional_mle(KEY, moved(rewards), jb.Greedy(tau=0.3), family).mean)
        assert np.abs(plain(history.rewards)[:, :2] - differences).max() > 0.3 * np.abs(differences).max()


def test_what_it_refuses():
    policy, history = jb.Greedy(tau=0.5), log_of(LOGS["mixed"])
    with pytest.raises(jb.ArgumentError, match="'newton' with prior='hierarchical'"):
        estimate_by(history, policy, jb.Normal(), solver="contrastive_divergence")
    with pytest.raises(jb.ArgumentError, match="shrinkage and bias_corrected estimate sigma too"):
        estimate_by(history, policy, jb.Normal(sigma=None))
    with pytest.raises(jb.ArgumentError, match="prior=None has those in the settings"):
        jax.jacfwd(lambda tau: estimate_by(history, jb.Greedy(tau=tau), jb.Bernoulli()).mean)(0.5)


def test_a_prior_that_is_not_there(unchecked):
    with pytest.raises(jb.ArgumentError, match="None or 'hierarchical'"):
        jb.conditional_mle(KEY, log_of(LOGS["mixed"]), jb.Greedy(tau=0.5), jb.Normal(), prior="flat")  # pyright: ignore[reportArgumentType]
