"""Differences of arms with intervals and p-values that allow for the adaptive choices; `estimator.py` is the entry."""

from jaxbias.estimators.contrasts.estimator import contrasts as contrasts
from jaxbias.estimators.contrasts.results import Contrasts as Contrasts
