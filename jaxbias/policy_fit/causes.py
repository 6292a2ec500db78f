"""Why a log does not look like the declared policy's: the likely causes, each with the setting that would explain the choices.

Each alternative differs from the declared policy in one thing, fitted to the choices given what had been seen before them. The
one with the largest likelihood is named first. A column that leaves a misfit is named last if another cause leaves none: it may
also be an outcome, which differs between the arms after the choice.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxbias.history import History
from jaxbias.policies import Policy, check_policy
from jaxbias.policy_fit.alternatives import Alternative, Cause, Replay, replay
from jaxbias.policy_fit.check import DOUBTFUL, explains
from jaxbias.policy_fit.context import context_alternatives
from jaxbias.policy_fit.refits import refitted_alternatives
from jaxbias.policy_fit.timing import timing_alternatives

LEAST_GAIN = 5.0  # in log-likelihood, beyond what the fitted numbers are worth: a likelihood ratio of 150


@dataclasses.dataclass(frozen=True, kw_only=True)
class LikelyCause:
    """What may explain a misfit.

    Fields:
        cause: of which kind it is.
        settings: what to give in addition, by the names of the library: "batch_size", "delay", "policy.floor", ...
        gain: by how much the log-likelihood of the choices is higher than under the declared policy, where each choice is at
            random once in a thousand times.
        fits: whether the choices then pass the check.
        impossible, declared_impossible: how many choices are never made under it, and under the declared policy.
        choices: how many of the choices were looked at.
        column: the column that the policy may have looked at.
        p_value: of the score test that this column has nothing to do with the choices.
    """

    cause: Cause
    settings: dict[str, Any]
    gain: float
    fits: bool
    impossible: int
    declared_impossible: int
    choices: int
    column: str | None = None
    p_value: float | None = None


def find_causes(history: History, policy: Policy, columns: Mapping[str, np.ndarray] | None = None) -> tuple[LikelyCause, ...]:
    """The likely causes of a misfit, the likeliest first; empty if the log fits the policy and is not unusual for it.

    What is tried: every size of a batch and every delay up to half the log; a warm-up of equal allocation; a floor; other values
    of the policy's noise, of its prior and of each of its other settings; and each of the columns that the policy does not use.
    Of a long log of single pulls 4,000 choices are looked at, or fewer if the policy integrates: half of them the first ones, and
    the others spread over the rest. This takes a few seconds.

    Arguments:
        history: one log.
        policy: how the arms are said to have been chosen.
        columns: (steps,) each, what else is known about every row, by name.

    >>> import jax, jaxbias as jb
    >>> history = jb.simulate(jax.random.key(0), jb.Floored(jb.Greedy(), 0.1), jb.Normal(), [1.0, 0.0], num_steps=300)
    >>> found = jb.policy_fit.find_causes(history, jb.Greedy())
    >>> found[0].cause, found[0].fits
    (<Cause.FLOOR: 'floor'>, True)
    """
    declared = replay(history, check_policy(policy, history.num_arms))
    if history.allocation == "shares" or not len(declared.steps) or explains(declared.arms, declared.log_probs, DOUBTFUL):
        return ()
    base, best = declared.score(declared.log_probs), {}
    for alternative in _alternatives(declared, columns or {}):
        gain = declared.score(alternative.log_probs) - base
        worth = gain - 0.5 * alternative.num_parameters * np.log(len(declared.steps))  # as of Schwarz's criterion
        found = (explains(declared.arms, alternative.log_probs), worth, gain, alternative)
        if worth >= LEAST_GAIN and (alternative.cause not in best or worth > best[alternative.cause][1]):
            best[alternative.cause] = found
    explained = any(fits for cause, (fits, *_) in best.items() if cause is not Cause.CONTEXT)
    last = lambda found: explained and found[3].cause is Cause.CONTEXT and not found[0]
    ordered = sorted(best.values(), key=lambda found: (not last(found), found[1]), reverse=True)
    return tuple(_describe(declared, alternative, gain, fits) for fits, _, gain, alternative in ordered)


def _alternatives(declared: Replay, columns: Mapping[str, np.ndarray]) -> list[Alternative]:
    return [*timing_alternatives(declared), *refitted_alternatives(declared), *context_alternatives(declared, columns)]


def _describe(declared: Replay, alternative: Alternative, gain: float, fits: bool) -> LikelyCause:
    never = lambda log_probs: int(np.sum(np.take_along_axis(log_probs, declared.arms[:, None], axis=1) == -np.inf))
    return LikelyCause(
        cause=alternative.cause,
        settings=alternative.settings,
        gain=gain,
        fits=fits,
        impossible=never(alternative.log_probs),
        declared_impossible=never(declared.log_probs),
        choices=len(declared.steps),
        column=alternative.column,
        p_value=alternative.p_value,
    )
