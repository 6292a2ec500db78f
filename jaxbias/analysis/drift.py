"""Do the arms' means change over time? A regression on time within each arm, judged by logs simulated without a change.

A comparison of early and late rewards is itself biased in an adaptive log: an arm is pulled again because its rewards were high,
and then falls back. So the null distribution is not the textbook's. It is simulated: the policy, at constant means, collected as
the log was.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from jaxbias._core.jit import compiled
from jaxbias._core.lengths import pad_axis
from jaxbias._core.randomness import root_words, trial_words
from jaxbias._core.settings import as_array
from jaxbias.history import History, check_history, check_num_steps
from jaxbias.policies import Policy, check_policy
from jaxbias.rewards import Family, check_family, check_sigma, complete_family
from jaxbias.simulation.batches import BatchSums
from jaxbias.simulation.paths import Design, design_of, simulate_batches, simulate_logs
from jaxbias.stopping import StoppingRule, check_stop

FEWEST_STEPS = 100  # of a log that is checked: in a shorter one only a change that anybody can see would be found
MOST_STEPS = 2**17  # of a log that is checked: beyond, the simulated logs take a minute and more
STEPS_AT_ONCE = 2**22  # steps of the logs that are simulated together: some tens of MB; four long logs alone fill no vector
STEPS_IN_ALL = 2**26  # of all simulated logs: a few seconds
TRIALS = (255, 1023)  # at least, at most; with 1,023 a p-value of 0.05 is known to 0.007


class Drift(NamedTuple):
    """Whether the means of the arms change over time.

    Fields:
        change: (arms,), the slope of each arm's rewards over time, in rewards from the first step of the log to the last; NaN for
            an arm that was not pulled at two different times.
        stderr: (arms,), its standard error where nothing was adaptive.
        p_value: (arms,), two-sided, of each arm alone.
        common, common_stderr: the slope that all arms share.
        overall: the p-value of no change in any arm, against a common change and against changes of single arms.
        num_trials: how many logs were simulated.
    """

    change: Float[np.ndarray, " arms"]
    stderr: Float[np.ndarray, " arms"]
    p_value: Float[np.ndarray, " arms"]
    common: float
    common_stderr: float
    overall: float
    num_trials: int


class Slopes(NamedTuple):
    """Sums of the regression of each arm's rewards on time: cross products and squares around the arm's averages."""

    cross: Float[Array, "*trials arms"]
    squares: Float[Array, "*trials arms"]


def check_drift(
    key: PRNGKeyArray,
    history: History,
    policy: Policy,
    family: Family,
    mean: Any,
    *,
    num_trials: int | None = None,
    stop: StoppingRule | None = None,
    num_steps: int | None = None,
) -> Drift:
    """Tests whether the rewards of the arms change over time beyond chance.

    The statistic of arm k is the studentised slope of its rewards over time,

        z_k = sum (time - average time of k) reward / (sigma_k sqrt(sum (time - average time of k)^2)),

    and that of a common change the same with all arms together. Logs with constant means are simulated under the policy, and each
    statistic is judged by its simulated average, spread and tails. The overall p-value is that of the smaller of two: of the sum
    of the squared statistics, and of the common one. Time is the step; in batches, the first step of the batch.

    Arguments:
        key: a `jax.random.key`.
        history: one log.
        policy, family: how its arms were chosen, and what its rewards are, with a variance.
        mean: (arms,), about what the means are, such as a corrected estimate.
        num_trials: how many logs are simulated; by default 255 to 1,023, by the length of the log.
        stop, num_steps: the rule that could end the experiment, and how many steps it could have had, as in `mean_matching`.

    >>> import jax, jaxbias as jb
    >>> history = jb.simulate(jax.random.key(0), jb.Thompson(), jb.Normal(), [1.0, 0.5], num_steps=100)
    >>> found = check_drift(jax.random.key(1), history, jb.Thompson(), jb.Normal(), [1.0, 0.5])
    >>> bool(found.overall > 0.05), found.p_value.shape
    (True, (2,))
    """
    checked, mean = check_history(history), np.asarray(mean, jnp.result_type(float))
    policy, family = check_policy(policy, checked.num_arms), check_family(family, mean)
    check_sigma(family, "a drift check")
    check_stop(stop, checked.num_arms)
    design = design_of(checked, stop, check_num_steps(num_steps, checked, stop))
    times = _times(checked.batch_sizes, design.arms.shape[0]).astype(mean.dtype)
    log, design = checked.padded(), design.padded()
    steps = design.arms.shape[0]
    wanted = num_trials or int(np.clip(STEPS_IN_ALL // steps, *TRIALS))
    size = max(1, min(wanted, STEPS_AT_ONCE // steps))
    chunks = -(-wanted // size)
    own_time, taken = pad_axis(times[: checked.num_steps], log.num_steps, 0.0), np.arange(log.num_steps) < checked.num_steps
    observed = _slopes(log.arms, log.rewards, own_time, log.num_arms, taken)
    time = pad_axis(times, steps, 0.0)
    simulated = _simulate(policy, family, mean, design._replace(stop=stop), time, root_words(key), size=size, chunks=chunks)
    variance = np.asarray(family.variance(as_array(mean)), np.float64)
    return _judge(jax.device_get(observed), jax.device_get(simulated), variance)


def find_drift(
    key: PRNGKeyArray, history: History, policy: Any, family: Any, mean: Any, checkable: bool, **ending: Any
) -> Drift | None:
    """The check of a log, if it can be checked; None where it is too short or too long, or an arm was never pulled."""
    mean = np.asarray(mean)
    checkable = checkable and complete_family(family).has_variance and bool(np.isfinite(mean).all())
    if policy is None or not checkable or not FEWEST_STEPS <= history.num_steps <= MOST_STEPS:
        return None
    return check_drift(key, history, policy, family, mean, **ending)


def _times(batch_sizes: tuple[int, ...] | None, num_steps: int) -> np.ndarray:
    """The time of each step, from 0 to 1: that of the first step of its batch."""
    step = np.arange(num_steps)
    if batch_sizes is not None:
        starts = np.cumsum(batch_sizes) - np.asarray(batch_sizes)
        step = starts[np.minimum(np.searchsorted(starts, step, side="right") - 1, len(starts) - 1)]
    return step / max(num_steps - 1, 1)


@partial(jax.jit, static_argnames="num_arms")
def _slopes(arms: Any, rewards: Any, time: Any, num_arms: int, taken: Any = None) -> Slopes:
    """Of one log."""
    time = jnp.asarray(time)
    counted = jnp.ones_like(time) if taken is None else taken.astype(time.dtype)
    add = lambda value: jnp.zeros(num_arms, time.dtype).at[arms].add(counted * value)
    pulls = jnp.maximum(add(jnp.ones_like(time)), 1)
    off_time = time - (add(time) / pulls)[arms]
    off_reward = rewards.astype(time.dtype) - (add(rewards.astype(time.dtype)) / pulls)[arms]
    return Slopes(cross=add(off_time * off_reward), squares=add(jnp.square(off_time)))


def _slopes_of_batches(found: BatchSums, time: Float[Array, " batches"], mean: Float[Array, " arms"]) -> Slopes:
    """As `_slopes`, from what each arm gave in each batch, all of whose steps have the same time."""
    at = time[None, :, None]
    off = found.total - found.pulls * mean[None, None]  # the slope is the same, and small numbers keep their digits
    average = jnp.sum(found.pulls * at, axis=1) / jnp.maximum(jnp.sum(found.pulls, axis=1), 1)
    off_time = at - average[:, None]
    return Slopes(cross=jnp.sum(off_time * off, axis=1), squares=jnp.sum(found.pulls * jnp.square(off_time), axis=1))


@partial(compiled, static=("size", "chunks"))
def _simulate(policy: Any, family: Any, mean: Any, design: Design, time: Any, root: Array, size: int, chunks: int) -> Slopes:
    """The sums of logs with constant means."""
    num_arms = mean.shape[0]

    def some(first: Array) -> Slopes:
        words = trial_words(root, first, size)
        by_batch = simulate_batches(words, policy, family, mean, design)
        if by_batch is not None:
            starts = np.cumsum([0, *(design.batching.batch_sizes or ())[:-1]])
            return _slopes_of_batches(by_batch, jnp.asarray(time)[starts], mean)
        logs = simulate_logs(words, policy, family, jnp.broadcast_to(mean, (size, num_arms)), design)
        beyond = logs.beyond_end
        if beyond is None:
            return jax.vmap(lambda arms, rewards: _slopes(arms, rewards, time, num_arms))(logs.arms, logs.rewards)
        taken = jnp.broadcast_to(~beyond, logs.arms.shape)
        return jax.vmap(lambda *one: _slopes(one[0], one[1], time, num_arms, one[2]))(logs.arms, logs.rewards, taken)

    found = jax.lax.map(some, jnp.arange(chunks, dtype=jnp.uint32) * size)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, num_arms), found)


def _judge(observed: Slopes, simulated: Slopes, variance: Float[np.ndarray, " arms"]) -> Drift:
    """The p-values, from the log and the simulated ones together: each is one of as many that are alike without a change."""
    cross, squares = (np.concatenate([one[None], many]).astype(np.float64) for one, many in zip(observed, simulated, strict=True))
    weight = np.where(variance > 0, 1 / np.maximum(variance, np.finfo(np.float64).tiny), 0.0)
    statistic = _ratio(cross * np.sqrt(weight), np.sqrt(squares))
    known = squares[0] > 0
    together, spread = (cross * weight).sum(axis=1), (squares * weight).sum(axis=1)
    common = _ratio(together, np.sqrt(spread))
    squared = np.sum(np.where(known[None], np.square(_standardise(statistic)), 0), axis=1)
    tails = np.minimum(_upper_share(squared), _upper_share(np.abs(_standardise(common))))
    two_sided = [np.minimum(1, 2 * np.minimum(_upper_share(one)[0], _upper_share(-one)[0])) for one in statistic.T]
    return Drift(
        change=np.where(known, _ratio(cross[0], squares[0]), np.nan),
        stderr=np.where(known, np.sqrt(_ratio(variance, squares[0])), np.nan),
        p_value=np.where(known, two_sided, np.nan),
        common=float(_ratio(together[0], spread[0])),
        common_stderr=float(np.sqrt(_ratio(np.ones(()), spread[0]))),
        overall=float(_upper_share(-tails)[0]),
        num_trials=len(cross) - 1,
    )


def _ratio(above: Any, below: Any) -> Any:
    """0 where there is nothing to divide by."""
    return np.where(below > 0, above / np.where(below > 0, below, 1), 0.0)


def _standardise(values: Float[np.ndarray, "logs *arms"]) -> Float[np.ndarray, "logs *arms"]:
    return _ratio(values - values.mean(axis=0), values.std(axis=0))


def _upper_share(values: Float[np.ndarray, " logs"]) -> Float[np.ndarray, " logs"]:
    """For each log the share of all logs with as large a value, itself included."""
    return (len(values) - np.searchsorted(np.sort(values), values, side="left")) / len(values)
