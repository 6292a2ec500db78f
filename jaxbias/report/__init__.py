"""What the commands print: tables for people, JSON for programs."""

from jaxbias.report.bias import bias_document as bias_document
from jaxbias.report.bias import count_logged as count_logged
from jaxbias.report.bias import print_bias as print_bias
from jaxbias.report.checks import print_checks as print_checks
from jaxbias.report.common import to_json as to_json
from jaxbias.report.debias import debias_document as debias_document
from jaxbias.report.debias import print_debias as print_debias
from jaxbias.report.examples import print_examples as print_examples
from jaxbias.report.reproduction import print_reproduction as print_reproduction
from jaxbias.report.reproduction import reproduction_document as reproduction_document
