"""Estimators: one file each, one result type."""

from jaxbias.estimators.adaptive_weighting import adaptive_weighting
from jaxbias.estimators.batched_ols import batched_ols
from jaxbias.estimators.bias_at import ArmBias, bias_at
from jaxbias.estimators.compare import Comparison, compare
from jaxbias.estimators.conditional_mle import conditional_mle
from jaxbias.estimators.confidence_sequence import confidence_sequence
from jaxbias.estimators.contrastive_divergence import ContrastiveDivergence
from jaxbias.estimators.data_splitting import data_splitting
from jaxbias.estimators.estimate import STATUS, Estimate
from jaxbias.estimators.mean_matching import mean_matching
from jaxbias.estimators.propensity_weighting import propensity_weighting
from jaxbias.estimators.sample_mean import sample_mean

__all__ = [
    "STATUS",
    "ArmBias",
    "Comparison",
    "ContrastiveDivergence",
    "Estimate",
    "adaptive_weighting",
    "batched_ols",
    "bias_at",
    "compare",
    "conditional_mle",
    "confidence_sequence",
    "data_splitting",
    "mean_matching",
    "propensity_weighting",
    "sample_mean",
]
