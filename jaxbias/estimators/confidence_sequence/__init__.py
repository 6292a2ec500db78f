"""Confidence sequences; `estimator.py` is the entry."""

from jaxbias.estimators.confidence_sequence.estimator import confidence_sequence as confidence_sequence
