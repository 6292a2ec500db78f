"""Batches: choices that have seen the batches before their own, in the simulator, the likelihood, the estimators and the logs."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import jaxbias as jb
from jaxbias._core.arrivals import Arrivals
from jaxbias.estimators.conditional_mle.gaussian_paths import sample_paths
from jaxbias.estimators.conditional_mle.gaussian_walk import most_likely_path
from jaxbias.estimators.conditional_mle.record import condensed_record_of, record_of
from jaxbias.estimators.conditional_mle.weighted_samples import moments_at
from jaxbias.likelihood import selection_log_probs
from jaxbias.simulation.steps import share_out
from tests.conftest import some_now_others_slow

KEY = jax.random.key(0)
MEAN = [0.9, 0.5, 0.2]
POLICIES = {
    "greedy": (jb.Greedy(), jb.Normal()),
    "lil-ucb": (jb.LilUCB(tau=1.0), jb.Normal()),
    "thompson": (jb.Thompson(), jb.Normal()),
    "exp3": (jb.Exp3(), jb.Bernoulli()),
    "exploration": (jb.policies.ExplorationSampling(), jb.Normal()),
}


@pytest.mark.parametrize("name", some_now_others_slow(POLICIES, now=("thompson", "exp3")))
def test_one_row_a_batch_is_no_batch(name):
    """Bit for bit: the simulation, its bias, and what the choices had seen."""
    policy, family = POLICIES[name]
    plain = jb.simulate(KEY, policy, family, MEAN, num_steps=15, num_trials=20)
    batched = jb.simulate(KEY, policy, family, MEAN, num_steps=15, num_trials=20, batch_size=1)
    assert batched.batch_sizes == (1,) * 15
    np.testing.assert_array_equal(plain.arms, batched.arms)
    np.testing.assert_array_equal(plain.rewards, batched.rewards)
    found = [jb.measure_bias(KEY, policy, family, MEAN, num_steps=15, num_trials=300, batch_size=size) for size in (None, 1)]
    np.testing.assert_array_equal(found[0].bias, found[1].bias)


@pytest.mark.slow
def test_one_row_a_batch_gives_every_estimator_the_same_numbers():
    policy, family = jb.EpsilonGreedy(tau=1.0), jb.Normal()
    history = jb.simulate(KEY, policy, family, MEAN[:2], num_steps=15, num_trials=3)
    batched = jb.History(arms=history.arms, rewards=history.rewards, num_arms=2, forced=history.forced, batch_sizes=(1,) * 15)
    methods = ("propensity_weighting", "adaptive_weighting", "conditional_mle", "mean_matching")
    tables = [jb.compare(KEY, log, policy, family, methods=methods) for log in (history, batched)]
    for name in methods:
        for field in ("mean", "stderr", "lower", "upper"):
            np.testing.assert_array_equal(*(getattr(table.estimates[name], field) for table in tables), err_msg=name)
    fits = [jb.check_fit(KEY, log.trial(0), policy) for log in (history, batched)]
    assert fits[0].log_prob == fits[1].log_prob
    tuned = [jb.policy_fit.fit_settings(log.trial(0), policy, ("tau",)).log_prob for log in (history, batched)]
    assert tuned[0] == tuned[1]


def exact_batched(policy, mean, sizes):
    """Expected sample means by enumeration of all arms and rewards of 0 and 1; the first pulls of the arms are forced."""
    num_arms, steps, expected, mass = len(mean), sum(sizes), np.zeros(len(mean)), 0.0
    seen = np.repeat(np.cumsum(sizes) - np.array(sizes), sizes)
    log_probs = jax.jit(policy.log_probs)
    cache = {}

    def probability(pulls, total):
        if (pulls, total) not in cache:
            state = jb.policies.ArmStatistics(pulls=jnp.asarray(pulls, jnp.int32), total=jnp.asarray(total, float))
            cache[pulls, total] = np.exp(np.asarray(log_probs(state), float))
        return cache[pulls, total]

    for rest in itertools.product(range(num_arms), repeat=steps - num_arms):
        arms = (*range(num_arms), *rest)
        for rewards in itertools.product((0.0, 1.0), repeat=steps):
            weight = np.prod([mean[arm] if reward else 1 - mean[arm] for arm, reward in zip(arms, rewards, strict=True)])
            states = [np.zeros((2, num_arms))]
            for arm, reward in zip(arms, rewards, strict=True):
                states.append(states[-1] + np.eye(num_arms)[arm] * [[1], [reward]])
            for step in range(num_arms, steps):
                pulls, total = states[seen[step]]
                weight *= probability(tuple(pulls.astype(int)), tuple(total))[arms[step]]
            expected += weight * states[-1][1] / states[-1][0]
            mass += weight
    return expected, mass


@pytest.mark.parametrize(
    "policy",
    [jb.Greedy(), *(pytest.param(one, marks=pytest.mark.slow) for one in (jb.BetaThompson(), jb.EpsilonGreedy(epsilon=0.3)))],
    ids=lambda one: type(one).__name__,
)
def test_batched_bias_against_enumeration(policy):
    mean, sizes = [0.7, 0.4], (3, 2, 2)
    expected, mass = exact_batched(policy, mean, sizes)
    assert mass == pytest.approx(1.0, abs=1e-5)
    found = jb.measure_bias(KEY, policy, jb.Bernoulli(), mean, num_steps=7, num_trials=100_000, batch_size=sizes)
    assert (np.abs(found.bias - (expected - mean)) < 4 * found.bias_stderr).all()
    unbatched, _ = exact_batched(policy, mean, (1,) * 7)
    assert (np.abs(unbatched - expected) > 6 * found.bias_stderr).any()  # so that it would be noticed


def test_shares_are_whole_and_right_on_average():
    shares = jnp.log(jnp.array([0.53, 0.02, 0.17, 0.28]))
    counts = np.asarray(jax.vmap(lambda key: share_out(key, shares, jnp.int32(9)))(jax.random.split(KEY, 20_000)))
    assert (counts.sum(axis=1) == 9).all()
    assert (np.abs(counts - 9 * np.exp(shares)) < 1).all()
    stderr = counts.std(axis=0) / np.sqrt(len(counts))
    assert (np.abs(counts.mean(axis=0) - 9 * np.exp(shares)) < 4.5 * stderr + 1e-6).all()


def test_shares_in_the_simulation_and_their_fit():
    """Every batch has its shares, in an order that is random; the same log with one pull moved has not."""
    policy, family = jb.Thompson(), jb.Normal()
    sizes = dict(batch_size=[10, 30, 20], allocation="shares")
    history = jb.simulate(KEY, policy, family, MEAN, num_steps=60, num_trials=50, **sizes)
    arms, rewards = np.asarray(history.arms), np.asarray(history.rewards)
    chosen = arms[..., None] == np.arange(3)
    before = jb.policies.ArmStatistics(
        pulls=jnp.asarray(chosen[:, :10].sum(axis=1), jnp.int32),
        total=jnp.asarray((chosen * rewards[..., None])[:, :10].sum(axis=1), jnp.float32),
    )
    shares = 30 * np.exp(np.asarray(jax.jit(jax.vmap(policy.log_probs))(before)))
    assert (np.abs(chosen[:, 10:40].sum(axis=1) - shares) < 1 + 1e-4).all()
    assert len({tuple(row) for row in arms[:, 10:40]}) > 40
    one = history.trial(0)
    assert jb.check_fit(KEY, one, policy).verdict == "fits"
    off = np.array(one.arms)
    off[10:40][off[10:40] == 0] = 1
    wrong = jb.check_fit(KEY, jb.History(**{**vars(one), "arms": off}), policy)
    assert (wrong.verdict, wrong.impossible > 0) == ("impossible", True)
    with pytest.raises(jb.ArgumentError, match=r"history\.allocation is 'shares'; it must be 'independent'"):
        jb.conditional_mle(KEY, one, policy, family)


def brute_force_batched(policy, arms, seen, mean, points=12):
    """Normaliser, expected sums and covariance by Gauss-Hermite over the rewards that choices look at."""
    point, weight = np.polynomial.hermite_e.hermegauss(points)
    looked_at = seen.max()
    noise = np.array(list(itertools.product(point, repeat=looked_at)))
    weights = np.prod(np.array(list(itertools.product(weight / weight.sum(), repeat=looked_at))), axis=1)
    values = np.concatenate([noise, np.zeros((len(noise), len(arms) - looked_at))], axis=1) + mean[arms]
    forced = jnp.arange(len(arms)) < len(mean)
    score = lambda row: selection_log_probs(policy, jnp.asarray(arms), row, forced, len(mean), Arrivals(seen)).sum()
    density = np.exp(np.asarray(jax.jit(jax.vmap(score))(jnp.asarray(values, float)), float)) * weights
    total = values @ np.eye(len(mean))[arms]
    expected = density @ total / density.sum()
    covariance = (total - expected).T @ ((total - expected) * density[:, None]) / density.sum()
    return np.log(density.sum()), expected, covariance + np.diag(np.bincount(arms[looked_at:], minlength=len(mean)))


@pytest.mark.parametrize("policy", [jb.Greedy(tau=0.7), jb.Thompson()], ids=["greedy", "thompson"])
@pytest.mark.slow
def test_likelihood_of_batches_against_quadrature_in_both_types(policy, x64):
    check_against_quadrature(policy)


@pytest.mark.slow
def test_likelihood_of_batches_against_quadrature():
    check_against_quadrature(jb.Greedy(tau=0.7))


def check_against_quadrature(policy):
    """As it is and condensed to one step for each arm of a batch: normaliser, expectation and covariance given the arms."""
    # In the batch of three, which is condensed, arm 0 has no pull.
    arms, sizes, mean = np.array([0, 1, 1, 1, 1, 0, 1, 1, 1]), (2, 3, 4), np.array([0.8, 0.3])
    seen = np.array([0, 0, 2, 2, 2, 5, 5, 5, 5])
    log_normaliser, expected, covariance = brute_force_batched(policy, arms, seen, mean)
    rewards = jnp.asarray([0.5, 0.9, -0.2, 1.1, 0.4, 0.3, 0.8, 1.4, 0.1], float)
    observed = np.asarray(jnp.zeros(2).at[arms].add(rewards))
    history = jb.History(arms=jnp.asarray(arms, jnp.int32), rewards=rewards, num_arms=2, batch_sizes=sizes)

    @jax.jit
    def sampled(record, noise):
        at = (policy, record, jnp.asarray(mean), jnp.ones(2))
        path = most_likely_path(*at, record.rewards, 10)
        return moments_at(sample_paths(*at, path, lambda step: noise[step]), jnp.zeros(2))

    for make in (record_of, condensed_record_of):
        record = make(history)
        found = sampled(record, jax.random.normal(KEY, (record.arms.shape[0], 20_000)))
        np.testing.assert_allclose(found.log_normaliser, log_normaliser, atol=3e-3)
        np.testing.assert_allclose(found.total + observed, expected, atol=0.02)
        np.testing.assert_allclose(found.covariance, covariance, atol=0.04)


def test_condensed_steps():
    """A batch of more pulls than arms is a step for each arm, one of fewer stays; choices are counted where they were made."""
    arms, sizes = jnp.array([0, 1, 2, 1, 0, 0, 0, 0, 2], jnp.int32), (3, 2, 4)
    rewards = jnp.arange(9.0)
    record = condensed_record_of(jb.History(arms=arms, rewards=rewards, num_arms=3, batch_sizes=sizes))
    assert record.arms.tolist() == [0, 1, 2, 1, 0, 0, 1, 2]
    assert record.sizes.tolist() == [1, 1, 1, 1, 1, 3, 0, 1]
    assert record.rewards.tolist() == [0, 1, 2, 3, 4, 18, 0, 8]
    assert record.choices.number.tolist() == [[0, 0, 0]] * 3 + [[1, 1, 0], [0, 0, 0], [3, 0, 1], [0, 0, 0], [0, 0, 0]]
    assert record.pulls.tolist()[5:] == [[2, 2, 1], [5, 2, 1], [5, 2, 1]]


def test_propensities_are_those_before_the_batch():
    policy = jb.EpsilonGreedy(epsilon=0.2)
    history = jb.History(
        arms=np.array([0, 1, 1, 1, 0]), rewards=np.array([0.0, 1.0, -9.0, -9.0, 0.0]), num_arms=2, batch_sizes=(2, 3)
    )
    unbatched = jb.History(arms=history.arms, rewards=history.rewards, num_arms=2, forced=np.array([1, 1, 0, 0, 0], bool))
    assert history.forced_steps.tolist() == [True, True, False, False, False]
    log = (jnp.asarray(history.arms), jnp.asarray(history.rewards), history.forced_steps, 2)
    # Arm 1 is ahead before the batch, and arm 0 after its first reward.
    np.testing.assert_allclose(np.exp(selection_log_probs(policy, *log, history.seen_steps))[2:], [0.9, 0.9, 0.1], rtol=1e-6)
    np.testing.assert_allclose(np.exp(selection_log_probs(policy, *log))[2:], [0.9, 0.1, 0.9], rtol=1e-6)
    found = [jb.propensity_weighting(one, policy).mean.tolist() for one in (history, unbatched)]
    assert found[0] != found[1]


def test_batched_ols_by_hand():
    arms, rewards = np.array([0, 1, 1, 0, 0, 1]), np.array([1.0, 2.0, 4.0, 0.0, 2.0, 5.0])
    history = jb.History(arms=arms, rewards=rewards, num_arms=2, batch_sizes=(3, 3))
    found = jb.batched_ols(history, jb.Normal(sigma=2.0))
    root = np.sqrt(2)
    np.testing.assert_allclose(found.mean, [(1 + root * 1) / (1 + root), (root * 3 + 5) / (root + 1)], rtol=1e-6)
    np.testing.assert_allclose(found.stderr, 2 * root / (1 + root), rtol=1e-6)
    # Both batches have weight sqrt(2 / 3) for the difference.
    np.testing.assert_allclose(found.diagnostics["difference"][1], ((3 - 1) + (5 - 1)) / 2, rtol=1e-6)
    np.testing.assert_allclose(found.diagnostics["difference_stderr"][1], 2 * root / (2 * np.sqrt(2 / 3)), rtol=1e-6)
    assert np.isnan(found.diagnostics["difference"][0])
    estimated = jb.batched_ols(history)
    assert float(estimated.diagnostics["sigma"]) == pytest.approx(np.sqrt((2 + 2) / 2))
    with pytest.raises(jb.ArgumentError, match=r"history\.batch_sizes is None; it must be the sizes of the batches"):
        jb.batched_ols(jb.History(arms=arms, rewards=rewards, num_arms=2))


def test_batched_ols_under_drift():
    """A drift that all arms share moves no difference; its intervals cover, where those of the sample means do not."""
    policy, family, mean = jb.Thompson(), jb.Normal(), [0.5, 0.2]
    history = jb.simulate(KEY, policy, family, mean, num_steps=400, num_trials=1000, batch_size=50)
    found = jb.batched_ols(history, family)
    drift = np.repeat(np.linspace(0, 3, 8), 50)
    drifted = jb.batched_ols(jb.History(**{**vars(history), "rewards": np.asarray(history.rewards) + drift[None]}), family)
    np.testing.assert_allclose(found.diagnostics["difference"], drifted.diagnostics["difference"], atol=2e-5)
    ends = [np.asarray(found.diagnostics[f"difference_{end}"])[:, 1] for end in ("lower", "upper")]
    covered = (ends[0] <= -0.3) & (ends[1] >= -0.3)
    assert abs(covered.mean() - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 1000)


@pytest.mark.slow
def test_a_log_with_batches_from_file_to_answer(tmp_path):
    policy, family = jb.Thompson(), jb.Normal(sigma=1.0)
    history = jb.simulate(KEY, policy, family, MEAN, num_steps=60, batch_size=[10, 30, 20])
    jb.logs.write_log(history, tmp_path / "log.csv")
    log = jb.read_log(tmp_path / "log.csv")
    assert log.history.batch_sizes == (10, 30, 20)
    np.testing.assert_array_equal(log.history.forced, history.forced)
    found = jb.debias(KEY, log, policy, family, methods=["sample_mean", "mean_matching", "batched_ols"])
    assert found.trusted
    assert found.fit.verdict == "fits"
    assert set(found.comparison.estimates) == {"sample_mean", "mean_matching", "batched_ols"}
    frame = pd.read_csv(tmp_path / "log.csv").drop(columns="forced")
    assert jb.read_log(frame).history.forced_steps.tolist() == [True] * 10 + [False] * 50
    assert jb.read_log(frame.assign(batch=range(60))).history.batch_sizes is None


@pytest.mark.parametrize(
    ("options", "argument", "phrase"),
    [
        (dict(batch_size=0), "batch_size", "is 0; it must be 1 or more"),
        (dict(batch_size=[3, 3]), "batch_size", r"is \[3, 3\]; it must be sizes of 1 or more that sum to num_steps, 8"),
        (dict(allocation="shares"), "allocation", "is 'shares'; it must be 'independent' without batch_size"),
        (dict(batch_size=4, allocation="equal"), "allocation", "is 'equal'; it must be 'independent' or 'shares'"),
    ],
)
def test_what_is_refused(unchecked, options, argument, phrase):
    with pytest.raises(jb.ArgumentError, match=phrase) as error:
        jb.simulate(KEY, jb.Greedy(), jb.Normal(), MEAN, num_steps=8, **options)
    assert error.value.argument == argument


def test_batch_sizes_must_fit_the_log(unchecked):
    for sizes in ((1, 1), (0, 3), [1, 2]):
        with pytest.raises(
            jb.ArgumentError, match=r"is .*; it must be a tuple of sizes, 1 or more, that sum to 3 steps"
        ) as error:
            jb.sample_mean(jb.History(arms=np.array([0, 1, 1]), rewards=np.zeros(3), num_arms=2, batch_sizes=sizes))
        assert error.value.argument == "history.batch_sizes"


@pytest.mark.slow
def test_corrected_in_batches():
    """Mean matching and the conditional likelihood leave little of the bias that batches make."""
    policy, family, mean = jb.Greedy(tau=0.5), jb.Normal(), [1.0, 0.75]
    history = jb.simulate(KEY, policy, family, mean, num_steps=24, num_trials=1500, batch_size=6)
    before = np.asarray(history.statistics.mean) - mean
    for found in (
        jb.mean_matching(KEY, history, policy, family),
        jb.conditional_mle(KEY, history, policy, family, num_paths=256),
    ):
        after = np.asarray(found.mean) - mean
        stderr = after.std(axis=0) / np.sqrt(len(after))
        assert (np.abs(after.mean(axis=0)) < 0.25 * np.abs(before.mean(axis=0)) + 3 * stderr).all()
        covered = (np.asarray(found.lower) <= mean) & (mean <= np.asarray(found.upper))
        assert (np.abs(covered.mean(axis=0) - 0.955) < 0.025).all()
