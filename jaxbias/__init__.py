"""jaxbias: measure and remove the bias of adaptively collected data.

The public names are in `__init__.pyi`. Each is loaded when it is first used, so that the command line can answer `--help` without
importing JAX.
"""

import os
import sys
from typing import Any

_PROGRAM = os.path.basename(sys.argv[0]).removesuffix(".exe") if sys.argv else ""
if _PROGRAM == "jaxbias" or (_PROGRAM == "-m" and "jaxbias" in sys.orig_argv):  # Ctrl-C ends the program while it imports too
    from jaxbias._core.interrupting import end_on_interrupt
    from jaxbias._core.streams import open_closed_streams

    open_closed_streams()
    end_on_interrupt()

import lazy_loader  # noqa: E402

from jaxbias._core.version import __version__ as __version__  # noqa: E402

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

_MOVED = {  # names that were here in the first version, by the subpackage that has them now
    "analysis.findings": ("Analysis",),
    "bias": (
        "ArmBias",
        "BiasSources",
        "BiasSummary",
        "bias_at",
        "check_exploit",
        "check_iio",
        "exact_bias",
        "exact_distribution",
    ),
    "estimators.compare": ("Comparison",),
    "estimators.conditional_mle": ("Sampler",),
    "examples": ("list_examples", "load_example"),
    "logs": ("Log", "to_arviz", "write_log"),
    "paper": ("reproduce", "write_reproduction"),
    "plots": ("plot_bias", "plot_estimates", "plot_fit", "plot_running_means"),
    "policies": (
        "ArmStatistics",
        "BetaExplorationSampling",
        "ExplorationSampling",
        "IndexPolicy",
        "Policy",
        "StatisticsPolicy",
    ),
    "policy_fit": ("PolicyFit", "Tuning", "fit_settings"),
    "reporting": ("render_report",),
    "rewards": ("Family",),
}


def __getattr__(name: str) -> Any:
    if name == "STATUS":
        raise AttributeError("jaxbias.STATUS is now the enumeration jaxbias.Status")
    place = next((place for place, names in _MOVED.items() if name in names), None)
    if place is not None:
        raise AttributeError(f"jaxbias.{name} is now in jaxbias.{place}")
    return _load(name)
