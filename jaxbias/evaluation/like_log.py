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
from jaxbias.evaluation.figures import Evaluation, summarise_estimates
from jaxbias.history import History, check_history, check_num_steps
from jaxbias.policies import Policy, check_policy
from jaxbias.rewards import Family, check_family
from jaxbias.simulation.paths import Design, design_of, simulate_paths
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
        mean: (arms,), the means that are taken for true.
        methods: names of the registry.
        num_trials, level, assumed, num_paths, progress: as in `evaluate`.
        stop, num_steps: the rule that could end the experiment, and how many steps it could have had, as in `mean_matching`.

    >>> import jax, jaxbias as jb
    >>> history = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.75], num_steps=16)
    >>> found = evaluate_like(jax.random.key(1), history, jb.Greedy(), jb.Normal(), [1.0, 0.75], methods=["sample_mean"])
    >>> bool(found.methods["sample_mean"].average_bias < 0)
    True
    """
    checked, true = check_history(history), np.asarray(mean, np.float64)
    own_policy, own_family = check_policy(policy, checked.num_arms), check_family(family, true)
    design = design_of(checked, stop, check_num_steps(num_steps, checked, stop))
    log_key, method_key = jax.random.fold_in(key, 0), jax.random.fold_in(key, 1)
    means = jnp.asarray(true, checked.rewards.dtype)
    logs = _simulate(own_policy, own_family, means, root_words(log_key), design, stop, num_trials=num_trials)
    told = family if assumed is None else assumed
    options: Any = dict(level=level, stop=stop, num_paths=num_paths, progress=progress)
    found = compare(method_key, logs, policy, told, methods=methods, **options)
    pulls = np.asarray(logs.statistics.pulls)
    return Evaluation(
        methods={name: summarise_estimates(estimate, true, pulls) for name, estimate in found.estimates.items()},
        reasons=found.reasons,
        mean=true,
        pulls=pulls.mean(axis=0),
        num_trials=num_trials,
        level=level,
    )


@partial(compiled, static=("num_trials",))
def _simulate(policy: Any, family: Any, mean: Array, root: Array, design: Design, stop: Any, num_trials: int) -> History:
    words = trial_words(root, jnp.uint32(0), num_trials)
    history = simulate_paths(words, policy, family, mean, design._replace(stop=stop), steps=True).history
    assert history is not None
    return history
