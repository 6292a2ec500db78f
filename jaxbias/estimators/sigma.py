"""What a log says about a sigma that is not known: one for all arms, or one for each, and with how many degrees of freedom."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias._core.settings import evaluate, is_concrete, split_shared
from jaxbias.estimators.estimate import Status
from jaxbias.estimators.sample_mean import squares_within
from jaxbias.history import History
from jaxbias.rewards import BaseFamily, UnknownSigma


class Spread(NamedTuple):
    """Of one trial, or of each.

    Fields:
        squares: the summed squares of the rewards around the sample mean of their arm.
        pulls: of the arms that share a sigma.
        freedom: degrees of freedom: one less than the pulls of each arm.
        pooled: the variance within all arms together, for an arm that was pulled once and has a sigma of its own.
    """

    squares: Float[Array, "*trials sigmas"]
    pulls: Int[Array, "*trials sigmas"]
    freedom: Int[Array, "*trials sigmas"]
    pooled: Float[Array, "*trials"]

    @property
    def is_free(self) -> Bool[Array, "*trials sigmas"]:
        """Whether the log says anything about it."""
        return self.freedom > 0

    def log_sigma(self, divisor: Int[Array, "*trials sigmas"]) -> Float[Array, "*trials sigmas"]:
        """From the squares over a number for each, the pulls or the degrees of freedom; without any, of all arms together."""
        variance = self.squares / jnp.maximum(divisor, 1).astype(self.squares.dtype)
        return jnp.log(jnp.where(self.is_free, variance, self.pooled)) / 2


def sigma_of_arm(family: UnknownSigma, num_arms: int) -> Int[np.ndarray, " arms"]:
    """Which sigma each arm has: all the same one, or each its own."""
    return np.arange(num_arms) if family.each else np.zeros(num_arms, int)


def pool(values: Any, of_arm: Int[np.ndarray, " arms"]) -> Any:
    """What the arms have that share a sigma, added up along the first axis."""
    return jnp.zeros((of_arm.max() + 1, *values.shape[1:]), values.dtype).at[of_arm].add(values)


def spread_of(history: History, of_arm: Int[np.ndarray, " arms"]) -> Spread:
    """What one trial says."""
    squares, pulls = squares_within(history), history.statistics.pulls
    freedom = jnp.maximum(pulls - 1, 0)
    pooled = jnp.sum(squares) / jnp.maximum(jnp.sum(freedom), 1).astype(squares.dtype)
    return Spread(squares=pool(squares, of_arm), pulls=pool(pulls, of_arm), freedom=pool(freedom, of_arm), pooled=pooled)


def spread_of_each(history: History, of_arm: Int[np.ndarray, " arms"]) -> Spread:
    """What each of many trials says."""
    each, rebuild = split_shared(history)
    return jax.vmap(lambda leaves: spread_of(rebuild(leaves), of_arm))(each)


def figures_of(history: History, family: BaseFamily) -> Float[Array, "trials figures"]:
    """What the estimates of many logs depend on: the sample means, and where sigma is not known, its logarithm within arms."""
    means = history.statistics.mean
    if not isinstance(family, UnknownSigma):
        return means
    spread = spread_of_each(history, sigma_of_arm(family, history.num_arms))
    return jnp.concatenate([means, spread.log_sigma(spread.freedom)], axis=-1)


def first_doubt(of_mean: Array, of_sigma: Array, spread: Spread, of_arm: Int[np.ndarray, " arms"]) -> Array:
    """The status of each arm: that of its mean, else that of its sigma; one pull alone does not determine a sigma."""
    status = jnp.where(of_mean == Status.CONVERGED, of_sigma[..., of_arm], of_mean)
    return jnp.where(spread.is_free[..., of_arm], status, jnp.int32(Status.PULLED_ONCE))


def sigma_figures(family: UnknownSigma, log_sigma: Array, stderr: Array, spread: Spread) -> dict[str, Array]:
    """What an estimate says about sigma: one figure, or one for each arm."""
    sigma = jnp.exp(log_sigma)
    known = jnp.where(spread.is_free, sigma * stderr, jnp.nan)
    figures = {"sigma": sigma, "sigma_stderr": known, "freedom": spread.freedom.astype(sigma.dtype)}
    return figures if family.each else {name: value[..., 0] for name, value in figures.items()}


@partial(compiled, pads=("history",))
def _pulls_and_squares(history: History) -> tuple[Array, Array]:
    return history.statistics.pulls, squares_within(history)


def check_spread(history: History, family: UnknownSigma) -> None:
    """Raises where the log says nothing about sigma, or that it is 0."""
    if not history.squares_known:
        allowed = "a standard deviation, as the counts have no sums of squares to estimate it from"
        raise ArgumentError("family.sigma", family, allowed, problem="is not given")
    if not is_concrete(history):
        return
    arms, rewards = np.atleast_2d(history.arms), np.atleast_2d(np.asarray(history.rewards, np.float64))
    known = evaluate(_pulls_and_squares, history)
    pulls, squares = (np.atleast_2d(part) for part in known)
    of_arm = sigma_of_arm(family, history.num_arms)
    for trial in range(arms.shape[0]):
        in_trial = "" if np.ndim(history.arms) == 1 else f" in trial {trial}"
        twice = pulls[trial] > 1
        what = None if twice.any() else "no arm was pulled twice"
        if not np.isfinite(squares[trial]).all():
            what = "the rewards are too large to be squared"
        alike = twice & _are_alike(arms[trial], rewards[trial], history.num_arms)
        tiny = twice & (squares[trial] == 0)
        if of_arm.max() == 0 and what is None and (alike | tiny)[twice].all():
            what = "every arm's rewards are all the same" if alike[twice].all() else "the rewards vary too little to be squared"
        elif of_arm.max() > 0 and what is None and (alike | tiny).any():
            what = f"the rewards of arm {np.flatnonzero(alike | tiny)[0]} are all the same"
        if what is not None:
            allowed = f"a standard deviation, as {what}{in_trial}, so that it cannot be estimated"
            raise ArgumentError("family.sigma", family, allowed, problem="is not given")


def _are_alike(arms: np.ndarray, rewards: np.ndarray, num_arms: int) -> np.ndarray:
    """Whether each arm's rewards are all the same; their squares may not say so, as the mean is rounded."""
    least, largest = np.full(num_arms, np.inf), np.full(num_arms, -np.inf)
    np.minimum.at(least, arms, rewards)
    np.maximum.at(largest, arms, rewards)
    return least >= largest
