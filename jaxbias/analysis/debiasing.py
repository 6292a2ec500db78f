"""From a log to a corrected estimate: whether the policy fits, what every method estimates, and which one to believe."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from jaxbias._core.door import public
from jaxbias._core.errors import ArgumentError
from jaxbias._core.randomness import key_words
from jaxbias.analysis.assumptions import assume_family, assume_sigma, estimated_sigma, sigma_within_arms
from jaxbias.analysis.best_arm import find_best_arm
from jaxbias.analysis.candidates import evaluate_candidates
from jaxbias.analysis.clusters import measure_clusters, widen
from jaxbias.analysis.decisions import Decisions, decide, find_control, shrinks
from jaxbias.analysis.drift import Drift, find_drift
from jaxbias.analysis.few_pulls import find_few_pulls
from jaxbias.analysis.findings import Analysis, Checked, Distrust, Recommendation
from jaxbias.analysis.influence import find_influence
from jaxbias.analysis.limits import bias_trials, check_longest, evaluated_logs, interval_paths, matching_paths, too_long, too_slow
from jaxbias.analysis.misfits import find_log_causes
from jaxbias.analysis.recommendation import converged_for_all, recommend, to_evaluate, uses_wrong_weights
from jaxbias.analysis.two_rewards import answer_for, policy_log
from jaxbias.analysis.waiting import Clock, Progress, Stage, by_worth, expected_seconds
from jaxbias.bias.at_given_means import ArmBias, bias_at
from jaxbias.estimators.checks import check_level, check_log
from jaxbias.estimators.compare import Comparison, check_methods, compare, missing_needs
from jaxbias.estimators.registry import METHODS
from jaxbias.estimators.sigma import check_spread
from jaxbias.evaluation import Evaluation
from jaxbias.history import History, check_history
from jaxbias.logs import Log, read_log
from jaxbias.logs.batching import in_batches
from jaxbias.policies import Policy, check_policy, complete_policy
from jaxbias.policy_fit.check import PolicyFit, check_fit
from jaxbias.policy_fit.delays import check_delays
from jaxbias.policy_fit.tuning import Fitted, fit_settings
from jaxbias.policy_fit.weights import WeightsCheck, check_propensities, check_weights
from jaxbias.rewards import Family, Normal, UnknownSigma, complete_family
from jaxbias.stopping import StoppingRule


@public
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
    batch_size: int | None = None,
    control: Any = None,
    evaluate: bool = True,
    progress: Callable[[Progress], None] | None = None,
    budget: float | None = None,
    **reading: Any,
) -> Analysis:
    """Analyses one log of an adaptive experiment. It computes in float64, whatever JAX is set to.

    Arguments:
        key: a `jax.random.key`.
        log: a `Log`, or what `read_log` reads: a pandas data frame, the name of a file, an open file.
        policy: how the arms were chosen; None where it is not known.
        family: what the rewards are. By default Bernoulli where every reward is 0 or 1, otherwise Normal. If its sigma is None
            (one for all arms) or "each" (one for each arm), sigma is estimated.
        methods: names of the estimators to try. By default all, except `data_splitting` where no rewards were held out, and
            `batched_ols` where there are no batches.
        level: of the intervals.
        fit: settings of the policy to be estimated from the log first: "tau", "epsilon", "floor".
        opening: whether the first pull of each arm, or the whole first batch, was forced, or chosen by the policy like the
            others. It is not needed if the log marks forced pulls.
        allocation: how the pulls of a batch were allocated, where the log has batches: each choice drawn independently, or
            "shares", the probabilities rounded to whole numbers.
        stop, num_steps: the rule that could end the experiment, and how many steps it could have had, as in `mean_matching`.
        batch_size: how many rows were chosen at once, where the log does not say.
        control: the label of an arm that every other one is compared with.
        evaluate: whether to simulate logs like this one at the estimates and recommend the method that does best on them; without
            it, or in a log too long for that, the recommendation is the method that assumes the least.
        progress: called before each part of the work with its name, a `Progress`: a `Stage` or the name of a method, which also
            says the time left and, as soon as it is known, whether the policy fits.
        budget: seconds that are spent on the methods, the most useful first. A part that would probably end later is left
            out, and `left_out` of the result names it; a part that has begun is not interrupted.
        reading: other arguments of `read_log`.

    >>> import jax, pandas, jaxbias as jb
    >>> history = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.75], num_steps=16)
    >>> frame = pandas.DataFrame({"arm": history.arms, "reward": history.rewards})
    >>> analysis = jb.debias(jax.random.key(1), frame, jb.Greedy(), jb.Normal(sigma=1.0))
    >>> analysis.recommended.corrects, analysis.fit.fits
    (True, True)
    """
    clock = Clock(progress, budget)
    check_level(level)
    if not isinstance(log, Log):
        clock.start(Stage.READING)
        log = read_log(log, **reading)
    log = log if batch_size is None else in_batches(log, batch_size)
    with jax.enable_x64(True):
        ending = {"stop": stop, "num_steps": num_steps}
        request = Request(methods, level, fit, ending, evaluate, control, clock)
        prepared = _prepare(log, opening, allocation)
        return answer_for(key, _analyse(key, policy_log(prepared), policy, family, request), prepared)


class Request(NamedTuple):
    """What is asked about a log.

    Fields:
        methods: names of the estimators to try; None for all.
        level: of the intervals.
        fit: settings of the policy to be estimated first.
        ending: the rule that could stop the experiment, and how many steps it could have had.
        evaluate: whether the methods are evaluated on logs like this one, and decisions tested.
        control: the label of the arm that the others are compared with.
        clock: reports each part of the work, and knows the time that is left for it.
    """

    methods: Sequence[str] | None
    level: float
    fit: Sequence[str]
    ending: dict[str, Any]
    evaluate: bool
    control: Any
    clock: Clock


def _prepare(log: Log, opening: str, allocation: str) -> Log:
    """The log, with its forced pulls and the allocation of its batches."""
    if opening not in ("forced", "chosen"):
        raise ArgumentError("opening", opening, "'forced' or 'chosen'")
    if allocation != "independent":
        if log.history.batch_sizes is None:
            problem = f"is {allocation!r}, and the log has no batches"
            raise ArgumentError("allocation", allocation, problem=problem, remedy="add a column 'batch' to the log")
        log = dataclasses.replace(log, history=dataclasses.replace(log.history, allocation=allocation))
    if opening == "forced" or log.history.forced is not None:
        return log
    return dataclasses.replace(log, history=dataclasses.replace(log.history, forced=np.zeros(log.history.num_steps, bool)))


def _analyse(key: PRNGKeyArray, log: Log, policy: Any, family: Any, request: Request) -> Analysis:
    history = log.history
    family, assumptions = assume_family(history, policy, family)
    _check(history, policy, family, request.level)
    check_longest(request.ending["num_steps"])
    control = find_control(request.control, log)
    fit_key, comparison_key, bias_key, evaluation_key = (jax.random.fold_in(key, purpose) for purpose in range(4))
    policy, fitted, fit = _replay(fit_key, history, policy, request)
    if fit is not None:
        request.clock.start(Stage.CHECKED, Checked(policy=policy, fit=fit, log=log, labels=log.labels))
    comparison = _compare(comparison_key, log, policy, family, fit, request)
    clusters = None if log.cluster is None else measure_clusters(history.arms, history.rewards, log.cluster, history.num_arms)
    if clusters is not None:
        comparison = widen(comparison, clusters, complete_family(family).mean_range)
    evaluation = _evaluate(evaluation_key, history, policy, family, fit, comparison, request)
    weights = _check_logged(log, policy)
    recommended = recommend(comparison, policy, fit, evaluation, weights)
    estimate = comparison.estimates[recommended.method]
    if isinstance(family, UnknownSigma):
        within = sigma_within_arms(history, family)
        assumptions = (*assumptions, assume_sigma(comparison, recommended.method, family, within))
        family = Normal(sigma=estimated_sigma(estimate, within))
    decisions = _decide(jax.random.fold_in(key, 5), log, policy, family, fit, comparison, control, request)
    return Analysis(
        log=log,
        policy=policy,
        family=family,
        fitted=fitted,
        fit=fit,
        comparison=comparison,
        evaluation=evaluation,
        recommended=recommended,
        bias=_bias(bias_key, history, policy, family, estimate.mean, request) if _can_simulate(fit, recommended) else None,
        best=find_best_arm(estimate, request.level, decisions and decisions.ahead),
        few_pulls=find_few_pulls(comparison, family),
        assumptions=assumptions,
        distrust=_distrust(fit, recommended, comparison, weights),
        key_words=key_words(key),
        influence=find_influence(estimate, history, family, policy),
        causes=find_log_causes(log, policy, fit),
        weights=weights,
        decisions=decisions,
        delays=check_delays(history),
        clusters=clusters,
        drift=_drift(jax.random.fold_in(key, 4), log, policy, family, fit, estimate.mean, request),
        left_out=tuple(request.clock.left_out),
    )


def _check(history: History, policy: Any, family: Any, level: float) -> None:
    """Refuses a log, a policy and a family that do not go together."""
    if policy is not None:
        check_policy(policy, history.num_arms)
    check_log(history, family, level)
    if isinstance(family, UnknownSigma):
        check_spread(check_history(history), family)


def _replay(
    key: PRNGKeyArray, history: History, policy: Any, request: Request
) -> tuple[Any, dict[str, Fitted], PolicyFit | None]:
    """The policy with its fitted settings, these settings, and whether it explains the choices."""
    if policy is None:
        return None, {}, None
    request.clock.start(Stage.REPLAYING)
    fitted = {}
    if request.fit:
        try:
            policy, fitted, _ = fit_settings(history, policy, request.fit, level=request.level)
        except ArgumentError as error:
            raise error.renamed({"names": "fit"}) from error
    return policy, fitted, check_fit(key, history, policy)


def _check_logged(log: Log, policy: Any) -> WeightsCheck | None:
    """Whether the logged probabilities are right; None where there are none, or nothing to compare those of pulled arms with."""
    if log.weights is not None:
        return check_weights(log.history, log.weights, policy)
    if log.propensity is None or policy is None:
        return None
    return WeightsCheck(ratio=None, policy=check_propensities(log.history, log.propensity, policy))


def _compare(key: PRNGKeyArray, log: Log, policy: Any, family: Any, fit: PolicyFit | None, request: Request) -> Comparison:
    """Every method that was asked for, or else every one that applies and is fast enough."""
    history, methods, slow = log.history, request.methods, {}
    if methods is None:
        methods = [name for name, method in METHODS.items() if method.by_default and not missing_needs(method, history)]
        slow = too_slow(history, policy, family, fit)
    else:
        check_methods(methods)
    left_out = too_long(history, policy, family, methods) | slow
    methods = [name for name in methods if name not in left_out]
    fits = fit is not None and fit.fits
    request.clock.plan(expected_seconds(history, policy, family, by_worth(methods), fits, request.evaluate))
    comparison = compare(
        key,
        history,
        policy,
        family,
        methods=methods if request.clock.budget is None else by_worth(methods),
        level=request.level,
        propensities=log.recorded,
        scale=sigma_within_arms(history, family) if isinstance(family, UnknownSigma) else None,
        num_paths=matching_paths(history, policy, family),
        interval_paths=interval_paths(history, policy, family),
        progress=request.clock.start,
        **request.ending,
    )
    estimates = {name: comparison.estimates[name] for name in METHODS if name in comparison.estimates}
    return dataclasses.replace(comparison, estimates=estimates, reasons=comparison.reasons | left_out)


def _evaluate(
    key: PRNGKeyArray,
    history: History,
    policy: Any,
    family: Any,
    fit: PolicyFit | None,
    comparison: Comparison,
    request: Request,
) -> Evaluation | None:
    """How the methods do on logs simulated at the estimates; None where there is nothing to correct, or no choice, or no time."""
    number, methods = evaluated_logs(history, policy, family), to_evaluate(comparison, request.methods or ())
    known = fit is not None and fit.fits and complete_policy(policy).is_adaptive
    unpulled = bool(np.any(comparison.pulls == 0))
    if not (request.evaluate and known and number) or unpulled or len(set(methods) - {"sample_mean"}) < 2:
        return None
    if not request.clock.has_room(Stage.EVALUATING):
        return None
    request.clock.start(Stage.EVALUATING)
    return evaluate_candidates(key, history, policy, family, comparison, methods, number, **request.ending)


def _can_simulate(fit: PolicyFit | None, recommended: Recommendation) -> bool:
    """Whether the policy fits and the means are corrected, so that logs simulated at them are like this one."""
    return fit is not None and fit.fits and recommended.corrects


def _bias(key: PRNGKeyArray, history: History, policy: Any, family: Any, mean: Any, request: Request) -> ArmBias | None:
    """At the recommended means; None where the policy is not known, or the log is too long to be simulated."""
    num_trials = bias_trials(history, policy, family)
    if policy is None or not num_trials or not request.clock.has_room(Stage.SIMULATING):
        return None
    request.clock.start(Stage.SIMULATING)
    return bias_at(key, history, policy, family, mean, num_trials=num_trials, **request.ending)


def _decide(
    key: PRNGKeyArray,
    log: Log,
    policy: Any,
    family: Any,
    fit: PolicyFit | None,
    comparison: Comparison,
    control: int | None,
    request: Request,
) -> Decisions | None:
    """Tests by simulation where the policy fits and test inversion ran; they allow neither for clusters nor for two rewards."""
    simple = log.cluster is None and log.history.policy_rewards is None
    if not (request.evaluate or control is not None) or not simple or not shrinks(family):
        return None
    known = fit is not None and fit.fits and "test_inversion" in comparison.estimates
    if known and not request.clock.has_room(Stage.TESTING):
        return None
    request.clock.start(Stage.TESTING)
    paths = interval_paths(log.history, policy, family)
    return decide(key, log.history, policy, family, control, request.level, known, paths, **(request.ending if known else {}))


def _drift(
    key: PRNGKeyArray, log: Log, policy: Any, family: Any, fit: PolicyFit | None, mean: Any, request: Request
) -> Drift | None:
    """Whether the means change over time; rewards of a cluster, which follow each other, would look like a change."""
    checkable = fit is not None and fit.fits and log.cluster is None
    return find_drift(key, log.history, policy, family, mean, checkable, **request.ending)


def _distrust(
    fit: PolicyFit | None, recommended: Recommendation, comparison: Comparison, weights: WeightsCheck | None
) -> tuple[Distrust, ...]:
    """The reasons not to trust the recommended figures. Without a policy nothing more than intervals is promised."""
    estimate = comparison.estimates[recommended.method]
    reasons = {
        Distrust.POLICY_DOES_NOT_FIT: fit is not None and not fit.fits,
        Distrust.NOT_CORRECTED: fit is not None and not recommended.corrects,
        Distrust.NOT_CONVERGED: not converged_for_all(estimate, comparison.pulls),
        Distrust.WEIGHTS_OFF: uses_wrong_weights(recommended, weights),
    }
    return tuple(reason for reason, holds in reasons.items() if holds)
