"""What every policy must do, the built-in ones and one's own: one contract, at the same histories for all of them."""

import functools
import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.policies import BasePolicy, complete_policy
from jaxbias.policies.noise import tie_priorities
from tests.conftest import POLICIES, Softmax

PLATFORMS = {  # the presets that break ties otherwise, and a floor inside a warm-up
    "epsilon-greedy-first": jb.EpsilonGreedy(epsilon=0.1, ties="first"),
    "ucb1-first": jb.UCB1(ties="first"),
    "platform": jb.policies.WarmUp(jb.Floored(jb.Thompson(), floor=0.05), num_steps=4),
}
CONTRACT = POLICIES | PLATFORMS | {"own": Softmax(rate=0.5)}
DRAWS = 40_000
FEWER_DRAWS = 4_000  # of the rejection sampler of the Beta distribution, which takes seconds for all of them: those are slow
STEPS = 6
DRAWN_FROM = {  # histories after which arms are drawn
    "open": ([0, 1, 2], [0.0, 1.0, 1.0]),
    "longer": ([0, 1, 2, 1, 2, 2], [1.0, 1.0, 0.0, 0.0, 1.0, 1.0]),
    "tied": ([0, 1, 2], [1.0, 1.0, 1.0]),
}
REWARDS = [[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]]  # of each pull of each arm, in the sequences
SEQUENCES = [rest for length in range(3) for rest in itertools.product(range(3), repeat=length)]  # after one pull of each arm


def rewards_of(arms):
    """What these arms give: of each, its first reward, its second, and so on."""
    return [REWARDS[arm][arms[:step].count(arm)] for step, arm in enumerate(arms)]


HISTORIES = [*DRAWN_FROM.values(), *(([0, 1, 2, *rest], rewards_of([0, 1, 2, *rest])) for rest in SEQUENCES)]


def replay(policy, num_arms, arms, rewards):
    state, update = policy.init(num_arms), jax.jit(policy.update)
    for arm, reward in zip(arms, rewards, strict=True):
        state = update(state, jnp.int32(arm), jnp.asarray(reward, float))
    return state


class Found(NamedTuple):
    """What a policy does after each of the histories."""

    log_probs: jax.Array  # (histories, arms)
    for_steps: jax.Array  # the same, of the form the policy prefers for so many steps
    drawn: jax.Array  # (the first histories, draws)


@functools.cache
def found(name, x64, draws):
    """All that the contract looks at, in one compiled program for each policy and dtype."""
    policy = complete_policy(CONTRACT[name])

    def after(arms, rewards, length):
        def body(state, step):
            number, arm, reward = step
            new = policy.update(state, arm, reward)
            return jax.tree.map(lambda new, old: jnp.where(number < length, new.astype(old.dtype), old), new, state), None

        start = jax.tree.map(jnp.asarray, policy.init(3))
        return jax.lax.scan(body, start, (jnp.arange(STEPS, dtype=jnp.int32), arms, rewards))[0]

    @jax.jit
    def run(keys, *histories):
        states = jax.vmap(after)(*histories)
        first = jax.tree.map(lambda leaf: leaf[: len(DRAWN_FROM)], states)
        prepared = policy.for_steps(STEPS)
        log_probs = jax.vmap(policy.log_probs)(states)
        return Found(
            log_probs=log_probs,
            for_steps=log_probs if prepared is policy else jax.vmap(prepared.log_probs)(states),
            drawn=jax.vmap(lambda state: jax.vmap(lambda key: policy.sample(key, state))(keys))(first),
        )

    padded = lambda values, dtype: jnp.asarray([[*row, *[0] * (STEPS - len(row))] for row in values], dtype)
    arms, rewards = zip(*HISTORIES, strict=True)
    histories = padded(arms, jnp.int32), padded(rewards, float), jnp.asarray([len(row) for row in arms], jnp.int32)
    return run(jax.random.split(jax.random.key(0), draws), *histories)


@pytest.fixture(params=CONTRACT)
def name(request):
    return request.param


LONG_TO_COMPILE = ("thompson-noisy", "beta-thompson", "exploration-sampling", "beta-exploration-sampling")
TYPES = {False: "float32", True: "float64"}


