"""Mean matching; `estimator.py` is the entry."""

from jaxbias.estimators.mean_matching.estimator import mean_matching as mean_matching
