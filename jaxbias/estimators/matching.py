"""The means at which a simulated policy gives, on average, the sample means that were observed: for one log.

    E_mean[sample means] = observed

From one set of simulated trials at some means come the expectation, its covariance V and, by the likelihood ratio, its derivative
J_jk = Cov(sample mean j, score k). So each set gives a Newton step towards the solution, and the standard errors of it,
J^-1 V J^-T. The random numbers are the same in every round: a few trials find the neighbourhood, many the solution. The score
is zero on average, so what the sample means owe to its average over the trials is taken off.

Where an arm may go without a pull (a log that forced no first pulls), all of it is given that the arm was pulled, as it was in
the log.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtri
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxbias.estimators.replicas import Schedule, average_pulled, simulate_means
from jaxbias.policies import Policy
from jaxbias.randomness import root_words, trial_words
from jaxbias.rewards import Family

FEW = 256  # trials while the search is far from the solution
CLOSE, NEAR = 0.3, 0.1  # in standard errors: the last step with few trials, and with many; what it leaves is of second order
LONGEST_STEP = 2.0  # of one arm's mean, in standard deviations of its sample mean
FEW_ROUNDS = 8  # with few trials, at most
USUAL_DEPARTURE = 0.5  # of J from the identity: an entry known worse than this is drawn towards it
EDGE = 0.1  # how near to the end of the family's range a mean may come, in shares of one pull
BRACKET_ROUNDS = 5  # of the search for each end of an inverted interval; the last moves it by a hundredth of its length


class Simulated(NamedTuple):
    """Sample means of simulated trials, and their derivative in the means."""

    expected: Float[Array, " arms"]
    covariance: Float[Array, "arms arms"]
    unexplained: Float[Array, "arms arms"]  # the part of the covariance that is not the score's
    inverse: Float[Array, "arms arms"]  # of the derivative J


class Match(NamedTuple):
    """Where the search ended.

    Fields:
        mean: the solution.
        covariance: of the solution, by the delta method.
        inverse: of J there.
        step: the last step of each arm.
        monte_carlo_error: the standard error of `mean` through the number of trials.
        at_edge: whether a mean wants to go where the family has none.
        rounds, trials: how many sets of trials were simulated, and how many trials in all.
    """

    mean: Float[Array, " arms"]
    covariance: Float[Array, "arms arms"]
    inverse: Float[Array, "arms arms"]
    step: Float[Array, " arms"]
    monte_carlo_error: Float[Array, " arms"]
    at_edge: Bool[Array, " arms"]
    rounds: Int[Array, ""]
    trials: Int[Array, ""]


def _simulate(words: Array, policy: Policy, family: Family, mean: Array, schedule: Schedule) -> Simulated:
    simulated = simulate_means(words, policy, family, mean, schedule)
    return summarise_trials(*average_pulled(simulated), simulated.score)


def summarise_trials(
    average: Float[Array, " figures"],
    centred: Float[Array, "trials figures"],
    share: Float[Array, " figures"],
    score: Float[Array, "trials figures"],
    is_fixed: Bool[Array, " figures"] | None = None,
) -> Simulated:
    """Figures of trials that have them, off their average; the score of the parameter that each is to tell, all but the fixed."""
    trials = score.shape[0]
    off = jnp.mean(score, axis=0)
    centred_score = score - off[None]
    derivative = centred.T @ centred_score / (trials - 1) / share[:, None]
    centred = centred / jnp.sqrt(share)[None]  # so that its products are covariances given the pulls
    covariance = centred.T @ centred / (trials - 1)
    spread = jnp.var(score, axis=0)
    # Given that an arm was pulled, which not every trial does, its score is not zero on average: then nothing is taken off.
    owed = jnp.where(share == 1, jnp.diag(derivative) / spread, 0)
    rest = centred - centred_score * owed[None]
    uncertain = jnp.diag(covariance)[:, None] * spread[None] / trials
    identity = jnp.eye(average.shape[0], dtype=average.dtype)
    derivative = identity + (derivative - identity) * (USUAL_DEPARTURE**2 / (USUAL_DEPARTURE**2 + uncertain))
    if is_fixed is not None:
        either = is_fixed[:, None] | is_fixed[None]
        derivative, covariance = jnp.where(either, identity, derivative), jnp.where(either, 0, covariance)
        owed, rest = jnp.where(is_fixed, 0, owed), jnp.where(is_fixed[None], 0, rest)
    return Simulated(
        expected=average - owed * off,
        covariance=covariance,
        unexplained=(rest / share[None]).T @ rest / (trials - 1),  # as many trials as pulled the arm
        inverse=jnp.linalg.inv(derivative),
    )


def _nothing_yet(start: Float[Array, " arms"]) -> Match:
    nothing, none = jnp.zeros_like(start), jnp.zeros((), jnp.int32)
    matrix = jnp.eye(start.shape[0], dtype=start.dtype)
    far = jnp.full_like(start, jnp.inf)
    return Match(start, matrix, matrix, far, nothing, jnp.zeros(start.shape, bool), none, none)


def match(
    key: PRNGKeyArray,
    policy: Policy,
    family: Family,
    schedule: Schedule,
    observed: Float[Array, " arms"],
    num_paths: int,
    max_rounds: int,
) -> Match:
    """The solution for one log, from its sample means."""

    def simulate(words: Array, mean: Array) -> Simulated:
        return _simulate(words, policy, family, mean, schedule)

    return search(key, simulate, observed, *_ends(family, schedule, observed), num_paths, max_rounds)


def search(
    key: PRNGKeyArray,
    simulate: Callable[[Array, Array], Simulated],
    observed: Float[Array, " figures"],
    low: Any,
    high: Any,
    num_paths: int,
    max_rounds: int,
) -> Match:
    """Where the simulated figures are on average the observed ones: with few trials first, then with many."""
    words = trial_words(root_words(key), jnp.uint32(0), num_paths)
    few = min(FEW, num_paths)

    def climb(size: int, close: float, rounds: int, begin: Match) -> Match:
        def going(found: Match) -> Array:
            stderr = jnp.sqrt(jnp.diag(found.covariance))
            moving = jnp.any((jnp.abs(found.step) > close * stderr) & ~found.at_edge)
            return (found.rounds < begin.rounds + rounds) & moving & jnp.all(jnp.isfinite(found.mean))

        def step(found: Match) -> Match:
            return _newton_step(found, simulate(words[:, :size], found.mean), observed, low, high, size)

        return jax.lax.while_loop(going, step, begin)

    near = climb(few, CLOSE, FEW_ROUNDS, _nothing_yet(jnp.clip(observed, low, high)))
    far = jnp.full_like(near.step, jnp.inf)
    return climb(num_paths, NEAR, max_rounds, near._replace(step=far, at_edge=jnp.zeros_like(near.at_edge)))


def _ends(family: Family, schedule: Schedule, observed: Array) -> tuple[Array, Array]:
    """How far the means may go: to a share of one pull, or of a smaller mean, from the ends of what the family allows."""
    low, high = getattr(family, "mean_range", (-jnp.inf, jnp.inf))
    pulls = jnp.zeros(observed.shape, jnp.int32).at[schedule.arms].add(1).astype(observed.dtype)
    margin = EDGE / jnp.maximum(pulls, 1)
    above = jnp.where(observed > low, jnp.minimum(margin, EDGE * (observed - low)), margin)
    return low + above, high - margin


def _newton_step(found: Match, simulated: Simulated, observed: Array, low: Any, high: Any, trials: int) -> Match:
    limit = LONGEST_STEP * jnp.sqrt(jnp.diag(simulated.covariance))
    step = jnp.clip(simulated.inverse @ (observed - simulated.expected), -limit, limit)
    mean = jnp.clip(found.mean + step, low, high)
    covariance = simulated.inverse @ simulated.covariance @ simulated.inverse.T
    return Match(
        mean=mean,
        covariance=covariance,
        inverse=simulated.inverse,
        step=mean - found.mean,
        monte_carlo_error=jnp.sqrt(jnp.diag(simulated.inverse @ simulated.unexplained @ simulated.inverse.T) / trials),
        at_edge=mean != found.mean + step,
        rounds=found.rounds + 1,
        trials=found.trials + trials,
    )


def invert(
    key: PRNGKeyArray,
    policy: Policy,
    family: Family,
    schedule: Schedule,
    observed: Array,
    found: Match,
    level: Float[Array, ""],
    num_paths: int,
) -> Float[Array, "arms 2"]:
    """For each arm the two means at which the observed sample mean is at the ends of its simulated distribution.

    The other arms move with it, so that their expected sample means stay at the observed ones. The search is regula falsi on
    the normal quantile of the share of trials below the observed value.
    """
    words = trial_words(root_words(key), jnp.uint32(0), num_paths)
    low, high = _ends(family, schedule, observed)
    target = ndtri(jnp.asarray((1 + level) / 2, observed.dtype))
    stderr = jnp.sqrt(jnp.diag(found.covariance))

    def end(arm: Int[Array, ""], side: Float[Array, ""]) -> Float[Array, ""]:
        direction = found.inverse[:, arm] / found.inverse[arm, arm]

        def score(shift: Array) -> Array:
            mean = jnp.clip(found.mean + shift * direction, low, high)
            trials = simulate_means(words, policy, family, mean, schedule)
            pulled = trials.pulled[:, arm]
            above = jnp.sum(pulled & (side * (trials.sample_means[:, arm] - observed[arm]) > 0)).astype(observed.dtype)
            return ndtri((above + 0.5) / (jnp.sum(pulled) + 1).astype(observed.dtype)) - target

        def improve(_: Any, bracket: Any) -> Any:
            (inner, inner_score), (outer, outer_score) = bracket
            slope = (outer_score - inner_score) / (outer - inner)
            usable = jnp.isfinite(slope) & (jnp.abs(slope) * stderr[arm] > 0.1)
            move = jnp.where(usable, -outer_score / jnp.where(usable, slope, 1), -outer_score * side * stderr[arm])
            limit = stderr[arm]
            after = outer + jnp.clip(move, -limit, limit)
            return (outer, outer_score), (after, score(after))

        zero = jnp.zeros((), observed.dtype)
        first = side * target * stderr[arm]
        begin = ((zero, -target), (first, score(first)))
        (_, _), (shift, _) = jax.lax.fori_loop(0, BRACKET_ROUNDS, improve, begin)
        return jnp.clip(found.mean[arm] + shift, low[arm], high[arm])

    arms = jnp.arange(observed.shape[0], dtype=jnp.int32)
    sides = jnp.asarray([-1.0, 1.0], observed.dtype)
    return jax.lax.map(lambda arm: jax.lax.map(lambda side: end(arm, side), sides), arms)
