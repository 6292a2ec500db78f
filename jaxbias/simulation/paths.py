"""Paths: simulated trials like a given log, forced where it was, in its batches or with its delays, stopped by its rule."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int

from jaxbias._core.arrivals import Arrivals, arrivals_of
from jaxbias._core.devices import on_each_part
from jaxbias._core.errors import ArgumentError
from jaxbias._core.lengths import pad_axis, padded_length
from jaxbias._core.settings import settings
from jaxbias.history import History, seen_by_batch
from jaxbias.policies import ArmStatistics, BasePolicy, Policy, StatisticsPolicy, complete_policy
from jaxbias.rewards import Family, Normal, UnknownSigma, at_arm, complete_family
from jaxbias.simulation.batches import BatchSums, can_batch, run_batches, run_each_batch
from jaxbias.simulation.steps import (
    ONE_BY_ONE,
    Batching,
    Problem,
    make_steps,
    run_trials,
    start_trials,
    statistics_of,
)
from jaxbias.stopping import StoppingRule

# Logs x paths simulated together on a CPU: they stay in the first cache, and few wait for the slowest search.
PATHS_AT_ONCE = 2**10
PATHS_AT_ONCE_ACCELERATOR = 2**17  # on a GPU: enough to fill it
# Likewise where whole batches are drawn at once, which takes more memory and time: few logs wait for the slowest search.
BATCHED_AT_ONCE = 2**8


class Design(NamedTuple):
    """What stays the same when an experiment is run again: the forced steps and their arms, the batches or delays, the rule.

    `length` is how many of the steps there are, where not all; not known before compilation. `devices` are those that the paths
    of an only log are spread over.
    """

    arms: Any  # (steps,), as are the forced
    forced: Any
    batching: Batching = ONE_BY_ONE
    stop: Any = None
    length: Any = None
    devices: Mesh | None = None

    def padded(self) -> "Design":
        """With steps at the end that are not taken, up to one of a few lengths, as a padded `History`."""
        if self.batching != ONE_BY_ONE or self.stop is not None or self.length is not None:
            return self
        steps = self.arms.shape[0]
        arms, forced = (pad_axis(values, padded_length(steps), 0) for values in (self.arms, self.forced))
        return self._replace(arms=arms, forced=forced, length=np.asarray(steps, np.int32))

    @property
    def arrivals(self) -> Arrivals | None:
        """What each choice has seen, where that is not all before it."""
        if self.batching.seen_at is not None:
            return arrivals_of(self.batching.seen_at)
        sizes = self.batching.batch_sizes
        return None if sizes is None else Arrivals(seen_by_batch(sizes))


def design_of(
    history: History, stop: StoppingRule | None = None, num_steps: int | None = None, devices: Mesh | None = None
) -> Design:
    """The design of one log. Where a rule stopped it early: beyond its end nothing is forced, and batches are as large as its
    largest."""
    return _design_of(history, stop, num_steps)._replace(devices=devices)


def _design_of(history: History, stop: StoppingRule | None, num_steps: int | None) -> Design:
    if history.seen_at is not None and stop is not None:
        raise ArgumentError("stop", stop, "None for a log whose rewards came late")
    if history.is_padded:
        return _design_of_padded(history, stop, num_steps)
    more, sizes = (num_steps or history.num_steps) - history.num_steps, history.batch_sizes
    if sizes is not None and more:
        whole, rest = divmod(more, max(sizes))
        sizes = (*sizes, *(max(sizes),) * whole, *((rest,) if rest else ()))
    batching = Batching(batch_sizes=sizes, allocation=history.allocation, seen_at=history.seen_at)
    if not more:
        return Design(history.arms, history.forced_steps, batching, stop)
    return Design(jnp.pad(history.arms, (0, more)), jnp.pad(history.forced_steps, (0, more)), batching, stop)


def _design_of_padded(history: History, stop: Any, num_steps: int | None) -> Design:
    if stop is None:
        return Design(history.arms, history.forced_steps, length=history.lengths)
    assert num_steps is not None
    more, beyond = max(num_steps - history.num_steps, 0), history.beyond_end
    forced = history.forced_steps & ~jnp.asarray(beyond)  # beyond the end of the log nothing is forced
    arms, forced = (jnp.pad(values, (0, more))[:num_steps] for values in (history.arms, forced))
    return Design(arms, forced, stop=stop)


def logs_at_once(policy: Policy, family: Family, history: History, num_paths: int) -> int:
    """How many logs are simulated together: enough steps at once to hide the start of each, few enough for the cache."""
    completed = complete_family(family)
    family = Normal() if isinstance(completed, UnknownSigma) else completed
    problem = Problem(policy=complete_policy(policy), family=family, mean=jnp.zeros(history.num_arms))
    batching = Batching(batch_sizes=history.batch_sizes, allocation=history.allocation)
    if jax.default_backend() != "cpu":
        return PATHS_AT_ONCE_ACCELERATOR // num_paths
    return (BATCHED_AT_ONCE if can_batch(problem, batching, history.num_arms) else PATHS_AT_ONCE) // num_paths


def of_arms(leaf: Any, kept: Int[np.ndarray | Array, " kept"], num_arms: int) -> Any:
    """A setting of a policy or family for some of the arms: what has one value for each is cut to theirs."""
    return leaf[kept] if getattr(leaf, "shape", ()) == (num_arms,) else leaf


@settings
class Scored(BasePolicy):
    """A policy that also keeps the score of the means: for families that do not say their variance."""

    policy: Any
    family: Any
    mean: Any

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


@settings
class Squared(BasePolicy):
    """A policy that also keeps each arm's sum of ((reward - mean) / sigma)^2."""

    policy: Any
    mean: Any
    sigma: Any

    def init(self, num_arms: int) -> tuple[Any, Array]:
        """The policy's state, and no squares."""
        return self.policy.init(num_arms), jnp.zeros(num_arms, self.mean.dtype)

    def log_probs(self, state: tuple[Any, Array]) -> Float[Array, " arms"]:
        """The policy's own."""
        return self.policy.log_probs(state[0])

    def sample(self, key: Any, state: tuple[Any, Array]) -> Int[Array, ""]:
        """In the policy's own way."""
        return self.policy.sample(key, state[0])

    @property
    def has_sampler(self) -> bool:
        """Whether the policy has one."""
        return self.policy.has_sampler

    def update(self, state: tuple[Any, Array], arm: Int[Array, ""], reward: Float[Array, ""]) -> tuple[Any, Array]:
        """Adds the square to its arm's."""
        chosen = jnp.arange(self.mean.shape[0], dtype=arm.dtype) == arm
        square = jnp.square((reward - self.mean[arm]) / self.sigma[arm])
        return self.policy.update(state[0], arm, reward), state[1] + jnp.where(chosen, square, 0)


