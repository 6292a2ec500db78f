"""The cache of compiled programs: this user's alone, and of use where there is no home and the disk is full or damaged."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from jaxbias._core import cache


@pytest.fixture
def showwarning():
    before = warnings.showwarning
    yield
    warnings.showwarning = before


def test_a_directory_that_others_can_read_becomes_private_and_one_they_can_write_is_not_used(tmp_path, monkeypatch, showwarning):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    used = []
    monkeypatch.setattr(cache, "_replace_damaged", used.append)
    import jax

    from jaxbias._core.programs import PROGRAMS

    before = jax.config.jax_compilation_cache_dir
    try:
        for mode, expected in ((0o755, True), (0o777, False), (0o770, False)):
            folder = tmp_path / f"{mode:o}"
            folder.mkdir()
            folder.chmod(mode)
            monkeypatch.setenv("JAXBIAS_CACHE", str(folder))
            cache.use_cache()
            assert (folder in used) == expected
            assert folder.stat().st_mode & 0o777 == (0o700 if expected else mode)
        monkeypatch.setenv("JAXBIAS_CACHE", str(tmp_path / "new"))
        cache.use_cache()
        assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
        PROGRAMS.keep_in(None)


def test_a_directory_of_another_user_is_not_private(tmp_path, monkeypatch):
    assert cache.is_private(tmp_path) or tmp_path.stat().st_mode & 0o022
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    assert not cache.is_private(tmp_path)


def test_damaged_entries_are_removed_and_not_warned_of(tmp_path, showwarning):
    entry, program = tmp_path / "jit_f-0123-cache", tmp_path / "abc.program"
    entry.write_bytes(b"")
    program.write_bytes(b"kept")
    with warnings.catch_warnings():
        seen = []
        warnings.showwarning = lambda message, *where, **more: seen.append(str(message))
        cache._replace_damaged(tmp_path)
        warnings.warn("Error reading persistent compilation cache entry for 'jit_f': ZstdError: cut off", stacklevel=1)
        warnings.simplefilter("always")
        warnings.warn("something else", stacklevel=1)
    assert not entry.exists()
    assert program.exists()
    assert seen == ["something else"]


def test_a_directory_that_cannot_be_written_to_is_done_without(tmp_path, monkeypatch, showwarning):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    used = []
    monkeypatch.setattr(cache, "_replace_damaged", used.append)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    cache.use_cache(tmp_path)
    assert used == []


@pytest.mark.parametrize("error", [RuntimeError, KeyError])
def test_no_home_directory_is_no_cache(monkeypatch, error):
    def fail(*_, **__):
        raise error("no home")

    monkeypatch.delenv("JAXBIAS_CACHE", raising=False)
    monkeypatch.setattr(cache.platformdirs, "user_cache_path", fail)
    assert cache.cache_directory() is None
    monkeypatch.setattr(cache.platformdirs, "user_cache_path", lambda *_, **__: Path("~/.cache/jaxbias"))
    assert cache.cache_directory() is None


@pytest.mark.slow
def test_damaged_programs_are_made_again_in_silence(tmp_path):
    """Empty, cut off and altered entries of both caches: the same answer, nothing on standard error, and whole entries."""
    words = [sys.executable, "-m", "jaxbias", "simulate", "--steps", "8", "--trials", "64", "--json", "--quiet"]
    others = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    environment = {**others, "JAXBIAS_CACHE": str(tmp_path / "cache"), "JAX_PLATFORMS": "cpu"}
    run = lambda: subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    first = run()
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "cache").iterdir() if path.is_file()}
    for number, name in enumerate(sorted(sizes)):
        path = tmp_path / "cache" / name
        content = path.read_bytes()
        path.write_bytes((b"", content[: len(content) // 2], b"x" * len(content))[number % 3])
    second = run()
    assert (second.stdout, second.stderr) == (first.stdout, "")
    third = run()
    assert (third.stdout, third.stderr) == (first.stdout, "")


def start(folder, *words, **variables):
    others = {name: value for name, value in os.environ.items() if name not in ("JAX_COMPILATION_CACHE_DIR", "HOME")}
    environment = {**others, "JAX_PLATFORMS": "cpu", **variables}
    command = [sys.executable, "-m", "jaxbias", *words]
    return subprocess.Popen(command, env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


SIMULATE = ("simulate", "--steps", "8", "--trials", "64", "--json", "--quiet")


@pytest.mark.slow
def test_two_commands_at_once_on_an_empty_cache(tmp_path):
    """Each writes the same programs and the same list: whole ones, and the same answer."""
    folder = tmp_path / "cache"
    outputs = [
        process.communicate(timeout=120) for process in [start(tmp_path, *SIMULATE, JAXBIAS_CACHE=str(folder)) for _ in "ab"]
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0][1] == ""
    names = sorted(path.name for path in folder.iterdir())
    assert names
    assert not [name for name in names if name.startswith(".")]
    assert start(tmp_path, *SIMULATE, JAXBIAS_CACHE=str(folder)).communicate(timeout=120) == outputs[0]
    assert sorted(path.name for path in folder.iterdir()) == names


@pytest.mark.slow
@pytest.mark.parametrize("variables", [{}, {"HOME": ""}, {"HOME": "/dev/null/home"}], ids=["unset", "empty", "no folder"])
def test_a_command_without_a_home(variables, tmp_path):
    others = {"XDG_CACHE_HOME": str(tmp_path / "caches")} if not variables else {}  # or the cache of whoever runs the tests
    process = start(tmp_path, *SIMULATE, **variables, **others)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("{")
