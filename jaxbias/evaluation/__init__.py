"""How any method does in a given experiment; `evaluating.py` is the entry, `figures.py` has the result."""

from jaxbias.evaluation.evaluating import evaluate as evaluate
from jaxbias.evaluation.figures import Evaluation as Evaluation
from jaxbias.evaluation.figures import MethodFigures as MethodFigures
from jaxbias.evaluation.like_log import evaluate_like as evaluate_like
