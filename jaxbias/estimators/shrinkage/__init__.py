"""Shrinkage; `estimator.py` is the entry."""

from jaxbias.estimators.shrinkage.estimator import shrinkage as shrinkage
