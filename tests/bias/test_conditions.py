from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.policies import complete_policy

KEY = jax.random.key(0)
CASES = 2000  # for every check, so that they share one program for each policy
BOTH = [jb.Greedy(), jb.LilUCB(tau=1.0), jb.Uniform()]
PATHWISE_ONLY = [jb.EpsilonGreedy(), jb.Thompson(), jb.policies.PlayTheWinner()]
slow = lambda *policies: [pytest.param(policy, marks=pytest.mark.slow) for policy in policies]
MORE_BOTH = slow(jb.Greedy(tau=0.5), jb.LilUCB(), jb.UCB1())
MORE_PATHWISE_ONLY = slow(jb.EpsilonGreedy(tau=0.5), jb.BetaThompson())  # the quantile of a Beta takes long


@pytest.mark.parametrize("policy", [*BOTH, *PATHWISE_ONLY, *MORE_BOTH, *MORE_PATHWISE_ONLY], ids=repr)
def test_exploit_and_pathwise_iio_hold(policy):
    assert jb.bias.check_exploit(KEY, policy, num_cases=CASES) == ("Exploit", True, CASES, None)
    assert jb.bias.check_iio(KEY, policy, form="pathwise", num_cases=CASES).holds


def test_exploit_and_pathwise_iio_hold_for_beta_posteriors():
    """A few cases; thousands of them are slow."""
    assert jb.bias.check_exploit(KEY, jb.BetaThompson(), num_cases=50).holds
    assert jb.bias.check_iio(KEY, jb.BetaThompson(), form="pathwise", num_cases=50).holds


@pytest.mark.parametrize("policy", [*BOTH, *MORE_BOTH], ids=repr)
def test_definition_two_holds_for_a_softmax_of_indices(policy):
    assert jb.bias.check_iio(KEY, policy, num_cases=CASES).holds


@pytest.mark.parametrize("policy", [*PATHWISE_ONLY, *MORE_PATHWISE_ONLY], ids=repr)
def test_definition_two_fails_with_three_arms(policy):
    result = jb.bias.check_iio(KEY, policy, num_cases=CASES)
    assert not result.holds
    assert abs(result.counterexample.probability - result.counterexample.other_probability) > 1e-4


@pytest.mark.parametrize("policy", [PATHWISE_ONLY[0], *slow(*PATHWISE_ONLY[1:]), *MORE_PATHWISE_ONLY], ids=repr)
def test_definition_two_holds_with_two_arms(policy):
    assert jb.bias.check_iio(KEY, policy, num_arms=2, num_cases=1000).holds


def test_the_counterexample_for_epsilon_greedy():
    """Arm 0 ahead of arm 1: with arm 2 best, 1/2; with arm 2 worst, (1 - e + e/3) / (1 - e + 2e/3), 0.964 at e = 0.1."""
    found = jb.bias.check_iio(KEY, jb.EpsilonGreedy(epsilon=0.1), num_cases=CASES).counterexample
    pair = sorted(max(p, 1 - p) for p in (found.probability, found.other_probability))
    np.testing.assert_allclose(pair, [0.5, 28 / 29], atol=1e-4)


def test_the_counterexample_for_the_urn():
    """A failure of arm k puts as many balls in for each of the others, which draws their shares together.

    One of the others succeeded and one failed, once each: 3 to 1.5 balls after a failure of k, 2.5 to 1 after a success.
    """
    found = jb.bias.check_iio(KEY, jb.policies.PlayTheWinner(), num_cases=CASES).counterexample
    assert len(found.arms) == 3
    pair = sorted(max(p, 1 - p) for p in (found.probability, found.other_probability))
    np.testing.assert_allclose(pair, [2 / 3, 5 / 7], atol=1e-4)


class UrnWithGumbelNoise(jb.policies.StatisticsPolicy):
    unit_rewards = True

    def log_probs(self, state):
        return jb.policies.PlayTheWinner().log_probs(state)


