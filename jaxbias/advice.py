"""Which estimate to believe, which arm is best, and what to say about it: the words follow the numbers."""

from collections.abc import Iterable
from statistics import NormalDist
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxbias.analysis import Analysis, BestArm, Recommendation
from jaxbias.estimators import STATUS, Comparison, Estimate
from jaxbias.estimators.bias_at import ArmBias
from jaxbias.estimators.student import student_quantile
from jaxbias.fit import PolicyFit
from jaxbias.policies import Uniform
from jaxbias.rewards import Bernoulli

CLEAR = 3  # standard errors from 0 before a sign is called a finding: chance does that once in 370 times
LONGEST = 80  # characters of a label in a sentence: many begin and end alike
ALMOST_ALL = 0.95  # of an arm's pulls: weights that leave more are not worth a word
MOST_NAMED = 5  # arms in a sentence
FEW_PULLS = 5  # below this an arm's interval says little, and the words say so
# In order of what was measured: bias left, error and coverage over the settings of the paper (README).
BY_PREFERENCE = ("mean_matching", "conditional_mle", "adaptive_weighting", "data_splitting")
NEEDS_NO_POLICY = ("confidence_sequence", "data_splitting", "sample_mean")


def recommend(table: Comparison, policy: Any, fit: PolicyFit | None, labels: tuple[str, ...]) -> Recommendation:
    """The method to believe for this log, among those in the table."""
    if fit is None or not fit.fits:
        why = "the policy is not known" if fit is None else "the log does not look like the declared policy's"
        return _first(table, NEEDS_NO_POLICY, f"{why}, and this method does not use it")
    if isinstance(policy, Uniform) and "sample_mean" in table.estimates:
        why = "the arms were chosen without looking at the rewards: nothing to correct"
        return Recommendation("sample_mean", why, corrects=True)
    for method in BY_PREFERENCE:
        if method in table.estimates and _believed(table.estimates[method], table.pulls):
            return Recommendation(method, _why(method, table, labels), corrects=True)
    tried = " and ".join(method for method in BY_PREFERENCE if method in table.estimates)
    why = f"{tried} did not converge for every arm" if tried else "no method that uses the policy was tried or applies"
    return _first(table, NEEDS_NO_POLICY, f"{why}, and this one needs no policy")


def _first(table: Comparison, methods: Iterable[str], why: str) -> Recommendation:
    usable = [method for method in methods if method in table.estimates] or list(table.estimates)
    return Recommendation(usable[0], why, corrects=usable[0] == "data_splitting")


def _believed(estimate: Estimate, pulls: np.ndarray) -> bool:
    return bool(np.all(np.asarray(estimate.converged)[pulls > 0]))


def _why(method: str, table: Comparison, labels: tuple[str, ...]) -> str:
    reasons = {
        "mean_matching": "it uses all the policy says, and has the least error of the methods that do in every setting measured",
        "conditional_mle": "it uses all the policy says; mean_matching did not converge or was not asked for",
        "adaptive_weighting": "it needs the probabilities of the choices alone",
        "data_splitting": "it uses the held-out rewards, which the policy did not see",
    }
    parts = [reasons[method]]
    if method == "mean_matching" and "conditional_mle" not in table.estimates:
        parts[0] = "it needs the policy and neither noise in its choices nor a record of their probabilities"
    pulled = table.pulls[table.pulls > 0]
    few = [labels[arm] for arm in np.flatnonzero((table.pulls > 0) & (table.pulls < FEW_PULLS))]
    parts.append(f"it converged for every arm; the least pulled has {count_pulls(pulled.min())}" + _caution(few))
    weighting = table.estimates.get("propensity_weighting")
    if weighting is not None:
        effective = np.asarray(weighting.diagnostics["effective_sample_size"])[table.pulls > 0]
        worst = int(np.argmin(effective / pulled))
        label = labels[np.flatnonzero(table.pulls > 0)[worst]]
        if effective[worst] < ALMOST_ALL * pulled[worst]:
            pulls = f"the {count_pulls(pulled[worst])} of {quote(label)}"
            parts.append(f"propensity weighting would make {pulls} worth {_count(effective[worst])}")
    return "; ".join(parts)


