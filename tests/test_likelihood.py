import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import jaxbias as jb
from jaxbias.likelihood import selection_log_probs, trial_log_density
from tests.conftest import POLICIES, Softmax

NOISY = {name: policy for name, policy in POLICIES.items() if "noisy" in name or name in ("thompson", "exp3", "uniform")}


ARMS = np.array([0, 1, 2, 1, 0, 2, 2, 0, 1], np.int32)
REWARDS = np.array([0.9, 0.4, 0.1, 1.3, -0.2, 0.6, 0.3, 1.1, 0.2])
by_policy = pytest.mark.parametrize("policy", [*NOISY.values(), Softmax(0.5)], ids=[*NOISY, "own"])


@by_policy
def test_it_is_the_policy_replayed(policy, x64):
    """Against a plain loop over the policy's own functions, and SciPy's density of the rewards."""
    mean, family = jnp.array([1.0, 0.5, 0.2]), jb.Normal(sigma=jnp.array([1.0, 2.0, 0.5]))
    arms, rewards = jnp.asarray(ARMS), jnp.asarray(REWARDS, float)

    @jax.jit
    def both(arms, rewards):
        def step(state, now):
            arm, reward = now
            after = jax.tree.map(lambda new, old: new.astype(old.dtype), policy.update(state, arm, reward), state)
            return after, policy.log_probs(state)[arm]

        _, chosen = jax.lax.scan(step, jax.tree.map(jnp.asarray, policy.init(3)), (arms, rewards))
        return chosen, trial_log_density(policy, family, mean, arms, rewards, jnp.arange(9) < 3)

    chosen, found = both(arms, rewards)
    expected = scipy.stats.norm.logpdf(REWARDS, np.asarray(mean)[ARMS], np.asarray(family.sigma)[ARMS]).sum()
    np.testing.assert_allclose(found, expected + np.asarray(chosen, np.float64)[3:].sum(), rtol=1e-4)


UNIT = jb.Normal()
SHORT = [0, 1, 3, 4, 7, 8]  # the steps of the first two arms


def log(rewards, arms=ARMS[SHORT], num_arms=2, **fields):
    return jb.History(arms=jnp.asarray(arms), rewards=rewards, num_arms=num_arms, **fields)


@by_policy
def test_its_gradients_are_finite_differences(policy):
    """In the means, the rewards, sigma and the settings of the policy, to 1e-6 in float64; all points in one program."""
    with jax.enable_x64(True):
        numbers, structure = jax.tree.flatten(policy)
        is_own = not isinstance(policy, jb.policies.BasePolicy)  # not a pytree, and so without settings
        settings = [] if is_own else [jnp.asarray(number, float) for number in numbers]
        start = jnp.concatenate([jnp.array([1.0, 0.5]), jnp.asarray(REWARDS[SHORT]), jnp.array([1.5, *settings])])

        def value(point):
            changed = policy if is_own else jax.tree.unflatten(structure, list(point[9:]))
            return jb.log_density(log(point[2:8]), changed, jb.Normal(sigma=point[8]), point[:2])

        gradient = jax.jit(jax.grad(value))(start)
        of_setting = (jnp.arange(len(start)) >= 9) & (start != 0)  # some settings are small, and curved
        shift = 1e-5 * jnp.where(of_setting, jnp.abs(start), 1)
        points = jnp.concatenate([start[None] + jnp.diag(shift), start[None] - jnp.diag(shift)])
        above, below = jnp.split(jax.jit(lambda points: jax.lax.map(value, points))(points), 2)
        np.testing.assert_allclose(gradient, (above - below) / (2 * shift), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", [jb.BetaThompson, jb.policies.BetaExplorationSampling])
def test_gradients_of_beta_posteriors_are_finite_differences(kind):
    """In rewards between 0 and 1, means and both parameters of the prior, forward and reverse, of two logs at once."""
    with jax.enable_x64(True):
        start = jnp.array([*np.linspace(0.1, 0.9, 9), 0.3, 0.5, 0.6, 1.2, 0.8])
        starts = jnp.stack([start, start.at[:9].set(start[:9][::-1])])

        def value(point, family=UNIT):
            policy = kind(prior_success=point[12], prior_failure=point[13])
            return jb.log_density(log(point[:9], ARMS, 3), policy, family, point[9:12])

        @jax.jit
        def all_of_it(starts):
            shift = 1e-5 * jnp.eye(14)
            points = jnp.concatenate([starts[:, None] + shift[None], starts[:, None] - shift[None]], axis=1)
            return jax.vmap(jax.grad(value))(starts), jax.vmap(jax.jacfwd(value))(starts), jax.vmap(jax.vmap(value))(points)

        reverse, forward, values = all_of_it(starts)
        np.testing.assert_allclose(reverse, (values[:, :14] - values[:, 14:]) / 2e-5, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(forward, reverse, rtol=1e-9, atol=1e-9)

        outcomes = start.at[:9].set(jnp.array([1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0]))  # as 0/1 rewards move
        normal, bernoulli = jax.jit(jax.jacfwd(lambda point: jnp.stack([value(point), value(point, jb.Bernoulli())])))(outcomes)
        mean = np.asarray(outcomes[9:12])[ARMS]
        np.testing.assert_allclose(bernoulli[:9] - np.log(mean / (1 - mean)), normal[:9] + outcomes[:9] - mean, atol=1e-9)


def test_a_log_density_of_many_logs_is_that_of_each():
    """With batches, forced pulls and one mean vector for each; and steps after the end of a trial count for nothing."""
    policy, family = jb.Greedy(tau=1.0), jb.Normal(sigma=jnp.array([1.0, 2.0]))
    arms, rewards = jnp.asarray(ARMS[SHORT]), jnp.asarray(REWARDS[SHORT], float)
    forced = jnp.arange(6) < 3
    many = dict(arms=jnp.stack([arms, arms[::-1]]), rewards=jnp.stack([rewards, rewards + 1]), num_arms=2)
    means = jnp.array([[1.0, 0.5], [0.0, 0.2]])
    batched = jb.History(**many, forced=jnp.stack([forced, forced]), batch_sizes=(2, 3, 1))
    found = jb.log_density(batched, policy, family, means)
    for trial in range(2):
        one = batched.trial(trial)
        expected = trial_log_density(policy, family, means[trial], one.arms, one.rewards, forced, one.seen_steps)
        np.testing.assert_allclose(found[trial], expected, rtol=1e-6)
    np.testing.assert_allclose(jb.log_density(batched, policy, family, means[0])[0], found[0], rtol=1e-6)
    stopped = jb.History(**many, lengths=jnp.array([6, 4]))
    short = jb.log_density(log(rewards[:4] + 1, arms[::-1][:4]), policy, family, means[1])
    np.testing.assert_allclose(jb.log_density(stopped, policy, family, means)[1], short, rtol=1e-6)


def test_a_gradient_in_tau_at_zero_does_not_exist():
    history = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.5], num_steps=6)
    value = lambda tau, mean: jb.log_density(history, jb.Greedy(tau=tau), jb.Normal(), mean)
    in_tau, in_mean = jax.grad(value, (0, 1))(jnp.array(0.0), jnp.zeros(2))
    assert np.isnan(in_tau)
    np.testing.assert_allclose(in_mean, history.statistics.total, rtol=1e-6)
    found = jax.vmap(jax.grad(value), (0, None))(jnp.array([0.0, 1.0]), jnp.zeros(2))
    assert np.isnan(found).tolist() == [True, False]


