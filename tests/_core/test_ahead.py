"""Programs that are loaded before they are asked for: which ones, by whom, and what a damaged list does."""

import threading

import pytest

from jaxbias._core import ahead
from jaxbias._core.ahead import Ahead

WORDS = ["debias", "--policy", "greedy"]


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(ahead, "_cores", lambda: 2)


def run(folder, names, words=WORDS, load=lambda path: path.name.upper()):
    """What a run is given that asks for these programs, one after another, once all that it guessed is loaded."""
    now = Ahead(folder, words, load)
    for loading in list(now.loading.values()):
        loading.exception(timeout=10)
    found = [now.take(name) for name in names]
    now.end()
    return found


def test_what_a_run_used_is_loaded_for_the_next_with_the_same_words(tmp_path):
    assert run(tmp_path, ["a", "b"]) == [None, None]
    assert run(tmp_path, ["b", "a", "c"]) == ["B", "A", None]
    assert run(tmp_path, ["c"]) == ["C"]  # of the last run, not of the first
    assert run(tmp_path, ["a"], words=["plan"]) == [None]
    assert run(tmp_path, ["c", "c"]) == ["C", None]
    assert len(list(tmp_path.glob("*.ahead"))) == 2


def test_a_run_that_used_nothing_keeps_the_list(tmp_path):
    run(tmp_path, ["a"])
    run(tmp_path, [])
    assert run(tmp_path, ["a"]) == ["A"]


def test_a_list_names_files_of_its_own_folder_only(tmp_path):
    run(tmp_path, ["a"])
    (path,) = tmp_path.glob("*.ahead")
    path.write_text("../a\n/etc/passwd\n\nb/c\nb")
    now = Ahead(tmp_path, WORDS, lambda path: path)
    assert list(now.loading) == ["b"]
    assert now.take("b") == tmp_path / "b"
    path.write_bytes(b"\xff\xfe")
    assert run(tmp_path, ["a"]) == [None]


def test_a_program_that_cannot_be_loaded_is_whoever_asks_for_its_business(tmp_path):
    def fail(path):
        raise ValueError(path)

    run(tmp_path, ["a"])
    assert run(tmp_path, ["a"], load=fail) == [None]


def test_a_program_that_nobody_has_begun_to_load_is_not_waited_for(tmp_path):
    """One thread is busy with the first, so that the second is left to whoever asks; the first is waited for."""
    run(tmp_path, ["a", "b"])
    began, go_on = threading.Event(), threading.Event()

    def load(path):
        began.set()
        assert go_on.wait(10)
        return path.name

    now = Ahead(tmp_path, WORDS, load)
    assert began.wait(10)
    assert now.take("b") is None
    go_on.set()
    assert now.take("a") == "a"


def test_one_core_loads_nothing_ahead(tmp_path, monkeypatch):
    run(tmp_path, ["a"])
    monkeypatch.setattr(ahead, "_cores", lambda: 1)
    assert run(tmp_path, ["a"]) == [None]


def test_a_folder_that_is_gone_is_no_error(tmp_path):
    run(tmp_path / "none", ["a"])
    assert not (tmp_path / "none").exists()
