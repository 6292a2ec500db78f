"""The pages beside the code say what the code says: every method, every name, every file that they mention."""

import re
from pathlib import Path

import jaxbias as jb
from jaxbias.estimators.registry import METHODS

ROOT = Path(__file__).parents[1]
README, CONTRIBUTING = (ROOT / name for name in ("README.md", "CONTRIBUTING.md"))
PAGES = [README, CONTRIBUTING, *sorted((ROOT / "docs").rglob("*.md"))]
WHICH, OWN_POLICY = (ROOT / "docs" / name for name in ("which-method.md", "how-to/own-policy.md"))
TWO_COMMANDS = ("pip install '.[cli]' && jaxbias debias", "pip install '.[test]' && pytest")


def rows_below(text, header):
    """The first cell of each row of a Markdown table."""
    table = text[text.index(header) :].split("\n\n")[0].splitlines()[2:]
    return [re.findall(r"`([^`]+)`", row.split("|")[1]) for row in table]


def test_the_table_of_estimators_is_the_registry():
    assert {name for names in rows_below(WHICH.read_text(), "| estimator | needs |") for name in names} == set(METHODS)


def test_the_policies_of_the_table_are_there():
    for names in rows_below(OWN_POLICY.read_text(), "| policies | |"):
        for name in names:
            package, _, policy = name.rpartition(".")
            assert hasattr(getattr(jb, package) if package else jb, policy), name


def test_every_name_of_the_library_in_the_pages_exists():
    for page in PAGES:
        for name in set(re.findall(r"\bjb\.([A-Za-z_]+(?:\.[A-Za-z_]+)?)", page.read_text())):
            found = jb
            for part in name.split("."):
                assert hasattr(found, part), f"{page.name}: jb.{name}"
                found = getattr(found, part)


def test_the_readme_has_the_two_commands():
    lines = [line.partition("  #")[0].rstrip() for line in README.read_text().splitlines()]
    assert all(command in lines for command in TWO_COMMANDS)


def test_every_file_on_the_map_exists():
    text = CONTRIBUTING.read_text()
    files = set(re.findall(r"`((?:[\w.]+/)*[\w]+\.py|(?:\w+/)+)`", text))
    assert len(files) > 20
    folders = (
        "",
        "jaxbias",
        "jaxbias/estimators",
        "jaxbias/policies",
        "jaxbias/estimators/conditional_mle",
    )  # some are named beside their folder
    missing = [name for name in files if not any((ROOT / folder / name).exists() for folder in folders)]
    assert not missing
