"""How wrong the sample means of a log like this one are on average, if the true means are these: by simulation."""

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, PRNGKeyArray

from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias._core.randomness import root_words, trial_words
from jaxbias._core.settings import as_float
from jaxbias.history import History, check_history, check_num_steps
from jaxbias.policies import Policy, check_policy
from jaxbias.rewards import Family, check_family, check_sigma
from jaxbias.simulation.paths import Design, average_pulled, design_of, of_arms, simulate_paths
from jaxbias.stopping import StoppingRule, check_stop

AT_ONCE = 2048  # trials simulated together: their states stay in the cache


class ArmBias(NamedTuple):
    """The bias of each arm's sample mean at given means, with its Monte Carlo error; not a number for an arm never pulled."""

    mean: Float[np.ndarray, " arms"]  # at which it was simulated
    bias: Float[np.ndarray, " arms"]
    stderr: Float[np.ndarray, " arms"]
    num_trials: int


def bias_at(
    key: PRNGKeyArray,
    history: History,
    policy: Policy,
    family: Family,
    mean: ArrayLike | Sequence[float],
    *,
    num_trials: int = 2**14,
    stop: StoppingRule | None = None,
    num_steps: int | None = None,
) -> ArmBias:
    """Simulates logs like this one, forced where it was, at the given means; an arm's average is over trials that pulled it.

    Arguments:
        key: a `jax.random.key`.
        history: one log.
        policy, family: how its arms were chosen, and what its rewards are.
        mean: (arms,), the means that are taken for true; one that is not a number leaves its arm out.
        num_trials: how many logs are simulated; from 2,048 on rounded up to a multiple of it.
        stop, num_steps: the rule that could end the experiment, and how many steps it could have had, as in `mean_matching`.

    >>> import jax, jaxbias as jb
    >>> history = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.75], num_steps=16)
    >>> found = jb.bias.bias_at(jax.random.key(1), history, jb.Greedy(), jb.Normal(), [1.0, 0.75])
    >>> bool((found.bias < -10 * found.stderr).all())
    True
    """
    policy = check_policy(policy, history.num_arms)
    history, mean = check_history(history), as_float(mean)
    mean = np.asarray(mean)
    family = check_family(family, np.where(np.isnan(mean), mean.dtype.type(0.5), mean))
    check_sigma(family, "a simulation")
    if num_trials < 2:
        raise ArgumentError("num_trials", num_trials, "2 or more")
    size = min(AT_ONCE, num_trials)
    kept, chunks = _kept_arms(history, mean), -(-num_trials // size)
    check_stop(stop, history.num_arms)
    num_steps = check_num_steps(num_steps, history, stop)
    arms = np.searchsorted(kept, np.asarray(history.arms)).astype(np.int32)
    policy, family = jax.tree.map(partial(of_arms, kept=kept, num_arms=history.num_arms), (policy, family))
    design = design_of(dataclasses.replace(history, arms=arms), stop, num_steps)
    average, stderr = _simulate(policy, family, mean[kept], design, key, chunks=chunks, size=size)
    found = np.full((2, history.num_arms), np.nan)
    found[:, kept] = np.asarray(average, np.float64) - np.asarray(mean[kept], np.float64), np.asarray(stderr, np.float64)
    return ArmBias(mean=np.asarray(mean), bias=found[0], stderr=found[1], num_trials=chunks * size)


def _kept_arms(history: History, mean: Array) -> np.ndarray:
    """The arms that have a mean, which those that were pulled must have."""
    known, pulls = np.isfinite(np.asarray(mean)), np.asarray(history.statistics.pulls)
    if np.any(~known & (pulls > 0)):
        raise ArgumentError("mean", np.asarray(mean).tolist(), "finite for each arm that was pulled")
    return np.flatnonzero(known)


@partial(compiled, static=("chunks", "size"), pads=("design",))
def _simulate(
    policy: Policy, family: Any, mean: Array, design: Design, key: PRNGKeyArray, chunks: int, size: int
) -> tuple[Float[Array, " arms"], Float[Array, " arms"]]:
    root = root_words(key)

    def one(first: Array) -> tuple[Array, Array, Array]:
        trials = simulate_paths(trial_words(root, first, size), policy, family, mean, design)
        average, off, _ = average_pulled(trials)
        return average, jnp.sum(jnp.square(off), axis=0), jnp.sum(trials.pulled, axis=0).astype(average.dtype)

    average, squares, count = jax.lax.map(one, jnp.arange(chunks, dtype=jnp.uint32) * size)
    total = jnp.sum(count, axis=0)
    overall = jnp.sum(average * count, axis=0) / total  # not a number for an arm that no trial pulled
    spread = jnp.sum(squares + count * jnp.square(average - overall[None]), axis=0) / (total - 1)
    return overall, jnp.sqrt(spread / total)
