"""Two rewards: the policy learned from one figure, X (clicks), and the question is about another, Y (revenue).

The choices depend on X alone, so that the sample mean of Y is biased only as far as Y goes with X. If the expected Y is linear in
X within an arm, as it always is for an X of 0 and 1, then with the slope b of that line and any estimate m of the mean of X

    mean of Y  =  sample mean of Y  +  b (m - sample mean of X)

is off on average by b times what m is off: what Y has beside X was never looked at, so that its average, and b, are right.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from jaxbias.analysis.assumptions import assume_family, sigma_within_arms
from jaxbias.analysis.best_arm import find_best_arm
from jaxbias.analysis.findings import Analysis, PolicyReward
from jaxbias.estimators.compare import Comparison, compare
from jaxbias.estimators.estimate import Estimate, Status
from jaxbias.estimators.intervals import clip_to_family, student_quantile
from jaxbias.history import History, check_history
from jaxbias.logs import Log
from jaxbias.rewards import BaseFamily, UnknownSigma

# Methods that take the choices as given: with the probabilities from X and the rewards Y they are right as they stand.
AS_THEY_STAND = ("sample_mean", "propensity_weighting", "adaptive_weighting", "batched_ols", "confidence_sequence")
FEWEST_PULLS = 3  # a line and a spread around it
LONE = 1e-9  # 1 - leverage of a pull that alone decides its value on the line


class Line(NamedTuple):
    """The line of Y on X in one arm, read at the estimated mean of X.

    Fields:
        value: of the line there.
        slope: of the line.
        variance: of the value, given all X.
        freedom: degrees of freedom of that variance.
    """

    value: float
    slope: float
    variance: float
    freedom: int


def fit_line(policy_rewards: Float[np.ndarray, " pulls"], rewards: Float[np.ndarray, " pulls"], at: float) -> Line | None:
    """The line through the pulls of one arm; None where X does not vary, or in too few pulls.

    Its value is a weighted sum of the Y, and each squared residual over 1 - leverage estimates the variance of its own (HC2), so
    that Y may vary more at one X than at another: without a click there is no revenue. For an X of two values this is the
    variance of two averages, with the degrees of freedom of Welch; else with those of Bell and McCaffrey (2002). A pull that is
    alone with its X, such as a single click, does not show how much Y varies there: the variance is then not known (NaN).
    """
    number = len(rewards)
    off = policy_rewards - policy_rewards.mean()
    squares = float(off @ off)
    if number < FEWEST_PULLS or squares == 0:
        return None
    slope = float(off @ rewards) / squares
    weights = 1 / number + (at - policy_rewards.mean()) * off / squares
    residuals = rewards - rewards.mean() - slope * off
    unused = 1 - 1 / number - off**2 / squares
    if (unused < LONE).any():
        return Line(value=float(weights @ rewards), slope=slope, variance=np.nan, freedom=1)
    scale = weights**2 / unused
    parts = scale * residuals**2
    groups, place = np.unique(policy_rewards, return_inverse=True)
    freedom = _welch(parts, place) if len(groups) == 2 else _bell_mccaffrey(scale, off, squares)
    variance = float(parts.sum())
    return Line(value=float(weights @ rewards), slope=slope, variance=variance, freedom=int(np.clip(freedom, 1, number - 2)))


def _welch(parts: Float[np.ndarray, " pulls"], place: Int[np.ndarray, " pulls"]) -> float:
    """Degrees of freedom of a sum of two variances, each with the pulls of its group less one."""
    variances, sizes = np.bincount(place, weights=parts), np.bincount(place)
    spread = float(np.sum(variances**2 / (sizes - 1)))
    return float(variances.sum() ** 2 / spread) if spread > 0 else float(len(parts))


def _bell_mccaffrey(scale: Float[np.ndarray, " pulls"], off: Float[np.ndarray, " pulls"], squares: float) -> float:
    """Of residuals that vary alike: those of the chi-squared with the mean and variance of the sum of scaled squared residuals.

    The residuals have covariance I - H with H = 1/n + off off' / squares, so that the sum has mean tr(A (I - H)) and variance
    2 tr(A (I - H) A (I - H)), A the diagonal of the scales.
    """
    number = len(scale)
    leverage = 1 / number + off**2 / squares
    average = float(scale @ (1 - leverage))
    hats = scale.sum() ** 2 / number**2 + 2 * (scale @ off) ** 2 / (number * squares) + (scale @ off**2) ** 2 / squares**2
    return average**2 / float(scale**2 @ (1 - 2 * leverage) + hats)


def estimate_second_reward(estimate: Estimate, history: History, level: float = 0.95) -> Estimate:
    """An estimate of the means of `rewards`, from one of the means of `policy_rewards` by any method that corrects.

        mean      =  sample mean of Y  +  b (m - sample mean of X)
        interval  =  mean -/+ sqrt((b (m - end of the interval of X))^2 + (t s)^2)

    with m the estimated mean of X, b the slope of Y on X in the arm, and s the standard error of the line at m. What is left of Y
    beside X was not selected on, so that s is an ordinary one, and the two parts are independent (Zou and Donner, 2008, combine
    them).

    Arguments:
        estimate: of the means of the policy's rewards, of one log.
        history: that log, with `rewards` and `policy_rewards`.
        level: of the intervals, as in `estimate`.

    Returns:
        An `Estimate` of the same method; an arm in which X does not vary has none, and one with a single click no interval.
        Diagnostics: `slope` of each arm, `pulls`.

    >>> import jax, jax.numpy as jnp, jaxbias as jb
    >>> clicks = jb.simulate(jax.random.key(0), jb.BetaThompson(), jb.Bernoulli(), [0.5, 0.4], num_steps=100)
    >>> first = jb.mean_matching(jax.random.key(1), clicks, jb.BetaThompson(), jb.Bernoulli())
    >>> both = jb.History(arms=clicks.arms, rewards=3 * clicks.rewards, policy_rewards=clicks.rewards, num_arms=2)
    >>> found = estimate_second_reward(first, both)
    >>> bool(jnp.allclose(found.mean, 3 * first.mean, atol=1e-5)), bool(jnp.allclose(found.upper, 3 * first.upper, atol=1e-5))
    (True, True)
    """
    log = check_history(history, two_rewards=True)
    arms, first, second = (np.asarray(part) for part in (log.arms, log.learned_from, log.rewards))
    figures, status = np.full((5, log.num_arms), np.nan), np.array(estimate.status)
    of_first = [np.asarray(part, np.float64) for part in (estimate.mean, estimate.stderr, estimate.lower, estimate.upper)]
    for arm in range(log.num_arms):
        own, known = arms == arm, tuple(float(part[arm]) for part in of_first)
        line = (
            fit_line(first[own].astype(np.float64), second[own].astype(np.float64), known[0]) if np.isfinite(known[0]) else None
        )
        if line is not None:
            figures[:, arm] = _read(line, known, level)
        if line is None or np.isnan(line.variance):
            status[arm] = _why_none(int(status[arm]), line is None and int(own.sum()) >= FEWEST_PULLS)
    dtype = jnp.asarray(estimate.mean).dtype
    mean, stderr, lower, upper, slope = (jnp.asarray(part.astype(dtype)) for part in figures)
    found: Any = dict(mean=mean, stderr=stderr, lower=lower, upper=upper, status=jnp.asarray(status))
    diagnostics = {"slope": slope, "pulls": log.statistics.pulls, "inverted": jnp.isfinite(mean)}
    return Estimate(method=estimate.method, **found, diagnostics=diagnostics)


def _read(line: Line, known: tuple[float, ...], level: float) -> tuple[float, ...]:
    """Mean, standard error, interval and slope of Y, from mean, standard error and interval of X."""
    mean, stderr, lower, upper = known
    noise = line.variance**0.5
    half = float(student_quantile(level, jnp.asarray(line.freedom), jnp.result_type(float))) * noise
    low, high = sorted((line.slope * (lower - mean), line.slope * (upper - mean)))
    ends = line.value - np.hypot(low, half), line.value + np.hypot(high, half)
    return line.value, float(np.hypot(line.slope * stderr, noise)), *ends, line.slope


def _why_none(status: int, no_spread: bool) -> int:
    """The status of an arm without an interval: that of the policy's reward if it has none, or why there is no line."""
    if status not in (Status.CONVERGED, Status.AT_EDGE):
        return status
    return int(Status.NO_SPREAD if no_spread else Status.TOO_FEW_PULLS)


