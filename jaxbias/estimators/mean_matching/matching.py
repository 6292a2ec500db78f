"""The means at which a simulated policy gives, on average, the sample means that were observed: for one log.

    E_mean[sample means] = observed

From one set of paths at some means come the expectation, its covariance V and, by the likelihood ratio, its derivative
J_jk = Cov(sample mean j, score k). So each set gives a Newton move towards the solution, and the standard errors of it,
J^-1 V J^-T. The random numbers are the same in every round: a few paths find the neighbourhood, many the solution. The score
is zero on average, so its average over the paths is used as a control variate.

Where an arm may go without a pull (a log that forced no first pulls), all of it is given that the arm was pulled, as it was in
the log.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxbias._core.randomness import root_words, trial_words
from jaxbias._core.search import search
from jaxbias.policies import BasePolicy
from jaxbias.rewards import BaseFamily
from jaxbias.simulation.paths import Design, average_pulled, simulate_paths

FEW = 256  # paths while the search is far from the solution
CLOSE, NEAR = 0.3, 0.1  # in standard errors: the last move with few paths, and with many; what it leaves is of second order
LONGEST_MOVE = 2.0  # of one arm's mean in a round, in standard deviations of its sample mean
FEW_ROUNDS = 8  # with few paths, at most
USUAL_DEPARTURE = 0.5  # of J from the identity: an entry known worse than this is drawn towards it
EDGE = 0.1  # how near to the end of the family's range a mean may come, in shares of one pull


class Simulated(NamedTuple):
    """Sample means of paths, and their derivative in the means."""

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
        move: the last move of each arm.
        monte_carlo_error: the standard error of `mean` from the number of paths.
        out_of_range: whether a mean wants to go where the family has none.
        rounds, paths: how many sets of paths were simulated, and how many paths in all.
    """

    mean: Float[Array, " arms"]
    covariance: Float[Array, "arms arms"]
    inverse: Float[Array, "arms arms"]
    move: Float[Array, " arms"]
    monte_carlo_error: Float[Array, " arms"]
    out_of_range: Bool[Array, " arms"]
    rounds: Int[Array, ""]
    paths: Int[Array, ""]


def simulate_match(words: Array, policy: BasePolicy, family: BaseFamily, mean: Array, design: Design) -> Simulated:
    """Paths at some means."""
    simulated = simulate_paths(words, policy, family, mean, design)
    return summarise_paths(*average_pulled(simulated), simulated.score)


def summarise_paths(
    average: Float[Array, " figures"],
    centred: Float[Array, "paths figures"],
    share: Float[Array, " figures"],
    score: Float[Array, "paths figures"],
    is_fixed: Bool[Array, " figures"] | None = None,
) -> Simulated:
    """From figures of paths, off their average, and the score of the parameter that each determines, all but the fixed."""
    size = score.shape[0]
    off = jnp.mean(score, axis=0)
    centred_score = score - off[None]
    derivative = centred.T @ centred_score / (size - 1) / share[:, None]
    centred = centred / jnp.sqrt(share)[None]  # so that its products are covariances given the pulls
    covariance = centred.T @ centred / (size - 1)
    spread = jnp.var(score, axis=0)
    # Given that an arm was pulled, which not every path does, its score is not zero on average: then nothing is taken off.
    owed = jnp.where(share == 1, jnp.diag(derivative) / spread, 0)
    rest = centred - centred_score * owed[None]
    uncertain = jnp.diag(covariance)[:, None] * spread[None] / size
    identity = jnp.eye(average.shape[0], dtype=average.dtype)
    derivative = identity + (derivative - identity) * (USUAL_DEPARTURE**2 / (USUAL_DEPARTURE**2 + uncertain))
    if is_fixed is not None:
        either = is_fixed[:, None] | is_fixed[None]
        derivative, covariance = jnp.where(either, identity, derivative), jnp.where(either, 0, covariance)
        owed, rest = jnp.where(is_fixed, 0, owed), jnp.where(is_fixed[None], 0, rest)
    return Simulated(
        expected=average - owed * off,
        covariance=covariance,
        unexplained=(rest / share[None]).T @ rest / (size - 1),  # as many paths as pulled the arm
        inverse=jnp.linalg.inv(derivative),
    )


