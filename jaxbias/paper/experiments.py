"""The experiments: many trials of one policy at given means, and what is measured of them.

How well a method estimates the means is a call of `evaluate`; the figures of the paper measure other things.

An experiment is a few words and numbers, so that it can be written to a file and identified. Its random numbers depend on the
key and on these words alone: not on what else is run, nor in which order.
"""

import dataclasses
import json
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from jaxbias.bias.conditions import check_exploit, check_iio
from jaxbias.bias.exact import exact_bias
from jaxbias.bias.measured import measure_bias
from jaxbias.estimators.conditional_mle import ContrastiveDivergence, conditional_mle
from jaxbias.estimators.data_splitting import data_splitting
from jaxbias.estimators.mean_matching import mean_matching
from jaxbias.estimators.sample_mean import sample_mean
from jaxbias.estimators.weighting.propensity_weighting import propensity_weighting
from jaxbias.evaluation.evaluating import OwnMethod, evaluate
from jaxbias.paper.policies import POLICIES
from jaxbias.paper.summaries import Figure, Figures, correlation
from jaxbias.policies import Greedy
from jaxbias.rewards import Normal
from jaxbias.simulation.trials import simulate

PAPER_TRIALS = 1000  # of most of its experiments; `--trials` is counted in these
FEWEST = 20  # trials of an experiment: a standard error needs a few
CMLE_PATHS = 256  # of each log: a Monte Carlo error of a thirtieth of the standard error at T = 40, K = 5
MATCHING_PATHS = 512  # likewise
GRID = 41  # mean values on each side of a heat map
FAMILY = Normal(sigma=1.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """What is run for a cell.

    Arguments:
        policy: its name in the paper, a word of `POLICIES`.
        mean: of each arm; the rewards are Normal with sigma 1.
        steps: of each trial.
        method: what is measured or estimated, a word of `METHODS`.
        tau: scale of the Gumbel noise.
        trials: as many as the paper ran.
        more: how many times as many are run, where they are cheap.
    """

    policy: str
    mean: tuple[float, ...]
    steps: int
    method: str = "sample_mean"
    tau: float = 0.0
    trials: int = PAPER_TRIALS
    more: int | float = 1

    @property
    def name(self) -> str:
        """A short name, for a person and for a file."""
        words = f"{self.method} {self.policy} tau{self.tau:g} T{self.steps} K{len(self.mean)}"
        plain = "".join(char if char.isalnum() else "-" for char in words.replace("ε", "eps").replace("'", "")).lower()
        return f"{plain}-{zlib.crc32(self.text.encode()):08x}"

    @property
    def text(self) -> str:
        """All fields as text, which identifies the experiment."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    def num_trials(self, trials: int | None) -> int:
        """How many trials are run if the user asks for `trials` in place of the paper's thousand."""
        wanted = self.trials * self.more * (1 if trials is None else trials / PAPER_TRIALS)
        return max(round(wanted), FEWEST)


Run = Callable[[Any, Any, Experiment, int], Figures]


class Result(NamedTuple):
    """The result of an experiment: figures by name, and the number of trials."""

    trials: int
    figures: dict[str, Figure]

    def as_from(self, trials: int) -> "Result":
        """The result with the standard errors of another number of trials."""
        factor = np.sqrt(self.trials / trials)
        scaled = {name: figure._replace(stderr=np.asarray(figure.stderr) * factor) for name, figure in self.figures.items()}
        return Result(trials, scaled)


def run_experiment(key: PRNGKeyArray, experiment: Experiment, trials: int | None = None) -> Result:
    """Runs an experiment; the same key, words and trials give the same bits."""
    key = jax.random.fold_in(key, zlib.crc32(experiment.text.encode()))
    number = experiment.num_trials(trials)
    policy = POLICIES[experiment.policy](experiment.tau)
    figures = METHODS[experiment.method](key, policy, experiment, number)
    return Result(trials=number, figures={name: Figure(*figure) for name, figure in figures.items()})


def _measure(key: Any, policy: Any, experiment: Experiment, trials: int, **options: Any) -> Any:
    problem = (key, policy, FAMILY, experiment.mean, experiment.steps, trials)
    return measure_bias(*problem, progress=False, **options)


def _joint(key: Any, policy: Any, experiment: Experiment, trials: int) -> Figures:
    """The share of trials in which 0, 1, ... sample means are below their means."""
    summary = _measure(key, policy, experiment, trials)
    return {"joint": (summary.joint, summary.joint_stderr)}


def _trajectory(key: Any, policy: Any, experiment: Experiment, trials: int) -> Figures:
    trajectory = _measure(key, policy, experiment, trials, trajectory=True).trajectory
    return {"bias": (trajectory.bias, trajectory.bias_stderr)}


def _future_pulls(key: Any, policy: Any, experiment: Experiment, trials: int) -> Figures:
    """The error of the best arm's sample mean after 100 steps, the pulls it gets afterwards, and their correlation."""
    from scipy.stats import rankdata

    after = _measure(key, policy, experiment, trials, after=100).after
    error, pulls = np.asarray(after.error[:, 0], np.float64), np.asarray(after.future_pulls[:, 0], np.float64)
    no_error = np.zeros_like(error)
    return {
        "error": (error, no_error),
        "pulls": (pulls, no_error),
        "correlation": correlation(error, pulls),
        "rank correlation": correlation(rankdata(error), rankdata(pulls)),
    }


def _evaluated(estimate: OwnMethod, **design: Any) -> Run:
    """The figures of a method, averaged over arms. Every finite estimate counts: the paper's algorithm stops while it moves."""

    def run(key: Any, policy: Any, experiment: Experiment, trials: int) -> Figures:
        options: Any = dict(methods={experiment.method: estimate}, num_trials=trials, count="finite", **design)
        found = evaluate(key, policy, FAMILY, experiment.mean, experiment.steps, **options).methods[experiment.method]
        averages = {name: getattr(found, f"average_{name}") for name in ("bias", "mse", "coverage")}
        shown = {name: (value, getattr(found, f"average_{name}_stderr")) for name, value in averages.items()}
        return shown | {"bias by arm": (found.bias, found.bias_stderr), "finite": (float(found.usable.min()), 0.0)}

    return run


def _sample_mean(_: Any, history: Any, __: Any, family: Any) -> Any:
    return sample_mean(history, family)


def _held_out(_: Any, history: Any, __: Any, family: Any) -> Any:
    """As the paper's text says: a second reward at every step, T steps."""
    return data_splitting(history, family)


def _held_out_shared(key: Any, policy: Any, experiment: Experiment, trials: int) -> Figures:
    """As its tables count: T rewards in all, of which the first of each arm is seen and held out at once."""
    num_arms = len(experiment.mean)
    shorter = dataclasses.replace(experiment, steps=num_arms + (experiment.steps - num_arms) // 2)
    share = lambda _, history, __, family: data_splitting(history, family, first_shared=True)
    return _evaluated(share, held_out=True)(key, policy, shorter, trials)


def _propensity(normalised: bool) -> OwnMethod:
    return lambda _, history, policy, family: propensity_weighting(history, policy, family, normalised=normalised)


def _conditional(**options: Any) -> OwnMethod:
    return partial(conditional_mle, num_paths=CMLE_PATHS, **options)


def _paper_cmle(num_iterations: int = 600, **options: Any) -> OwnMethod:
    settings = ContrastiveDivergence.paper(num_iterations=num_iterations)
    return _conditional(solver="contrastive_divergence", settings=settings, **options)


def _paper_cmle_path(key: Any, policy: Any, experiment: Experiment, trials: int) -> Figures:
    """The bias of each arm after each iteration of the paper's algorithm."""
    simulate_key, estimate_key = jax.random.split(key)
    history = simulate(simulate_key, policy, FAMILY, experiment.mean, experiment.steps, trials, progress=False)
    settings = ContrastiveDivergence.paper(keep_iterates=True)
    estimate = _conditional(solver="contrastive_divergence", settings=settings)(estimate_key, history, policy, FAMILY)
    error = np.asarray(estimate.diagnostics["iterates"], np.float64) - np.asarray(experiment.mean)
    return {"bias": (error.mean(axis=0), error.std(axis=0, ddof=1) / np.sqrt(trials))}


def _exact(_: Any, __: Any, experiment: Experiment, ___: int) -> Figures:
    """The bias of arm 1 over a grid of two Bernoulli means, with ties to arm 1. It is exact: nothing is simulated."""
    values = np.linspace(0, 1, GRID)
    grid = np.stack(np.meshgrid(values, values, indexing="ij"), axis=-1)
    bias = exact_bias(Greedy(ties="first"), grid, experiment.steps)
    return {"bias": (bias, np.zeros_like(bias))}


def _conditions(key: Any, policy: Any, experiment: Experiment, trials: int) -> Figures:
    """Whether a counterexample to each condition was found, and the bias of each arm."""
    num_arms = len(experiment.mean)
    checks = {
        "Exploit": check_exploit(key, policy, num_arms=num_arms),
        "IIO": check_iio(key, policy, num_arms=num_arms),
        "IIO pathwise": check_iio(key, policy, num_arms=num_arms, form="pathwise"),
    }
    summary = _measure(key, policy, experiment, trials)
    return {name: (float(check.holds), 0.0) for name, check in checks.items()} | {"bias": (summary.bias, summary.bias_stderr)}


METHODS: dict[str, Run] = {
    "joint": _joint,
    "trajectory": _trajectory,
    "future_pulls": _future_pulls,
    "sample_mean": _evaluated(_sample_mean),
    "held_out": _evaluated(_held_out, held_out=True),
    "held_out_shared": _held_out_shared,
    "propensity": _evaluated(_propensity(normalised=False)),
    "propensity_normalised": _evaluated(_propensity(normalised=True)),
    "cmle": _evaluated(_conditional()),
    "cmle_given_draws": _evaluated(_conditional(given_draws=True), keep_draws=True),
    "paper_cmle": _evaluated(_paper_cmle()),
    # The appendix on Thompson sampling takes 3,000 steps.
    "paper_cmle_given_draws": _evaluated(_paper_cmle(3000, given_draws=True), keep_draws=True),
    "paper_cmle_path": _paper_cmle_path,
    "mean_matching": _evaluated(partial(mean_matching, num_paths=MATCHING_PATHS, interval="delta")),  # only means are shown
    "exact": _exact,
    "conditions": _conditions,
}
