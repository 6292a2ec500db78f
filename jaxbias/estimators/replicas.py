"""Logs like a given one, simulated: forced where it was, in its batches, stopped by its rule; their sample means and scores."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxbias.history import History
from jaxbias.policies import ArmStatistics, Policy, sample_arm
from jaxbias.rewards import Family, at_arm
from jaxbias.steps import ONE_BY_ONE, Plan, Problem, make_moments, run_trials, start_trials, statistics_of
from jaxbias.stopping import StoppingRule


class Schedule(NamedTuple):
    """Which steps of a log were forced, and to which arm; its batches, and the rule that could stop it."""

    arms: Int[Array, " steps"]
    forced: Bool[Array, " steps"]
    plan: Plan = ONE_BY_ONE
    stop: Any = None


def make_schedule(history: History, stop: StoppingRule | None = None, num_steps: int | None = None) -> Schedule:
    """That of one log, or of a longer one that a rule has stopped: beyond its end nothing is forced, and batches are as large as
    its largest."""
    more, sizes = (num_steps or history.num_steps) - history.num_steps, history.batch_sizes
    if sizes is not None and more:
        whole, rest = divmod(more, max(sizes))
        sizes = (*sizes, *(max(sizes),) * whole, *((rest,) if rest else ()))
    plan = Plan(batch_sizes=sizes, allocation=history.allocation)
    return Schedule(jnp.pad(history.arms, (0, more)), jnp.pad(history.forced_steps, (0, more)), plan, stop)


def of_arms(leaf: Any, kept: Int[np.ndarray, " kept"], num_arms: int) -> Any:
    """A setting of a policy or family for some of the arms: what has one value for each is cut to theirs."""
    return leaf[kept] if getattr(leaf, "shape", ()) == (num_arms,) else leaf


class Scored(NamedTuple):
    """A policy that also keeps the score of the means: for families that do not say their variance."""

    policy: Any
    family: Any
    mean: Float[Array, " arms"]

    def init(self, num_arms: int) -> tuple[Any, Array]:
        """The policy's state, and a score of zero."""
        return self.policy.init(num_arms), jnp.zeros(num_arms, self.mean.dtype)

    def log_probs(self, state: tuple[Any, Array]) -> Float[Array, " arms"]:
        """The policy's own."""
        return self.policy.log_probs(state[0])

    def update(self, state: tuple[Any, Array], arm: Int[Array, ""], reward: Float[Array, ""]) -> tuple[Any, Array]:
        """Adds the derivative of the reward's log-likelihood to its arm's score."""
        family, mean = at_arm((self.family, self.mean), arm, self.mean.shape[0])
        slope = jax.grad(lambda mean: family.log_prob(reward, mean))(mean)
        chosen = jnp.arange(self.mean.shape[0], dtype=arm.dtype) == arm
        return self.policy.update(state[0], arm, reward), state[1] + jnp.where(chosen, slope, 0)


class Squared(NamedTuple):
    """A policy that also keeps each arm's sum of ((reward - mean) / sigma)^2."""

    policy: Any
    mean: Float[Array, " arms"]
    sigma: Float[Array, " arms"]

    def init(self, num_arms: int) -> tuple[Any, Array]:
        """The policy's state, and no squares."""
        return self.policy.init(num_arms), jnp.zeros(num_arms, self.mean.dtype)

    def log_probs(self, state: tuple[Any, Array]) -> Float[Array, " arms"]:
        """The policy's own."""
        return self.policy.log_probs(state[0])

    def sample(self, key: Any, state: tuple[Any, Array]) -> Int[Array, ""]:
        """In the policy's own way."""
        return sample_arm(key, self.policy, state[0])

    def update(self, state: tuple[Any, Array], arm: Int[Array, ""], reward: Float[Array, ""]) -> tuple[Any, Array]:
        """Adds the square to its arm's."""
        chosen = jnp.arange(self.mean.shape[0], dtype=arm.dtype) == arm
        square = jnp.square((reward - self.mean[arm]) / self.sigma[arm])
        return self.policy.update(state[0], arm, reward), state[1] + jnp.where(chosen, square, 0)


class Trials(NamedTuple):
    """What simulated trials gave."""

    sample_means: Float[Array, "trials arms"]  # 0 without a pull
    score: Float[Array, "trials arms"]
    pulls: Int[Array, "trials arms"]
    squares: Float[Array, "trials arms"] | None = None  # as `Squared` keeps them

    @property
    def pulled(self) -> Bool[Array, "trials arms"]:
        """Which arms were."""
        return self.pulls > 0


def simulate_means(
    words: Array, policy: Policy, family: Family, mean: Float[Array, " arms"], schedule: Schedule, squares: bool = False
) -> Trials:
    """Sample means and scores of simulated trials, and where they are asked for the squares of Normal rewards."""
    problem = Problem(policy=policy, family=family, mean=mean, stop=schedule.stop).for_steps(schedule.arms.shape[0])
    variance, squared = getattr(family, "variance", None), None
    if variance is not None and squares:
        sigma = jnp.sqrt(variance(mean))
        problem = problem._replace(policy=Squared(policy=problem.policy, mean=mean, sigma=sigma))
        (_, squared), statistics = _follow(problem, words, schedule)
        score = (statistics.total - statistics.pulls.astype(mean.dtype) * mean[None]) / variance(mean)[None]
    elif variance is None:
        problem = problem._replace(policy=Scored(policy=problem.policy, family=family, mean=mean))
        (_, score), statistics = _follow(problem, words, schedule)
    else:
        _, statistics = _follow(problem, words, schedule)
        score = (statistics.total - statistics.pulls.astype(mean.dtype) * mean[None]) / variance(mean)[None]
    return Trials(sample_means=statistics.mean, score=score, pulls=statistics.pulls, squares=squared)


def _follow(problem: Problem, words: Array, schedule: Schedule) -> tuple[Any, ArmStatistics]:
    """Trials that are forced where, and to the arm, that a log was: their states at the end, and what each arm has."""
    moments = make_moments(schedule.arms.shape[0], schedule.plan, schedule.arms, schedule.forced)
    start = start_trials(problem, schedule.plan, words.shape[-1])
    progress, _ = run_trials(problem, words, start, moments, emit=lambda *_: None)
    return progress.state, statistics_of(progress)


def average_pulled(trials: Trials) -> tuple[Float[Array, " arms"], Float[Array, "trials arms"], Float[Array, " arms"]]:
    """Each arm's sample mean on average over the trials that pulled it; how far each is off it; and the share of such trials."""
    pulled = trials.pulled.astype(trials.sample_means.dtype)
    share = jnp.maximum(jnp.mean(pulled, axis=0), 1 / pulled.shape[0])
    average = jnp.mean(trials.sample_means, axis=0) / share
    return average, (trials.sample_means - average[None]) * pulled, share