def policy_log(log: Log) -> Log:
    """The log as the policy saw it: with what it learned from as the rewards."""
    history = log.history
    if history.policy_rewards is None:
        return log
    return dataclasses.replace(log, history=dataclasses.replace(history, rewards=history.policy_rewards, policy_rewards=None))


def answer_for(key: Any, found: Analysis, log: Log) -> Analysis:
    """The analysis of what the policy learned from, turned into one of the reward; as it is where these are the same."""
    if log.history.policy_rewards is None:
        return found
    family, assumptions = assume_family(dataclasses.replace(log.history, policy_rewards=None), None, None)
    comparison = _compare(key, found, log, family)
    estimate = comparison.estimates[found.recommended.method]
    slope = np.array([_slope(log.history, arm) for arm in range(log.history.num_arms)])
    bias = found.bias and found.bias._replace(
        mean=np.asarray(estimate.mean), bias=slope * found.bias.bias, stderr=np.abs(slope) * found.bias.stderr
    )
    return dataclasses.replace(
        found,
        log=log,
        comparison=comparison,
        evaluation=None,
        bias=bias,
        best=find_best_arm(estimate, comparison.level),
        few_pulls=None,
        influence=None,
        policy_reward=PolicyReward(
            column=log.policy_reward,
            mean=np.asarray(found.estimate.mean),
            lower=np.asarray(found.estimate.lower),
            upper=np.asarray(found.estimate.upper),
            slope=slope,
            binary=bool(np.isin(log.history.policy_rewards, (0, 1)).all()),
        ),
        assumptions=(*found.assumptions, *(one._replace(of_reward=True) for one in assumptions)),
    )


