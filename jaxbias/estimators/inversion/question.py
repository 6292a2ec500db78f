"""What tests are about, and the tests of many logs run."""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jaxbias._core.chunks import LogChunks, as_many, log_keys, split_logs
from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias._core.settings import as_float
from jaxbias.estimators.checks import check_family_of, check_rewards
from jaxbias.estimators.inversion.inverting import InvertedTests, invert_tests
from jaxbias.estimators.sigma import check_spread
from jaxbias.history import History, check_history, check_num_steps, check_unit_rewards
from jaxbias.policies import BasePolicy, Policy, check_policy
from jaxbias.rewards import BaseFamily, Family, Normal, UnknownSigma
from jaxbias.simulation.paths import design_of, logs_at_once
from jaxbias.stopping import StoppingRule, check_stop

FEWEST_PATHS = 100  # for a tail of 2.5%


class Weighted(NamedTuple):
    """Weighted sums of the means of few arms, so that the other arms need not be computed with.

    Fields:
        arms: of each contrast, padded with arms of no weight.
        weights: of these arms.
    """

    arms: Int[Array | np.ndarray, "contrasts few"]
    weights: Float[Array | np.ndarray, "contrasts few"]


class Question(NamedTuple):
    """What tests are about, checked.

    Fields:
        history: many logs.
        single: whether one was given.
        policy, family: completed.
        stop, num_steps: the rule that could end the experiment, and how many steps it could have had.
        num_paths: how many paths are simulated each time.
    """

    history: History
    single: bool
    policy: BasePolicy
    family: BaseFamily
    stop: Any
    num_steps: int
    num_paths: int

    @property
    def program_steps(self) -> int | None:
        """The number of steps as far as a program depends on it: where a rule could stop the experiment."""
        return None if self.stop is None else self.num_steps


def ask(
    history: History, policy: Policy, family: Family, num_paths: int, stop: StoppingRule | None, num_steps: int | None
) -> Question:
    """The question, or an error that says which part of it cannot be."""
    if num_paths < FEWEST_PATHS:
        raise ArgumentError("num_paths", num_paths, f"{FEWEST_PATHS} or more")
    own_policy, own_family = check_policy(policy, history.num_arms), _check_family(history, family)
    history = dataclasses.replace(check_history(history), held_out=None, draws=None)
    check_rewards(history, own_family)
    check_unit_rewards(history, own_policy)
    if isinstance(own_family, UnknownSigma):
        check_spread(history, own_family)
    check_stop(stop, history.num_arms)
    single = history.arms.ndim == 1
    steps = check_num_steps(num_steps, history, stop)
    logs = as_many(history) if single else history
    return Question(logs, single, own_policy, own_family, stop, steps, num_paths)


def can_invert(family: BaseFamily) -> bool:
    """Whether the likelihood of the family's rewards is a function of their sum."""
    return isinstance(family, Normal | UnknownSigma) or family.has_natural


def _check_family(history: History, family: Family) -> BaseFamily:
    completed = check_family_of(history, family)
    if not can_invert(completed):
        allowed = "Normal, Bernoulli, Poisson or Exponential, or one with variance, natural and from_natural"
        raise ArgumentError("family", family, allowed)
    return completed


def weigh(contrast: Any, history: History) -> Weighted:
    """The contrasts by the arms that they have; without any, every arm by itself."""
    dtype, num_arms = history.rewards.dtype, history.num_arms
    if contrast is None:
        return Weighted(np.arange(num_arms, dtype=np.int32)[:, None], np.ones((num_arms, 1), dtype))
    weights = as_float(contrast)
    if weights.ndim not in (1, 2) or weights.shape[-1] != num_arms:
        allowed = f"one weight for each of {num_arms} arms, or a row of them for each contrast"
        raise ArgumentError("contrast", contrast, allowed, problem=f"has shape {weights.shape}")
    weights = np.atleast_2d(np.asarray(weights))
    if not np.isfinite(weights).all() or not (weights != 0).any(axis=1).all():
        raise ArgumentError("contrast", contrast, "finite weights, not all 0")
    few = int((weights != 0).sum(axis=1).max())
    arms = np.argsort(weights == 0, axis=1, kind="stable")[:, :few]
    return Weighted(arms.astype(np.int32), np.take_along_axis(weights, arms, axis=1).astype(dtype))


def invert(
    key: PRNGKeyArray,
    question: Question,
    weighted: Weighted,
    chance: ArrayLike | None,
    null: float | None,
    max_rounds: int,
    ratios: bool = False,
) -> InvertedTests:
    """The tests of every log inverted.

    Their ends have this chance beyond them: one number, or (contrasts, 2) of them; None for the tails at `null` alone.
    """
    logs, dtype = question.history, question.history.rewards.dtype
    keys, given = log_keys(key, logs.arms.shape[0]), (question.policy, question.family)
    work = logs.num_steps * question.num_paths
    chunks = split_logs(logs_at_once(*given, logs, question.num_paths), (keys, logs, *given), work)
    sizes: Any = dict(num_paths=question.num_paths, max_rounds=max_rounds, num_steps=question.program_steps, ratios=ratios)
    as_numbers = lambda number, *shape: None if number is None else np.broadcast_to(np.asarray(number, dtype), shape)
    numbers = as_numbers(chance, len(weighted.arms), 2), as_numbers(null)
    return chunks.collect(_run(*given, keys, logs, weighted, *numbers, question.stop, chunks=chunks, **sizes))


@partial(compiled, static=("num_paths", "max_rounds", "chunks", "num_steps", "ratios"), pads=("history",))
def _run(
    policy: BasePolicy,
    family: Any,
    keys: Any,
    history: History,
    contrasts: Weighted,
    chance: Any,
    null: Any,
    stop: Any,
    num_paths: int,
    max_rounds: int,
    chunks: LogChunks,
    num_steps: int | None,
    ratios: bool,
) -> InvertedTests:
    def one(trial: tuple[Any, History]) -> InvertedTests:
        key, log = trial
        design = design_of(log, stop, num_steps, chunks.paths)
        return invert_tests(key, policy, family, log, design, contrasts, chance, null, num_paths, max_rounds, ratios)

    return chunks.map(one, (keys, history))
