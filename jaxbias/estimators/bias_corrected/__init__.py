"""An estimate less its simulated bias; `estimator.py` is the entry."""

from jaxbias.estimators.bias_corrected.estimator import bias_corrected as bias_corrected
