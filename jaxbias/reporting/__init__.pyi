from . import plots as plots
from .page import render_report as render_report
from .page import write_report as write_report
from .planning import render_plan as render_plan
from .planning import write_plan as write_plan

__all__: list[str]
