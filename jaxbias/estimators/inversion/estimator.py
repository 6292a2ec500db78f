"""Test inversion: the means that a simulated test does not reject.

For a candidate mean c of an arm, the policy is simulated with that mean, and with means of the other arms spread over what the
log says about them. The candidate is kept while the observed studentised statistic is between the tails of its simulated
distribution. The distribution is that of the experiment that was run, with its adaptive choices, batches and stopping rule, so
that the interval covers as often as it says without being wider than it needs to be. The middle is the median-unbiased estimate.
The same test serves any contrast of arms.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, PRNGKeyArray

from jaxbias._core.chunks import only_one
from jaxbias._core.derivatives import refuse_derivative
from jaxbias._core.door import public
from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias.estimators.checks import check_level
from jaxbias.estimators.estimate import Estimate, Status, first_status
from jaxbias.estimators.intervals import normal_quantile
from jaxbias.estimators.inversion.inverting import InvertedTests
from jaxbias.estimators.inversion.question import Question, Weighted, ask, invert, weigh
from jaxbias.history import History
from jaxbias.policies import Policy
from jaxbias.rewards import Family, UnknownSigma
from jaxbias.stopping import StoppingRule

NOT_DIFFERENTIABLE = ArgumentError(
    "history", problem="is differentiated", remedy="test_inversion has no derivative; mean_matching and bias_corrected have"
)
MOST_ERROR = 0.5  # of the chance that a tail should have: beyond it an end is not known well enough to be printed


@public
def test_inversion(
    key: PRNGKeyArray,
    history: History,
    policy: Policy,
    family: Family,
    *,
    level: float = 0.95,
    contrast: ArrayLike | Sequence[Any] | None = None,
    null: float | None = None,
    num_paths: int = 2048,
    max_rounds: int = 3,
    stop: StoppingRule | None = None,
    num_steps: int | None = None,
) -> Estimate:
    """Intervals, median-unbiased estimates and p-values by inverting simulated tests of the studentised mean.

        lower, upper     the means at which P(statistic beyond the observed one) = (1 - level) / 2, ties counted half
        mean             the mean at which the observed statistic is the median

    One set of paths serves every arm and every candidate: paths are simulated at anchors spread over what the log says of each
    arm, and weighted by the likelihood of their rewards at the candidate. Where the weights leave a tail unknown, new paths are
    simulated at anchors farther apart.

    Arguments:
        key: a `jax.random.key`.
        history: one trial or many.
        policy: how the arms were chosen, with any noise or none.
        family: what the rewards are: `Normal`, with its sigma or without it (None, or "each"), `Bernoulli`, `Poisson`,
            `Exponential`, or one with `variance`, `natural` and `from_natural`.
        level: of the intervals.
        contrast: (arms,) or (contrasts, arms), weights of the means: the result is then that of each weighted sum.
        null: a value that is tested; `diagnostics["p_value"]` is then the two-sided p-value of each arm or contrast. By default
            0 for a contrast, and none for arms.
        num_paths: how many paths are simulated each time.
        max_rounds: how often they are simulated, at most.
        stop, num_steps: the rule that could end the experiment, and how many steps it could have had, as in `mean_matching`.

    Returns:
        An `Estimate`, of each arm or of each contrast. `stderr` is the half-width of the interval over the normal quantile.
        Diagnostics: `monte_carlo_error` of each end, (2,), as a share of the tail's probability; `rounds`; `p_value` where a
        value is tested.

    >>> import jax, jaxbias as jb
    >>> policy, family = jb.Greedy(), jb.Normal(sigma=1.0)
    >>> history = jb.simulate(jax.random.key(0), policy, family, [1.0, 0.75], num_steps=16)
    >>> found = jb.test_inversion(jax.random.key(1), history, policy, family, contrast=[1.0, -1.0])
    >>> bool(found.lower < found.mean), bool(found.mean < found.upper), found.diagnostics["p_value"].shape
    (True, True, ())
    """
    check_level(level)
    history, policy, family = refuse_derivative((history, policy, family), NOT_DIFFERENTIABLE)
    question = ask(history, policy, family, num_paths, stop, num_steps)
    weighted = weigh(contrast, question.history)
    tested = null if null is not None else None if contrast is None else 0.0
    tests = invert(key, question, weighted, (1 - level) / 2, tested, max_rounds)
    estimate = estimate_of(tests, weighted, question, level)
    if contrast is not None and np.ndim(contrast) == 1:
        estimate = jax.tree.map(lambda leaf: leaf[:, 0] if leaf.ndim > 1 else leaf, estimate)
    return only_one(estimate) if question.single else estimate


test_inversion.__test__ = False  # pytest: not a test, whatever its name


def _at_end(family: Any, history: History) -> Bool[Array, "trials arms"]:
    """Whether every reward of an arm was at the same end of the family's range."""
    statistics = history.statistics
    low, high = family.mean_range
    at_end = (statistics.mean <= low) | (statistics.mean >= high)
    return at_end if family.has_edges else jnp.zeros_like(at_end)


def estimate_of(tests: InvertedTests, weighted: Weighted, question: Question, level: float) -> Estimate:
    """Of each weighted sum, with its status and diagnostics."""
    return _estimate(tests, weighted, question.history, question.family, level)


@partial(compiled, static=("level",), pads=("history",))
def _estimate(tests: InvertedTests, contrasts: Weighted, history: History, family: Any, level: float) -> Estimate:
    pulls = history.statistics.pulls[:, contrasts.arms]  # (trials, contrasts, few)
    used = (contrasts.weights != 0)[None]
    known = ~jnp.any((pulls == 0) & used, axis=-1)
    alone = jnp.any((pulls == 1) & used, axis=-1) & (isinstance(family, UnknownSigma) and family.each)
    ends = (tests.median, tests.lower, tests.upper)
    finite = jnp.all(jnp.isfinite(jnp.stack(ends)), axis=0)
    status = first_status(
        {
            Status.NEVER_PULLED: ~known,
            Status.PULLED_ONCE: alone,
            Status.NOT_FINITE: ~finite,
            Status.TOO_FEW_SAMPLES: ~(jnp.max(tests.error, axis=-1) < MOST_ERROR),
            Status.AT_EDGE: jnp.any(_at_end(family, history)[:, contrasts.arms] & used, axis=-1),
        }
    )
    mean, lower, upper = (jnp.where(known & ~alone, end, jnp.nan) for end in ends)
    diagnostics: dict[str, Any] = {"monte_carlo_error": tests.error, "rounds": tests.rounds}
    if tests.null_tails is not None:
        less, greater = (jnp.where(known & ~alone, tests.null_tails[..., side], jnp.nan) for side in (0, 1))
        both = jnp.minimum(1, 2 * jnp.minimum(less, greater))
        diagnostics |= {"p_value": both, "p_less": less, "p_greater": greater}
    stderr = (upper - lower) / (2 * normal_quantile(level))
    return Estimate(
        method="test_inversion", mean=mean, stderr=stderr, lower=lower, upper=upper, status=status, diagnostics=diagnostics
    )
