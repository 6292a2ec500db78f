"""The one list of settings: what each belongs to and which values it takes. Examples, configuration files and options read it."""

import enum
from enum import StrEnum
from typing import NamedTuple

from jaxbias.logs.header import NEEDED_OF_COUNTS, OPTIONAL, OPTIONAL_OF_COUNTS, REQUIRED, WEIGHTS
from jaxbias.naming.names import Allocation, BatchBy, FamilyName, Opening, PolicyName, Ties
from jaxbias.naming.presets import PresetName

FIT = "fit"  # in place of a number: estimated from the log
ESTIMATE, ESTIMATE_EACH = (
    "estimate",
    "estimate-each",
)  # in place of sigma: estimated from the log, one for all arms or one for each
COLUMNS_OF_PULLS = REQUIRED + OPTIONAL
COLUMNS_OF_COUNTS = tuple(role for role in NEEDED_OF_COUNTS + OPTIONAL_OF_COUNTS if role not in COLUMNS_OF_PULLS)
COLUMNS = (*COLUMNS_OF_PULLS, *COLUMNS_OF_COUNTS, WEIGHTS)


class Owner(enum.Enum):
    """What a setting belongs to."""

    POLICY = enum.auto()
    AROUND = enum.auto()  # what a platform puts around the policy
    FAMILY = enum.auto()
    STOPPING = enum.auto()
    DESIGN = enum.auto()  # the rest of how the log was collected
    READING = enum.auto()
    ANALYSIS = enum.auto()
    DESCRIPTION = enum.auto()


class Kind(enum.Enum):
    """Which values a setting takes."""

    CHOICE = enum.auto()
    FLAG = enum.auto()
    TEXT = enum.auto()
    TEXTS = enum.auto()
    NUMBER = enum.auto()
    COUNT = enum.auto()  # a whole number
    NUMBERS = enum.auto()  # one, or one for each arm
    COLUMN_NAMES = enum.auto()


class Setting(NamedTuple):
    """One setting.

    Fields:
        name: in a configuration file; the option has dashes for underscores.
        owner: what it belongs to.
        kind: which values it takes.
        choices: the values of a choice.
        words: what may stand in place of a number.
    """

    name: str
    owner: Owner
    kind: Kind
    choices: type[StrEnum] | None = None
    words: tuple[str, ...] = ()


_ALL = (
    Setting("policy", Owner.DESIGN, Kind.CHOICE, PolicyName),
    Setting("preset", Owner.DESIGN, Kind.CHOICE, PresetName),
    Setting("tau", Owner.POLICY, Kind.NUMBER, words=(FIT,)),
    Setting("ties", Owner.POLICY, Kind.CHOICE, Ties),
    Setting("epsilon", Owner.POLICY, Kind.NUMBER, words=(FIT,)),
    Setting("beta", Owner.POLICY, Kind.NUMBER),
    Setting("delta", Owner.POLICY, Kind.NUMBER),
    Setting("gamma", Owner.POLICY, Kind.NUMBER),
    Setting("c", Owner.POLICY, Kind.NUMBER),
    Setting("least_pulls", Owner.POLICY, Kind.NUMBER),
    Setting("prior_mean", Owner.POLICY, Kind.NUMBERS),
    Setting("prior_sigma", Owner.POLICY, Kind.NUMBERS),
    Setting("policy_sigma", Owner.POLICY, Kind.NUMBERS),
    Setting("prior_success", Owner.POLICY, Kind.NUMBERS),
    Setting("prior_failure", Owner.POLICY, Kind.NUMBERS),
    Setting("balls", Owner.POLICY, Kind.NUMBERS),
    Setting("added", Owner.POLICY, Kind.NUMBERS),
    Setting("top_two", Owner.AROUND, Kind.NUMBER),
    Setting("floor", Owner.AROUND, Kind.NUMBER, words=(FIT,)),
    Setting("warm_up", Owner.AROUND, Kind.COUNT),
    Setting("family", Owner.FAMILY, Kind.CHOICE, FamilyName),
    Setting("sigma", Owner.FAMILY, Kind.NUMBERS, words=(ESTIMATE, ESTIMATE_EACH)),
    Setting("opening", Owner.DESIGN, Kind.CHOICE, Opening),
    Setting("allocation", Owner.DESIGN, Kind.CHOICE, Allocation),
    Setting("max_steps", Owner.DESIGN, Kind.COUNT),
    Setting("batch_size", Owner.DESIGN, Kind.COUNT),
    Setting("stop_difference", Owner.STOPPING, Kind.NUMBER),
    Setting("stop_mean", Owner.STOPPING, Kind.NUMBER),
    Setting("stop_arm", Owner.STOPPING, Kind.TEXT),
    Setting("stop_first", Owner.STOPPING, Kind.COUNT),
    Setting("stop_every", Owner.STOPPING, Kind.COUNT),
    Setting("arms", Owner.READING, Kind.TEXTS),
    Setting("separator", Owner.READING, Kind.TEXT),
    Setting("decimal", Owner.READING, Kind.TEXT),
    Setting("columns", Owner.READING, Kind.COLUMN_NAMES),
    Setting("counts", Owner.READING, Kind.FLAG),
    Setting("batch_by", Owner.READING, Kind.CHOICE, BatchBy),
    Setting("weights", Owner.READING, Kind.TEXT),
    Setting("delay", Owner.READING, Kind.COUNT),
    Setting("cluster", Owner.READING, Kind.TEXT),
    Setting("level", Owner.ANALYSIS, Kind.NUMBER),
    Setting("method", Owner.ANALYSIS, Kind.TEXTS),
    Setting("control", Owner.ANALYSIS, Kind.TEXT),
    Setting("title", Owner.DESCRIPTION, Kind.TEXT),
    Setting("description", Owner.DESCRIPTION, Kind.TEXT),
    Setting("source", Owner.DESCRIPTION, Kind.TEXT),
)
SETTINGS = {setting.name: setting for setting in _ALL}


def names_of(owner: Owner) -> tuple[str, ...]:
    """The settings that belong to something.

    >>> names_of(Owner.READING)
    ('arms', 'separator', 'decimal', 'columns', 'counts', 'batch_by', 'weights', 'delay', 'cluster')
    """
    return tuple(setting.name for setting in _ALL if setting.owner is owner)


AROUND_SETTINGS = names_of(Owner.AROUND)  # in the order in which they are applied
POLICY_SETTINGS = names_of(Owner.POLICY) + AROUND_SETTINGS
STOP_SETTINGS = names_of(Owner.STOPPING)
READING_SETTINGS = names_of(Owner.READING)
DESCRIPTIONS = names_of(Owner.DESCRIPTION)
