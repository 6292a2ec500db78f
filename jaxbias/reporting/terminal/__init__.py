"""What the commands print: tables and sentences for people, JSON for programs. Importing it does not import JAX."""

from jaxbias.reporting.documents import bias_document as bias_document
from jaxbias.reporting.documents import debias_document as debias_document
from jaxbias.reporting.documents import evaluation_document as evaluation_document
from jaxbias.reporting.documents import to_json as to_json
from jaxbias.reporting.planning import plan_document as plan_document
from jaxbias.reporting.terminal.bias import print_bias as print_bias
from jaxbias.reporting.terminal.checks import checks_document as checks_document
from jaxbias.reporting.terminal.checks import print_checks as print_checks
from jaxbias.reporting.terminal.debias import print_debias as print_debias
from jaxbias.reporting.terminal.evaluation import print_evaluation as print_evaluation
from jaxbias.reporting.terminal.examples import print_examples as print_examples
from jaxbias.reporting.terminal.planning import print_plan as print_plan
from jaxbias.reporting.terminal.presets import print_presets as print_presets
from jaxbias.reporting.terminal.propensities import print_propensities as print_propensities
from jaxbias.reporting.terminal.propensities import propensities_document as propensities_document