def count_pulls(pulls: Any) -> str:
    """In words.

    >>> count_pulls(1), count_pulls(1234)
    ('1 pull', '1,234 pulls')
    """
    return f"{pulls:,} pull" + ("" if pulls == 1 else "s")


def _count(effective: float) -> str:
    return f"{effective:,.0f}" if effective >= 100 else f"{effective:.3g}"


def _caution(few: list[str]) -> str:
    return f" ({name_some(few)} too few for more than a wide interval)" if few else ""


def quote(label: str) -> str:
    """The label in quotes; of a long one the beginning and the end.

    >>> quote("A"), len(quote("a" * 1000))
    ("'A'", 82)
    """
    return repr(label if len(label) <= LONGEST else f"{label[: LONGEST // 2 - 1]}…{label[-LONGEST // 2 :]}")


def name_some(labels: Iterable[str], most: int = MOST_NAMED) -> str:
    """The labels in quotes, at most so many of them."""
    names = [quote(label) for label in labels]
    shown = names[:most] + ([f"{len(names) - most} more"] if len(names) > most else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}" if shown else ""


def best_arm(estimate: Estimate, level: float) -> BestArm | None:
    """The arm with the largest estimate and its margin over the next; None where there are not two to compare."""
    mean, stderr = (np.asarray(part, np.float64) for part in (estimate.mean, estimate.stderr))
    usable = np.flatnonzero(np.isfinite(mean))
    if len(usable) < 2:
        return None
    arm, runner_up = (int(place) for place in usable[np.argsort(-mean[usable], kind="stable")][:2])
    margin = float(mean[arm] - mean[runner_up])
    # Intervals that hold whatever the policy did, or are on one side: their difference is that of their ends.
    if estimate.method == "confidence_sequence" or _at_edge(estimate, (arm, runner_up)):
        lower, upper = np.asarray(estimate.lower, np.float64), np.asarray(estimate.upper, np.float64)
        ends = float(lower[arm] - upper[runner_up]), float(upper[arm] - lower[runner_up])
        return BestArm(arm, runner_up, margin, float(np.hypot(stderr[arm], stderr[runner_up])), *ends)
    variance = stderr[arm] ** 2 + stderr[runner_up] ** 2
    if "covariance" in estimate.diagnostics:
        variance -= 2 * float(np.asarray(estimate.diagnostics["covariance"])[arm, runner_up])
    error = float(np.sqrt(max(variance, 0.0)))
    half = _quantile(estimate, [arm, runner_up], level) * error
    return BestArm(arm, runner_up, margin, error, margin - half, margin + half)


def _quantile(estimate: Estimate, arms: Any, level: float) -> float:
    """Of the normal distribution, or of Student's with the fewer of the degrees of freedom of these arms."""
    if "freedom" not in estimate.diagnostics:
        return NormalDist().inv_cdf((1 + level) / 2)
    freedom = np.broadcast_to(estimate.diagnostics["freedom"], np.shape(estimate.mean))[arms].min()
    return float(student_quantile(level, jnp.asarray(int(np.nan_to_num(freedom))), jnp.result_type(float)))


def sigma_sentence(table: Comparison, method: str, family: Any, labels: tuple[str, ...], within: Any) -> str:
    """How large a sigma is that was not given, by the recommended method."""
    estimate = table.estimates[method]
    each = f"sigma was not given{', and each arm has its own' if family.sigma is not None else ''}"
    if "sigma" not in estimate.diagnostics:
        says = f"{each}; {_list_sigmas(labels, np.atleast_1d(within))} is the standard deviation within arms"
        return f"{says}, which confidence_sequence takes as known." if "confidence_sequence" in table.estimates else f"{says}."
    sigma, error = (np.atleast_1d(estimate.diagnostics[name]) for name in ("sigma", "sigma_stderr"))
    ratio = np.exp([_quantile(estimate, [arm], table.level) * part for arm, part in enumerate(error / sigma)])
    return f"{each}; {method} estimated it together with the means: {_list_sigmas(labels, sigma, sigma / ratio, sigma * ratio)}."


