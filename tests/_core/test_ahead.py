"""Programs loaded ahead: what the last run used, and nothing else, whatever is in the list; an answer in every case."""

import os
import threading
import time
from concurrent.futures import wait

import pytest

from jaxbias._core import ahead
from jaxbias._core.ahead import Ahead

WORDS = ("debias", "--policy", "greedy")
NAMES = [f"{letter}.program" for letter in "abc"]


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch):
    monkeypatch.setattr(ahead, "_cores", lambda: 2)


def use(folder, names, words=WORDS, load=lambda path: path.read_text()):
    """What a run gets that asks for these names."""
    run = Ahead(folder, words, load)
    wait(run.loading.values(), timeout=30)  # what has not begun is left to whoever asks
    found = [run.take(name) for name in names]
    run.end()
    return found


@pytest.fixture
def folder(tmp_path):
    for name in NAMES:
        (tmp_path / name).write_text(name[0])
    assert use(tmp_path, NAMES) == [None, None, None]  # the first run has no list
    return tmp_path


def list_of(folder):
    (path,) = folder.glob("*.ahead")
    return path


def test_the_next_run_has_what_this_one_used(folder):
    assert use(folder, NAMES) == ["a", "b", "c"]
    assert use(folder, NAMES, words=("simulate",)) == [None, None, None]
    assert use(folder, ["c.program", "new.program"]) == ["c", None]
    assert use(folder, NAMES) == [None, None, "c"]  # of the run before
    assert list_of_words(folder).read_text().split("\n") == NAMES


def list_of_words(folder):
    return Ahead(folder, WORDS, lambda path: None).list


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n\n",
        b"\xff\xfe\x00\x80",
        b"nothing.program\nno.program",
        b"a.program.program\na",
        "\n".join(f"{number}.program" for number in range(100_000)).encode(),
    ],
    ids=["empty", "lines", "no text", "missing", "other names", "too long"],
)
def test_a_damaged_list_is_made_again(folder, content):
    path = list_of(folder)
    path.write_bytes(content)
    assert use(folder, NAMES) == [None, None, None]
    assert use(folder, NAMES) == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["../outside.program", "/etc/passwd", "..", ".", "below/inside.program", "other"])
def test_only_programs_of_the_folder_are_read(folder, name):
    (folder / "below").mkdir()
    for path in (folder.parent / "outside.program", folder / "below" / "inside.program", folder / "other"):
        path.write_text("read")
    list_of(folder).write_text(f"{name}\na.program\n/\n")
    read = []
    use(folder, NAMES, load=read.append)
    assert read == [folder / "a.program"]


def test_a_list_that_is_no_file(folder):
    path = list_of(folder)
    for make in (os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)):
        path.unlink()
        make(path)
        assert use(folder, NAMES) == [None, None, None]  # and nobody waits for the other end of a pipe
        os.rmdir(path) if path.is_dir() else path.unlink()
        path.touch()


def test_a_folder_that_is_removed_meanwhile(folder):
    run = Ahead(folder, WORDS, lambda path: path.read_text())
    wait(run.loading.values(), timeout=30)
    assert run.take(NAMES[0]) == "a"
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    run.take("new.program")
    run.end()
    assert not folder.exists()


@pytest.mark.skipif(hasattr(os, "getuid") and os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to(folder):
    folder.chmod(0o500)
    try:
        assert use(folder, ["new.program"]) == [None]
    finally:
        folder.chmod(0o700)


def test_a_list_that_cannot_be_written(folder, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", fail)
    assert use(folder, ["new.program"]) == [None]
    monkeypatch.undo()
    assert use(folder, NAMES) == ["a", "b", "c"]


def test_a_program_that_cannot_be_loaded_is_left_to_whoever_asks(folder):
    def fail(path):
        raise RuntimeError("damaged")

    assert use(folder, NAMES, load=fail) == [None, None, None]


def test_the_end_waits_for_no_program(folder):
    """And what was not begun is cancelled."""
    release, begun = threading.Event(), []

    def slow(path):
        begun.append(path.name)
        release.wait(30)

    run = Ahead(folder, WORDS, slow)
    while not begun:
        time.sleep(0.01)
    moment = time.monotonic()
    run.end()
    assert time.monotonic() - moment < 5
    release.set()
    run.threads.shutdown(wait=True)
    assert begun == NAMES[:1]


def test_what_is_waiting_is_taken_back_by_whoever_needs_it_now(folder):
    """It would otherwise wait behind others; None says that it is to be loaded here."""
    release = threading.Event()
    run = Ahead(folder, WORDS, lambda path: release.wait(30))
    assert run.take(NAMES[2]) is None
    release.set()
    run.end()


def test_a_run_that_used_nothing_keeps_the_list(folder):
    use(folder, [])
    assert use(folder, NAMES) == ["a", "b", "c"]


def test_one_core_loads_nothing_ahead(folder, monkeypatch):
    monkeypatch.setattr(ahead, "_cores", lambda: 1)
    assert use(folder, NAMES) == [None, None, None]
