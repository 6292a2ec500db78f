"""What a plot can be given: its own kind of result, or an analysis that has one, with its labels."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from jaxbias._core.errors import ArgumentError
from jaxbias.analysis.findings import Analysis
from jaxbias.bias.at_given_means import ArmBias
from jaxbias.bias.measured import BiasSummary
from jaxbias.estimators.compare import Comparison
from jaxbias.estimators.estimate import Estimate

Labels = Sequence[str] | None
Kind = TypeVar("Kind")


def comparison_of(given: Any, labels: Labels) -> tuple[Comparison, Labels, str | None]:
    """The estimates side by side, their labels, and the recommended method; one estimate alone is a comparison too."""
    if isinstance(given, Analysis):
        return given.comparison, given.labels if labels is None else labels, given.recommended.method
    if isinstance(given, Estimate):
        pulls = np.asarray(given.diagnostics.get("pulls", np.zeros(np.shape(given.mean), int)))
        return Comparison(estimates={given.method: given}, reasons={}, pulls=pulls, level=float("nan")), labels, None
    return _checked(given, Comparison, "comparison"), labels, None


def bias_of(given: Any, labels: Labels) -> tuple[ArmBias, Labels]:
    """The bias of each arm."""
    if isinstance(given, BiasSummary):
        unknown = np.full(len(given.bias), np.nan)
        return ArmBias(mean=unknown, bias=given.bias, stderr=given.bias_stderr, num_trials=given.num_trials), labels
    return part_of(given, "bias", ArmBias, labels)


def part_of(given: Any, name: str, kind: type[Kind], labels: Labels, inside: str | None = None) -> tuple[Kind, Labels]:
    """The part of an analysis that a plot draws; refused where the analysis has none."""
    if not isinstance(given, Analysis):
        return _checked(given, kind, name), labels
    owner = given if inside is None else getattr(given, inside)
    found = None if owner is None else getattr(owner, name)
    if found is None:
        raise ArgumentError(name, problem=f"is not in this analysis: its {name} is None", remedy="there is nothing to draw")
    return found, given.labels if labels is None else labels


def _checked(given: Any, kind: type[Kind], name: str) -> Kind:
    if not isinstance(given, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        allowed = f"an Analysis or {article} {kind.__name__}"
        raise ArgumentError(name, allowed=allowed, problem=f"is of type {type(given).__name__}")
    return given