class Paths(NamedTuple):
    """What the paths gave."""

    sample_means: Float[Array, "paths arms"]  # 0 without a pull
    score: Float[Array, "paths arms"]
    pulls: Int[Array, "paths arms"]
    squares: Float[Array, "paths arms"] | None = None  # as `Squared` keeps them
    history: History | None = None  # every step of every path

    @property
    def pulled(self) -> Bool[Array, "paths arms"]:
        """Which arms were."""
        return self.pulls > 0


def simulate_paths(
    words: Array,
    policy: Policy,
    family: Family,
    mean: Float[Array, " arms"],
    design: Design,
    squares: bool = False,
    steps: bool = False,
) -> Paths:
    """Sample means and scores of paths, and where they are asked for the squares of Normal rewards and all steps.

    With all steps the paths are other ones than without: batches are drawn as a whole where nobody asks for their steps.
    """
    one_part = lambda words: _simulate_paths(words, policy, family, mean, design, squares, steps)
    return on_each_part(one_part, None if steps else design.devices, words)


def _simulate_paths(
    words: Array, policy: Policy, family: Family, mean: Array, design: Design, squares: bool, steps: bool
) -> Paths:
    completed, squared = complete_family(family), None
    problem = Problem(policy=complete_policy(policy), family=completed, mean=mean, stop=design.stop)
    problem = problem.for_steps(design.arms.shape[0])
    if not steps and completed.has_variance and can_batch(problem, design.batching, mean.shape[0], squares):
        known = (design.batching, design.arms, design.forced)
        statistics, squared = run_batches(problem, words, *known, squares_around=mean if squares else None)
        history = None
    elif completed.has_variance and squares:
        sigma = jnp.sqrt(completed.variance(mean))
        problem = problem._replace(policy=Squared(policy=problem.policy, mean=mean, sigma=sigma))
        (_, squared), statistics, history = _follow(problem, words, design, steps)
    elif not completed.has_variance:
        problem = problem._replace(policy=Scored(policy=problem.policy, family=family, mean=mean))
        (_, score), statistics, history = _follow(problem, words, design, steps)
        return Paths(sample_means=statistics.mean, score=score, pulls=statistics.pulls, history=history)
    else:
        _, statistics, history = _follow(problem, words, design, steps)
    score = (statistics.total - statistics.pulls.astype(mean.dtype) * mean[None]) / completed.variance(mean)[None]
    return Paths(sample_means=statistics.mean, score=score, pulls=statistics.pulls, squares=squared, history=history)


class PathSums(NamedTuple):
    """What each arm gave on each path: pulls, summed rewards and, where asked for, the squares that `Squared` keeps."""

    pulls: Int[Array, "paths arms"]
    total: Float[Array, "paths arms"]
    squares: Float[Array, "paths arms"] | None = None


def simulate_sums(
    words: Array,
    policy: Policy,
    family: Family,
    means: Float[Array, "paths arms"],
    design: Design,
    squares_around: Float[Array, " arms"] | None = None,
) -> PathSums:
    """Paths that each have their own means; the squares, of Normal rewards, are around the means that are given for it."""
    one_part = lambda words, means: _simulate_sums(words, policy, family, means, design, squares_around)
    return on_each_part(one_part, design.devices, words, means)