@pytest.fixture(
    params=[
        pytest.param((name, x64), id=f"{name}-{TYPES[x64]}", marks=[pytest.mark.slow] * (x64 and name in LONG_TO_COMPILE))
        for name in CONTRACT
        for x64 in TYPES
    ]
)
def case(request):
    """A policy and whether numbers are float64; integrals in float64 are slow."""
    with jax.enable_x64(request.param[1]):
        yield request.param


def check_drawn(name, x64, draws):
    """Every arm's share is within 4.5 standard errors of its probability."""
    result = found(name, x64, draws)
    for log_probs, drawn in zip(result.log_probs, result.drawn, strict=False):
        probability = np.exp(np.asarray(log_probs, np.float64))
        stderr = np.sqrt(probability * (1 - probability) / draws)
        shares = np.bincount(drawn, minlength=3) / draws
        assert (np.abs(shares - probability) <= 4.5 * stderr + 1e-7).all()


def draws_of(name):
    return FEWER_DRAWS if name == "beta-thompson" else DRAWS


def test_log_probs_are_normalised_and_drawn_from(case):
    name, x64 = case
    log_probs = found(name, x64, draws_of(name)).log_probs
    assert log_probs.shape == (len(HISTORIES), 3)
    assert log_probs.dtype == jnp.result_type(float)
    np.testing.assert_allclose(np.exp(np.asarray(log_probs, np.float64)).sum(axis=1), 1.0, atol=1e-6)
    check_drawn(name, x64, draws_of(name))


@pytest.mark.slow
def test_beta_draws(x64):
    check_drawn("beta-thompson", x64, DRAWS)


def test_all_arm_sequences_sum_to_one(case):
    """For fixed rewards of each pull, the probabilities of all sequences of six arms sum to one."""
    name, x64 = case
    rows = np.exp(np.asarray(found(name, x64, draws_of(name)).log_probs, np.float64))[len(DRAWN_FROM) :]
    after = dict(zip(SEQUENCES, rows, strict=True))
    sequences = itertools.product(range(3), repeat=3)
    total = sum(after[()][first] * after[first,][second] * after[first, second][third] for first, second, third in sequences)
    assert total == pytest.approx(1.0, abs=1e-5)


def test_what_a_policy_brings_besides(case):
    """As `BasePolicy` documents it; `for_steps` is the same policy, whatever form it takes."""
    name, x64 = case
    policy = complete_policy(CONTRACT[name])
    assert isinstance(policy, BasePolicy)
    assert complete_policy(policy) is policy
    assert policy.log_prob_cost(3) > 0
    own_sampler = getattr(type(CONTRACT[name]), "sample", BasePolicy.sample) is not BasePolicy.sample
    assert policy.has_sampler == own_sampler
    result = found(name, x64, draws_of(name))
    np.testing.assert_allclose(result.for_steps, result.log_probs, atol=1e-9 if x64 else 1e-5)
    assert all(hasattr(policy, setting) for setting in policy.noise_settings)
    assert policy.is_adaptive or not np.ptp(result.log_probs, axis=0).any()
    if policy.keeps_statistics:
        assert isinstance(policy.init(3), jb.policies.ArmStatistics)
    assert jb.policies.policy_name(policy) == type(CONTRACT[name]).__name__


def test_the_defaults_of_a_policy_of_ones_own(own_policy):
    """Those of `BasePolicy`, for a class with three functions and nothing else."""
    policy = complete_policy(own_policy)
    assert (policy.log_concave, policy.unit_rewards, policy.records_draws) == (False, False, False)
    assert (policy.is_adaptive, policy.noise_settings) == (True, ())
    assert (policy.has_sampler, policy.keeps_statistics, policy.log_prob_cost(9)) == (False, False, 1.0)
    assert policy.for_steps(100) is policy
    assert policy.table_nodes(100) is None
    assert repr(policy) == repr(own_policy)
    for call in (lambda: policy.tables(2, 3, 4, float), lambda: policy.draw(jax.random.key(0), None), lambda: policy.given(None)):
        with pytest.raises(TypeError, match="PlainPolicy"):
            call()


def test_a_policy_of_ones_own_may_bring_more():
    """Its own sampler, and what it says of itself, are used without a base class."""

    class Careful(Softmax):
        log_concave, unit_rewards, is_adaptive = True, True, False

        def sample(self, key, state):
            return jnp.int32(2)

    policy = complete_policy(Careful(rate=0.5))
    assert (policy.has_sampler, policy.log_concave, policy.unit_rewards, policy.is_adaptive) == (True, True, True, False)
    assert int(policy.sample(jax.random.key(0), policy.init(3))) == 2


