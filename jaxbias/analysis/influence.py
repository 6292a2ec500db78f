"""How much each row of a log moves each estimate, and whether one row carries an estimate.

The derivative of the estimates in each reward: of methods that solve equations from the derivative that they report, of others by
JAX's reverse mode.
"""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jaxbias._core.door import public
from jaxbias._core.jit import compiled
from jaxbias._core.settings import as_array, evaluate, is_concrete
from jaxbias.analysis.findings import CarriedEstimate, Influence, MovingRow
from jaxbias.estimators.compare import apply_method, check_methods
from jaxbias.estimators.estimate import Estimate, Status
from jaxbias.estimators.registry import METHODS
from jaxbias.estimators.sample_mean import squares_within
from jaxbias.history import History, check_history, check_order
from jaxbias.policies import Policy
from jaxbias.rewards import Family

MOST_ROWS = 5  # that are reported
MOST_NUMBERS = 2**24  # arms x rows: beyond, the table of all derivatives takes 100 MB, and one row of so many carries nothing
SAMPLE_MEANS = ("sample_mean", "confidence_sequence")  # whose means are those of the log
# One row carries an estimate that moves by more than half of what the row does: then it moves more than all others together. Or
# one whose replacement by the average of the arm's other rows would move it by more than its standard error: that is the cutoff
# of 1 for DFBETAS in small samples (Belsley, Kuh and Welsch 1980); the other usual one, 2 / sqrt(rows), flags one row in twenty.
CARRIED_WEIGHT, CARRIED_ERRORS = 0.5, 1.0


@public
def influence(
    key: PRNGKeyArray, history: History, policy: Policy | None, family: Family, method: str = "mean_matching", **options: Any
) -> Float[Array, "*trials arms steps"]:
    """How much each arm's estimate moves for each unit of each reward.

        influence[k, t]  =  d estimate of arm k / d reward of row t

    A row moves the estimates of other arms too, as its reward could have changed the choices after it. Where a row has a held-out
    reward as well, the two move together. NaN where the derivative does not exist: in a log that did not converge, and for an
    arm at an edge.

    Arguments:
        key: a `jax.random.key`, for a method that simulates.
        history: one trial or many.
        policy: how the arms were chosen; None for a method that does not need it.
        family: what the rewards are.
        method: the name of an estimator.
        options: other arguments of it, such as `num_paths`, `propensities` or `stop`.

    >>> import jax, jaxbias as jb
    >>> policy, family = jb.Greedy(), jb.Normal()
    >>> history = jb.simulate(jax.random.key(0), policy, family, [1.0, 0.75], num_steps=16)
    >>> moved = jb.influence(jax.random.key(1), history, policy, family)
    >>> moved.shape, moved.sum(axis=1).round(4).tolist()  # a shift of all rewards moves every estimate by as much
    ((2, 16), [1.0, 1.0])
    """
    check_methods([method])
    question = {"level": 0.95, "policy": policy, "family": family, "key": key, **options}
    estimate = apply_method(METHODS[method], {**question, "history": history})
    return influence_of(estimate, history, question)


def influence_of(estimate: Estimate, history: History, question: dict[str, Any]) -> Float[Array, "*trials arms steps"]:
    """The same of an estimate that is there already; `question` are the arguments that it was made with, but for the log."""
    check_order(history, "influence")
    if estimate.method in SAMPLE_MEANS or "jacobian" in estimate.diagnostics:
        checked = check_history(history)
        moved = _from_jacobian(estimate, checked)
        return _cut(moved, checked.num_steps) if moved.shape[-1] > checked.num_steps else moved
    return _by_reverse_mode(estimate.method, check_history(history), question)


def _cut(moved: Array, num_steps: int) -> Array:
    """Without the rows that were padded; by NumPy where it is known now, as JAX would compile it for every length."""
    return evaluate(as_array, np.asarray(moved)[..., :num_steps]) if is_concrete(moved) else moved[..., :num_steps]


@partial(compiled, pads=("history",))
def _from_jacobian(estimate: Estimate, history: History) -> Array:
    """From the derivative in each sample mean, and where sigma is estimated in the logarithm of that within arms."""
    arms, num_arms, status = history.arms, history.num_arms, estimate.status
    identity = jnp.broadcast_to(jnp.eye(num_arms, dtype=history.rewards.dtype), (*status.shape, num_arms))
    jacobian = estimate.diagnostics.get("jacobian", identity)
    pulls = history.statistics.pulls.astype(jacobian.dtype)
    of_step = lambda by_arm: jnp.take_along_axis(by_arm, arms, axis=-1)[..., None, :]
    moved = _columns(jacobian[..., :num_arms], arms) / of_step(pulls)
    num_sigmas = jacobian.shape[-1] - num_arms
    if num_sigmas:
        squares = squares_within(history)
        if num_sigmas == 1:
            squares = jnp.broadcast_to(jnp.sum(squares, axis=-1, keepdims=True), squares.shape)
        of_sigma = jnp.broadcast_to(jacobian[..., num_arms:], (*status.shape, num_arms))
        off = history.rewards[..., None, :] - of_step(history.statistics.mean)
        moved = moved + _columns(of_sigma, arms) * off / of_step(squares)
    at_edge, absent = status == Status.AT_EDGE, status == Status.NEVER_PULLED
    lost = ~jnp.all(estimate.converged | absent, axis=-1, keepdims=True)
    if estimate.method in SAMPLE_MEANS:
        return jnp.where(absent[..., None], jnp.nan, moved)
    return jnp.where((lost | at_edge | absent)[..., None] | of_step(at_edge), jnp.nan, moved)


