"""Programs kept on disk: the same bits as `jit`, found again by what they are made of, and never by less."""

import dataclasses
import errno
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias._core import programs
from jaxbias._core.chunks import split_logs
from jaxbias._core.jit import compiled
from jaxbias._core.programs import PROGRAMS, Indescribable, describe


@pytest.fixture
def folder(tmp_path):
    PROGRAMS.keep_in(tmp_path)
    yield tmp_path
    PROGRAMS.keep_in(None)


@partial(compiled, static=("power",))
def smallest_root(policy, values, key, power):
    noise = jax.random.normal(key, values.shape, values.dtype)
    square = jnp.eye(3, dtype=values.dtype) * (values**power).sum() + policy.tau
    return {"solved": jnp.linalg.solve(square, values[:3] + noise[:3]), "nothing": None, "pair": (values * policy.tau, policy)}


# Described by its name, as a function of the package is; a test module is not of the package.
smallest_root.__wrapped__.__module__ = "jaxbias.tests"


def run(power=2, tau=0.5, policy=jb.Greedy):
    return smallest_root(policy(tau=tau), jnp.arange(5.0), jax.random.key(0), power=power)


@compiled
def times_tau(policy, values):
    return values * policy.tau


def forget(monkeypatch=None):
    """As in a new process; where asked for, one that cannot compile."""
    PROGRAMS.loaded.clear()
    if monkeypatch is not None:
        monkeypatch.setattr(programs, "_compile", lambda *_: pytest.fail("compiled again"))


def test_a_kept_program_is_not_traced_again_and_gives_the_same(folder, monkeypatch):
    expected = run()
    assert len(list(folder.iterdir())) == 1
    forget(monkeypatch)
    found = run()
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    assert isinstance(found["pair"][1], jb.Greedy)
    np.testing.assert_allclose(run(tau=0.25)["pair"][0], 0.25 * np.arange(5.0))  # another value, the same program


def test_another_function_setting_type_or_shape_is_another_program(folder):
    run()
    for other in (
        lambda: run(power=3),
        lambda: run(policy=jb.LilUCB),
        lambda: run(tau=jnp.float32(0.5)),  # not weakly typed
        lambda: smallest_root(jb.Greedy(tau=0.5), jnp.arange(6.0), jax.random.key(0), power=2),
    ):
        number = len(list(folder.iterdir()))
        other()
        assert len(list(folder.iterdir())) == number + 1


def test_what_is_not_ours_or_has_no_words_goes_through_jit(folder):
    @dataclasses.dataclass(frozen=True)
    class Own:
        tau: float = 0.5

    for policy in (Own(), lambda: None):
        with pytest.raises(Indescribable):
            describe((type(policy) if isinstance(policy, Own) else policy,))
    np.testing.assert_allclose(times_tau(Own(), jnp.arange(5.0)), 0.5 * np.arange(5.0))
    assert list(folder.iterdir()) == []
    gradient = jax.grad(lambda tau: run(tau=tau)["pair"][0].sum())(0.5)
    np.testing.assert_allclose(gradient, 10.0)


def test_a_full_disk_leaves_no_half_of_a_program(folder, monkeypatch):
    whole = Path.write_bytes

    def write_half(path, content):
        whole(path, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write_half)
    found = run()
    assert list(folder.iterdir()) == []
    monkeypatch.undo()
    forget()
    jax.tree.map(np.testing.assert_array_equal, found, run())
    assert len(list(folder.iterdir())) == 1


def test_a_broken_file_is_made_again(folder):
    expected = run()
    (path,) = folder.iterdir()
    path.write_bytes(path.read_bytes()[:100])
    forget()
    np.testing.assert_array_equal(run()["solved"], expected["solved"])
    assert path.stat().st_size > 100


def test_logs_spread_over_devices(folder, monkeypatch):
    policy, family = jb.Greedy(), jb.Normal(sigma=1.0)
    logs = jb.simulate(jax.random.key(0), policy, family, [1.0, 0.5], num_steps=8, num_trials=40, progress=False)
    run = lambda: jb.bias_corrected(jax.random.key(1), logs, policy, family, num_paths=1024, interval="delta")
    assert split_logs(32, (logs,)).count == 40
    expected = run()
    forget(monkeypatch)
    np.testing.assert_array_equal(run().mean, expected.mean)


def test_simulations_are_compiled_as_jit_compiles_them_and_estimators_faster(folder, monkeypatch):
    assert programs._options(True) == programs.QUICK  # this release of XLA knows them
    assert programs._options(False) == programs.WIDE
    compile_program, asked = programs._compile, {}

    def note(jitted, static, numbers, quick):
        asked[quick] = asked.get(quick, 0) + 1
        return compile_program(jitted, static, numbers, quick)

    monkeypatch.setattr(programs, "_compile", note)
    jb.measure_bias(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.5], num_steps=8, num_trials=32, progress=False)
    assert set(asked) == {False}
    history = jb.History(arms=np.array([0, 1, 1]), rewards=np.array([0.0, 1.0, 2.0]), num_arms=2)
    jb.shrinkage(history, jb.Normal(sigma=1.0))
    assert set(asked) == {False, True}


def test_threads_that_make_each_other_forget(folder, monkeypatch):
    """Near the kernel's limit of memory maps one thread forgets what another has just found: it was a KeyError."""
    expected = run()

    class Near:
        """Always near the limit; and every program that is made is forgotten by another thread before it is used."""

        def is_near(self):
            return True

        def program_made(self):
            PROGRAMS.loaded.clear()

    monkeypatch.setattr(programs, "CROWDING", Near())
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: run(), range(16)):
            jax.tree.map(np.testing.assert_array_equal, found, expected)
    assert len(list(folder.glob("*.program"))) == 1


def test_what_was_forgotten_is_loaded_again_and_listed_once(folder, monkeypatch):
    programs._is_alone_on_cpu.cache_clear()
    monkeypatch.setattr(programs, "_is_alone_on_cpu", lambda: True)
    PROGRAMS.load_ahead(["words"])
    for _ in range(3):
        expected = run()
        PROGRAMS.loaded.clear()
    PROGRAMS.end()
    (path,) = folder.glob("*.ahead")
    assert len(path.read_text().split("\n")) == 1
    forget(monkeypatch)
    jax.tree.map(np.testing.assert_array_equal, run(), expected)


def test_an_empty_file_is_made_again(folder):
    """As a loss of power leaves it; a program that cannot be kept has another mark."""
    run()
    (path,) = folder.iterdir()
    path.write_bytes(b"")
    forget()
    run()
    assert path.stat().st_size > 100
    path.write_bytes(programs.NOT_KEPT)
    forget()
    run()
    assert path.read_bytes() == programs.NOT_KEPT


def test_the_oldest_files_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "MOST_FILES", 2)
    for age, name in enumerate(("newest", "newer", "old", "oldest")):
        path = tmp_path / f"{name}.program"
        path.write_bytes(b"")
        os.utime(path, (1000 - age, 1000 - age))
    (tmp_path / "other").write_text("not ours")
    PROGRAMS.keep_in(tmp_path)
    PROGRAMS.keep_in(None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["newer.program", "newest.program", "other"]
