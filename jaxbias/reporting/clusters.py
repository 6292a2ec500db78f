"""Rewards in clusters, in words and figures."""

from typing import TYPE_CHECKING, Any

import numpy as np

from jaxbias.reporting.formatting import count, number

if TYPE_CHECKING:
    from jaxbias.analysis.clusters import Clusters
    from jaxbias.analysis.findings import Analysis

VISIBLE = 1.005  # the widening from which on it is one percent or more


def cluster_sentence(analysis: "Analysis") -> str:
    """By how much the intervals were widened, and what that assumes; nothing where no clusters were named."""
    found = analysis.clusters
    if found is None:
        return ""
    widest = float(np.sqrt(found.design_effect.max()))
    said = f"The rewards come in {count(found.number)} clusters, whose rewards of one arm have the correlation "
    said += f"{number(found.correlation, 0.1)}"
    if widest < VISIBLE:
        return f"{said}: no interval had to be widened for it."
    said += (
        f". All intervals were widened by up to {number(100 * (widest - 1), 10)}% for it. That assumes that every two rewards "
    )
    said += "of a cluster are equally alike; the estimated biases do not allow for it."
    few = f" An arm has only {count(found.fewest)} of them, so that this correlation is uncertain."
    return said + (few if found.few else "")


def cluster_document(clusters: "Clusters", labels: tuple[str, ...]) -> dict[str, Any]:
    """The figures by name, with the labels of the arms."""
    arms = [
        {"arm": label, "design_effect": clusters.design_effect[arm], "robust_ratio": clusters.robust_ratio[arm]}
        for arm, label in enumerate(labels)
    ]
    return {"number": clusters.number, "correlation": clusters.correlation, "arms": arms}
