"""The unbiased estimate; `estimator.py` is the entry."""

from jaxbias.estimators.unbiased.estimator import unbiased as unbiased
