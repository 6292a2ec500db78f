"""Every arm against a control, every pair, or each arm against the best of the others.

All tests are those of `test_inversion`: of the experiment that was run, with its adaptive choices, so that a p-value below 0.05
comes up in at most one of twenty logs in which the arms do not differ.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from jaxbias._core.chunks import only_one
from jaxbias._core.door import public
from jaxbias._core.errors import ArgumentError
from jaxbias.estimators.checks import check_level
from jaxbias.estimators.contrasts.adjusting import holm, largest_statistic, one_p_value
from jaxbias.estimators.contrasts.best import against_best
from jaxbias.estimators.contrasts.results import Contrasts
from jaxbias.estimators.estimate import Status
from jaxbias.estimators.inversion.estimator import estimate_of
from jaxbias.estimators.inversion.question import Question, ask, invert, weigh
from jaxbias.history import History
from jaxbias.policies import Policy
from jaxbias.rewards import Family
from jaxbias.stopping import StoppingRule

ADJUST = ("max-t", "holm", "none")
ALTERNATIVES = ("two-sided", "greater", "less")
LARGEST = 23  # folded into the key: the paths of the largest statistic are not those of the tests


@public
def contrasts(
    key: PRNGKeyArray,
    history: History,
    policy: Policy,
    family: Family,
    control: Any = 0,
    *,
    adjust: str | None = None,
    alternative: str = "two-sided",
    level: float = 0.95,
    num_paths: int = 2048,
    max_rounds: int = 3,
    stop: StoppingRule | None = None,
    num_steps: int | None = None,
) -> Contrasts:
    """Differences of arms with intervals and p-values that allow for the adaptive choices.

    Arguments:
        key: a `jax.random.key`.
        history: one trial or many.
        policy: how the arms were chosen.
        family: what the rewards are, as in `test_inversion`.
        control: the arm that the others are compared with; "pairs" for every pair; "best" for each arm against the best of the
            others.
        adjust: how p-values are adjusted for being several. "max-t", the default: by the simulated distribution of the most
            extreme statistic where all arms have the same mean. "holm": by Holm, which holds whatever the other arms' means
            are, and is the default, and the only way, against the best. "none".
        alternative: "two-sided"; "greater", that the arm's mean is above the control's; or "less". With the last two, intervals
            have one end only.
        level: of the intervals, each by itself.
        num_paths, max_rounds: as in `test_inversion`.
        stop, num_steps: the rule that could end the experiment, and how many steps it could have had, as in `mean_matching`.

    Returns:
        `Contrasts`: with a control, (..., arms), not a number at the control itself; of pairs, (..., pairs), arm and control in
        the fields of that name.

    >>> import jax, jaxbias as jb
    >>> policy, family = jb.Greedy(), jb.Normal(sigma=1.0)
    >>> history = jb.simulate(jax.random.key(0), policy, family, [2.0, 0.75], num_steps=40)
    >>> found = jb.contrasts(jax.random.key(1), history, policy, family, control=1)
    >>> bool(found.lower[0] < found.difference[0] < found.upper[0]), bool(found.p_value[0] <= found.p_adjusted[0])
    (True, True)
    """
    way = _check(history, control, adjust, alternative)
    check_level(level)
    question = ask(history, policy, family, num_paths, stop, num_steps)
    if control == "best":
        found = against_best(key, question, level, alternative, max_rounds, way)
    else:
        found = _against_arms(key, question, control, level, alternative, max_rounds, way)
    return only_one(found) if question.single else found


def _check(history: History, control: Any, adjust: Any, alternative: Any) -> str:
    """Refuses what there is not; the way to adjust."""
    if alternative not in ALTERNATIVES:
        raise ArgumentError("alternative", alternative, " or ".join(map(repr, ALTERNATIVES)))
    num_arms = getattr(history, "num_arms", 2)
    if num_arms < 2:
        raise ArgumentError("history", problem="has one arm", remedy="a comparison needs two arms or more")
    if isinstance(control, str) and control not in ("pairs", "best"):
        raise ArgumentError("control", control, f"an arm from 0 to {num_arms - 1}, or 'pairs' or 'best'")
    if not isinstance(control, str) and not (_is_whole(control) and 0 <= control < num_arms):
        raise ArgumentError("control", control, f"an arm from 0 to {num_arms - 1}, or 'pairs' or 'best'")
    if adjust is None:
        return "holm" if control == "best" else "max-t"
    if adjust not in ADJUST:
        raise ArgumentError("adjust", adjust, " or ".join(map(repr, ADJUST)))
    if adjust == "max-t" and control == "best":
        raise ArgumentError("adjust", adjust, "'holm' or 'none' against the best arm")
    return adjust


def _is_whole(number: Any) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def _against_arms(
    key: PRNGKeyArray, question: Question, control: Any, level: float, alternative: str, max_rounds: int, adjust: str
) -> Contrasts:
    arms, controls = pairs_of(question.history.num_arms, control)
    weighted = weigh(weights_of(arms, controls, question.history.num_arms), question.history)
    chance = (1 - level) / (2 if alternative == "two-sided" else 1)
    tests = invert(key, question, weighted, chance, 0.0, max_rounds, ratios=True)
    estimate = estimate_of(tests, weighted, question, 1 - 2 * chance)
    told = {name: estimate.diagnostics[name] for name in ("p_less", "p_greater")}
    p_value = one_p_value(told["p_less"], told["p_greater"], alternative)
    if adjust == "max-t":
        adjusted = largest_statistic(jax.random.fold_in(key, LARGEST), question, weighted, p_value, alternative)
    else:
        adjusted = holm(p_value) if adjust == "holm" else p_value
    assert tests.ratio is not None
    lift = jnp.where(estimate.converged[..., None], tests.ratio - 1, jnp.nan)
    figures: dict[str, Any] = dict(difference=estimate.mean, stderr=estimate.stderr, lower=estimate.lower, upper=estimate.upper)
    figures |= dict(p_value=p_value, p_adjusted=adjusted, **told)
    figures |= dict(lift=lift[..., 0], lift_lower=lift[..., 1], lift_upper=lift[..., 2])
    figures = one_sided(figures, alternative, question)
    status = estimate.status
    if control != "pairs":  # one place for each arm, with nothing at the control
        figures = {name: jnp.insert(values, control, jnp.nan, axis=1) for name, values in figures.items()}
        status = jnp.insert(status, control, Status.CONVERGED, axis=1)
        arms, controls = np.arange(question.history.num_arms), np.full(question.history.num_arms, control)
    number = question.history.arms.shape[0]
    repeat = lambda places: jnp.broadcast_to(jnp.asarray(places, jnp.int32), (number, len(places)))
    named: Any = dict(level=level, adjust=adjust, alternative=alternative)
    return Contrasts(arm=repeat(arms), control=repeat(controls), status=status, **figures, **named)


def pairs_of(num_arms: int, control: Any) -> tuple[np.ndarray, np.ndarray]:
    """The arm and the control of each contrast."""
    if control == "pairs":
        return np.triu_indices(num_arms, 1)
    arms = np.delete(np.arange(num_arms), control)
    return arms, np.full_like(arms, control)


def weights_of(arms: np.ndarray, controls: np.ndarray, num_arms: int) -> np.ndarray:
    """1 at the arm and -1 at the control of each contrast."""
    return np.eye(num_arms)[arms] - np.eye(num_arms)[controls]


def one_sided(figures: dict[str, Any], alternative: str, question: Question) -> dict[str, Any]:
    """The intervals with one end, where the alternative has one side; the other is the end of what is possible."""
    if alternative == "two-sided":
        return figures
    low, high = question.family.mean_range
    end, ratio_end = ("upper", jnp.inf) if alternative == "greater" else ("lower", -1.0 if low >= 0 else -jnp.inf)
    farthest = high - low if alternative == "greater" else low - high
    known = lambda name, value: jnp.where(jnp.isnan(figures[name]), jnp.nan, value)
    return {**figures, end: known(end, farthest), f"lift_{end}": known(f"lift_{end}", ratio_end)}
