"""How methods do in a given experiment: simulate it many times, estimate every log, compare with the truth."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import jax
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import PRNGKeyArray

from jaxbias._core.door import public
from jaxbias._core.errors import ArgumentError
from jaxbias.estimators.compare import check_methods, compare
from jaxbias.estimators.estimate import Estimate
from jaxbias.estimators.registry import METHODS, Need
from jaxbias.evaluation.figures import COUNTED, Counted, Evaluation, TrueLogs, summarise_estimates
from jaxbias.history import History
from jaxbias.policies import Policy
from jaxbias.rewards import Family
from jaxbias.simulation.trials import simulate
from jaxbias.stopping import StoppingRule

OwnMethod = Callable[[PRNGKeyArray, History, Policy, Family], Estimate]
FEWEST_TRIALS = 2  # for a standard error


@public
def evaluate(
    key: PRNGKeyArray,
    policy: Policy,
    family: Family,
    mean: ArrayLike | Sequence[float],
    num_steps: int,
    *,
    methods: Sequence[str] | Mapping[str, OwnMethod] | None = None,
    num_trials: int = 1000,
    level: float = 0.95,
    assumed: Family | None = None,
    batch_size: int | Sequence[int] | None = None,
    allocation: Literal["independent", "shares"] = "independent",
    stop: StoppingRule | None = None,
    delay: int | Sequence[int] | None = None,
    held_out: bool = False,
    keep_draws: bool = False,
    count: Counted = "converged",
    num_paths: int = 1024,
    progress: Callable[[str], None] | None = None,
) -> Evaluation:
    """Bias, mean squared error, coverage and width of each method in an experiment that is simulated many times.

    Arguments:
        key: a `jax.random.key`.
        policy, family, mean, num_steps: the experiment, as in `simulate`.
        methods: names of the registry; or functions of (key, history, policy, family) by names of one's own, where the history
            has a leading axis of trials. By default every method that applies without held-out rewards.
        num_trials: how many logs are simulated.
        level: of the intervals.
        assumed: the family that the estimators are told, where that is another one, such as `Normal(sigma=None)`.
        batch_size, allocation, stop, delay: of the experiment, as in `simulate`.
        held_out, keep_draws: what the logs also have, as in `simulate`, for functions that use it. A named method that needs
            held-out rewards has them anyway.
        count: which estimates count: the "converged" ones, as a user would who reads the status, or all that are "finite".
        num_paths: that mean matching and others simulate for each log.
        progress: called with the name of each method before it runs.

    Returns:
        An `Evaluation`: the figures of each method, for each arm and on average, with Monte Carlo standard errors.

    >>> import jax, jaxbias as jb
    >>> options = dict(methods=["sample_mean", "confidence_sequence"], num_trials=200)
    >>> found = jb.evaluate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.75], num_steps=16, **options)
    >>> bool(found.methods["sample_mean"].average_bias < -0.1), found.methods["confidence_sequence"].coverage.shape
    (True, (2,))
    """
    if num_trials < FEWEST_TRIALS:
        raise ArgumentError("num_trials", num_trials, f"{FEWEST_TRIALS} or more")
    if count not in COUNTED:
        raise ArgumentError("count", count, "'converged' or 'finite'")
    own = methods if isinstance(methods, Mapping) else {}
    for name, function in own.items():
        if not callable(function):
            allowed = "a function of (key, history, policy, family), or a list of names of methods"
            raise ArgumentError("methods", methods, allowed, problem=f"has {function!r} at {name!r}")
    names = _names(methods, batch_size is not None)
    held_out = held_out or any(Need.HELD_OUT in METHODS[name].needs for name in names)
    log_key, method_key = jax.random.fold_in(key, 0), jax.random.fold_in(key, 1)
    design: dict[str, Any] = dict(batch_size=batch_size, allocation=allocation, stop=stop, delay=delay)
    design |= dict(held_out=held_out, keep_draws=keep_draws)
    logs = simulate(log_key, policy, family, mean, num_steps, num_trials, progress=False, **design)
    told = family if assumed is None else assumed
    known = TrueLogs.of(logs, np.asarray(mean, np.float64))
    estimates, reasons = {name: function(method_key, logs, policy, told) for name, function in own.items()}, {}
    if names:
        options: Any = dict(level=level, stop=stop, num_paths=num_paths, progress=progress)
        found = compare(method_key, logs, policy, told, methods=names, **options)
        estimates, reasons = estimates | found.estimates, found.reasons
    figures = {name: summarise_estimates(estimate, known, count) for name, estimate in estimates.items()}
    pulls = known.pulls.mean(axis=0)
    return Evaluation(methods=figures, reasons=reasons, mean=known.mean, pulls=pulls, num_trials=num_trials, level=level)


def _names(methods: Any, batched: bool) -> list[str]:
    """The methods of the registry that are asked for; by default those that such logs can have."""
    if methods is None:
        absent = {Need.HELD_OUT} if batched else {Need.HELD_OUT, Need.BATCHES}
        return [name for name, method in METHODS.items() if method.by_default and not absent & method.needs]
    if isinstance(methods, Mapping):
        return []
    check_methods(methods)
    return list(methods)
