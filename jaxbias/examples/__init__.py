"""Small logs that come with the package, each with the policy that collected it: a CSV file and a TOML file."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxbias._core.errors import ArgumentError
from jaxbias.naming.collection import Collection, build_collection
from jaxbias.naming.config import read_config
from jaxbias.naming.settings import DESCRIPTIONS, READING_SETTINGS

if TYPE_CHECKING:
    from jaxbias.logs import Log

DEFAULT = "simulated"


class LoadedExample(NamedTuple):
    """The first arguments of `jaxbias.debias` after the key.

    Fields:
        log: its history says which pulls were forced and how batches were divided.
        policy: what chose the arms.
        family: what the rewards are.
    """

    log: "Log"
    policy: Any
    family: Any


class Example(NamedTuple):
    """A log, and how it was collected.

    Fields:
        name, title, description, source: what it is, and who published it.
        settings: as in a configuration file.
        path: of the log.
    """

    name: str
    title: str
    description: str
    source: str
    settings: dict[str, Any]
    path: Path

    def load(self) -> LoadedExample:
        """The log, the policy and the family.

        The log's history has `forced` all False if the policy also chose the first pull of each arm (`opening = "chosen"`), and
        `allocation` as in the settings. So `jb.debias(key, *example.load())` is what `jaxbias debias --example` runs.
        """
        from jaxbias.logs import read_log

        log = read_log(self.path, **{name: self.settings[name] for name in READING_SETTINGS if name in self.settings})
        collection = build_collection(self.settings, log.labels, log.history.num_steps)
        return LoadedExample(_as_collected(log, collection), collection.policy, collection.family)


def _as_collected(log: "Log", collection: Collection) -> "Log":
    import numpy as np

    history = dataclasses.replace(log.history, allocation=collection.allocation)
    if collection.opening == "chosen" and history.forced is None:
        history = dataclasses.replace(history, forced=np.zeros(history.num_steps, bool))
    return dataclasses.replace(log, history=history)


def list_examples() -> tuple[Example, ...]:
    """All examples, in order of their names.

    >>> [example.name for example in list_examples()]
    ['ecmo', 'signups', 'simulated']
    """
    folder = Path(__file__).parent
    return tuple(_read(folder, path.stem) for path in sorted(folder.glob("*.toml")))


def load_example(name: str = DEFAULT) -> Example:
    """One example, by its name.

    >>> load_example("ecmo").title
    'The Michigan ECMO trial'
    """
    for example in list_examples():
        if example.name == name:
            return example
    raise ArgumentError("name", name, f"one of {', '.join(example.name for example in list_examples())}")


def _read(folder: Path, name: str) -> Example:
    settings = read_config(folder / f"{name}.toml")
    about = {word: settings.pop(word) for word in DESCRIPTIONS}
    return Example(name=name, settings=settings, path=folder / f"{name}.csv", **about)
