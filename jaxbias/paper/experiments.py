"""The experiments: many trials of one policy at given means, and the estimates of one method on their logs.

An experiment is a few words and numbers, so that it can be written to a file and identified. Its random numbers depend on the
key and on these words alone: not on what else is run, nor in which order.
"""

import dataclasses
import json
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from jaxbias.bias.conditions import check_exploit, check_iio
from jaxbias.bias.exact import exact_bias
from jaxbias.bias.measured import measure_bias
from jaxbias.estimators import registry
from jaxbias.estimators.conditional_mle import ContrastiveDivergence
from jaxbias.estimators.estimate import Estimate
from jaxbias.paper.summaries import Figure, Figures, correlation, summarise
from jaxbias.policies import UCB1, EpsilonGreedy, Greedy, LilUCB, Thompson, Uniform
from jaxbias.rewards import Normal
from jaxbias.simulation.trials import simulate

PAPER_TRIALS = 1000  # of most of its experiments; `--trials` is counted in these
FEWEST = 20  # trials of an experiment: a standard error needs a few
CMLE_PATHS = 256  # of each log: a Monte Carlo error of a thirtieth of the standard error at T = 40, K = 5
MATCHING_PATHS = 512  # likewise
GRID = 41  # mean values on each side of a heat map
POLICIES: dict[str, Callable[..., Any]] = {
    "lil' UCB": LilUCB,
    "ε-Greedy": EpsilonGreedy,
    "Greedy": Greedy,
    "TS": Thompson,
    "UCB1": UCB1,
    "Uniform": lambda tau: Uniform(),  # noqa: ARG005  (it has no index to add noise to)
}


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
    policy = POLICIES[experiment.policy](tau=experiment.tau)
    figures = METHODS[experiment.method](key, policy, experiment, number)
    return Result(trials=number, figures={name: Figure(*figure) for name, figure in figures.items()})


def _measure(key: Any, policy: Any, experiment: Experiment, trials: int, **options: Any) -> Any:
    problem = (key, policy, Normal(sigma=1.0), experiment.mean, experiment.steps, trials)
    return measure_bias(*problem, progress=False, **options)


def _simulate(key: Any, policy: Any, experiment: Experiment, trials: int, **options: Any) -> Any:
    steps = options.pop("steps", experiment.steps)
    return simulate(key, policy, Normal(sigma=1.0), experiment.mean, steps, trials, progress=False, **options)


def _sample_mean(key: Any, policy: Any, experiment: Experiment, trials: int) -> Figures:
    summary = _measure(key, policy, experiment, trials)
    return {
        "bias": (summary.average_bias, summary.average_bias_stderr),
        "mse": (summary.average_mse, summary.average_mse_stderr),
        "joint": (summary.joint, summary.joint_stderr),
        "bias by arm": (summary.bias, summary.bias_stderr),
    }


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


def _estimate(method: str, *arguments: Any, **options: Any) -> Estimate:
    return registry.METHODS[method].function(*arguments, **options)


def _held_out(key: Any, policy: Any, experiment: Experiment, trials: int) -> Figures:
    """As the paper's text says: a second reward at every step, T steps."""
    history = _simulate(key, policy, experiment, trials, held_out=True)
    return summarise(_estimate("data_splitting", history, Normal(sigma=1.0)), experiment.mean)


def _held_out_shared(key: Any, policy: Any, experiment: Experiment, trials: int) -> Figures:
    """As its tables count: T rewards in all, of which the first of each arm is seen and held out at once."""
    num_arms = len(experiment.mean)
    steps = num_arms + (experiment.steps - num_arms) // 2
    history = _simulate(key, policy, experiment, trials, held_out=True, steps=steps)
    return summarise(_estimate("data_splitting", history, Normal(sigma=1.0), first_shared=True), experiment.mean)


def _propensity(key: Any, policy: Any, experiment: Experiment, trials: int) -> Figures:
    history = _simulate(key, policy, experiment, trials)
    return summarise(_estimate("propensity_weighting", history, policy, Normal(sigma=1.0), normalised=False), experiment.mean)


def _propensity_normalised(key: Any, policy: Any, experiment: Experiment, trials: int) -> Figures:
    history = _simulate(key, policy, experiment, trials)
    return summarise(_estimate("propensity_weighting", history, policy, Normal(sigma=1.0)), experiment.mean)


def _conditional(key: Any, policy: Any, experiment: Experiment, trials: int, **options: Any) -> Estimate:
    simulate_key, estimate_key = jax.random.split(key)
    history = _simulate(simulate_key, policy, experiment, trials, keep_draws=options.get("given_draws", False))
    return _estimate("conditional_mle", estimate_key, history, policy, Normal(sigma=1.0), num_paths=CMLE_PATHS, **options)


def _cmle(key: Any, policy: Any, experiment: Experiment, trials: int) -> Figures:
    return summarise(_conditional(key, policy, experiment, trials), experiment.mean)


def _cmle_given_draws(key: Any, policy: Any, experiment: Experiment, trials: int) -> Figures:
    return summarise(_conditional(key, policy, experiment, trials, given_draws=True), experiment.mean)


def _paper_cmle(key: Any, policy: Any, experiment: Experiment, trials: int) -> Figures:
    options = dict(solver="contrastive_divergence", settings=ContrastiveDivergence.paper())
    return summarise(_conditional(key, policy, experiment, trials, **options), experiment.mean)


def _paper_cmle_given_draws(key: Any, policy: Any, experiment: Experiment, trials: int) -> Figures:
    """The appendix on Thompson sampling takes 3,000 steps."""
    options = dict(solver="contrastive_divergence", settings=ContrastiveDivergence.paper(num_iterations=3000), given_draws=True)
    return summarise(_conditional(key, policy, experiment, trials, **options), experiment.mean)


def _paper_cmle_path(key: Any, policy: Any, experiment: Experiment, trials: int) -> Figures:
    """The bias of each arm after each iteration of the paper's algorithm."""
    options = dict(solver="contrastive_divergence", settings=ContrastiveDivergence.paper(keep_iterates=True))
    path = np.asarray(_conditional(key, policy, experiment, trials, **options).diagnostics["iterates"], np.float64)
    error = path - np.asarray(experiment.mean)
    return {"bias": (error.mean(axis=0), error.std(axis=0, ddof=1) / np.sqrt(trials))}


def _mean_matching(key: Any, policy: Any, experiment: Experiment, trials: int) -> Figures:
    simulate_key, estimate_key = jax.random.split(key)
    history = _simulate(simulate_key, policy, experiment, trials)
    options = dict(num_paths=MATCHING_PATHS, interval="delta")  # only the means are shown
    estimate = _estimate("mean_matching", estimate_key, history, policy, Normal(sigma=1.0), **options)
    return summarise(estimate, experiment.mean)


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


METHODS: dict[str, Callable[[Any, Any, Experiment, int], Figures]] = {
    "sample_mean": _sample_mean,
    "trajectory": _trajectory,
    "future_pulls": _future_pulls,
    "held_out": _held_out,
    "held_out_shared": _held_out_shared,
    "propensity": _propensity,
    "propensity_normalised": _propensity_normalised,
    "cmle": _cmle,
    "cmle_given_draws": _cmle_given_draws,
    "paper_cmle": _paper_cmle,
    "paper_cmle_given_draws": _paper_cmle_given_draws,
    "paper_cmle_path": _paper_cmle_path,
    "mean_matching": _mean_matching,
    "exact": _exact,
    "conditions": _conditions,
}
