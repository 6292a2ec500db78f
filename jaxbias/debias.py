"""From a log to a corrected estimate: does the policy fit, what does every method say, which one to believe."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from jaxbias.advice import best_arm, recommend, sigma_sentence
from jaxbias.analysis import Analysis
from jaxbias.estimators import Comparison, compare
from jaxbias.estimators.bias_at import ArmBias, bias_at
from jaxbias.estimators.checks import check_history, check_level, check_log
from jaxbias.estimators.compare import METHODS
from jaxbias.estimators.spread import check_spread, sigma_of_arm, spread_of
from jaxbias.fit import check_fit
from jaxbias.history import History
from jaxbias.io import Log, read_log
from jaxbias.policies import Policy, Thompson, check_policy
from jaxbias.rewards import EACH, Bernoulli, Family, Normal, lacks_sigma
from jaxbias.stopping import StoppingRule
from jaxbias.tuning import fit_settings

LONGEST = 2**20  # steps of a log that is simulated over and over: minutes; beyond, hours
PATHS, FEW_PATHS = 2**14, 2**11  # trials that mean matching simulates, for standard errors known to 1%; where a step is dear
WORK = 2**31  # steps of all trials together, for some 20 seconds a time
SIMULATES = ("conditional_mle", "mean_matching")
INTEGRALS = 2**16  # steps x arms^2 for which Thompson's conditional likelihood is integrated unasked: a minute; beyond, many
BETA_INTEGRALS = 2**14  # likewise for BetaThompson, which integrates for every particle
BIAS_STEPS = 2**28  # steps x arms x trials for the estimated bias: a few seconds
BIAS_TRIALS = (2**11, 2**14)  # at least, at most: a Monte Carlo error of a fiftieth to a hundredth of a sample mean's spread


def debias(
    key: PRNGKeyArray,
    log: Any,
    policy: Policy | None,
    family: Family | None = None,
    *,
    methods: Sequence[str] | None = None,
    level: float = 0.95,
    fit: Sequence[str] = (),
    opening: Literal["forced", "chosen"] = "forced",
    allocation: Literal["independent", "shares"] = "independent",
    stop: StoppingRule | None = None,
    num_steps: int | None = None,
    progress: Callable[[str], None] | None = None,
    **reading: Any,
) -> Analysis:
    """Everything about one log of an adaptive experiment. It computes in float64, whatever JAX is set to.

    Arguments:
        key: a `jax.random.key`.
        log: a `Log`, or what `read_log` reads: a pandas data frame, the name of a file, an open one.
        policy: how the arms were chosen; None where it is not known.
        family: what the rewards are. Without it, Bernoulli where every reward is 0 or 1, else Normal; where its sigma is None
            (one for all arms) or "each" (one for each), it is estimated.
        methods: names of the estimators to try; without it all, but for `data_splitting` where no rewards were held out, and
            `batched_ols` where there are no batches.
        level: of the intervals.
        fit: settings of the policy to be estimated from the log first: "tau", "epsilon".
        opening: whether the first pull of each arm, or all of the first batch, was forced, or chosen by the policy like the
            others. A log that says which pulls were forced needs it not.
        allocation: how a batch was shared out, where the log has batches: each choice drawn on its own, or "shares" rounded to
            whole numbers.
        stop, num_steps: the rule that could end the experiment, and how many steps it could have had, as in `mean_matching`.
        progress: called with a few words before each part of the work.
        reading: what else `read_log` takes.

    >>> import jax, pandas, jaxbias as jb
    >>> history = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.75], num_steps=16)
    >>> frame = pandas.DataFrame({"arm": history.arms, "reward": history.rewards})
    >>> analysis = jb.debias(jax.random.key(1), frame, jb.Greedy(), jb.Normal(sigma=1.0))
    >>> analysis.recommended.method, analysis.fit.verdict
    ('mean_matching', 'fits')
    """
    tell = progress or (lambda _: None)
    check_level(level)
    if not isinstance(log, Log):
        tell("reading the log")
        log = read_log(log, **reading)
    with jax.enable_x64(True):
        log, ending = _opened(log, opening, allocation), Ending(stop, num_steps)
        return _analyse(key, log, policy, family, methods, level, tuple(fit), ending, tell)


class Ending(NamedTuple):
    """The rule that could stop an experiment, and how many steps it could have had."""

    stop: StoppingRule | None
    num_steps: int | None


def _opened(log: Log, opening: str, allocation: str) -> Log:
    """The log with its forced pulls: as it says itself, or none, or as `History` has it; and with how its batches were shared."""
    if opening not in ("forced", "chosen"):
        raise ValueError(f"opening is {opening!r}; allowed: 'forced' or 'chosen'")
    if allocation != "independent":
        if log.history.batch_sizes is None:
            raise ValueError(f"allocation is {allocation!r} and the log has no batches; allowed: a log with a column 'batch'")
        log = dataclasses.replace(log, history=dataclasses.replace(log.history, allocation=allocation))
    if opening == "forced" or log.history.forced is not None:
        return log
    return dataclasses.replace(log, history=dataclasses.replace(log.history, forced=np.zeros(log.history.num_steps, bool)))


def _analyse(
    key: PRNGKeyArray,
    log: Log,
    policy: Any,
    family: Any,
    methods: Sequence[str] | None,
    level: float,
    fit: tuple[str, ...],
    ending: Ending,
    tell: Callable[[str], None],
) -> Analysis:
    history = log.history
    family, assumed = _family_of(history, policy, family)
    if policy is not None:
        check_policy(policy, history.num_arms)
    check_log(history, family, level)
    if lacks_sigma(family):
        check_spread(check_history(history), family)
    fit_key, table_key, bias_key = (jax.random.fold_in(key, purpose) for purpose in range(3))
    fitted, found = {}, None
    if policy is not None:
        tell("replaying the policy")
        if fit:
            policy, fitted, _ = fit_settings(history, policy, fit, level=level)
        found = check_fit(fit_key, history, policy)
    table = _compare(table_key, log, policy, family, methods, level, ending, tell)
    recommended = recommend(table, policy, found, log.labels)
    estimate = table.estimates[recommended.method]
    if lacks_sigma(family):
        assumed = (*assumed, sigma_sentence(table, recommended.method, family, log.labels, _within(history, family)))
        family = Normal(sigma=_estimated(estimate, _within(history, family)))
    warnings = (*log.notes, *assumed)
    sound = policy is None or (recommended.corrects and found is not None and found.fits)
    return Analysis(
        log=log,
        policy=policy,
        family=family,
        fitted=fitted,
        fit=found,
        table=table,
        recommended=recommended,
        bias=_bias(bias_key, log, policy, family, estimate.mean, ending, tell) if recommended.corrects else None,
        best=best_arm(estimate, level),
        warnings=warnings,
        trusted=sound and bool(np.all(np.asarray(estimate.converged)[table.pulls > 0])),
    )


def _family_of(history: History, policy: Any, family: Any) -> tuple[Any, tuple[str, ...]]:
    """The family, with a sigma that may be left to estimate, and what was assumed."""
    if family is not None:
        return family, ()
    rewards = np.asarray(history.rewards)
    if getattr(policy, "unit_rewards", False) or np.all((rewards == 0) | (rewards == 1)):
        return Bernoulli(), ("The family was not given; every reward is 0 or 1, so Bernoulli.",)
    return Normal(sigma=None), ("The family was not given; Normal was assumed.",)


def _within(history: History, family: Any) -> Any:
    """The standard deviation of the rewards within arms: a number, or one for each arm."""
    checked = check_history(history)
    spread = spread_of(checked, sigma_of_arm(family, history.num_arms))
    sigma = np.exp(np.asarray(spread.log_sigma(spread.freedom)))
    return sigma if family.sigma == EACH else float(sigma[0])


def _estimated(estimate: Any, within: Any) -> Any:
    """The sigma that the estimate found beside its means; where it looks for none, that within arms."""
    found = np.asarray(estimate.diagnostics.get("sigma", np.nan), np.float64)
    sigma = np.where(np.isnan(found), within, found)
    return sigma if sigma.ndim else float(sigma)


def _compare(
    key: PRNGKeyArray,
    log: Log,
    policy: Any,
    family: Any,
    methods: Sequence[str] | None,
    level: float,
    ending: Ending,
    tell: Callable[[str], None],
) -> Comparison:
    if methods is None:
        absent = {"data_splitting": log.history.held_out is None, "batched_ols": log.history.batch_sizes is None}
        methods = [name for name in METHODS if not absent.get(name, False)]
        left_out = _too_long(log.history, methods) | _too_slow(log.history, policy)
    else:
        left_out = _too_long(log.history, methods)
    methods = tuple(name for name in methods if name not in left_out)
    propensities = None if log.propensity is None else np.where(np.isnan(log.propensity), 1.0, log.propensity)
    options: dict[str, Any] = dict(methods=methods, level=level, propensities=propensities, progress=tell, **ending._asdict())
    scale = _within(log.history, family) if lacks_sigma(family) else None
    cheap = hasattr(policy, "sample") and log.history.allocation == "independent"
    num_paths = max(FEW_PATHS, min(PATHS, WORK // log.history.num_steps)) if cheap else FEW_PATHS
    table = compare(key, log.history, policy, family, scale=scale, num_paths=num_paths, **options)
    return dataclasses.replace(table, reasons={**table.reasons, **left_out})


def _too_long(history: History, methods: Sequence[str]) -> dict[str, str]:
    """The methods that a log of this length cannot have, with the reason."""
    steps = history.num_steps
    if steps <= LONGEST:
        return {}
    reason = f"the log has {steps:,} rows; allowed: {LONGEST:,}, as it simulates thousands of such logs (take the first)"
    return {name: reason for name in methods if name in SIMULATES}


def _too_slow(history: History, policy: Any) -> dict[str, str]:
    """What is left out unless it is asked for."""
    looks, name = history.num_steps, type(policy).__name__
    if history.batch_sizes is not None and name == "Thompson":
        looks = len(history.batch_sizes) * history.num_arms
    work, closed_form = looks * history.num_arms**2, isinstance(policy, Thompson) and history.num_arms < 3
    most = {"Thompson": INTEGRALS, "BetaThompson": BETA_INTEGRALS}.get(name, work)
    if closed_form or work <= most:
        return {}
    reason = f"steps x arms^2 is {work:,}; allowed with {name} unless the method is asked for by name: {most:,}, a minute"
    return {"conditional_mle": reason}


def _bias(key: Any, log: Log, policy: Any, family: Any, mean: Any, ending: Ending, tell: Callable[[str], None]) -> ArmBias | None:
    """At the recommended means, where the policy is known and the log not too long to be simulated."""
    history = log.history
    if policy is None or history.num_steps > LONGEST:
        return None
    tell("simulating the bias")
    trials = int(np.clip(BIAS_STEPS // (history.num_steps * history.num_arms), *BIAS_TRIALS))
    return bias_at(key, history, policy, family, mean, num_trials=trials, **ending._asdict())
