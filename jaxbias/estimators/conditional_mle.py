"""The conditional maximum likelihood estimator: the means that make the rewards most likely, given the arms that were chosen."""

from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from jaxbias.compiling import compiled
from jaxbias.estimators.contrastive_divergence import ContrastiveDivergence, Fit, contrastive_divergence
from jaxbias.estimators.estimate import Estimate, wald
from jaxbias.estimators.gaussian import Log, make_log
from jaxbias.estimators.newton import NewtonFit, covariance_at, newton
from jaxbias.history import History
from jaxbias.likelihood import choice_log_probs
from jaxbias.policies import Policy, check_policy, keeps_statistics
from jaxbias.rewards import Family, Normal, check_family
from jaxbias.settings import as_float, check_settings, is_concrete

FEW = 32  # pairs of paths while the search is far from the maximum
PATHS_AT_ONCE = 2**15  # trials x paths in memory together: the arrays of a step then stay in the cache
ENOUGH_PATHS = 100  # effective paths below which a covariance of several arms is not to be believed


def conditional_mle(
    key: PRNGKeyArray,
    history: History,
    policy: Policy,
    family: Family,
    solver: Literal["newton", "contrastive_divergence"] = "newton",
    *,
    level: float = 0.95,
    num_paths: int = 1024,
    max_rounds: int = 30,
    settings: ContrastiveDivergence | None = None,
) -> Estimate:
    """The means that maximise the likelihood of the rewards given the arms, with standard errors from its information.

    Arguments:
        key: a `jax.random.key`.
        history: one trial or a batch of them.
        policy: how the arms were chosen; its choices must have been random (tau > 0, or random by nature).
        family: what the rewards are: `Normal` with its sigma.
        solver: "newton", the maximum itself, or "contrastive_divergence", the paper's Algorithm 2.
        level: of the intervals.
        num_paths: paths drawn at each mean vector; the Monte Carlo error falls with their square root.
        max_rounds: Newton steps at most.
        settings: of contrastive divergence; by default the paper's, with which it stops short of the maximum.

    Returns:
        An `Estimate`. Diagnostics of "newton": `monte_carlo_error` of each mean, `effective_paths`, `rounds`, `last_step`, and
        `log_normaliser`, the log-probability of the arms at the estimate. Of "contrastive_divergence": `drift` of the iterates
        over the tail, `acceptance`, `divergences`, `nan_energies`, and the `path` of the iterates where it was asked for.

    >>> import jax, jaxbias as jb
    >>> policy, family = jb.Greedy(tau=1.0), jb.Normal(sigma=1.0)
    >>> history = jb.simulate(jax.random.key(0), policy, family, [1.0, 0.75], num_steps=12)
    >>> estimate = jb.conditional_mle(jax.random.key(1), history, policy, family)
    >>> estimate.mean.shape, bool(estimate.converged.all())
    ((2,), True)
    """
    history = _prepare(history, policy, family, solver, level, num_paths)
    if settings is not None:
        check_settings(settings, "settings")
    single = history.arms.ndim == 1
    batch = jax.tree.map(lambda leaf: leaf[None], history) if single else history
    keys = jax.vmap(partial(jax.random.fold_in, key))(jnp.arange(batch.arms.shape[0]))
    pairs = (num_paths + 1) // 2
    if solver == "newton":
        fit = _newton_batch(policy, family, keys, batch, num_pairs=pairs, max_rounds=max_rounds)
        estimate = _from_newton(fit, level)
    else:
        settings = settings or ContrastiveDivergence()
        fit, covariance = _divergence_batch(policy, family, keys, batch, settings, num_pairs=pairs)
        estimate = _from_divergence(fit, covariance, level)
    return jax.tree.map(lambda leaf: leaf[0], estimate) if single else estimate


@partial(compiled, static=("num_pairs", "max_rounds"))
def _newton_batch(policy: Policy, family: Any, keys: Any, history: History, num_pairs: int, max_rounds: int) -> NewtonFit:
    def one(trial: tuple[Any, History]) -> NewtonFit:
        key, trial_history = trial
        few = min(FEW, num_pairs)
        start = trial_history.statistics.mean
        return newton(key, policy, _sigma(family, history), _log(trial_history), start, few, num_pairs, max_rounds)

    return _by_trial(one, keys, history, num_pairs)


@partial(compiled, static=("num_pairs",))
def _divergence_batch(
    policy: Policy, family: Any, keys: Any, history: History, settings: ContrastiveDivergence, num_pairs: int
) -> tuple[Fit, Array]:
    def one(trial: tuple[Any, History]) -> tuple[Fit, Array]:
        (fit_key, path_key), (arms, rewards, forced) = jax.random.split(trial[0]), _log(trial[1])[:3]
        fit = contrastive_divergence(fit_key, policy, family, arms, rewards, forced, history.num_arms, settings)
        return fit, covariance_at(path_key, policy, _sigma(family, history), _log(trial[1]), fit.mean, num_pairs)

    return _by_trial(one, keys, history, num_pairs)


