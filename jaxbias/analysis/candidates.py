"""How the methods that could be recommended do on logs simulated like the one at hand."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from jaxbias.analysis.assumptions import sigma_within_arms
from jaxbias.analysis.limits import EVALUATION_PATHS
from jaxbias.estimators.compare import Comparison
from jaxbias.evaluation import Evaluation, evaluate_like
from jaxbias.history import History
from jaxbias.rewards import Normal, UnknownSigma, complete_family

INSIDE = 0.5  # of one pull: how far inside the range of a family a mean is simulated that was estimated at its end


def evaluate_candidates(
    key: PRNGKeyArray,
    history: History,
    policy: Any,
    family: Any,
    comparison: Comparison,
    methods: Sequence[str],
    num_trials: int,
    **ending: Any,
) -> Evaluation:
    """The figures of these methods, and of the sample mean, on logs simulated at the estimates of each of them in turn.

    Each method's estimates are taken for true in as many of the logs. At the estimates of one method alone that method would have
    an advantage: shrunken means are closer to each other than the true ones, where shrinkage has little to lose, and sample means
    are farther apart than the true ones.
    """
    simulated = Normal(sigma=sigma_within_arms(history, family)) if isinstance(family, UnknownSigma) else family
    means = np.stack([np.asarray(comparison.estimates[method].mean, np.float64) for method in methods])
    margin = INSIDE / (comparison.pulls + 1)
    low, high = complete_family(simulated).mean_range
    points = np.clip(means, low + margin, high - margin)
    options: Any = dict(level=comparison.level, assumed=family, num_paths=EVALUATION_PATHS, **ending)
    everything = list(dict.fromkeys(["sample_mean", *methods]))
    return evaluate_like(key, history, policy, simulated, points, methods=everything, num_trials=num_trials, **options)
