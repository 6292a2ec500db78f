"""The sample mean, with the interval of an analyst who does not know that the data were collected adaptively."""

from jaxbias.estimators.checks import check_log
from jaxbias.estimators.estimate import Estimate
from jaxbias.estimators.naive import naive
from jaxbias.history import History
from jaxbias.rewards import Family


def sample_mean(history: History, family: Family | None = None, *, level: float = 0.95) -> Estimate:
    """Each arm's average reward, and the interval that would be right had the arms been fixed in advance.

        Normal, sigma known     mean -/+ z sigma / sqrt(pulls)
        Bernoulli               mean -/+ z sqrt(mean (1 - mean) / pulls), clipped to 0 and 1
        otherwise               mean -/+ t s / sqrt(pulls), s the arm's sample standard deviation, pulls - 1 degrees of freedom

    On adaptive data it is biased, for most policies downwards, and the interval covers less than it says: it is here to be
    compared with. An arm without a pull has no mean (NaN), one with a single pull and no known sigma a mean and no interval;
    neither they nor a standard error of zero (rewards all alike) are `converged`.

    Arguments:
        history: one trial or a batch of them.
        family: what the rewards are, where known.
        level: of the intervals.

    Returns:
        An `Estimate`; diagnostics: `pulls` of each arm.

    >>> import jax.numpy as jnp, jaxbias as jb
    >>> history = jb.History(arms=jnp.array([0, 1, 1]), rewards=jnp.array([0.0, 1.0, 2.0]), num_arms=2)
    >>> estimate = jb.sample_mean(history, jb.Normal(sigma=1.0))
    >>> estimate.mean.tolist(), [round(float(end), 2) for end in estimate.upper]
    ([0.0, 1.5], [1.96, 2.89])
    """
    return naive("sample_mean", check_log(history, family, level), family, level)
