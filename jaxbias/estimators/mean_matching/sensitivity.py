"""The derivative of matched means in what the log says, and in the settings of the policy and the family.

The solution of E[figures of a path] = figures of the log moves with the figures by J^-1, which the search knows, and with the
settings by

    - J^-1 Cov(figures of a path, its score of the settings)

over one set of paths at the solution. The score is the derivative of the log-probability of a path's choices and rewards.

The `jacobian` of the diagnostics is that of the last round of the search, before its last move, of a tenth of a standard error at
most. Where a derivative is taken, J is that of one more set of paths, at the solution.
"""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from jaxbias._core.chunks import LogChunks
from jaxbias._core.derivatives import held
from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import Frame, compiled, join_numbers, split_numbers
from jaxbias._core.randomness import root_words, trial_words
from jaxbias._core.settings import is_concrete
from jaxbias.estimators.estimate import Estimate, moves_with_shift, shift_exactly, with_derivative
from jaxbias.estimators.mean_matching.matching import Match, simulate_match
from jaxbias.estimators.mean_matching.unknown_sigma import simulate_figures, simulate_with_sigma
from jaxbias.estimators.sigma import figures_of, sigma_of_arm, spread_of
from jaxbias.history import History
from jaxbias.likelihood import choice_log_probs, reward_log_prob
from jaxbias.rewards import Normal, UnknownSigma
from jaxbias.simulation.paths import Design, Steps, average_pulled, design_of, simulate_paths, simulate_steps

NUMBERS_AT_ONCE = 2**22  # paths x steps x arms x settings whose log-probabilities are differentiated together: 32 MB


def differentiable(
    estimate: Estimate,
    found: Match,
    keys: Any,
    live: tuple[History, Any, Any],
    stop: Any,
    chunks: LogChunks,
    num_paths: int,
    num_steps: int,
) -> Estimate:
    """The estimates of many logs with their derivatives in `live`: history, policy and family as the caller gave them."""
    history, policy, family = held(live)

    def jacobian(found: Match) -> Array:
        inverse = found.inverse[:, : history.num_arms]
        shifts = moves_with_shift(policy, family) and stop is None
        return shift_exactly(inverse, history.statistics.pulls) if shifts else inverse

    estimate = dataclasses.replace(estimate, diagnostics={**estimate.diagnostics, "jacobian": jacobian(found)})
    if is_concrete(live):
        return estimate
    sizes = dict(num_paths=num_paths, num_steps=num_steps)
    inverse = _inverse_at(policy, family, keys, history, held(found.mean), stop, chunks=chunks, **sizes)
    found = held(found)._replace(inverse=chunks.collect(inverse))
    numbers, frame = split_numbers(live[1:])
    slopes = partial(_slopes, frame=frame, chunks=chunks, num_paths=num_paths, num_steps=num_steps)
    context = (keys, history, held(found), stop)
    return with_derivative(estimate, figures_of(live[0], family), numbers, slopes, context, jacobian(found))


@partial(compiled, static=("chunks", "num_paths", "num_steps"))
def _inverse_at(
    policy: Any,
    family: Any,
    keys: Any,
    history: History,
    at: Float[Array, "trials figures"],
    stop: Any,
    chunks: LogChunks,
    num_paths: int,
    num_steps: int,
) -> Float[Array, "trials figures figures"]:
    """J^-1 at the solution, from one set of paths with the random numbers of the search."""

    def one(trial: tuple[PRNGKeyArray, History, Array]) -> Array:
        key, log, at = trial
        words, design = trial_words(root_words(key), jnp.uint32(0), num_paths), design_of(log, stop, num_steps)
        if not isinstance(family, UnknownSigma):
            return simulate_match(words, policy, family, at, design).inverse
        of_arm = sigma_of_arm(family, log.num_arms)
        return simulate_with_sigma(words, policy, of_arm, at, design, spread_of(log, of_arm)).inverse

    return chunks.map(one, (keys, history, at))


def _slopes(
    which: tuple[int, ...],
    numbers: list[Any],
    context: Any,
    *,
    frame: Frame,
    chunks: LogChunks,
    num_paths: int,
    num_steps: int,
) -> Array:
    keys, history, found, stop = context
    if history.allocation == "shares":
        allowed = "'independent' for a derivative in a setting: the probability of rounded shares is not known"
        raise ArgumentError("history.allocation", "shares", allowed)
    sizes = dict(num_paths=num_paths, num_steps=num_steps)
    moved = _figure_slopes(numbers, keys, history, found.mean, stop, frame=frame, which=which, chunks=chunks, **sizes)
    return -jnp.einsum("tij,tjs->tis", found.inverse[:, : history.num_arms], chunks.collect(moved))


