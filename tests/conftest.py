"""Shape and type checks on every annotated function, strict promotion of dtypes and ranks, and the problems tests share."""

import os
import time
from pathlib import Path

STARTED = time.monotonic()

os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", "/tmp/jaxbias-test-cache")  # a second run compiles little
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")  # modules share many small programs, and forget them
# Loops in one piece, as on the command line.
FLAGS = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=4194304"
# Most of the time of the tests is XLA compiling, which takes half the time without LLVM's optimisations, and a third of that with
# XLA's older code generator, as the programs that `use_cache` keeps have it. The long statistical checks (-m slow) compute for
# longer than they compile: they have the optimisations, and the newer generator.
QUICK_TO_COMPILE = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "1")  # whichever test comes first; those of several devices say how many

from jaxtyping import install_import_hook

install_import_hook("jaxbias", "beartype.beartype")

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.analysis import limits
from jaxbias.likelihood import selection_log_probs

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# The evaluation of the methods on logs like the one at hand compiles every method again: only its own tests have it.
EVALUATED_LOGS = limits.EVALUATED_LOGS
limits.EVALUATED_LOGS = (1, 0)

MOST_MAPS = 30_000  # memory maps after which compiled functions are forgotten; one module makes up to 20,000

POLICIES = {
    "greedy": jb.Greedy(),
    "greedy-first": jb.Greedy(ties="first"),
    "greedy-noisy": jb.Greedy(tau=0.5),
    "epsilon-greedy": jb.EpsilonGreedy(),
    "epsilon-greedy-noisy": jb.EpsilonGreedy(tau=0.5),
    "lil-ucb": jb.LilUCB(),
    "lil-ucb-noisy": jb.LilUCB(tau=1.0),
    "ucb1": jb.UCB1(),
    "ucb1-noisy": jb.UCB1(tau=1.0),
    "thompson": jb.Thompson(),
    "thompson-noisy": jb.Thompson(tau=0.5),
    "beta-thompson": jb.BetaThompson(),
    "exploration-sampling": jb.policies.ExplorationSampling(),
    "beta-exploration-sampling": jb.policies.BetaExplorationSampling(),
    "exp3": jb.Exp3(),
    "floored": jb.Floored(jb.Greedy(), floor=0.1),
    "top-two": jb.TopTwo(jb.Thompson(), beta=0.6),
    "warm-up": jb.policies.WarmUp(jb.LilUCB(tau=1.0), num_steps=5),
    "growthbook": jb.policies.GrowthBook(least_pulls=3),
    "kl-ucb": jb.policies.KLUCB(tau=0.5),
    "uniform": jb.Uniform(),
    "play-the-winner": jb.policies.PlayTheWinner(),
}


# Ties, a sampler of its own, and a state that is not pulls and sums: the default run has these where what is checked depends
# little on the policy, and `slow` has the others.
KINDS = ("greedy", "thompson", "exp3")


def some_now_others_slow(names, now=KINDS):
    """Parameters: those named now, and the others marked slow."""
    return [name if name in now else pytest.param(name, marks=pytest.mark.slow) for name in names]


def pytest_addoption(parser):
    help_text = "stop starting slow tests after so many seconds; those left are skipped, and listed by -rs"
    parser.addoption("--slow-seconds", type=float, default=None, help=help_text)
    parser.addoption(
        "--slow-start", type=int, default=0, help="which slow test is the first, so that runs with a limit take turns"
    )


def pytest_collection_modifyitems(config, items):
    """With a limit of time, the slow tests from another place on in every run."""
    if config.getoption("slow_seconds") is not None and items:
        start = config.getoption("slow_start") * 37 % len(items)  # a prime, so that the next run begins somewhere else
        items[:] = items[start:] + items[:start]


def pytest_runtest_setup(item):
    limit = item.config.getoption("slow_seconds")
    if limit is not None and time.monotonic() - STARTED > limit:
        pytest.skip(f"no time left of {limit:.0f} seconds")


def pytest_configure(config):
    """Before JAX computes anything, in every worker."""
    slow = config.getoption("markexpr", "") == "slow"
    os.environ.setdefault("XLA_FLAGS", FLAGS if slow else f"{FLAGS} {QUICK_TO_COMPILE}")


@pytest.fixture(autouse=True, scope="module")
def _forget_what_was_compiled():
    """Compiled functions hold memory maps, of which a process may have 65,530: all the modules together have more.

    Modules share many programs, so nothing is forgotten before a process has half as many as it may have.
    """
    yield
    if memory_maps() > MOST_MAPS:
        jax.clear_caches()


def memory_maps():
    """How many memory maps this process has; 0 where there is no such list, and no such limit."""
    try:
        return Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:
        return 0


@pytest.fixture(params=POLICIES)
def policy(request):
    return POLICIES[request.param]


@pytest.fixture(params=[False, True], ids=["float32", "float64"])
def x64(request):
    with jax.enable_x64(request.param):
        yield request.param


@pytest.fixture
def unchecked():
    """Without the checks of annotations, as users have it: what comes in wrong must be refused by the library itself."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


class Softmax:
    """A policy of one's own: three functions, no base class, no registration, and a state that is not pulls and sums."""

    def __init__(self, rate):
        self.rate = rate

    def init(self, num_arms):
        return {"preference": jnp.zeros(num_arms), "baseline": jnp.zeros(())}

    def log_probs(self, state):
        return jax.nn.log_softmax(state["preference"])

    def update(self, state, arm, reward):
        chosen = jnp.arange(state["preference"].shape[0], dtype=arm.dtype) == arm
        change = self.rate * (reward - state["baseline"]) * (chosen.astype(float) - jnp.exp(self.log_probs(state)))
        return {
            "preference": state["preference"] + change,
            "baseline": 0.9 * state["baseline"] + 0.1 * reward,
        }


@pytest.fixture(scope="session")
def compilations():
    """A list that grows with every program that XLA compiles, or finds compiled."""
    events = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: events.append(event) if "backend_compile" in event else None
    )
    return events


@pytest.fixture
def own_policy():
    return Softmax(rate=0.5)


@pytest.fixture(scope="session")
def maximum():
    return quadrature_maximum


def quadrature_maximum(policy, arms, rewards, sigma, points=16):
    """The maximum of the conditional likelihood: Newton on score and information from Gauss-Hermite quadrature, in NumPy."""
    size, forced = len(arms), jnp.asarray([arm not in arms[:step] for step, arm in enumerate(arms)])
    nodes, weights = np.polynomial.hermite_e.hermegauss(points)
    nodes = np.stack(np.meshgrid(*[nodes] * size, indexing="ij"), axis=-1).reshape(-1, size) * np.asarray(sigma)[arms]
    weights = np.prod(np.stack(np.meshgrid(*[weights] * size, indexing="ij"), axis=-1).reshape(-1, size), axis=1)
    traced = jnp.asarray(arms, jnp.int32)
    log_probs = jax.jit(jax.vmap(lambda rewards: jnp.sum(selection_log_probs(policy, traced, rewards, forced, len(sigma)))))
    chosen = (arms[:, None] == np.arange(len(sigma))) / np.square(sigma)
    mean = np.array([rewards[arm == arms].mean() for arm in range(len(sigma))])
    for _ in range(12):
        values = nodes + mean[arms]
        weight = weights * np.exp(np.asarray(log_probs(jnp.asarray(values, float)), float))
        weight = weight / weight.sum()
        statistic = values @ chosen
        average = weight @ statistic
        information = (statistic - average).T @ (weight[:, None] * (statistic - average))
        mean = mean + np.linalg.solve(information, rewards @ chosen - average)
    return mean
