"""jaxbias: measure and remove the bias of adaptively collected data.

Names are loaded when first used, so that the command line can answer `--help` without importing JAX.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxbias.analysis import Analysis as Analysis
    from jaxbias.bias import BiasSummary as BiasSummary
    from jaxbias.bias import measure_bias as measure_bias
    from jaxbias.conditions import check_exploit as check_exploit
    from jaxbias.conditions import check_iio as check_iio
    from jaxbias.debias import debias as debias
    from jaxbias.devices import use_all_cores as use_all_cores
    from jaxbias.estimators import STATUS as STATUS
    from jaxbias.estimators import ArmBias as ArmBias
    from jaxbias.estimators import Comparison as Comparison
    from jaxbias.estimators import ContrastiveDivergence as ContrastiveDivergence
    from jaxbias.estimators import Estimate as Estimate
    from jaxbias.estimators import adaptive_weighting as adaptive_weighting
    from jaxbias.estimators import batched_ols as batched_ols
    from jaxbias.estimators import bias_at as bias_at
    from jaxbias.estimators import compare as compare
    from jaxbias.estimators import conditional_mle as conditional_mle
    from jaxbias.estimators import confidence_sequence as confidence_sequence
    from jaxbias.estimators import data_splitting as data_splitting
    from jaxbias.estimators import mean_matching as mean_matching
    from jaxbias.estimators import propensity_weighting as propensity_weighting
    from jaxbias.estimators import sample_mean as sample_mean
    from jaxbias.exact import exact_bias as exact_bias
    from jaxbias.exact import exact_distribution as exact_distribution
    from jaxbias.examples import list_examples as list_examples
    from jaxbias.examples import load_example as load_example
    from jaxbias.fit import PolicyFit as PolicyFit
    from jaxbias.fit import check_fit as check_fit
    from jaxbias.history import History as History
    from jaxbias.io import Log as Log
    from jaxbias.io import read_log as read_log
    from jaxbias.io import to_arviz as to_arviz
    from jaxbias.io import write_log as write_log
    from jaxbias.page import render_report as render_report
    from jaxbias.page import write_report as write_report
    from jaxbias.paper import reproduce as reproduce
    from jaxbias.paper import write_reproduction as write_reproduction
    from jaxbias.plots import plot_bias as plot_bias
    from jaxbias.plots import plot_estimates as plot_estimates
    from jaxbias.plots import plot_fit as plot_fit
    from jaxbias.plots import plot_running_means as plot_running_means
    from jaxbias.policies import UCB1 as UCB1
    from jaxbias.policies import ArmStatistics as ArmStatistics
    from jaxbias.policies import BetaExplorationSampling as BetaExplorationSampling
    from jaxbias.policies import BetaThompson as BetaThompson
    from jaxbias.policies import Clipped as Clipped
    from jaxbias.policies import EpsilonGreedy as EpsilonGreedy
    from jaxbias.policies import Exp3 as Exp3
    from jaxbias.policies import ExplorationSampling as ExplorationSampling
    from jaxbias.policies import Greedy as Greedy
    from jaxbias.policies import IndexPolicy as IndexPolicy
    from jaxbias.policies import LilUCB as LilUCB
    from jaxbias.policies import PlayTheWinner as PlayTheWinner
    from jaxbias.policies import Policy as Policy
    from jaxbias.policies import StatisticsPolicy as StatisticsPolicy
    from jaxbias.policies import Thompson as Thompson
    from jaxbias.policies import Transformed as Transformed
    from jaxbias.policies import Uniform as Uniform
    from jaxbias.rewards import Bernoulli as Bernoulli
    from jaxbias.rewards import Exponential as Exponential
    from jaxbias.rewards import Family as Family
    from jaxbias.rewards import Normal as Normal
    from jaxbias.rewards import Poisson as Poisson
    from jaxbias.sampling import Sampler as Sampler
    from jaxbias.simulate import simulate as simulate
    from jaxbias.sources import BiasSources as BiasSources
    from jaxbias.stopping import StopAtDifference as StopAtDifference
    from jaxbias.stopping import StopAtMean as StopAtMean
    from jaxbias.tuning import Tuning as Tuning
    from jaxbias.tuning import fit_settings as fit_settings

__version__ = "0.1.0"

_ROOMS = {
    "analysis": ("Analysis",),
    "bias": ("BiasSummary", "measure_bias"),
    "conditions": ("check_exploit", "check_iio"),
    "debias": ("debias",),
    "devices": ("use_all_cores",),
    "estimators": (
        "STATUS",
        "ArmBias",
        "Comparison",
        "ContrastiveDivergence",
        "Estimate",
        "adaptive_weighting",
        "batched_ols",
        "bias_at",
        "compare",
        "conditional_mle",
        "confidence_sequence",
        "data_splitting",
        "mean_matching",
        "propensity_weighting",
        "sample_mean",
    ),
    "exact": ("exact_bias", "exact_distribution"),
    "examples": ("list_examples", "load_example"),
    "fit": ("PolicyFit", "check_fit"),
    "history": ("History",),
    "io": ("Log", "read_log", "to_arviz", "write_log"),
    "page": ("render_report", "write_report"),
    "paper": ("reproduce", "write_reproduction"),
    "plots": ("plot_bias", "plot_estimates", "plot_fit", "plot_running_means"),
    "policies": (
        "UCB1",
        "ArmStatistics",
        "BetaExplorationSampling",
        "BetaThompson",
        "Clipped",
        "EpsilonGreedy",
        "Exp3",
        "ExplorationSampling",
        "Greedy",
        "IndexPolicy",
        "LilUCB",
        "PlayTheWinner",
        "Policy",
        "StatisticsPolicy",
        "Thompson",
        "Transformed",
        "Uniform",
    ),
    "rewards": ("Bernoulli", "Exponential", "Family", "Normal", "Poisson"),
    "sampling": ("Sampler",),
    "simulate": ("simulate",),
    "sources": ("BiasSources",),
    "stopping": ("StopAtDifference", "StopAtMean"),
    "tuning": ("Tuning", "fit_settings"),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = sorted(_ROOM_OF)


def __getattr__(name: str) -> Any:
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'jaxbias' has no attribute {name!r}")
    return getattr(import_module(f"jaxbias.{_ROOM_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


class _Package(ModuleType):
    """The package. Where a room has the name of its main function, as `simulate` has, the name means the function."""

    def __setattr__(self, name: str, value: Any) -> None:
        is_room = isinstance(value, ModuleType) and name in _ROOM_OF
        super().__setattr__(name, getattr(value, name) if is_room else value)


sys.modules[__name__].__class__ = _Package
