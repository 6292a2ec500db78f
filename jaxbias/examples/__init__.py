"""Small logs that come with the package, each with the policy that collected it: a CSV file and a TOML file beside it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxbias.config import read_config
from jaxbias.naming import FamilyName, build_family, build_policy

if TYPE_CHECKING:
    from jaxbias.io import Log

DEFAULT = "simulated"


class Example(NamedTuple):
    """A log, and how it was collected.

    Fields:
        name, title, description, source: what it is and where it is from.
        settings: as a configuration file has them.
        path: of the log.
    """

    name: str
    title: str
    description: str
    source: str
    settings: dict[str, Any]
    path: Path

    def load(self) -> "tuple[Log, Any, Any]":
        """The log, the policy and the family."""
        from jaxbias.io import read_log

        log = read_log(self.path, arms=self.settings.get("arms"))
        of_policy = {name: value for name, value in self.settings.items() if name not in NOT_OF_POLICY}
        policy = build_policy(self.settings["policy"], of_policy, log.history.num_arms)
        family: FamilyName | None = self.settings.get("family")
        return log, policy, build_family(self.settings["policy"], family, self.settings.get("sigma"), log.history.num_arms)


NOT_OF_POLICY = ("policy", "family", "sigma", "arms", "opening", "columns", "separator", "decimal", "level", "method")


def list_examples() -> tuple[Example, ...]:
    """All of them, by name.

    >>> [example.name for example in list_examples()]
    ['ecmo', 'simulated']
    """
    folder = Path(__file__).parent
    return tuple(_read(folder, path.stem) for path in sorted(folder.glob("*.toml")))


def load_example(name: str = DEFAULT) -> Example:
    """One of them, by its name.

    >>> load_example("ecmo").title
    'The Michigan ECMO trial'
    """
    for example in list_examples():
        if example.name == name:
            return example
    raise ValueError(f"name is {name!r}; allowed: {', '.join(example.name for example in list_examples())}")


def _read(folder: Path, name: str) -> Example:
    settings = read_config(folder / f"{name}.toml")
    words = {word: settings.pop(word) for word in ("title", "description", "source")}
    return Example(name=name, settings=settings, path=folder / f"{name}.csv", **words)
