"""Estimators: one file each, one result type."""

from jaxbias.estimators.conditional_mle import STATUS, conditional_mle
from jaxbias.estimators.contrastive_divergence import ContrastiveDivergence
from jaxbias.estimators.estimate import Estimate

__all__ = ["STATUS", "ContrastiveDivergence", "Estimate", "conditional_mle"]