def _list_sigmas(labels: tuple[str, ...], sigma: np.ndarray, *ends: np.ndarray) -> str:
    """One number, or one with the label of each arm; with its interval where there is one."""
    said = [f"{value:.4g}" for value in sigma]
    if ends:
        intervals = [f" [{low:.4g}, {high:.4g}]" if low <= high else "" for low, high in zip(*ends, strict=True)]
        said = [value + interval for value, interval in zip(said, intervals, strict=True)]
    if len(sigma) == 1:
        return said[0]
    named = [f"{value} ({quote(label)})" for value, label in zip(said, labels, strict=True)]
    more = [f"{len(named) - MOST_NAMED} more"] if len(named) > MOST_NAMED else []
    return ", ".join([*named[:MOST_NAMED], *more])


def _at_edge(estimate: Estimate, arms: tuple[int, int]) -> bool:
    status = estimate.diagnostics.get("status")
    return status is not None and any(STATUS[int(np.asarray(status)[arm])].startswith("at the edge") for arm in arms)


def sentences(analysis: Analysis) -> list[str]:
    """What the figures say, in the order a reader needs it."""
    said = [fit_sentence(analysis), f"Recommended: {analysis.recommended.method}, because {analysis.recommended.why}."]
    said += [best_sentence(analysis), bias_sentence(analysis), doubt_sentence(analysis), few_sentence(analysis)]
    return [sentence for sentence in said if sentence]


def fit_sentence(analysis: Analysis) -> str:
    """Whether the log can come from the policy."""
    fit, name = analysis.fit, type(analysis.policy).__name__
    if fit is None:
        return "The policy that chose the arms was not given, so the methods that correct for it do not apply."
    if fit.verdict == "nothing to check":
        return f"Every pull was forced: the log says nothing for or against {name}."
    if fit.verdict == "impossible" and analysis.log.history.allocation == "shares":
        return (
            f"The log cannot come from {name} by shares: in batches with {fit.impossible:,} of its {fit.choices:,} choices an "
            "arm is off its share by one pull or more. What relies on the policy is not to be trusted."
        )
    if fit.verdict == "impossible":
        first = fit.surprises[0]
        arm = quote(analysis.labels[first.arm])
        return (
            f"The log cannot come from {name}: at step {first.step + 1} it pulls {arm}, which {name} never does there, and so at "
            f"{fit.impossible:,} of {fit.choices:,} choices. What relies on the policy is not to be trusted."
        )
    total = f"the log-probability of its {fit.choices:,} choices is {fit.log_prob:,.1f}"
    total = f"{total}, where {fit.expected:,.1f} ± {fit.deviation:,.1f}"
    if fit.verdict == "unlikely":
        likelihood = min(fit.p_value, fit.calibration_p_value)
        return (
            f"The log does not look like {name}'s: {total} is expected, and its choices are off in a way that chance makes "
            f"with probability {likelihood:.2g} at most. What relies on the policy is not to be trusted."
        )
    if fit.deviation == 0:
        return f"The choices are those of {name}, every one of {fit.choices:,}."
    return f"The choices fit {name}: {total} is expected (p = {fit.p_value:.2g})."


def best_sentence(analysis: Analysis) -> str:
    """The best arm and its margin."""
    best = analysis.best
    if best is None:
        return ""
    first, second = quote(analysis.labels[best.arm]), quote(analysis.labels[best.runner_up])
    clear, where = ("enough", "is above 0") if best.is_clear else ("not enough", "includes 0")
    says = f"{clear} to call it better (the {100 * analysis.table.level:g}% interval of the difference {where})"
    return (
        f"{first} has the largest estimate, {float(analysis.estimate.mean[best.arm]):.4g}, ahead of {second} by "
        f"{best.margin:.3g} [{best.lower:.3g}, {best.upper:.3g}], {says}."
    )


