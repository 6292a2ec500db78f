"""Intervals, medians and p-values by inverting simulated tests; `estimator.py` is the entry."""

from jaxbias.estimators.inversion.estimator import test_inversion as test_inversion
