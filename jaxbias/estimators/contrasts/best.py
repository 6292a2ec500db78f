"""Each arm against the best of the others, and the arms that may be the best.

The difference of an arm to the best of the others is the least of its differences to them. Its lower end is the least of their
lower ends: the one to the arm that is truly the best is enough for it to hold (Hsu, 1984). For the upper end all of them must
hold, so that each has its share of the error. Likewise with tests: that an arm is better than the best of the others needs all
tests of it, that it is worse needs one, of as many as there are others.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxbias.estimators.contrasts.adjusting import holm, one_p_value
from jaxbias.estimators.contrasts.results import Contrasts
from jaxbias.estimators.estimate import Status
from jaxbias.estimators.intervals import normal_quantile
from jaxbias.estimators.inversion.estimator import estimate_of
from jaxbias.estimators.inversion.question import Question, invert, weigh

BEST = -1  # in place of a control


def against_best(
    key: PRNGKeyArray, question: Question, level: float, alternative: str, max_rounds: int, adjust: str
) -> Contrasts:
    """The contrasts of each arm with the best of the others that were pulled."""
    num_arms = question.history.num_arms
    first, second = np.triu_indices(num_arms, 1)
    weighted = weigh(np.eye(num_arms)[first] - np.eye(num_arms)[second], question.history)
    chance = (1 - level) / (2 if alternative == "two-sided" else 1)
    run = lambda size: estimate_of(invert(key, question, weighted, size, 0.0, max_rounds), weighted, question, 1 - 2 * chance)
    plain, shared = run(chance), run(chance / (num_arms - 1))
    both = lambda own, other: _square(first, second, num_arms, own, other)
    absent = question.history.statistics.pulls == 0
    # An arm that was pulled is compared with those that were.
    apart = jnp.eye(num_arms, dtype=bool)[None] | (absent[:, None] & ~absent[..., None])
    alone = jnp.all(apart, axis=-1)
    least = lambda values: jnp.where(alone, jnp.nan, jnp.min(jnp.where(apart, jnp.inf, values), axis=-1))
    most = lambda values: jnp.where(alone, jnp.nan, jnp.max(jnp.where(apart, -jnp.inf, values), axis=-1))
    lower = least(both(plain.lower, -plain.upper))
    upper = least(both(shared.upper, -shared.lower))
    p_less, p_greater = plain.diagnostics["p_less"], plain.diagnostics["p_greater"]
    less = jnp.minimum(1, (num_arms - 1) * least(both(p_less, p_greater)))
    greater = most(both(p_greater, p_less))
    p_value = one_p_value(less, greater, alternative)
    status = jnp.maximum(*(_severity(one.status).astype(lower.dtype) for one in (plain, shared)))
    worst = jnp.where(alone, int(Status.NEVER_PULLED), _status(most(both(status, status))))
    stderr = (upper - lower) / (2 * normal_quantile(1 - 2 * chance))
    if alternative != "two-sided":
        low, high = question.family.mean_range
        upper = jnp.where(jnp.isnan(upper), upper, high - low) if alternative == "greater" else upper
        lower = jnp.where(jnp.isnan(lower), lower, low - high) if alternative == "less" else lower
    nothing = jnp.full_like(lower, jnp.nan)
    number = (question.history.arms.shape[0], num_arms)
    return Contrasts(
        arm=jnp.broadcast_to(jnp.arange(num_arms), number),
        control=jnp.full(number, BEST),
        difference=least(both(plain.mean, -plain.mean)),
        stderr=stderr,
        lower=lower,
        upper=upper,
        p_value=p_value,
        p_less=less,
        p_greater=greater,
        p_adjusted=holm(p_value) if adjust == "holm" else p_value,
        lift=nothing,
        lift_lower=nothing,
        lift_upper=nothing,
        status=worst,
        level=level,
        adjust=adjust,
        alternative=alternative,
    )


def _severity(status: Int[Array, "*shape"]) -> Int[Array, "*shape"]:
    """A number that is larger the worse it is: figures at an end of the range are reliable, those of any other status are not."""
    return jnp.where(status == int(Status.AT_EDGE), 1, jnp.where(status == int(Status.CONVERGED), 0, 1 + status))


def _status(severity: Float[Array, "*shape"]) -> Int[Array, "*shape"]:
    """The other way round."""
    known = jnp.nan_to_num(severity).astype(jnp.int32)
    return jnp.where(known == 0, int(Status.CONVERGED), jnp.where(known == 1, int(Status.AT_EDGE), known - 1))


def _square(first: np.ndarray, second: np.ndarray, num_arms: int, own: Array, other: Array) -> Float[Array, "logs arms arms"]:
    """A figure of every ordered pair, from those of the pairs in one order and in the other."""
    square: Any = jnp.zeros((own.shape[0], num_arms, num_arms), own.dtype)
    return square.at[:, first, second].set(own).at[:, second, first].set(other)


def may_be_best(found: Contrasts) -> Bool[Array, "*logs arms"]:
    """The arms for which being the best, or tied with it, is not rejected: they include the best with probability `level`."""
    return ~(found.p_less < 1 - found.level) & (found.status != Status.NEVER_PULLED)
