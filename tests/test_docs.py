"""The documentation says what the code does: every option, every name, every block of code, every table."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import jaxbias as jb
from jaxbias.cli import app, main
from jaxbias.estimators.registry import METHODS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))

import blocks
import make_schemas
import make_validation
from command_pages import commands_page

REFERENCE = "\n".join(path.read_text() for path in (DOCS / "reference").glob("*.md"))
PAGES = blocks.pages()
SUBPACKAGES = ("bias", "examples", "logs", "paper", "policies", "policy_fit", "reporting", "plots", "planning", "evaluation")
INTERNAL = {"Collection", "build_collection", "read_config", "DEFAULT"}  # imports of examples/__init__.py
COMMANDS = [command.name or command.callback.__name__ for command in app.registered_commands]


def name_of(path):
    return str(path.relative_to(ROOT))


def section_of(command):
    text = commands_page()
    start = text.index(f"## jaxbias {command}\n")
    return text[start : text.find("\n## ", start + 1)]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_the_help_text_is_in_the_reference(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main([command, "--help"]) == 0
    options = set(re.findall(r"(?m)^│ +(--[a-z-]+)", capsys.readouterr().out))
    assert "--help" in options or command == "examples"
    missing = {option for option in options if f"`{option}`" not in section_of(command)}
    assert not missing


def public_names():
    yield from (name for name in jb.__all__ if not name.startswith("_"))
    for package in SUBPACKAGES:
        module = import_module(f"jaxbias.{package}" if package != "plots" else "jaxbias.reporting.plots")
        names = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", "").startswith("jaxbias")
        ]
        yield from (f"{package}.{name}" for name in names if name not in INTERNAL)


def test_every_public_name_is_in_the_reference():
    shown = {name.removeprefix("jaxbias.") for name in re.findall(r"(?m)^::: (\S+)", REFERENCE)}
    at_the_top = set(jb.__all__)
    packages = {"bias", "examples", "logs", "paper", "policies", "policy_fit", "reporting", "plots"}
    names = {name for name in public_names() if name not in packages and name.rpartition(".")[2] not in packages}
    assert len(names) > 90
    missing = {name for name in names if name not in shown and name.rpartition(".")[2] not in (at_the_top & shown)}
    assert not missing


def test_every_name_of_the_reference_exists():
    for name in re.findall(r"(?m)^::: (\S+)", REFERENCE):
        package, _, last = name.rpartition(".")
        assert hasattr(import_module(package.replace("jaxbias.plots", "jaxbias.reporting.plots")), last), name


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_the_code_of_a_page_can_be_read(path):
    """Python compiles, and the command line reads every command. What it prints is written under it."""
    text = path.read_text()
    for block in blocks.find_blocks(text):
        if block.language == "python":
            ast.parse(block.code)
        else:
            for words in blocks.commands_in(block.code):
                blocks.parse(words)
        assert block.output is None or text[slice(*block.output)].strip(), f"no output below {block.code}"


def test_a_command_that_does_not_exist_is_noticed():
    with pytest.raises(KeyError):
        blocks.parse(["debiase"])
    with pytest.raises(Exception, match="No such option"):
        blocks.parse(["debias", "--no-such-option"])


@pytest.mark.slow
def test_the_code_of_every_page_runs():
    """All pages, in two processes that share what they compile."""
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    words = [sys.executable, str(DOCS / "blocks.py"), "--check"]
    run = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=1800, check=False)
    print(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count(", runs\n") == len(PAGES)


def test_a_page_that_fails_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\n1 / 0\n```\n")
    assert blocks.check([page]) == 1
    page.write_text("```sh\njaxbias debias no-such-file.csv\n```\n")
    assert blocks.check([page]) == 1


def test_the_json_page_is_made_of_the_schemas():
    meanings = tomllib.loads((DOCS / "reference" / "json.toml").read_text())
    folder = DOCS / "reference" / "schemas"
    schemas = {command: json.loads((folder / f"{command}.json").read_text()) for command in make_schemas.RUNS}
    assert set(schemas) == set(COMMANDS)
    assert make_schemas.page(schemas, meanings) == (DOCS / "reference" / "json.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("command", make_schemas.RUNS)
def test_what_a_command_prints_has_the_keys_of_its_schema(command, monkeypatch, tmp_path):
    for name in ("docs", "jaxbias"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    schema = json.loads((DOCS / "reference" / "schemas" / f"{command}.json").read_text())
    (tmp_path / "build").mkdir()
    found = make_schemas.make(command)
    missing = set(make_schemas.keys_of(found)) - set(make_schemas.keys_of(schema))
    assert not missing


@pytest.mark.parametrize("method", METHODS)
def test_the_tables_of_a_validation_page_are_its_figures(method):
    figures = json.loads(make_validation.FIGURES.read_text())
    assert make_validation.table(method, figures) in (make_validation.FOLDER / f"{method}.md").read_text()
    assert make_validation.overview(figures) in (make_validation.FOLDER / "index.md").read_text()
    assert any("average_bias" in figures[cell].get(method, {}) for cell in make_validation.CELLS)


def test_every_notebook_is_in_the_gallery():
    gallery = (DOCS / "notebooks" / "index.md").read_text()
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        assert f"({path.stem}.md)" in gallery


def test_the_version_is_in_one_place():
    assert f"version: {jb.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"## {jb.__version__} " in (ROOT / "CHANGELOG.md").read_text()
    assert "version" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"]


def test_links_of_the_pages_that_no_builder_checks():
    """The files at the top, which are read where the repository is."""
    for page in ("README.md", "CONTRIBUTING.md", "SECURITY.md"):
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", (ROOT / page).read_text()):
            assert (ROOT / link).exists(), f"{page}: {link}"
