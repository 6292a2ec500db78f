"""The bias of sample means: measured by simulation, exact for small problems, by its sources, and where it is proved."""

from jaxbias.bias.at_given_means import ArmBias as ArmBias
from jaxbias.bias.at_given_means import bias_at as bias_at
from jaxbias.bias.conditions import CheckResult as CheckResult
from jaxbias.bias.conditions import Counterexample as Counterexample
from jaxbias.bias.conditions import check_exploit as check_exploit
from jaxbias.bias.conditions import check_iio as check_iio
from jaxbias.bias.differentiable import expected_figures as expected_figures
from jaxbias.bias.exact import ExactDistribution as ExactDistribution
from jaxbias.bias.exact import exact_bias as exact_bias
from jaxbias.bias.exact import exact_distribution as exact_distribution
from jaxbias.bias.gradients import GradientSummary as GradientSummary
from jaxbias.bias.gradients import measure_gradient as measure_gradient
from jaxbias.bias.measured import BiasSummary as BiasSummary
from jaxbias.bias.measured import measure_bias as measure_bias
from jaxbias.bias.score_function import Figures as Figures
from jaxbias.bias.score_function import Sensitivity as Sensitivity
from jaxbias.bias.sources import BiasSources as BiasSources
