"""How methods do on logs like a given one: its forced pulls, its batches, its stopping rule, at means that are taken for true."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from jaxbias._core.jit import compiled
from jaxbias._core.randomness import root_words, trial_words
from jaxbias.estimators.compare import compare
from jaxbias.evaluation.figures import Evaluation, TrueLogs, summarise_estimates
from jaxbias.history import History, check_history, check_num_steps, without_padding
from jaxbias.policies import Policy, check_policy
from jaxbias.rewards import Family, check_family
from jaxbias.simulation.paths import Design, design_of, simulate_logs
from jaxbias.stopping import StoppingRule


def evaluate_like(
    key: PRNGKeyArray,
    history: History,
    policy: Policy,
    family: Family,
    mean: Any,
    *,
    methods: Sequence[str],
    num_trials: int = 200,
    level: float = 0.95,
    assumed: Family | None = None,
    stop: StoppingRule | None = None,
    num_steps: int | None = None,
    num_paths: int = 512,
    progress: Callable[[str], None] | None = None,
) -> Evaluation:
    """As `evaluate`, on logs that are collected as this one was.

    Arguments:
        key: a `jax.random.key`.
        history: one log.
        policy, family: how its arms were chosen, and what its rewards are.
        mean: (arms,), the means that are taken for true; or (points, arms), several of them, each for as many logs.
        methods: names of the registry.
        num_trials, level, assumed, num_paths, progress: as in `evaluate`; `num_paths` is also that of the intervals.
        stop, num_steps: the rule that could end the experiment, and how many steps it could have had, as in `mean_matching`.

    >>> import jax, jaxbias as jb
    >>> history = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.75], num_steps=16)
    >>> found = evaluate_like(jax.random.key(1), history, jb.Greedy(), jb.Normal(), [1.0, 0.75], methods=["sample_mean"])
    >>> bool(found.methods["sample_mean"].average_bias < 0)
    True
    """
    checked, points = check_history(history), np.atleast_2d(np.asarray(mean, np.float64))
    point = np.arange(num_trials) % len(points)
    own_policy, own_family = check_policy(policy, checked.num_arms), check_family(family, points[0])
    design = design_of(checked, stop, check_num_steps(num_steps, checked, stop))
    log_key, method_key = jax.random.fold_in(key, 0), jax.random.fold_in(key, 1)
    means = jnp.asarray(points[point], checked.rewards.dtype)
    logs = without_padding(_simulate(own_policy, own_family, means, root_words(log_key), design, stop))
    told = family if assumed is None else assumed
    options: Any = dict(level=level, stop=stop, num_paths=num_paths, interval_paths=num_paths, progress=progress)
    found = compare(method_key, logs, policy, told, methods=methods, **options)
    known = TrueLogs.of(logs, points[point], point)
    return Evaluation(
        methods={name: summarise_estimates(estimate, known) for name, estimate in found.estimates.items()},
        reasons=found.reasons,
        mean=points.mean(axis=0),
        pulls=known.pulls.mean(axis=0),
        num_trials=num_trials,
        level=level,
        num_points=len(points),
    )


@partial(compiled, pads=("design",))
def _simulate(policy: Any, family: Any, means: Array, root: Array, design: Design, stop: Any) -> History:
    words = trial_words(root, jnp.uint32(0), means.shape[0])
    return simulate_logs(words, policy, family, means, design._replace(stop=stop))