def _simulate_sums(
    words: Array, policy: Policy, family: Family, means: Array, design: Design, squares_around: Array | None
) -> PathSums:
    problem = Problem(policy=complete_policy(policy), family=complete_family(family), mean=means[0], stop=design.stop)
    problem = problem.for_steps(design.arms.shape[0])
    if can_batch(problem, design.batching, means.shape[1], squares_around is not None):
        known = (design.batching, design.arms, design.forced)
        statistics, squares = run_batches(problem, words, *known, means, squares_around)
        return PathSums(pulls=statistics.pulls, total=statistics.total, squares=squares)
    if squares_around is None:
        _, statistics, _ = _follow(problem, words, design, means=means)
        return PathSums(pulls=statistics.pulls, total=statistics.total)
    sigma = jnp.sqrt(problem.family.variance(squares_around))
    problem = problem._replace(policy=Squared(policy=problem.policy, mean=squares_around, sigma=sigma))
    (_, squares), statistics, _ = _follow(problem, words, design, means=means)
    return PathSums(pulls=statistics.pulls, total=statistics.total, squares=squares)


def simulate_batches(
    words: Array, policy: Policy, family: Family, mean: Float[Array, " arms"], design: Design
) -> BatchSums | None:
    """Paths batch by batch; None where batches are not drawn as a whole."""
    problem = Problem(policy=complete_policy(policy), family=complete_family(family), mean=mean, stop=design.stop)
    problem = problem.for_steps(design.arms.shape[0])
    if not can_batch(problem, design.batching, mean.shape[0]):
        return None
    return run_each_batch(problem, words, design.batching, design.arms, design.forced)


def simulate_logs(words: Array, policy: Policy, family: Family, means: Float[Array, "paths arms"], design: Design) -> History:
    """Paths that each have their own means, step by step."""
    problem = Problem(policy=complete_policy(policy), family=complete_family(family), mean=means[0], stop=design.stop)
    history = _follow(problem.for_steps(design.arms.shape[0]), words, design, record=True, means=means)[2]
    assert history is not None
    return history


def _follow(
    problem: Problem,
    words: Array,
    design: Design,
    record: bool = False,
    means: Float[Array, "paths arms"] | None = None,
) -> tuple[Any, ArmStatistics, History | None]:
    """Paths of a design: their states at the end, what each arm has, and all steps if they are to be recorded."""
    policy, kept = problem.policy, False
    if isinstance(policy, Scored | Squared) and design.batching.seen_at is not None:
        kept = True  # of every pull, and not only of those that the policy has seen
        accounts = dataclasses.replace(policy, policy=StatisticsPolicy())
        problem = problem._replace(policy=policy.policy, accounts=accounts)
    steps = make_steps(design.arms.shape[0], design.batching, *map(jnp.asarray, (design.arms, design.forced)))
    start = start_trials(problem, design.batching, words.shape[-1])
    emit = (lambda _, outcome: (outcome.arm, outcome.reward)) if record else lambda *_: None
    progress, recorded = run_trials(problem, words, start, steps, emit=emit, means=means, length=design.length)
    state = progress.accounts if kept else progress.state
    if not record:
        return state, statistics_of(progress), None
    arms, rewards = (leaf.T for leaf in recorded)
    history = History(
        arms=arms,
        rewards=rewards,
        num_arms=problem.mean.shape[0],
        forced=jnp.broadcast_to(design.forced, arms.shape),
        lengths=progress.length if design.length is None else design.length,
        is_padded=design.length is not None,
        batch_sizes=design.batching.batch_sizes,
        allocation=design.batching.allocation,
        seen_at=design.batching.seen_at,
    )
    return state, statistics_of(progress), history


class Steps(NamedTuple):
    """The steps of one path, or of each."""

    arms: Int[Array, "*paths steps"]
    rewards: Float[Array, "*paths steps"]
    free: Bool[Array, "*paths steps"]  # whether the policy chose
    taken: Bool[Array, "*paths steps"]  # whether the path had not ended before


def simulate_steps(words: Array, policy: Policy, family: Family, mean: Float[Array, " arms"], design: Design) -> Steps:
    """The same paths as those of `simulate_paths` with all steps."""
    problem = Problem(policy=complete_policy(policy), family=complete_family(family), mean=mean, stop=design.stop)
    history = _follow(problem.for_steps(design.arms.shape[0]), words, design, record=True)[2]
    assert history is not None
    arms, beyond = history.arms, history.beyond_end
    taken = jnp.ones(arms.shape, bool) if beyond is None else jnp.broadcast_to(~beyond, arms.shape)
    return Steps(arms=arms, rewards=history.rewards, free=taken & ~design.forced[None], taken=taken)


def average_pulled(paths: Paths) -> tuple[Float[Array, " arms"], Float[Array, "paths arms"], Float[Array, " arms"]]:
    """Each arm's sample mean on average over the paths that pulled it; how far each is off it; and the share of such paths."""
    pulled = paths.pulled.astype(paths.sample_means.dtype)
    share = jnp.maximum(jnp.mean(pulled, axis=0), 1 / pulled.shape[0])
    average = jnp.mean(paths.sample_means, axis=0) / share
    return average, (paths.sample_means - average[None]) * pulled, share