def _columns(matrix: Float[Array, "*trials arms arms"], arms: Int[Array, "*trials steps"]) -> Float[Array, "*trials arms steps"]:
    """The column of each step's arm."""
    return jnp.take_along_axis(matrix, jnp.broadcast_to(arms[..., None, :], (*matrix.shape[:-1], arms.shape[-1])), axis=-1)


def _by_reverse_mode(method: str, history: History, question: dict[str, Any]) -> Array:
    has_second = history.held_out is not None

    def mean(rewards: Array, second: Array | None) -> Array:
        log = dataclasses.replace(history, rewards=rewards, held_out=second)
        return apply_method(METHODS[method], {**question, "history": log}).mean

    value, pull_back = jax.vjp(mean, history.rewards, history.held_out)
    moved, second = jax.vmap(lambda arm: pull_back(jnp.broadcast_to(arm, value.shape)))(
        jnp.eye(value.shape[-1], dtype=value.dtype)
    )
    return jnp.moveaxis(moved + second if has_second else moved, 0, -2)


def find_influence(estimate: Estimate, history: History, family: Family, policy: Any) -> Influence | None:
    """The rows of one log that move the estimates most; None for counts, too large a log, or where there is no derivative."""
    if history.num_steps * history.num_arms > MOST_NUMBERS or not history.order_known:
        return None
    if estimate.method not in SAMPLE_MEANS and "jacobian" not in estimate.diagnostics:
        return None
    log = check_history(history)
    moved = np.asarray(influence_of(estimate, log, {"family": family, "policy": policy}), np.float64)
    if not np.isfinite(moved).any():
        return None
    return _summarise(moved, np.asarray(estimate.stderr, np.float64), np.asarray(log.arms), np.asarray(log.rewards, np.float64))


def row_shifts(moved: np.ndarray, arms: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """How far each row has moved each estimate, (arms, steps): from what it would be with the average of its arm's other rows.

    To first order, and exactly for a sample mean. Not a number for the only row of an arm.
    """
    pulls = np.bincount(arms, minlength=moved.shape[0])
    total = np.bincount(arms, weights=rewards, minlength=moved.shape[0])
    with np.errstate(divide="ignore", invalid="ignore"):
        others = (total[arms] - rewards) / np.where(pulls[arms] > 1, pulls[arms] - 1, np.nan)
    return moved * (rewards - others)[None]


def _summarise(moved: np.ndarray, stderr: np.ndarray, arms: np.ndarray, rewards: np.ndarray) -> Influence:
    shifts = row_shifts(moved, arms, rewards)
    errors = np.abs(np.nan_to_num(shifts / np.where(stderr > 0, stderr, np.nan)[:, None]))
    most = errors.argmax(axis=0)  # the estimate that each row moves most
    order = np.argsort(-errors.max(axis=0), kind="stable")[:MOST_ROWS]
    row = partial(_row, moved=moved, shifts=shifts, errors=errors, arms=arms, rewards=rewards)
    weights = np.abs(np.nan_to_num(moved))
    carried = []
    for arm in range(len(moved)):
        by_weight, by_shift = int(weights[arm].argmax()), int(errors[arm].argmax())
        if weights[arm, by_weight] > CARRIED_WEIGHT:
            carried.append(CarriedEstimate(arm, row(by_weight, arm), alone=True))
        elif errors[arm, by_shift] > CARRIED_ERRORS:
            carried.append(CarriedEstimate(arm, row(by_shift, arm), alone=False))
    rows = tuple(row(int(step), int(most[step])) for step in order if errors[most[step], step] > 0)
    return Influence(moved=moved, rows=rows, carried=tuple(carried))


def _row(
    step: int,
    estimate_of: int,
    moved: np.ndarray,
    shifts: np.ndarray,
    errors: np.ndarray,
    arms: np.ndarray,
    rewards: np.ndarray,
) -> MovingRow:
    return MovingRow(
        step=step,
        arm=int(arms[step]),
        reward=float(rewards[step]),
        estimate_of=estimate_of,
        weight=float(moved[estimate_of, step]),
        shift=float(shifts[estimate_of, step]),
        errors=float(errors[estimate_of, step]),
    )