def _compare(key: Any, found: Analysis, log: Log, family: Any) -> Comparison:
    """Every method that the policy's reward has: by its line, or as it stands."""
    first, history = found.comparison, log.history
    direct = [name for name in AS_THEY_STAND if name in first.estimates]
    propensities = None if log.propensity is None else np.where(np.isnan(log.propensity), 1.0, log.propensity)
    plain = dataclasses.replace(history, policy_rewards=None)
    scale = sigma_within_arms(plain, family) if isinstance(family, UnknownSigma) else None
    known: Any = dict(level=first.level, propensities=propensities, scale=scale)
    second = compare(jax.random.fold_in(key, 4), history, found.policy, family, methods=direct, **known) if direct else None
    estimates, reasons = {}, dict(first.reasons)
    for name, estimate in first.estimates.items():
        if second is not None and name in second.estimates:
            estimates[name] = second.estimates[name]
        elif second is not None and name in second.reasons:
            reasons[name] = second.reasons[name]
        else:
            estimates[name] = _within(estimate_second_reward(estimate, history, first.level), family)
    return dataclasses.replace(first, estimates=estimates, reasons=reasons)


def _within(estimate: Estimate, family: Any) -> Estimate:
    """Cut to the range of the rewards, where that is known."""
    return clip_to_family(estimate, family) if isinstance(family, BaseFamily) else estimate


def _slope(history: History, arm: int) -> float:
    own = np.asarray(history.arms) == arm
    line = fit_line(np.asarray(history.policy_rewards, float)[own], np.asarray(history.rewards, float)[own], 0.0)
    return np.nan if line is None else line.slope