def test_the_gradient_of_what_was_selected_is_finite(name):
    """With respect to the rewards, of an arm with a probability above zero."""
    policy = CONTRACT[name]
    if isinstance(policy, jb.BetaThompson | jb.policies.BetaExplorationSampling):
        return  # its rewards are 0 and 1

    def selected(rewards):
        def body(state, step):
            after = policy.update(state, *step)
            return jax.tree.map(lambda new, old: new.astype(old.dtype), after, state), None

        start = jax.tree.map(jnp.asarray, policy.init(3))
        state, _ = jax.lax.scan(body, start, (jnp.arange(3, dtype=jnp.int32), rewards))
        return policy.log_probs(state)[1]

    value, gradient = jax.jit(jax.value_and_grad(selected))(jnp.array([0.1, 0.9, 0.4]))
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


def test_noiseless_log_probs_are_exact():
    tied = jb.policies.ArmStatistics(pulls=jnp.array([3, 6, 1]), total=jnp.array([1.0, 2.0, 0.0]))
    np.testing.assert_array_equal(jb.Greedy(ties="first").log_probs(tied), [0.0, -np.inf, -np.inf])
    np.testing.assert_allclose(jb.Greedy().log_probs(tied), [-np.log(2), -np.log(2), -np.inf])
    gradient = jax.jacobian(lambda total: jb.Greedy().log_probs(tied._replace(total=total)))(tied.total)
    np.testing.assert_array_equal(gradient, np.zeros((3, 3)))


@pytest.mark.parametrize("tau", [1e-30, 1e-6, 1e-3])
def test_tau_near_zero_is_the_noiseless_policy(tau):
    state = jb.policies.ArmStatistics(pulls=jnp.array([1, 1]), total=jnp.array([0.5, 0.1]))
    np.testing.assert_allclose(np.exp(jb.Greedy(tau=tau).log_probs(state)), [1.0, 0.0], atol=1e-6)


def test_a_sweep_over_tau_may_pass_through_zero():
    """A tau that is traced may be zero: ties are then broken at random, as without noise."""
    state = jb.policies.ArmStatistics(pulls=jnp.array([1, 1, 1]), total=jnp.array([1.0, 1.0, 0.0]))
    found = jax.jit(jax.vmap(lambda tau: jb.Greedy(tau=tau).log_probs(state)))(jnp.array([0.0, 1.0]))
    np.testing.assert_allclose(found[0], jb.Greedy().log_probs(state))
    np.testing.assert_allclose(found[1], jb.Greedy(tau=1.0).log_probs(state))
    keys = jax.random.split(jax.random.key(0), 10_000)
    drawn = jax.jit(jax.vmap(lambda key: jb.Greedy(tau=jnp.array(0.0)).sample(key, state)))(keys)
    np.testing.assert_allclose(np.bincount(drawn, minlength=3) / 10_000, [0.5, 0.5, 0.0], atol=0.02)


def test_tau_may_be_a_schedule_over_steps():
    state = jb.policies.ArmStatistics(pulls=jnp.array([3, 1]), total=jnp.array([3.0, 0.0]))
    schedule = jb.Greedy(tau=lambda step: 2.0 / jnp.sqrt(step.astype(float)))
    np.testing.assert_allclose(schedule.log_probs(state), jb.Greedy(tau=1.0).log_probs(state), rtol=1e-6)
    history = jb.simulate(jax.random.key(0), schedule, jb.Normal(), [1.0, 0.0], num_steps=10, num_trials=3)
    assert history.arms.shape == (3, 10)


def test_ties_are_shared_evenly():
    """Three tied arms of five, 90,000 draws: each a third within 4.5 standard errors."""
    state = jb.policies.ArmStatistics(pulls=jnp.ones(5, jnp.int32), total=jnp.array([1.0, 0.0, 1.0, 0.5, 1.0]))
    keys = jax.random.split(jax.random.key(3), 90_000)
    drawn = np.bincount(jax.jit(jax.vmap(lambda key: jb.Greedy().sample(key, state)))(keys), minlength=5) / 90_000
    np.testing.assert_allclose(drawn, np.array([1, 0, 1, 0, 1]) / 3, atol=4.5 * np.sqrt(2 / 9 / 90_000))


