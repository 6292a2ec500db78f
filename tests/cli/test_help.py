"""The help of every command at 80 columns: no type beside a flag, no name broken in two, and options only where they apply."""

import re

import pytest

from jaxbias.cli import main
from jaxbias.estimators.registry import METHODS
from jaxbias.naming.names import FamilyName, PolicyName

COMMANDS = ("debias", "simulate", "evaluate", "plan", "check", "reproduce", "propensities", "examples", "presets")
WITH_POLICY = ("debias", "simulate", "evaluate", "plan", "check", "propensities")


@pytest.fixture
def help_of(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")

    def ask(*words):
        assert main([*words, "--help"]) == 0
        return capsys.readouterr().out

    return ask


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_it_fits_80_columns_and_cuts_nothing(help_of, command):
    text = help_of(*filter(None, [command]))
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    for kind in ("<bool>", "<float>", "<int", "<list[", "FLOAT|"):
        assert kind not in text


@pytest.mark.parametrize("command", WITH_POLICY)
def test_no_name_is_broken_in_two(help_of, command):
    words = re.findall(r"[\w-]+", help_of(command))
    assert {str(name) for name in PolicyName} <= set(words)
    if "--family" in words:
        assert {str(name) for name in FamilyName} <= set(words)
    if "--method" in words:
        assert set(METHODS) <= set(words)


@pytest.mark.parametrize("command", COMMANDS)
def test_only_debias_offers_to_fit_a_setting(help_of, command):
    offers = "NUMBER|fit" in help_of(command)
    assert offers == (command == "debias")


@pytest.mark.parametrize("option", ["--tau", "--epsilon", "--floor"])
def test_the_others_say_who_fits(option, capsys):
    assert main(["simulate", "--policy", "epsilon-greedy", option, "fit"]) == 2
    assert "only debias has a log to fit it to" in " ".join(re.sub("[│╭╮╰╯─]", " ", capsys.readouterr().err).split())
