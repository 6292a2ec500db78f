"""The exact probabilities of a log's arms under a policy, as a table, and the checks of those that the log has."""

import dataclasses
import io
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from jaxbias._core.errors import ArgumentError
from jaxbias.logs import Log
from jaxbias.logs.header import PREFIX
from jaxbias.policies import Policy
from jaxbias.policy_fit.sample_ratio import SampleRatio
from jaxbias.policy_fit.weights import AgainstPolicy, check_propensities, check_weights, policy_weights

DIGITS = 12  # of a probability: far more than its logarithm keeps in float32, without the noise of float64


class Propensities(NamedTuple):
    """What is found.

    Fields:
        weights: (steps, arms) or (batches, arms), the exact ones; NaN where the pull, or the whole batch, was forced.
        table: the same as the text of a CSV file: of pulls a log with columns p_A, p_B, ...; of batches a file of weights.
        logged: whether the log has probabilities of its own.
        ratio: whether the pulls agree with the logged weights; None where those of every arm are not there.
        policy: whether the logged probabilities are the policy's; None where there are none.
    """

    weights: Float[np.ndarray, "rows arms"]
    table: str
    logged: bool
    ratio: SampleRatio | None
    policy: AgainstPolicy | None


def find_propensities(log: Log, policy: Policy, *, opening: str = "forced", tolerance: float = 0.01) -> Propensities:
    """The exact probability of every arm before every step, or batch. It computes in float64, whatever JAX is set to.

    Arguments:
        log: from `read_log`.
        policy: how the arms were chosen.
        opening: "forced" or "chosen", as in `debias`.
        tolerance: how far a logged probability may be from the exact one; 0 or more.

    >>> import io, jaxbias as jb
    >>> log = jb.read_log(io.StringIO("arm,reward\\nA,1\\nB,0\\nA,1\\n"))
    >>> print(find_propensities(log, jb.EpsilonGreedy(epsilon=0.2)).table.strip())
    step,arm,reward,p_A,p_B
    0,A,1.0,,
    1,B,0.0,,
    2,A,1.0,0.9,0.1
    """
    if not tolerance >= 0:
        raise ArgumentError("tolerance", tolerance, "0 or more")
    history = log.history
    if opening == "chosen" and history.forced is None:
        history = dataclasses.replace(history, forced=np.zeros(history.num_steps, bool))
    with jax.enable_x64(True):
        exact = policy_weights(history, policy)
        ratio = against = None
        if log.weights is not None:
            ratio, against = check_weights(history, log.weights, policy, tolerance=tolerance)
        elif log.propensity is not None:
            against = check_propensities(history, log.propensity, policy, tolerance=tolerance)
    return Propensities(exact, _table(log, exact), against is not None, ratio, against)


def _table(log: Log, weights: np.ndarray) -> str:
    import pandas as pd

    written = lambda value: "" if np.isnan(value) else f"{value:.{DIGITS}g}"
    columns = {f"{PREFIX}{label}": [written(value) for value in weights[:, arm]] for arm, label in enumerate(log.labels)}
    if log.history.batch_sizes is None:
        arms = np.asarray(log.labels, object)[np.asarray(log.history.arms)]
        before = {"step": np.arange(len(arms)), "arm": arms, "reward": np.asarray(log.history.rewards)}
    else:
        assert log.batch is not None
        before = {"period": log.periods or np.unique(log.batch)}
    text = io.StringIO()
    pd.DataFrame(before | columns).to_csv(text, index=False, lineterminator="\n")
    return text.getvalue()