def _by_trial(one: Any, keys: Any, history: History, num_pairs: int) -> Any:
    at_once = max(1, min(PATHS_AT_ONCE // (2 * num_pairs), history.arms.shape[0]))
    return jax.lax.map(one, (keys, history), batch_size=at_once)


def _sigma(family: Any, history: History) -> Float[Array, " arms"]:
    return jnp.broadcast_to(jnp.asarray(family.sigma, history.rewards.dtype), (history.num_arms,))


def _log(history: History) -> Log:
    return make_log(history.arms, history.rewards, history.forced_steps, history.num_arms)


def _from_divergence(fit: Fit, covariance: Array, level: float) -> Estimate:
    """Standard errors from the information at the estimate; an arm has converged where its iterates have stopped drifting."""
    stderr = jnp.sqrt(jnp.diagonal(covariance, axis1=-2, axis2=-1))
    diagnostics = {name: value for name, value in fit._asdict().items() if name != "mean" and value is not None}
    converged = (jnp.abs(fit.drift) < 0.25 * stderr) & jnp.isfinite(fit.mean) & jnp.isfinite(stderr)
    return wald("conditional_mle", fit.mean, stderr, level, converged, diagnostics)


def _from_newton(fit: NewtonFit, level: float) -> Estimate:
    """An arm has converged where its last step is lost in its standard error and enough paths are left by the weights."""
    stderr = jnp.sqrt(jnp.diagonal(fit.covariance, axis1=-2, axis2=-1))
    small = jnp.abs(fit.step) < jnp.maximum(0.01 * stderr, fit.monte_carlo_error)
    precise = fit.monte_carlo_error < 0.25 * stderr
    enough = (fit.effective >= ENOUGH_PATHS)[..., None]
    diagnostics = {
        "monte_carlo_error": fit.monte_carlo_error,
        "effective_paths": fit.effective,
        "rounds": fit.rounds,
        "last_step": fit.step,
        "log_normaliser": fit.log_normaliser,
    }
    converged = small & precise & enough & jnp.isfinite(fit.mean) & jnp.isfinite(stderr)
    return wald("conditional_mle", fit.mean, stderr, level, converged, diagnostics)


def _prepare(history: History, policy: Policy, family: Family, solver: str, level: float, num_paths: int) -> History:
    """The history as arrays, checked against what this estimator can do."""
    arms, rewards = jnp.asarray(history.arms), as_float(history.rewards)
    if arms.shape != rewards.shape or arms.ndim not in (1, 2) or arms.shape[-1] == 0:
        raise ValueError(f"history has arms of shape {arms.shape} and rewards of shape {rewards.shape}; allowed: both (steps,)")
    if solver not in ("newton", "contrastive_divergence"):
        raise ValueError(f"solver is {solver!r}; allowed: 'newton' or 'contrastive_divergence'")
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; allowed: a number above 0 and below 1")
    if num_paths < 2:
        raise ValueError(f"num_paths is {num_paths}; allowed: 2 or more")
    check_policy(policy, history.num_arms)
    check_family(family, np.zeros(history.num_arms))
    if not isinstance(family, Normal):
        raise ValueError(f"family is {family}; allowed: Normal, whose rewards have a density that can be followed")
    if not keeps_statistics(policy):
        raise ValueError(f"policy is {type(policy).__name__}; allowed: one whose state is pulls and sums (a StatisticsPolicy)")
    checked = History(
        arms=arms.astype(jnp.int32), rewards=rewards, num_arms=history.num_arms, forced=jnp.asarray(history.forced_steps)
    )
    if is_concrete((arms, rewards, policy)):
        _check_values(checked, policy)
    return checked


def _check_values(history: History, policy: Policy) -> None:
    """What only the numbers show: which trial and step is wrong."""
    arms, rewards = np.atleast_2d(history.arms), np.atleast_2d(history.rewards)
    outside = (arms < 0) | (arms >= history.num_arms)
    _refuse(outside, arms, "history.arms is {value} at {where}; allowed: 0 to " + str(history.num_arms - 1))
    _refuse(~np.isfinite(rewards), rewards, "history.rewards is {value} at {where}; allowed: finite numbers")
    never = sorted(set(range(history.num_arms)) - set(np.unique(arms)))
    pulled = (arms[:, :, None] == np.arange(history.num_arms)).any(axis=1)
    if not pulled.all():
        row, arm = np.argwhere(~pulled)[0]
        raise ValueError(f"arm {never[0] if never else arm} was never pulled in trial {row}; allowed: each arm once or more")
    log_probs = np.asarray(_choices(policy, jax.tree.map(jnp.asarray, history)))
    log_probs = log_probs.reshape(*arms.shape, history.num_arms)
    free = ~np.atleast_2d(history.forced_steps)
    if free.any() and not _is_random(log_probs[free]):
        raise ValueError(
            f"policy is {policy}, whose choices are not random; conditional_mle needs randomised choices (tau > 0): "
            "mean_matching does not"
        )
    chosen = np.take_along_axis(log_probs, arms[:, :, None], axis=2)[:, :, 0]
    _refuse(free & ~np.isfinite(chosen), arms, "history.arms is {value} at {where}, which the policy gives probability zero")


def _refuse(wrong: np.ndarray, values: np.ndarray, message: str) -> None:
    if wrong.any():
        trial, step = np.argwhere(wrong)[0]
        where = f"step {step}" if wrong.shape[0] == 1 else f"trial {trial}, step {step}"
        raise ValueError(message.format(value=values[trial, step], where=where))


def _is_random(log_probs: np.ndarray) -> bool:
    """Whether at some step every arm has a chance, or two have different ones: more than ties among the best."""
    possible = np.isfinite(log_probs)
    uneven = possible & (log_probs < log_probs.max(axis=1, keepdims=True))
    return bool(uneven.any() or possible.all(axis=1).any())


@compiled
def _choices(policy: Policy, history: History) -> jax.Array:
    function = partial(choice_log_probs, policy, num_arms=history.num_arms)
    return (function if history.arms.ndim == 1 else jax.vmap(function))(history.arms, history.rewards)
