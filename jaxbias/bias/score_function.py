"""The score function: figures of simulated trials, and what their derivatives in settings and means are made of.

    d E[f] / d setting = E[ (f - baseline) * score ] + E[ d f / d setting ],   score = d log-probability of arms and rewards

also known as the likelihood ratio. The baseline is f averaged over the other trials of a block: it is independent of the trial,
so that the estimate stays unbiased. Rewards alone could be differentiated along the path, as mean + sigma * noise; but arms are
chosen, and a small change of a setting changes none of them or another one altogether. Along the path f is a staircase, with a
derivative of zero almost everywhere, and its jumps are what matters.

The score function needs choices that are random, with probabilities that change smoothly. Where they do not (at tau = 0 the
choice is an argmax; an epsilon of 0 excludes what any larger one allows), the score of that setting is zero throughout, or does
not average to zero, and its gradient is NaN. Gradients in the means always exist, as rewards are random.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxbias._core.chunks import trials_at_once
from jaxbias.bias.moments import BLOCK
from jaxbias.policies import ArmStatistics
from jaxbias.simulation.scores import ScoredPolicy, SettingsVector, scored
from jaxbias.simulation.steps import Batching, Extras, Problem, part_of, run_trials, start_trials, statistics_of
from jaxbias.simulation.trials import opened_steps

NUMBERS_AT_ONCE = 2**21  # trials x figures x settings in memory together: 8 MB, which stays near the cache
TOO_FAR = 6.0  # standard errors of the average score from zero: chance in one of a billion


class Figures(NamedTuple):
    """What an experiment is judged by, on average over trials.

    Fields:
        bias, mse: of each arm's sample mean.
        average_bias, average_mse: over the arms.
        regret: steps * best mean - the means of the pulled arms, summed over a trial.
    """

    bias: Any
    mse: Any
    average_bias: Any
    average_mse: Any
    regret: Any


class Sensitivity(NamedTuple):
    """The derivative of a figure: in the policy's settings, as a policy, and in the means. The figure's own axis comes first."""

    policy: Any
    mean: Any


def scored_at_once(num_arms: int, num_settings: int) -> int:
    """How many trials a device simulates together, with the derivative of every figure in every setting and mean."""
    numbers = (2 * num_arms + 3) * (num_settings + num_arms)
    return max(min(trials_at_once(num_arms), NUMBERS_AT_ONCE // numbers), BLOCK)


class ScoredTrials(NamedTuple):
    """A chunk of trials: their figures, their scores in settings and means, and the figures' direct derivatives in the means."""

    figures: Float[Array, "trials figures"]
    score: Float[Array, "trials parameters"]
    direct: Float[Array, "trials figures arms"]


def figures_of(statistics: ArmStatistics, mean: Float[Array, " arms"]) -> Float[Array, " figures"]:
    """The figures of one trial, in the order of `Figures`."""
    error = statistics.mean - mean
    squared = jnp.square(error)
    pulls = statistics.pulls.astype(mean.dtype)
    regret = jnp.sum(pulls * (jnp.max(mean) - mean))
    averages = jnp.stack([jnp.mean(error), jnp.mean(squared), regret])
    return jnp.concatenate([error, squared, averages])


def run_to_the_end(problem: Problem, words: Array, num_steps: int, batching: Batching) -> tuple[ArmStatistics, Any]:
    """What each arm has at the end of each trial, and the state of the policy."""
    num_arms, extras = (
        problem.mean.shape[0],
        Extras(draws=isinstance(problem.policy, ScoredPolicy) and problem.policy.scores_draws),
    )
    steps, progress = opened_steps(num_steps, num_arms, batching), start_trials(problem, batching, words.shape[-1])
    for start, stop in ((0, num_arms), (num_arms, num_steps)):
        some = part_of(steps, start, stop)
        progress, _ = run_trials(problem, words, progress, some, lambda *_: None, extras, opening=start == 0)
    return statistics_of(progress), progress.state


def simulate_scored(problem: Problem, own: SettingsVector, words: Array, num_steps: int, batching: Batching) -> ScoredTrials:
    """The trials of these words, the same as without scores."""
    mean, family = problem.mean, problem.family
    closed = family.has_variance
    wrapped = scored(problem.policy, own, mean, None if closed else family, num_steps, batching)
    statistics, state = run_to_the_end(problem._replace(policy=wrapped), words, num_steps, batching)
    pulls = statistics.pulls.astype(mean.dtype)
    of_rewards = (statistics.total - pulls * mean[None]) / family.variance(mean)[None] if closed else state.reward_score
    return ScoredTrials(
        figures=jax.vmap(figures_of, (0, None))(statistics, mean),
        score=jnp.concatenate([state.score, of_rewards], axis=1),
        direct=jax.vmap(jax.jacfwd(figures_of, argnums=1), (0, None))(statistics, mean),
    )


def centred(figures: Float[Array, "trials figures"], counted: Array) -> Float[Array, "trials figures"]:
    """Each trial's figures less the average over the other trials of its block."""
    blocks, counted = figures.reshape(-1, BLOCK, figures.shape[1]), counted.reshape(-1, BLOCK, 1)
    blocks = jnp.where(counted, blocks, 0)
    others = jnp.maximum(jnp.sum(counted, axis=1, keepdims=True) - 1, 1).astype(figures.dtype)
    return (blocks - (jnp.sum(blocks, axis=1, keepdims=True) - blocks) / others).reshape(figures.shape)


def by_name(values: Any, num_arms: int) -> Figures:
    """Figures from their order along the first axis."""
    averages = (values[2 * num_arms + place] for place in range(3))
    return Figures(values[:num_arms], values[num_arms : 2 * num_arms], *averages)


def sensitivities(jacobian: Any, own: SettingsVector, num_arms: int) -> Figures:
    """Each figure's derivatives by name, from an array of (figures, settings and means)."""
    size = own.values.shape[0]
    named = by_name(jacobian, num_arms)
    return Figures(*(Sensitivity(policy=own.unflatten(one[..., :size]), mean=one[..., size:]) for one in named))


def without_gradient(average: Any, error: Any, own: SettingsVector, mean: Any) -> Any:
    """Which derivatives do not exist, (figures, parameters).

    Those in settings whose score is zero throughout, or does not average to zero; that of the regret in the means, where several
    arms are best.
    """
    numbers = np if isinstance(average, np.ndarray) else jnp
    far = ~(numbers.abs(average) <= TOO_FAR * error)
    still = [
        numbers.broadcast_to(numbers.all((average[part] == 0) & ~(error[part] > 0)), average[part].shape) for part in own.parts
    ]
    size, num_arms = own.values.shape[0], mean.shape[0]
    far = numbers.concatenate([far[:size] | numbers.concatenate(still) if still else far[:size], far[size:] & False])
    tied = (numbers.sum(mean == numbers.max(mean)) > 1) & (numbers.arange(size + num_arms) >= size)
    regret = numbers.arange(2 * num_arms + 3) == 2 * num_arms + 2
    return far[None] | (regret[:, None] & tied[None])
