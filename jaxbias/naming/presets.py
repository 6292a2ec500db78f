"""The documented defaults of public bandit tools, by name: `--preset NAME` stands for a policy and its settings.

A preset is here only if the settings were read in the tool's own source or documentation, of the release named with it, and if a
policy of this package chooses with the same probabilities. What a preset cannot know, such as how often the weights were updated,
is in its note.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from jaxbias._core.errors import ArgumentError
from jaxbias.naming.names import PolicyName, Ties


class Preset(NamedTuple):
    """The defaults of a tool.

    Fields:
        policy: the policy.
        settings: its settings that the tool fixes, by name.
        tool: the tool and its release.
        source: where the settings were read, with its date.
        note: what else has to be given.
    """

    policy: PolicyName
    settings: Mapping[str, Any]
    tool: str
    source: str
    note: str = ""


class PresetName(StrEnum):
    """The names of the presets."""

    google_content_experiments = "google-content-experiments"
    growthbook = "growthbook"
    obp_bernoulli_ts = "obp-bernoulli-ts"
    mabwiser_epsilon_greedy = "mabwiser-epsilon-greedy"
    mabwiser_thompson = "mabwiser-thompson"
    mabwiser_ucb1 = "mabwiser-ucb1"
    contextual_epsilon_greedy = "contextual-epsilon-greedy"
    contextual_thompson = "contextual-thompson"
    contextual_ucb1 = "contextual-ucb1"
    moe_epsilon_greedy = "moe-epsilon-greedy"


_UNIFORM_PRIOR = {"prior_success": [1.0], "prior_failure": [1.0]}
_MABWISER = ("MABWiser 2.7.4", "mabwiser/mab.py, August 2024")
_IN_ORDER = "the arms in the order of its list: name them in that order"
_CONTEXTUAL = ("contextual 0.9.8.4 (R)", "R/policy_mab_*.R, July 2020")

PRESETS = {
    PresetName.google_content_experiments: Preset(
        PolicyName.BetaThompson,
        _UNIFORM_PRIOR,
        "Google Analytics Content Experiments",
        "support.google.com/analytics/answer/2844870 and its appendix, 2013",
        "it updated the weights twice a day: name the batches",
    ),
    PresetName.growthbook: Preset(
        PolicyName.GrowthBook,
        {"floor": 0.01},
        "GrowthBook 5.0.1, bandits on a conversion metric",
        "packages/stats/gbstats/bayesian/bandits.py, August 2026",
        "it updates the weights daily unless told otherwise: name the batches; up to 4.4 (May 2026) it clipped weights at 0.01",
    ),
    PresetName.obp_bernoulli_ts: Preset(
        PolicyName.BetaThompson,
        _UNIFORM_PRIOR,
        "Open Bandit Pipeline (obp) 0.5.5, BernoulliTS",
        "obp/policy/contextfree.py, November 2022",
        "its batch_size is 1",
    ),
    PresetName.mabwiser_epsilon_greedy: Preset(
        PolicyName.EpsilonGreedy,
        {"epsilon": 0.1, "tau": 0.0, "ties": Ties.first},
        *_MABWISER,
        "the arms in the order of its list",
    ),
    PresetName.mabwiser_thompson: Preset(PolicyName.BetaThompson, _UNIFORM_PRIOR, *_MABWISER),
    PresetName.mabwiser_ucb1: Preset(PolicyName.UCB1, {"tau": 0.0, "ties": Ties.first}, *_MABWISER, _IN_ORDER),
    PresetName.contextual_epsilon_greedy: Preset(
        PolicyName.EpsilonGreedy, {"epsilon": 0.1, "tau": 0.0, "ties": Ties.random}, *_CONTEXTUAL
    ),
    PresetName.contextual_thompson: Preset(PolicyName.BetaThompson, _UNIFORM_PRIOR, *_CONTEXTUAL),
    PresetName.contextual_ucb1: Preset(PolicyName.UCB1, {"tau": 0.0, "ties": Ties.random}, *_CONTEXTUAL),
    PresetName.moe_epsilon_greedy: Preset(
        PolicyName.EpsilonGreedy,
        {"epsilon": 0.05, "tau": 0.0, "ties": Ties.random},
        "Yelp MOE, bandit endpoint epsilon-greedy",
        "moe/bandit/constant.py, January 2017",
        "it gives allocations: name the batches",
    ),
}


def with_preset(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, with the policy and the settings of a preset in its place; it cannot be combined with others of its policy.

    >>> with_preset({"preset": PresetName.moe_epsilon_greedy, "floor": 0.01})["epsilon"]
    0.05
    """
    rest = {name: value for name, value in settings.items() if name != "preset"}
    if settings.get("preset") is None:
        return rest
    name, preset = settings["preset"], PRESETS[settings["preset"]]
    for setting in ("policy", *preset.settings):
        if rest.get(setting) is not None:
            value = preset.policy if setting == "policy" else preset.settings[setting]
            raise _conflict(name, setting, value)
    return {**rest, "policy": preset.policy, **preset.settings}


def _conflict(name: PresetName, setting: str, value: Any) -> ArgumentError:
    [value] = value if isinstance(value, list) else [value]
    problem = lambda name_of: f"is {name}, which already has {name_of(setting)} {value}"
    remedy = lambda name_of: f"leave out one of {name_of('preset')} and {name_of(setting)}"
    return ArgumentError("preset", name, problem=problem, remedy=remedy)
