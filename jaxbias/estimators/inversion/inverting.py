"""The tests of one log inverted: paths at anchors, and for each contrast the ends, the median and the p-value they give."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jaxbias._core.randomness import root_words, trial_words
from jaxbias._core.search import search
from jaxbias.estimators.inversion.anchors import Anchors, assign_anchors, draw_nuisance, place_anchors, range_of
from jaxbias.estimators.inversion.ratios import find_ratio
from jaxbias.estimators.inversion.statistic import Sums
from jaxbias.estimators.inversion.tails import Contrast, ends_of, null_tails
from jaxbias.estimators.inversion.tilting import log_mixture
from jaxbias.estimators.sigma import pool, sigma_of_arm, spread_of
from jaxbias.history import History
from jaxbias.policies import BasePolicy
from jaxbias.rewards import BaseFamily, Normal, UnknownSigma
from jaxbias.simulation.paths import Design, PathSums, of_arms, simulate_sums

DRAWS = 8  # of the nuisance of a contrast of several arms: what is left to choose where the contrast is given
WIDER = 1.5  # times as far apart are the anchors of the next round, where a tail was not known
GOOD_ERROR = 0.25  # of the chance that a tail should have: an end is then known to a tenth of a standard error


class InvertedTests(NamedTuple):
    """What the tests of one log give, for each contrast.

    Fields:
        median, lower, upper: the values at which the tails have their size.
        error: the Monte Carlo error of the tail at each end, as a share of its probability.
        null_tails: below and above the observed statistic at the value that is tested; None where none is.
        ratio: of the first mean to the second, its median, lower and upper end; None where it is not asked for.
        rounds: how often paths were simulated.
    """

    median: Float[Array, " contrasts"]
    lower: Float[Array, " contrasts"]
    upper: Float[Array, " contrasts"]
    error: Float[Array, "contrasts 2"]
    null_tails: Float[Array, "contrasts 2"] | None
    ratio: Float[Array, "contrasts 3"] | None
    rounds: Int[Array, ""]


def invert_tests(
    key: PRNGKeyArray,
    policy: BasePolicy,
    family: Any,
    log: History,
    design: Design,
    contrasts: Any,
    chance: Float[Array, "contrasts 2"] | None,
    null: Float[Array, ""] | None,
    num_paths: int,
    max_rounds: int,
    ratios: bool = False,
) -> InvertedTests:
    """All contrasts of one log, with `ratios` those of two arms as ratios too; `chance` is that beyond each of their ends.

    New paths are simulated, at anchors farther apart, where some tail is not known well enough.
    """

    def attempt(number: Int[Array, ""]) -> InvertedTests:
        spread = jnp.asarray(WIDER, log.rewards.dtype) ** number.astype(log.rewards.dtype)
        paths_key, order_key, nuisance_key = jax.random.split(jax.random.fold_in(key, number), 3)
        fixed, given = known_family(family, log)
        statistics = log.statistics
        anchors = place_anchors(fixed, statistics.mean, statistics.pulls, spread)
        means = assign_anchors(order_key, anchors, num_paths)
        words = trial_words(root_words(paths_key), jnp.uint32(0), num_paths)
        around = None if given is None else anchors.centre
        sums = simulate_sums(words, policy, fixed, means, design, around)
        data = path_data(sums, anchors, fixed, family, log.rewards[0])
        draws = 1 if contrasts.arms.shape[1] == 1 else DRAWS
        nuisance = draw_nuisance(nuisance_key, anchors, draws)
        observed = observed_sums(statistics, anchors, given)

        def one(which: tuple[Array, Array, Array | None]) -> InvertedTests:
            arms, weights, chance = which
            contrast = lambda weights: of_few(arms, weights, fixed, anchors, nuisance, data, observed)
            found = invert_contrast(contrast(weights), chance, null, number)
            return found._replace(ratio=find_ratio(contrast, weights, chance)) if ratios and chance is not None else found

        return jax.lax.map(one, (*contrasts, chance))

    def improve(state: tuple[InvertedTests, Array]) -> tuple[tuple[InvertedTests, Array], Array]:
        found = attempt(state[1])
        return (found, state[1] + 1), jnp.max(jnp.where(jnp.isnan(found.error), 0, found.error))

    shapes = jax.eval_shape(attempt, jnp.zeros((), jnp.int32))
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    begin = (nothing, jnp.zeros((), jnp.int32))
    (found, rounds), _, _ = search(improve, begin, max_rounds=max_rounds, tolerance=GOOD_ERROR, dtype=log.rewards.dtype)
    return found._replace(rounds=rounds)


def invert_contrast(contrast: Contrast, chance: Array | None, null: Array | None, number: Array) -> InvertedTests:
    """One contrast: its ends, with a chance beyond each, and its median, and the tails at the value that is tested; without a
    chance these alone."""
    if chance is None:
        assert null is not None
        nothing = jnp.full_like(null, jnp.nan)
        ends: Any = dict(median=nothing, lower=nothing, upper=nothing, error=jnp.full((2,), jnp.nan, nothing.dtype))
        return InvertedTests(**ends, null_tails=null_tails(contrast, null), ratio=None, rounds=number)
    (lower, upper, median), there = ends_of(contrast, chance)
    errors = there.error_above[0] / chance[0], there.error_below[1] / chance[1]
    inside = (lower > contrast.low), (upper < contrast.high)  # an end of the range needs no paths to be known
    return InvertedTests(
        median=median,
        lower=lower,
        upper=upper,
        error=jnp.stack([jnp.where(away, error, 0) for away, error in zip(inside, errors, strict=True)]),
        null_tails=None if null is None else null_tails(contrast, null),
        ratio=None,
        rounds=number,
    )


class PathData(NamedTuple):
    """What the paths gave, for all arms; `pulled` where the statistic of the arm is defined."""

    sums: Sums
    residual: Float[Array, "paths arms"]
    log_mixture: Float[Array, "paths arms"]
    pulled: Any
    reward: Float[Array, ""]


class _Variances(NamedTuple):
    """The variances within arms, and their degrees of freedom."""

    variance: Float[Array, " arms"]
    freedom: Float[Array, " arms"]


def known_family(family: Any, log: History) -> tuple[BaseFamily, _Variances | None]:
    """The family to simulate, with the sigma within arms where it is not known; and that as variances."""
    if not isinstance(family, UnknownSigma):
        return family, None
    of_arm = sigma_of_arm(family, log.num_arms)
    spread = spread_of(log, of_arm)
    sigma = jnp.exp(spread.log_sigma(spread.freedom))[of_arm]
    freedom = jnp.maximum(spread.freedom[of_arm], 1).astype(sigma.dtype)
    return Normal(sigma=sigma), _Variances(jnp.square(sigma), freedom)


def path_data(sums: PathSums, anchors: Anchors, fixed: BaseFamily, family: Any, reward: Array) -> PathData:
    """What the tests need of the paths."""
    count = jnp.maximum(sums.pulls, 1).astype(sums.total.dtype)
    residual = sums.total - sums.pulls.astype(sums.total.dtype) * anchors.centre[None]
    mean = anchors.centre[None] + residual / count
    real_count = sums.pulls.astype(sums.total.dtype)
    mixture = log_mixture(fixed, anchors, real_count, residual, reward)
    of_paths = Sums(count=count, mean=mean)
    if sums.squares is not None:
        variance = fixed.variance(anchors.centre)
        within = sums.squares * variance[None] - jnp.square(residual) / count
        of_paths = of_paths._replace(**_within_arms(within, sums.pulls, family)._asdict())
    return PathData(of_paths, residual, mixture, sums.pulls > 0, reward)


def _within_arms(within: Float[Array, "paths arms"], pulls: Int[Array, "paths arms"], family: UnknownSigma) -> _Variances:
    """The variances within the arms of each path; of an arm pulled once that of all arms together."""
    of_arm = sigma_of_arm(family, within.shape[1])
    freedom = jnp.maximum(pulls - 1, 0).astype(within.dtype)
    all_freedom = jnp.maximum(jnp.sum(freedom, axis=1, keepdims=True), 1)
    pooled = jnp.sum(within, axis=1, keepdims=True) / all_freedom
    shared_freedom, shared = (pool(part.T, of_arm).T[:, of_arm] for part in (freedom, within))
    own = shared_freedom > 0
    variance = jnp.where(own, shared / jnp.where(own, shared_freedom, 1), pooled)
    tiny = jnp.finfo(within.dtype).tiny
    return _Variances(jnp.maximum(variance, tiny), jnp.where(own, shared_freedom, all_freedom))  # pyright: ignore[reportArgumentType]


def observed_sums(statistics: Any, anchors: Anchors, given: _Variances | None) -> Sums:
    """What the log has of it."""
    count = jnp.maximum(statistics.pulls, 1).astype(anchors.centre.dtype)
    sums = Sums(count=count[None], mean=statistics.mean[None])
    return sums if given is None else sums._replace(variance=given.variance[None], freedom=given.freedom[None])


def of_few(
    arms: Int[Array, " few"],
    weights: Float[Array, " few"],
    family: BaseFamily,
    anchors: Anchors,
    nuisance: Float[Array, "draws arms"],
    data: PathData,
    observed: Sums,
) -> Contrast:
    """What a test of these arms needs."""
    num_arms = anchors.centre.shape[0]
    few_arms = jax.tree.map(lambda leaf: of_arms(leaf, arms, num_arms), family)
    columns = lambda tree: jax.tree.map(lambda leaf: leaf[:, arms], tree)
    used = (weights != 0)[None]
    low, high = range_of(few_arms, weights)
    return Contrast(
        weights=weights,
        family=few_arms,
        centre=anchors.centre[arms],
        stderr=anchors.stderr[arms],
        nuisance=nuisance[:, arms],
        paths=columns(data.sums),
        observed=columns(observed),
        residual=data.residual[:, arms],
        log_mixture=jnp.sum(jnp.where(used, data.log_mixture[:, arms], 0), axis=1),
        reward=data.reward,
        pulled=jnp.all(data.pulled[:, arms] | ~used, axis=1),
        low=jnp.asarray(low, weights.dtype),
        high=jnp.asarray(high, weights.dtype),
    )
