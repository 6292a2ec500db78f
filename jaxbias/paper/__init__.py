"""Every table and figure of the paper, ours beside theirs: one spec each, one runner, one renderer."""

from jaxbias.paper.render import write_reproduction as write_reproduction
from jaxbias.paper.run import SPECS as SPECS
from jaxbias.paper.run import Reproduction as Reproduction
from jaxbias.paper.run import reproduce as reproduce
