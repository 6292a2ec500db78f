"""Estimators: one file each, one result type."""

from jaxbias.estimators.conditional_mle import conditional_mle
from jaxbias.estimators.contrastive_divergence import ContrastiveDivergence
from jaxbias.estimators.estimate import Estimate

__all__ = ["ContrastiveDivergence", "Estimate", "conditional_mle"]