@partial(compiled, static=("frame", "which", "chunks", "num_paths", "num_steps"))
def _figure_slopes(
    numbers: list[Any],
    keys: Any,
    history: History,
    at: Float[Array, "trials figures"],
    stop: Any,
    frame: Frame,
    which: tuple[int, ...],
    chunks: LogChunks,
    num_paths: int,
    num_steps: int,
) -> Float[Array, "trials figures settings"]:
    """The derivative of the expected figures of paths in some of the numbers of (policy, family), each of them flattened."""

    def one(trial: tuple[PRNGKeyArray, History, Array]) -> Array:
        key, log, at = trial
        words = trial_words(root_words(key), jnp.uint32(0), num_paths)
        policy, family = join_numbers(numbers, frame)
        design = design_of(log, stop, num_steps)
        centred, share, mean, sampled = _figures(words, policy, family, log, at, design)
        at_once = max(min(NUMBERS_AT_ONCE // (num_steps * log.num_arms * len(which)), num_paths), 1)
        steps = simulate_steps(words, policy, sampled, mean, design)
        score, sharp = jax.lax.map(
            lambda steps: _score(numbers, frame, which, sampled, mean, steps, design), steps, batch_size=at_once
        )
        centred_score = score - jnp.mean(score, axis=0, keepdims=True)
        slope = centred.T @ centred_score / (num_paths - 1) / share[:, None]
        bad = jnp.any(sharp) & jnp.asarray(_are_of_policy(policy, numbers, which))
        return jnp.where(jnp.broadcast_to(bad, slope.shape), jnp.nan, slope)

    return chunks.map(one, (keys, history, at))


def _figures(
    words: Array, policy: Any, family: Any, log: History, at: Array, design: Design
) -> tuple[Float[Array, "paths figures"], Float[Array, " figures"], Float[Array, " arms"], Any]:
    """The figures of paths off their average, the share of paths that have them, and the means and family of the paths."""
    if not isinstance(family, UnknownSigma):
        _, centred, share = average_pulled(simulate_paths(words, policy, family, at, design, steps=True))
        return centred, share, at, family
    of_arm = sigma_of_arm(family, log.num_arms)
    figures = simulate_figures(words, policy, of_arm, at, design, spread_of(log, of_arm), steps=True)
    mean, log_sigma = at[: log.num_arms], at[log.num_arms :]
    return figures.centred * figures.unit[None], figures.share, mean, Normal(sigma=jnp.exp(log_sigma)[of_arm])


def _score(
    numbers: list[Any], frame: Frame, which: tuple[int, ...], sampled: Any, mean: Array, steps: Steps, design: Design
) -> tuple[Float[Array, " settings"], Bool[Array, ""]]:
    """The derivative of one path's log-probability in the numbers, and whether the policy gave an arm no chance."""
    num_arms, seen = mean.shape[0], design.arrivals

    def log_prob(moved: list[Array]) -> tuple[Array, Array]:
        changed = list(numbers)
        for place, number in zip(which, moved, strict=True):
            changed[place] = number
        policy, family = join_numbers(changed, frame)
        family = sampled if isinstance(family, UnknownSigma) else family
        log_probs = choice_log_probs(policy, steps.arms, steps.rewards, num_arms, seen)
        chosen = jnp.take_along_axis(log_probs, steps.arms[:, None], axis=1)[:, 0]
        choices = jnp.sum(jnp.where(steps.free, chosen, 0))
        rewards = reward_log_prob(family, mean, steps.arms, steps.rewards, ~steps.taken)
        return choices + rewards, jnp.any(jnp.isneginf(log_probs) & steps.free[:, None])

    slopes, sharp = jax.jacfwd(log_prob, has_aux=True)([jnp.asarray(numbers[place], mean.dtype) for place in which])
    return jnp.concatenate([jnp.ravel(slope) for slope in slopes]), sharp


def _are_of_policy(policy: Any, numbers: list[Any], which: tuple[int, ...]) -> np.ndarray:
    """Whether each of the flattened numbers is a setting of the policy, and not of the family."""
    sizes = [max(jnp.size(numbers[place]), 1) for place in which]
    return np.repeat([place < len(jax.tree.leaves(policy)) for place in which], sizes)
