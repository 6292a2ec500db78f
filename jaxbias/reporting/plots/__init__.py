"""Plots of a log and of its estimates, for a notebook or, as SVG, for a page."""

from jaxbias.reporting.plots.answer import plot_answer as plot_answer
from jaxbias.reporting.plots.bias import plot_bias as plot_bias
from jaxbias.reporting.plots.canvas import to_png as to_png
from jaxbias.reporting.plots.contrasts import plot_contrasts as plot_contrasts
from jaxbias.reporting.plots.estimates import plot_estimates as plot_estimates
from jaxbias.reporting.plots.evaluation import plot_evaluation as plot_evaluation
from jaxbias.reporting.plots.fit import plot_fit as plot_fit
from jaxbias.reporting.plots.influence import plot_influence as plot_influence
from jaxbias.reporting.plots.plan import plot_plan as plot_plan
from jaxbias.reporting.plots.running_means import plot_running_means as plot_running_means
from jaxbias.reporting.plots.svg import to_svg as to_svg
