"""How long the next experiment must be, and under which policy; `entry.py` is the entry, `results.py` has the result."""

from jaxbias.planning.entry import plan as plan
from jaxbias.planning.results import Design as Design
from jaxbias.planning.results import Plan as Plan
from jaxbias.planning.results import Target as Target
