"""Were the arms pulled as often as the logged weights say?

If the arms were drawn with the logged weights p, then for every arm k the sum over steps of 1{k pulled} - p_k is a martingale
with variance sum p_k (1 - p_k) and covariance -sum p_k p_l, whatever the rewards are: over many steps it is Normal (the
martingale central limit theorem). The squared length of these sums, measured with the inverse covariance, is then chi-square: the
check of sample ratios that experimenters know, for weights that change over time.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from jaxbias.policy_fit.check import ENOUGH, TINY, UNLIKELY

MOST_TESTED = 200  # arms that are tested one by one, those with the largest variance; the others are pooled
FOR_RARE = 0.1  # of the level, for the arms with few expected pulls where the others are tested too
SINGULAR = 1e-9  # of the largest eigenvalue: smaller ones are rounding, as the sums of all arms together are 0


class ArmRatio(NamedTuple):
    """How often one arm was pulled, and how often its weights say.

    Fields:
        pulls: those that were chosen, not forced.
        expected: the sum of its weights.
        stderr: of the pulls around that, if the weights are right.
    """

    pulls: int
    expected: float
    stderr: float

    @property
    def errors(self) -> float:
        """How far apart they are, in standard errors; NaN where nothing was left to chance."""
        return (self.pulls - self.expected) / self.stderr if self.stderr > 0 else math.nan


class SampleRatio(NamedTuple):
    """Whether the pulls agree with the weights.

    Fields:
        p_value: how likely sums at least as far off are, if the weights are right.
        statistic, freedom: the chi-square statistic and its degrees of freedom.
        arms: of each arm.
        worst: the arm that is furthest off, in standard errors; None where nothing was left to chance.
        choices: how many pulls were not forced.
    """

    p_value: float
    statistic: float
    freedom: int
    arms: tuple[ArmRatio, ...]
    worst: int | None
    choices: int

    @property
    def agrees(self) -> bool:
        """Whether nothing speaks against the weights, at the level of the policy's own fit check."""
        return self.p_value >= UNLIKELY


def sample_ratio(weights: Float[np.ndarray, "choices arms"], arms: Int[np.ndarray, " choices"]) -> SampleRatio:
    """The check, from the weights of every arm at each choice and the arm that was chosen; see `check_weights`."""
    from scipy.special import gammaincc  # here, because it takes a third of a second

    num_arms = weights.shape[1]
    pulls, expected = np.bincount(arms, minlength=num_arms), weights.sum(axis=0)
    variance = np.sum(weights * (1 - weights), axis=0)
    by_arm = tuple(
        ArmRatio(int(count), float(sum_), float(np.sqrt(max(part, 0.0))))
        for count, sum_, part in zip(pulls, expected, variance, strict=True)
    )
    order = np.argsort(-variance, kind="stable")[:MOST_TESTED]
    alone = np.sort(order[variance[order] >= ENOUGH])
    usual = alone if len(alone) else [int(np.argmax(expected))]  # all arms together are always pulled: nothing to test
    pooled = np.setdiff1d(np.arange(num_arms), usual)
    together = weights[:, pooled].sum(axis=1)
    enough = float(np.sum(together * (1 - together))) >= ENOUGH
    chances = np.column_stack([weights[:, alone], together]) if enough else weights[:, alone]
    hits = np.append(pulls[alone], pulls[pooled].sum()) if enough else pulls[alone]
    statistic, freedom = _chi_square(hits - chances.sum(axis=0), chances)
    p_value = float(gammaincc(freedom / 2, statistic / 2)) if freedom else 1.0
    if not enough and len(pooled):
        rare = _chernoff(int(pulls[pooled].sum()), float(together.sum()))
        p_value = min(1.0, p_value / (1 - FOR_RARE), rare / FOR_RARE) if freedom else rare
    errors = np.abs([one.errors for one in by_arm])
    worst = int(np.nanargmax(errors)) if np.isfinite(errors).any() else None
    return SampleRatio(p_value, statistic, freedom, by_arm, worst, len(arms))


def _chi_square(residual: np.ndarray, chances: np.ndarray) -> tuple[float, int]:
    """The squared length of the sums by the inverse of their covariance, in the directions that have a variance."""
    covariance = np.diag(chances.sum(axis=0)) - chances.T @ chances
    if not covariance.size:
        return 0.0, 0
    values, vectors = np.linalg.eigh(covariance)
    kept = values > SINGULAR * max(float(values.max()), TINY)
    return float(np.sum(np.square(vectors[:, kept].T @ residual) / values[kept])), int(kept.sum())


def _chernoff(count: int, expected: float) -> float:
    """At most this likely is a number of rare pulls at least as far from what is expected: 2 exp(-(c log(c / e) - c + e))."""
    if expected <= 0:
        return 1.0 if count == 0 else 0.0
    exponent = (count * math.log(count / expected) if count else 0.0) - count + expected
    return min(1.0, 2 * math.exp(-max(exponent, 0.0)))