def bias_sentence(analysis: Analysis) -> str:
    """Which sample means are off on average, if the recommended estimates are right."""
    found = analysis.bias
    if found is None:
        return ""
    low, high, rest = bias_groups(found)
    groups = ((low, "too low"), (high, "too high"))
    groups = (*groups, (rest, f"within {CLEAR} standard errors of right"))
    parts = [f"{_name_all(analysis.labels, arms)} {word}" for arms, word in groups if len(arms)]
    return (
        f"If these estimates are right, the sample means of such a log are on average: {'; '.join(parts)} "
        f"(from {found.num_trials:,} simulated logs)."
    )


def _name_all(labels: tuple[str, ...], arms: np.ndarray) -> str:
    every = len(arms) == len(labels) > MOST_NAMED
    return f"all {len(arms)} arms" if every else name_some(labels[arm] for arm in arms)


def bias_groups(found: ArmBias) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The arms whose sample means are clearly too low, clearly too high, and neither."""
    low = found.bias < -CLEAR * found.stderr
    high = found.bias > CLEAR * found.stderr
    return np.flatnonzero(low), np.flatnonzero(high), np.flatnonzero(~low & ~high & np.isfinite(found.bias))


def few_sentence(analysis: Analysis) -> str:
    """What a log of successes and failures with hardly a pull of some arm can show, and what no method can make of it.

    By the intervals that hold whatever chose the arms.
    """
    pulls, safe = np.asarray(analysis.table.pulls), analysis.table.estimates.get("confidence_sequence")
    few = np.flatnonzero((pulls > 0) & (pulls < FEW_PULLS))
    if not len(few) or safe is None or not isinstance(analysis.family, Bernoulli):
        return ""
    lower, upper = np.asarray(safe.lower, np.float64), np.asarray(safe.upper, np.float64)
    level = f"{100 * analysis.table.level:g}%"
    known = [arm for arm in np.flatnonzero(pulls >= FEW_PULLS) if lower[arm] > 0]
    can = [f"the mean of {quote(analysis.labels[arm])} is above {lower[arm]:.2f}" for arm in known[:MOST_NAMED]]
    weakest = int(few[np.argmin(pulls[few])])
    label = quote(analysis.labels[weakest])
    cannot = (
        f"{label} has {count_pulls(pulls[weakest])}, so that its mean may be anything from {lower[weakest]:.2f} to "
        f"{upper[weakest]:.2f}, and one reward the other way would move its sample mean by {1 / pulls[weakest]:.2f}"
    )
    if known:
        rival = known[int(np.argmax(pulls[known]))]
        ends = lower[rival] - upper[weakest], upper[rival] - lower[weakest]
        cannot += f"; a lead of {quote(analysis.labels[rival])} over it from {ends[0]:.2f} to {ends[1]:.2f} goes with this log"
    shown = f"whatever chose the arms, {name_clauses(can)} ({level} each)" if can else "very little"
    return (
        f"What {count_pulls(pulls.sum())} can show: {shown}. What they cannot: {cannot}. More pulls of {label} would tell; "
        "another method would not."
    )


def name_clauses(clauses: list[str]) -> str:
    """Several clauses as one.

    >>> name_clauses(["a is 1", "b is 2", "c is 3"])
    'a is 1, b is 2 and c is 3'
    """
    return clauses[0] if len(clauses) == 1 else f"{', '.join(clauses[:-1])} and {clauses[-1]}"


def doubt_sentence(analysis: Analysis) -> str:
    """Arms whose recommended figures are not to be believed, and why."""
    method = analysis.recommended.method
    doubtful = [
        f"{quote(label)} ({analysis.status(method, arm)})"
        for arm, label in enumerate(analysis.labels)
        if not bool(np.asarray(analysis.estimate.converged)[arm])
    ]
    return f"Not to be believed: {', '.join(doubtful)}." if doubtful else ""