@pytest.mark.slow
def test_for_the_urn_the_pathwise_form_depends_on_what_the_seed_is():
    """Drawn by Gumbel noise, two arms change places as their log-ratio does; drawn ball by ball, none of their balls moves."""
    assert not jb.bias.check_iio(KEY, UrnWithGumbelNoise(), form="pathwise", num_cases=CASES).holds
    uneven = jb.policies.PlayTheWinner(balls=jnp.array([0.3, 1.0, 2.0]), added=0.37)
    assert jb.bias.check_exploit(KEY, uneven, num_cases=CASES).holds
    assert jb.bias.check_iio(KEY, uneven, form="pathwise", num_cases=CASES).holds


class ExploresTheWorst(jb.policies.StatisticsPolicy):
    def log_probs(self, state):
        return jb.Greedy(tau=0.5).log_probs(state._replace(total=-state.total))


class Contrary(jb.policies.StatisticsPolicy):
    """Chooses between the last two arms by the sign of arm 0's mean."""

    def log_probs(self, state):
        return jnp.log(jnp.where(state.mean[0] > 0, jnp.array([0.2, 0.7, 0.1]), jnp.array([0.2, 0.1, 0.7])))


EXPLORES_THE_WORST, CONTRARY = ExploresTheWorst(), Contrary()  # one object each, so one program each


def test_a_policy_that_explores_the_worst_arm_fails_exploit():
    result = jb.bias.check_exploit(KEY, EXPLORES_THE_WORST, num_cases=CASES)
    assert not result.holds
    assert result.counterexample.probability > result.counterexample.other_probability


def test_a_policy_that_looks_at_the_unchosen_arm_fails_both_forms_of_iio():
    assert not jb.bias.check_iio(KEY, CONTRARY, num_cases=CASES).holds
    assert not jb.bias.check_iio(KEY, CONTRARY, form="pathwise", num_cases=CASES).holds


@pytest.mark.parametrize(
    ("check", "policy"),
    [
        (jb.bias.check_exploit, EXPLORES_THE_WORST),
        (jb.bias.check_iio, CONTRARY),
        (partial(jb.bias.check_iio, form="pathwise"), CONTRARY),
    ],
    ids=["exploit", "iio", "pathwise"],
)
def test_a_counterexample_can_be_replayed(check, policy):
    found = check(KEY, policy, num_cases=CASES).counterexample
    differs = found.rewards != found.other_rewards
    assert differs.any()
    assert (found.arms[differs] == found.arm).all()
    for rewards, chosen in ((found.rewards, found.chosen), (found.other_rewards, found.other_chosen)):
        state = policy.init(3)
        for arm, reward in zip(found.arms, rewards, strict=True):
            state = policy.update(state, jnp.int32(arm), jnp.float32(reward))
        assert int(complete_policy(policy).sample(jax.random.fold_in(KEY, found.case), state)) == chosen


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: jb.bias.check_exploit(KEY, jb.Greedy(), num_arms=1), "num_arms is 1; it must be 2 to 1000"),
        (
            lambda: jb.bias.check_exploit(KEY, jb.EpsilonGreedy(), num_arms=10**20),
            "num_arms is 100000000000000000000; it must be 2",
        ),
        (lambda: jb.bias.check_iio(KEY, jb.Greedy(), num_cases=10**9), "num_cases is 1000000000; it must be 1 to 33333333 with"),
        (lambda: jb.bias.check_iio(KEY, jb.Greedy(), num_cases=0), "num_cases is 0; it must be 1 to 33333333"),
        (lambda: jb.bias.check_iio(KEY, jb.Greedy(), form="strict"), "form is 'strict'; it must be 'conditional' or 'pathwise'"),
        (
            lambda: jb.bias.check_exploit(KEY, jb.policies.PlayTheWinner(), family=jb.Normal(sigma=9.0), num_cases=CASES),
            "family is Normal.*log_probs are NaN on these",
        ),
    ],
)
def test_bad_input_is_named(call, message, unchecked):
    with pytest.raises(ValueError, match=message):
        call()
