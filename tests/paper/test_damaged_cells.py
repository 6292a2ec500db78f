"""Results of `reproduce` that are damaged on disk are run again, and a disk that is full is not a disagreement."""

import json

import numpy as np
import pytest

from jaxbias._core.errors import ArgumentError
from jaxbias._core.kept import load_kept, save_kept
from jaxbias.cli import main
from jaxbias.naming.config import read_config
from jaxbias.paper import SPECS, store
from jaxbias.paper.experiments import Result
from jaxbias.paper.summaries import Figure


@pytest.fixture
def kept(tmp_path):
    (tmp_path / "cells").mkdir()
    experiment = next(iter(SPECS.values())).experiments[0]
    result = Result(trials=50, figures={"bias": Figure(np.array([0.5, np.nan]), np.array([0.1, 0.1]))})
    store.save(tmp_path, experiment, (1, 2), 50, result)
    return tmp_path, experiment, store.path_of(tmp_path, experiment)


def test_a_whole_cell_is_read(kept):
    folder, experiment, _ = kept
    found = store.load(folder, experiment, (1, 2), 50)
    assert found is not None
    np.testing.assert_array_equal(found.figures["bias"].value, [0.5, np.nan])


@pytest.mark.parametrize(
    "damage",
    [
        lambda document: document.pop("figures"),
        lambda document: document.update(figures=None),
        lambda document: document["figures"].update(bias=None),
        lambda document: document["figures"]["bias"].update(value=None),
        lambda document: document["figures"]["bias"].update(value=[0.5, None]),
        lambda document: document["figures"]["bias"].update(value="x"),
        lambda document: document["figures"]["bias"].pop("stderr"),
        lambda document: document.update(figures=[1]),
    ],
)
def test_a_damaged_cell_is_run_again(kept, damage):
    folder, experiment, path = kept
    document = json.loads(path.read_text())
    damage(document)
    path.write_text(json.dumps(document))
    assert store.load(folder, experiment, (1, 2), 50) is None


def test_a_folder_in_the_place_of_a_cell(tmp_path):
    path = tmp_path / "cell.json"
    path.mkdir()
    assert load_kept(path, {}) is None
    save_kept(path, {"a": 1}, {"b": 2})
    assert load_kept(path, {"a": 1}) == {"a": 1, "b": 2}


def test_a_full_disk_is_exit_code_2(monkeypatch, tmp_path, capsys):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("jaxbias.paper.reproduce", fail)
    assert main(["reproduce", "table1", "--out", str(tmp_path), "--quiet"]) == 2
    assert capsys.readouterr().err == "jaxbias: [Errno 28] No space left on device\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tau = inf", "tau is Infinity; it must be finite"),
        ("tau = nan", "tau is NaN; it must be finite"),
        ("max_steps = inf", "max_steps is Infinity; it must be a whole number"),
        ("batch_size = 2.5", "batch_size is 2.5; it must be a whole number"),
        ("stop_first = true", "stop_first is true; it must be a whole number"),
        ("delay = 1e300", "delay is 1e+300; it must be a whole number"),
        (f"sigma = {'9' * 400}", "it must be finite, as a number with 64 bits"),
        (f"max_steps = {'9' * 400}", "it must be a whole number"),
        (f"prior_mean = [0.0, {'9' * 400}]", "it must be finite, as a number with 64 bits"),
    ],
)
def test_numbers_of_a_configuration_that_cannot_be_used(text, words, tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(f"{text}\n")
    with pytest.raises(ArgumentError) as refused:
        read_config(path)
    assert words in str(refused.value)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("text", ["arms = " + "[" * 50_000, "arms = " + "[" * 900 + "]" * 900, "tau = " + "{a=" * 3000])
def test_a_configuration_of_brackets_inside_each_other(text, tmp_path, capsys):
    path = tmp_path / "config.toml"
    path.write_text(text)
    assert main(["debias", "--config", str(path), "--quiet"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("text", [".".join("a" * 100_000) + " = 1", "[" + ".".join("a" * 100_000) + "]"])
def test_a_configuration_with_a_key_of_many_parts(text, tmp_path):
    """Python reads them for minutes."""
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ArgumentError, match="a key of too many parts"):
        read_config(path)


def test_whole_numbers_of_a_configuration_are_whole(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text("max_steps = 100\nbatch_size = 5.0\n")
    found = read_config(path)
    assert found == {"max_steps": 100, "batch_size": 5}
    assert all(isinstance(value, int) for value in found.values())
