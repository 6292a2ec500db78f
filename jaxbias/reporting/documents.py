"""Results as JSON documents, for programs."""

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jaxbias._core.errors import NameOf

if TYPE_CHECKING:
    from jaxbias.analysis.findings import Analysis, BestArm, Influence
    from jaxbias.bias.measured import BiasSummary
    from jaxbias.evaluation import Evaluation
    from jaxbias.policy_fit.check import PolicyFit


def to_json(document: Any) -> str:
    """One JSON document; a number that is not finite is null."""
    return json.dumps(_plain(document), allow_nan=False)


def _plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def bias_document(summary: "BiasSummary") -> dict[str, Any]:
    """The figures of a summary by name."""
    return {name: value for name, value in summary._asdict().items() if value is not None}


def evaluation_document(evaluation: "Evaluation", name_of: NameOf = str) -> dict[str, Any]:
    """The figures of every method by name."""
    return {
        "methods": {name: figures._asdict() for name, figures in evaluation.methods.items()},
        "not_applicable": {name: why.describe(name_of) for name, why in evaluation.reasons.items()},
        "pulls": evaluation.pulls,
        "trials": evaluation.num_trials,
        "level": evaluation.level,
    }


def debias_document(analysis: "Analysis", name_of: NameOf = str) -> dict[str, Any]:
    """All figures of an analysis by name; `name_of` says how its reader calls an argument of the library."""
    from jaxbias.reporting.answer import answer_sentence  # here, as these modules import JAX
    from jaxbias.reporting.assumptions import warnings_of
    from jaxbias.reporting.clusters import cluster_document
    from jaxbias.reporting.decisions import contrasts_document, decisions_document
    from jaxbias.reporting.drift import drift_document
    from jaxbias.reporting.recommendation import describe_reason
    from jaxbias.reporting.sentences import describe_distrust, sentences
    from jaxbias.reporting.weights import weights_document

    recommended, best, fit, labels = analysis.recommended, analysis.best, analysis.fit, analysis.labels
    why = describe_reason(recommended, labels)
    means_from = {} if recommended.means_from is None else {"means_from": recommended.means_from}
    return {
        "log": {"name": analysis.log.name, "rows": analysis.log.history.num_steps},
        "arms": [_arm_document(analysis, arm) for arm in range(len(labels))],
        "evaluation": analysis.evaluation and evaluation_document(analysis.evaluation, name_of),
        "recommended": {"method": recommended.method, "why": why, "corrects": recommended.corrects, **means_from},
        "best": best and _best_document(best, labels),
        "contrasts": contrasts_document(analysis),
        "decisions": decisions_document(analysis),
        "bias_trials": analysis.bias and analysis.bias.num_trials,
        "fit": fit and _fit_document(fit, labels),
        "weights": weights_document(analysis),
        "fitted": {name: value._asdict() for name, value in analysis.fitted.items()},
        "not_applicable": {name: why.describe(name_of) for name, why in analysis.comparison.reasons.items()},
        "influence": analysis.influence and _influence_document(analysis.influence, labels),
        "policy_reward": analysis.policy_reward and analysis.policy_reward._asdict(),
        "delays": analysis.delays and analysis.delays._asdict(),
        "clusters": analysis.clusters and cluster_document(analysis.clusters, labels),
        "drift": analysis.drift and drift_document(analysis.drift, labels),
        "left_out": analysis.left_out,
        "level": analysis.comparison.level,
        "trusted": analysis.trusted,
        "distrust": describe_distrust(analysis),
        "warnings": warnings_of(analysis),
        "answer": answer_sentence(analysis),
        "sentences": sentences(analysis, name_of),
        "causes": [dataclasses.asdict(cause) for cause in analysis.causes],
    }


def _best_document(best: "BestArm", labels: Sequence[str]) -> dict[str, Any]:
    """The best arm, with the labels of the arms that are compared with it."""
    named = {"arm": labels[best.arm], "runner_up": labels[best.runner_up], "rivals": [labels[arm] for arm in best.rivals]}
    return {**best._asdict(), **named, "clear": best.is_clear}


def _arm_document(analysis: "Analysis", arm: int) -> dict[str, Any]:
    from jaxbias.reporting.statuses import describe_status

    figures = ("mean", "stderr", "lower", "upper", "converged")
    estimates = {
        method: {**{name: getattr(estimate, name)[arm] for name in figures}, "status": describe_status(analysis, method, arm)}
        for method, estimate in analysis.comparison.estimates.items()
    }
    document = {"arm": analysis.labels[arm], "pulls": analysis.comparison.pulls[arm], "estimates": estimates}
    if analysis.bias is not None:
        document |= {"bias": analysis.bias.bias[arm], "bias_stderr": analysis.bias.stderr[arm]}
    return document


def _influence_document(influence: "Influence", labels: tuple[str, ...]) -> dict[str, Any]:
    """The rows that move the estimates most, and the estimates that one row carries; without the table of all rows."""
    name = lambda row: {**row._asdict(), "arm": labels[row.arm], "estimate_of": labels[row.estimate_of]}
    carried = [{"arm": labels[one.arm], "row": name(one.row), "alone": one.alone} for one in influence.carried]
    return {"rows": [name(row) for row in influence.rows], "carried": carried}


def _fit_document(fit: "PolicyFit", labels: tuple[str, ...]) -> dict[str, Any]:
    """Without the simulated totals, which are thousands of numbers."""
    figures = {name: value for name, value in fit._asdict().items() if name != "simulated"}
    surprises = [
        {**surprise._asdict(), "arm": labels[surprise.arm], "likeliest_arm": labels[surprise.likeliest_arm]}
        for surprise in fit.surprises
    ]
    return {**figures, "surprises": surprises, "fits": fit.fits}