def test_of_many_tied_arms_the_one_with_the_highest_priority():
    """Forty arms, compared in groups, with ties within groups and across them; against the same choice in NumPy."""
    keys = jax.random.split(jax.random.key(4), 300)
    total = jnp.asarray(np.random.default_rng(0).integers(0, 4, (300, 40)), jnp.float32)
    choose = lambda key, total: jb.Greedy().sample(key, jb.policies.ArmStatistics(pulls=jnp.ones(40, jnp.int32), total=total))
    words = jax.vmap(lambda key: jax.random.bits(key, (), jnp.uint32))(keys)
    priorities = np.asarray(jax.jit(jax.vmap(lambda word: tie_priorities(word, 40)))(words)).astype(np.int64)
    expected = np.argmax(np.where(total == np.max(total, axis=1, keepdims=True), priorities, 0), axis=1)
    np.testing.assert_array_equal(jax.jit(jax.vmap(choose))(keys, total), expected)
    one = jax.jit(choose)
    np.testing.assert_array_equal([one(*trial) for trial in zip(keys[:5], total[:5], strict=True)], expected[:5])


def test_lil_ucb_is_the_papers_index():
    state = jb.policies.ArmStatistics(pulls=jnp.array([1, 7]), total=jnp.array([0.5, 1.4]))
    width = [2 * 1.1 * np.sqrt(2 * 1.01 * np.log(np.log(1.01 * pulls) / 0.005) / pulls) for pulls in (1, 7)]
    np.testing.assert_allclose(jb.LilUCB().index(state), np.array([0.5, 0.2]) + width, rtol=1e-5)


def test_ucb1_is_auers_index():
    state = jb.policies.ArmStatistics(pulls=jnp.array([1, 7]), total=jnp.array([0.5, 1.4]))
    np.testing.assert_allclose(
        jb.UCB1().index(state), np.array([0.5, 0.2]) + np.sqrt(2 * np.log(8) / np.array([1, 7])), rtol=1e-6
    )


def test_exp3_by_hand():
    """Two arms, gamma 1/2: after arm 0 gave 1 with probability 1/2, its weight is exp(1/2 * 2 / 2)."""
    state = replay(jb.Exp3(gamma=0.5), 2, [0], [1.0])
    share = np.exp(0.5) / (1 + np.exp(0.5))
    np.testing.assert_allclose(jnp.exp(jb.Exp3(gamma=0.5).log_probs(state))[0], 0.5 * share + 0.25, rtol=1e-6)


def test_thompson_posterior_is_the_papers():
    location, scale = jb.Thompson(prior_mean=1.0, prior_sigma=5.0, sigma=2.0).posterior(
        jb.policies.ArmStatistics(pulls=jnp.array([4]), total=jnp.array([8.0]))
    )
    precision = 1 / 25 + 4 / 4
    np.testing.assert_allclose(location, [(1 / 25 + 8 / 4) / precision], rtol=1e-6)
    np.testing.assert_allclose(scale, [precision**-0.5], rtol=1e-6)


def test_thompson_given_its_own_draw_averages_to_its_probability():
    """By Gauss-Hermite quadrature over the draw; with noise, or in a subclass that may choose in another way, there is none."""
    policy = jb.Thompson(prior_mean=0.5, prior_sigma=2.0)
    state = jb.policies.ArmStatistics(pulls=jnp.array([1, 3, 8]), total=jnp.array([0.2, 2.0, 4.5]))
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    arms = jnp.arange(3, dtype=jnp.int32)
    of_nodes = jax.vmap(policy.log_prob_given_own_draw, (None, None, 0))
    given = jax.vmap(of_nodes, (None, 0, None))(state, arms, jnp.asarray(nodes, jnp.float32))
    average = np.exp(np.asarray(given)) @ weights / weights.sum()
    np.testing.assert_allclose(average, np.exp(policy.log_probs(state)), rtol=1e-4)
    assert policy.has_own_draw
    assert not jb.Thompson(tau=1.0).has_own_draw
    assert not jb.BetaThompson().has_own_draw


def test_one_arm_is_always_pulled(name):
    policy = CONTRACT[name]
    after = jax.jit(lambda reward: policy.log_probs(policy.update(policy.init(1), jnp.int32(0), reward)))
    np.testing.assert_allclose(after(jnp.asarray(1.0)), [0.0], atol=1e-6)