def test_bernoulli_rewards_move_as_an_exponential_family():
    history, mean = log(jnp.array([1.0, 0.0, 1.0, 1.0, 0.0, 1.0])), jnp.array([0.25, 0.6])
    value = lambda rewards: jb.log_density(log(rewards), jb.Uniform(), jb.Bernoulli(), mean)
    np.testing.assert_allclose(jax.grad(value)(history.rewards), jax.scipy.special.logit(mean)[history.arms], rtol=1e-6)
    assert jnp.isneginf(jb.Bernoulli().log_prob(jnp.array(0.5), jnp.array(0.5)))


@pytest.mark.parametrize(
    ("mean", "family", "message"),
    [
        (jnp.zeros(3), jb.Normal(), r"mean has shape \(3,\); it must be of shape \(2,\)"),
        (jnp.zeros((2, 2)), jb.Normal(), r"mean has shape \(2, 2\)"),
        (jnp.zeros(2), jb.Normal(sigma=None), "family.sigma is None"),
        (jnp.full(2, 1.5), jb.Bernoulli(), "mean is"),
    ],
)
def test_what_a_log_density_refuses(mean, family, message):
    with pytest.raises(jb.ArgumentError, match=message):
        jb.log_density(log(jnp.ones(6)), jb.Greedy(tau=1.0), family, mean)


def test_forced_pulls_have_no_term():
    arms, rewards = jnp.array([0, 1, 1, 0]), jnp.array([0.1, 0.5, 0.2, 0.9])
    forced = jnp.array([True, True, False, True])
    found = selection_log_probs(jb.Greedy(tau=1.0), arms, rewards, forced, 2)
    np.testing.assert_allclose(found, [0.0, 0.0, jax.nn.log_softmax(jnp.array([0.1, 0.5]))[1], 0.0], rtol=1e-6)


@pytest.mark.slow
def test_steps_in_blocks_give_the_same(monkeypatch):
    """Of many arms, few steps at a time: an integral for each would not fit in memory together."""
    from jaxbias import likelihood

    history = jb.simulate(jax.random.key(0), jb.Thompson(), jb.Normal(), [1.0, 0.5, 0.0], num_steps=20)
    found = []
    for squares in (2**17, 9 * 6, 1):  # all at once, six at a time, one at a time
        monkeypatch.setattr(likelihood, "SQUARES_AT_ONCE", squares)
        run = jax.jit(lambda arms, rewards: likelihood.choice_log_probs(jb.Thompson(), arms, rewards, 3))  # traced anew
        found.append(run(history.arms, history.rewards))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-5)
