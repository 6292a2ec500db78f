"""The conditional maximum likelihood estimator; `estimator.py` is the entry."""

from jaxbias.estimators.conditional_mle.contrastive_divergence import ContrastiveDivergence as ContrastiveDivergence
from jaxbias.estimators.conditional_mle.estimator import conditional_mle as conditional_mle
from jaxbias.estimators.conditional_mle.estimator import conditional_posterior as conditional_posterior
from jaxbias.estimators.conditional_mle.log_likelihood import conditional_log_likelihood as conditional_log_likelihood
from jaxbias.estimators.conditional_mle.markov_chains import Sampler as Sampler