def _nothing_yet(start: Float[Array, " arms"]) -> Match:
    nothing, none = jnp.zeros_like(start), jnp.zeros((), jnp.int32)
    matrix = jnp.eye(start.shape[0], dtype=start.dtype)
    far = jnp.full_like(start, jnp.inf)
    return Match(start, matrix, matrix, far, nothing, jnp.zeros(start.shape, bool), none, none)


def match(
    key: PRNGKeyArray,
    policy: BasePolicy,
    family: BaseFamily,
    design: Design,
    observed: Float[Array, " arms"],
    num_paths: int,
    max_rounds: int,
) -> Match:
    """The solution for one log, from its sample means."""

    def simulate(words: Array, mean: Array) -> Simulated:
        return simulate_match(words, policy, family, mean, design)

    return find_match(key, simulate, observed, *ends_of_range(family, design, observed), num_paths, max_rounds)


def find_match(
    key: PRNGKeyArray,
    simulate: Callable[[Array, Array], Simulated],
    observed: Float[Array, " figures"],
    low: Any,
    high: Any,
    num_paths: int,
    max_rounds: int,
) -> Match:
    """Where the simulated figures are on average the observed ones: with few paths first, then with many."""
    words = trial_words(root_words(key), jnp.uint32(0), num_paths)
    few = min(FEW, num_paths)

    def climb(size: int, close: float, max_rounds: int, begin: Match) -> Match:
        def improve(found: Match) -> tuple[Match, Array]:
            after = _newton_move(found, simulate(words[:, :size], found.mean), observed, low, high, size)
            return after, _length(after, close)

        return search(improve, begin, max_rounds=max_rounds, tolerance=close, dtype=observed.dtype).state

    start = _nothing_yet(jnp.clip(observed, low, high))
    if few == num_paths:  # both searches would be of the same paths
        return climb(num_paths, NEAR, FEW_ROUNDS + max_rounds, start)
    return climb(num_paths, NEAR, max_rounds, climb(few, CLOSE, FEW_ROUNDS, start))


def _length(found: Match, close: float) -> Float[Array, ""]:
    """The last move in standard errors, of the arm that moved most; 0 where the means are not finite.

    A move within its Monte Carlo error counts as `close`: with few paths, on which discrete rewards jump, there may be no
    smaller one.
    """
    stderr = jnp.sqrt(jnp.diag(found.covariance))
    moved = (found.move != 0) & ~found.out_of_range & ~jnp.isnan(stderr)
    unit = jnp.maximum(stderr, found.monte_carlo_error / close)
    lengths = jnp.where(moved, jnp.abs(found.move) / jnp.where(moved, unit, 1), 0)
    return jnp.where(jnp.all(jnp.isfinite(found.mean)), jnp.max(lengths), 0)


def ends_of_range(family: BaseFamily, design: Design, observed: Array) -> tuple[Array, Array]:
    """How far the means may go: to a share of one pull, or of a smaller mean, from the ends of what the family allows."""
    low, high = family.mean_range
    steps = design.arms.shape[0]
    taken = 1 if design.length is None else (jnp.arange(steps, dtype=jnp.int32) < design.length).astype(jnp.int32)
    pulls = jnp.zeros(observed.shape, jnp.int32).at[design.arms].add(taken).astype(observed.dtype)
    margin = EDGE / jnp.maximum(pulls, 1)
    above = jnp.where(observed > low, jnp.minimum(margin, EDGE * (observed - low)), margin)
    return low + above, high - margin


def _newton_move(found: Match, simulated: Simulated, observed: Array, low: Any, high: Any, size: int) -> Match:
    limit = LONGEST_MOVE * jnp.sqrt(jnp.diag(simulated.covariance))
    move = jnp.clip(simulated.inverse @ (observed - simulated.expected), -limit, limit)
    mean = jnp.clip(found.mean + move, low, high)
    covariance = simulated.inverse @ simulated.covariance @ simulated.inverse.T
    return Match(
        mean=mean,
        covariance=covariance,
        inverse=simulated.inverse,
        move=mean - found.mean,
        monte_carlo_error=jnp.sqrt(jnp.diag(simulated.inverse @ simulated.unexplained @ simulated.inverse.T) / size),
        out_of_range=mean != found.mean + move,
        rounds=found.rounds + 1,
        paths=found.paths + size,
    )
