import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.policies import sample_arm

BOTH = [jb.Greedy(), jb.Greedy(tau=0.5), jb.LilUCB(), jb.LilUCB(tau=1.0), jb.UCB1(), jb.Uniform()]
PATHWISE_ONLY = [jb.EpsilonGreedy(), jb.EpsilonGreedy(tau=0.5), jb.Thompson(), jb.BetaThompson(), jb.PlayTheWinner()]


@pytest.mark.parametrize("policy", BOTH + PATHWISE_ONLY, ids=repr)
def test_exploit_and_pathwise_iio_hold(policy):
    assert jb.check_exploit(policy, num_cases=2000) == ("Exploit", True, 2000, None)
    assert jb.check_iio(policy, form="pathwise", num_cases=2000).holds


@pytest.mark.parametrize("policy", BOTH, ids=repr)
def test_definition_two_holds_for_a_softmax_of_indices(policy):
    assert jb.check_iio(policy, num_cases=2000).holds


@pytest.mark.parametrize("policy", PATHWISE_ONLY, ids=repr)
def test_definition_two_fails_with_three_arms_and_not_with_two(policy):
    result = jb.check_iio(policy, num_cases=2000)
    assert not result.holds
    assert abs(result.counterexample.probability - result.counterexample.other_probability) > 1e-4
    assert jb.check_iio(policy, num_arms=2, num_cases=1000).holds


def test_the_counterexample_for_epsilon_greedy():
    """Arm 0 ahead of arm 1: with arm 2 best, 1/2; with arm 2 worst, (1 - e + e/3) / (1 - e + 2e/3), 0.964 at e = 0.1."""
    found = jb.check_iio(jb.EpsilonGreedy(epsilon=0.1)).counterexample
    pair = sorted(max(p, 1 - p) for p in (found.probability, found.other_probability))
    np.testing.assert_allclose(pair, [0.5, 28 / 29], atol=1e-4)


def test_the_counterexample_for_the_urn():
    """A failure of arm k puts as many balls in for each of the others, which draws their shares together.

    One of the others succeeded and one failed, once each: 3 to 1.5 balls after a failure of k, 2.5 to 1 after a success.
    """
    found = jb.check_iio(jb.PlayTheWinner(), num_cases=2000).counterexample
    assert len(found.arms) == 3
    pair = sorted(max(p, 1 - p) for p in (found.probability, found.other_probability))
    np.testing.assert_allclose(pair, [2 / 3, 5 / 7], atol=1e-4)


class UrnWithGumbelNoise(jb.StatisticsPolicy):
    unit_rewards = True

    def log_probs(self, state):
        return jb.PlayTheWinner().log_probs(state)


def test_for_the_urn_the_pathwise_form_depends_on_what_the_seed_is():
    """Drawn by Gumbel noise, two arms change places as their log-ratio does; drawn ball by ball, none of their balls moves."""
    assert not jb.check_iio(UrnWithGumbelNoise(), form="pathwise", num_cases=2000).holds
    uneven = jb.PlayTheWinner(balls=jnp.array([0.3, 1.0, 2.0]), added=0.37)
    assert jb.check_exploit(uneven, num_cases=2000).holds
    assert jb.check_iio(uneven, form="pathwise", num_cases=2000).holds


class ExploresTheWorst(jb.StatisticsPolicy):
    def log_probs(self, state):
        return jb.Greedy(tau=0.5).log_probs(state._replace(total=-state.total))


class Contrary(jb.StatisticsPolicy):
    """Chooses between the last two arms by the sign of arm 0's mean."""

    def log_probs(self, state):
        return jnp.log(jnp.where(state.mean[0] > 0, jnp.array([0.2, 0.7, 0.1]), jnp.array([0.2, 0.1, 0.7])))


def test_a_policy_that_explores_the_worst_arm_fails_exploit():
    result = jb.check_exploit(ExploresTheWorst())
    assert not result.holds
    assert result.counterexample.probability > result.counterexample.other_probability


def test_a_policy_that_looks_at_the_unchosen_arm_fails_both_forms_of_iio():
    assert not jb.check_iio(Contrary()).holds
    assert not jb.check_iio(Contrary(), form="pathwise").holds


@pytest.mark.parametrize(
    ("check", "policy"),
    [
        (jb.check_exploit, ExploresTheWorst()),
        (jb.check_iio, Contrary()),
        (lambda policy: jb.check_iio(policy, form="pathwise"), Contrary()),
    ],
)
def test_a_counterexample_can_be_replayed(check, policy):
    found = check(policy).counterexample
    differs = found.rewards != found.other_rewards
    assert differs.any()
    assert (found.arms[differs] == found.arm).all()
    for rewards, chosen in ((found.rewards, found.chosen), (found.other_rewards, found.other_chosen)):
        state = policy.init(3)
        for arm, reward in zip(found.arms, rewards, strict=True):
            state = policy.update(state, jnp.int32(arm), jnp.float32(reward))
        assert int(sample_arm(jax.random.key(found.seed), policy, state)) == chosen


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: jb.check_exploit(jb.Greedy(), num_arms=1), "num_arms is 1; allowed: 2 or more"),
        (lambda: jb.check_iio(jb.Greedy(), num_cases=0), "num_cases is 0; allowed: 1 or more"),
        (lambda: jb.check_iio(jb.Greedy(), form="strict"), "form is 'strict'; allowed: 'conditional' or 'pathwise'"),
        (
            lambda: jb.check_exploit(jb.BetaThompson(), family=jb.Normal(sigma=9.0), num_cases=200),
            "policy.log_probs returns NaN on these",
        ),
    ],
)
def test_bad_input_is_named(call, message, unchecked):
    with pytest.raises(ValueError, match=message):
        call()
