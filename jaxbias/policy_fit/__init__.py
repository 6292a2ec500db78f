"""Does the declared policy explain the log? Its choices replayed, and its noise estimated from them."""

from jaxbias.policy_fit.alternatives import Cause as Cause
from jaxbias.policy_fit.causes import LikelyCause as LikelyCause
from jaxbias.policy_fit.causes import find_causes as find_causes
from jaxbias.policy_fit.check import PolicyFit as PolicyFit
from jaxbias.policy_fit.check import check_fit as check_fit
from jaxbias.policy_fit.tuning import Tuning as Tuning
from jaxbias.policy_fit.tuning import fit_settings as fit_settings
from jaxbias.policy_fit.weights import WeightsCheck as WeightsCheck
from jaxbias.policy_fit.weights import check_propensities as check_propensities
from jaxbias.policy_fit.weights import check_weights as check_weights
from jaxbias.policy_fit.weights import policy_weights as policy_weights
