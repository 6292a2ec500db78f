"""The results of a fixed set of calls, to the bit: saved before a change that should change nothing, compared after it.

    python benchmarks/golden.py --save golden.npz       # before
    python benchmarks/golden.py --compare golden.npz    # after: exit code 1 where a figure differs

Bits depend on the machine and on the version of XLA, so the file is not part of the repository. A difference is printed in
standard errors of its estimate where there is one, and otherwise relative to the largest figure of the same call.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jaxbias as jb

FIGURES = ("mean", "stderr", "lower", "upper", "converged")
MEANS = (1.0, 0.75, 0.5)
RATES = (0.6, 0.45, 0.3)
NORMAL = jb.Normal(sigma=1.0)


class Softmax:
    """A policy of a user's own: three functions and no base class."""

    def init(self, num_arms: int) -> Any:
        return jax.numpy.zeros(num_arms)

    def log_probs(self, state: Any) -> Any:
        return jax.nn.log_softmax(state)

    def update(self, state: Any, arm: Any, reward: Any) -> Any:
        return state.at[arm].add(0.1 * reward)


POLICIES = {
    "greedy": jb.Greedy(),
    "epsilon-greedy": jb.EpsilonGreedy(),
    "lil-ucb": jb.LilUCB(),
    "lil-ucb noisy": jb.LilUCB(tau=1.0),
    "ucb1": jb.UCB1(),
    "thompson": jb.Thompson(),
    "thompson noisy": jb.Thompson(tau=0.5),
    "exp3": jb.Exp3(),
    "uniform": jb.Uniform(),
    "own": Softmax(),
}


def simulations() -> Iterator[tuple[str, Callable[[], Any]]]:
    key = jax.random.key(0)
    for name, policy in POLICIES.items():
        yield f"simulate {name}", lambda policy=policy: _steps(jb.simulate(key, policy, NORMAL, MEANS, 30, 64))
        yield f"measure_bias {name}", lambda policy=policy: _bias(jb.measure_bias(key, policy, NORMAL, MEANS, 20, 5000))
    batched: Any = dict(batch_size=6, allocation="shares")
    yield "simulate in shares", lambda: _steps(jb.simulate(key, jb.Thompson(), NORMAL, MEANS, 30, 64, **batched))
    stop = jb.StopAtDifference(threshold=0.5, first=10)
    options: Any = dict(stop=stop, choose="largest", trajectory=True)
    yield "measure_bias stopped", lambda: _bias(jb.measure_bias(key, jb.Greedy(), NORMAL, MEANS, 20, 5000, **options))
    yield "simulate bernoulli", lambda: _steps(jb.simulate(key, jb.BetaThompson(), jb.Bernoulli(), RATES, 30, 64))


def estimates() -> Iterator[tuple[str, Callable[[], Any]]]:
    noisy, thompson = jb.LilUCB(tau=1.0), jb.Thompson()
    key, one = jax.random.key(1), jb.simulate(jax.random.key(2), noisy, NORMAL, MEANS, 24, held_out=True)
    many = jb.simulate(jax.random.key(3), noisy, NORMAL, MEANS, 24, 8)
    by_thompson = jb.simulate(jax.random.key(4), thompson, NORMAL, MEANS, 24, keep_draws=True)
    batched = jb.simulate(jax.random.key(5), thompson, NORMAL, MEANS, 30, batch_size=10)
    unknown, each = jb.Normal(sigma=None), jb.Normal(sigma="each")
    yield "sample_mean", lambda: jb.sample_mean(one, NORMAL)
    yield "sample_mean without family", lambda: jb.sample_mean(many)
    yield "data_splitting", lambda: jb.data_splitting(one, NORMAL)
    yield "propensity_weighting", lambda: jb.propensity_weighting(many, noisy, NORMAL)
    yield "adaptive_weighting", lambda: jb.adaptive_weighting(many, noisy, NORMAL, scheme="two_point")
    yield "batched_ols", lambda: jb.batched_ols(batched, NORMAL)
    yield "confidence_sequence", lambda: jb.confidence_sequence(one, NORMAL)
    yield "conditional_mle", lambda: jb.conditional_mle(key, many, noisy, NORMAL)
    yield "conditional_mle batched", lambda: jb.conditional_mle(key, batched, thompson, NORMAL)
    yield "conditional_mle thompson", lambda: jb.conditional_mle(key, by_thompson, thompson, NORMAL, num_paths=128)
    yield "conditional_mle given draws", lambda: jb.conditional_mle(key, by_thompson, thompson, NORMAL, given_draws=True)
    yield "conditional_mle unknown sigma", lambda: jb.conditional_mle(key, many, noisy, unknown)
    yield "conditional_mle sigma of each", lambda: jb.conditional_mle(key, one, noisy, each)
    yield "conditional_mle own policy", lambda: jb.conditional_mle(key, _by(Softmax()), Softmax(), NORMAL, num_chains=4)
    for name, settings in (("", jb.ContrastiveDivergence.paper()), (", default", None)):
        options: Any = dict(solver="contrastive_divergence", settings=settings)
        yield f"conditional_mle divergence{name}", lambda options=options: _maximise(key, one, noisy, NORMAL, **options)
    yield "mean_matching", lambda: _match(key, many, noisy, NORMAL, num_paths=512)
    yield "mean_matching greedy", lambda: _match(key, _by(jb.Greedy()), jb.Greedy(), NORMAL)
    yield "mean_matching batched", lambda: _match(key, batched, thompson, NORMAL)
    yield "mean_matching unknown sigma", lambda: _match(key, one, noisy, unknown)
    yield "mean_matching sigma of each", lambda: _match(key, one, noisy, each)
    yield "mean_matching own policy", lambda: _match(key, _by(Softmax()), Softmax(), NORMAL)
    counts: dict[str, Any] = {
        "beta": (jb.BetaThompson(), jb.Bernoulli(), RATES),
        "urn": (jb.policies.PlayTheWinner(), jb.Bernoulli(), RATES),
    }
    counts |= {"poisson": (jb.Greedy(tau=1.0), jb.Poisson(), MEANS), "exponential": (jb.Greedy(tau=1.0), jb.Exponential(), MEANS)}
    for name, (policy, family, mean) in counts.items():
        log = jb.simulate(jax.random.key(6), policy, family, mean, 20)
        yield f"conditional_mle {name}", lambda x=(log, policy, family): jb.conditional_mle(key, *x, num_paths=256)
        yield f"mean_matching {name}", lambda x=(log, policy, family): _match(key, *x)


def _maximise(*problem: Any, **options: Any) -> Any:
    return jb.conditional_mle(*problem, **options)


def _match(*problem: Any, **options: Any) -> Any:
    """With the interval by the delta method, as before test inversion."""
    return jb.mean_matching(*problem, interval="delta", **options)


def _by(policy: Any) -> Any:
    return jb.simulate(jax.random.key(7), policy, NORMAL, MEANS, 24)


def _steps(history: Any) -> dict[str, Any]:
    return {"arms": history.arms, "rewards": history.rewards}


def _bias(summary: Any) -> dict[str, Any]:
    return {name: getattr(summary, name) for name in ("bias", "bias_stderr", "mse", "mse_stderr", "joint")}


def documents() -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """The numbers of the JSON of `jaxbias debias` for both examples, by their place in the document."""
    for example in ("simulated", "ecmo"):
        command = [sys.executable, "-m", "jaxbias", "debias", "--example", example, "--json", "--quiet"]
        printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        if not printed:
            print(f"nothing was printed by {' '.join(command)}", file=sys.stderr)
            continue
        yield f"debias {example}", {place: np.asarray(value) for place, value in _numbers(json.loads(printed), "")}


def _numbers(document: Any, place: str) -> Iterator[tuple[str, float]]:
    if isinstance(document, dict):
        for name, part in document.items():
            yield from _numbers(part, f"{place}/{name}")
    elif isinstance(document, list):
        for number, part in enumerate(document):
            yield from _numbers(part, f"{place}/{number}")
    elif isinstance(document, int | float):
        yield place, float(document)


def collect() -> dict[str, np.ndarray]:
    found = {}
    for name, call in (*simulations(), *estimates()):
        result = call()
        parts = result if isinstance(result, dict) else {figure: getattr(result, figure) for figure in FIGURES}
        found |= {f"{name}: {part}": np.asarray(value) for part, value in parts.items()}
        print(name, file=sys.stderr, flush=True)
    for name, parts in documents():
        found |= {f"{name}: {part}": value for part, value in parts.items()}
    return found


def compare(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> list[str]:
    """A line for each figure that differs."""
    lines = [f"only in {'the file' if name in before else 'this run'}: {name}" for name in sorted(set(before) ^ set(after))]
    for name in [name for name in before if name in after]:
        old, new = before[name], after[name]
        if old.shape != new.shape:
            lines.append(f"{name}: shape {old.shape}, now {new.shape}")
        elif not np.array_equal(old, new, equal_nan=old.dtype.kind == "f"):
            scale = before.get(name.replace(": mean", ": stderr"), old) if name.endswith(": mean") else np.nanmax(np.abs(old))
            with np.errstate(all="ignore"):
                off = np.nanmax(np.abs(new.astype(float) - old.astype(float)) / np.maximum(np.abs(scale), 1e-12))
            lines.append(f"{name}: {off:.3g}")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--compare", type=Path)
    options = parser.parse_args(arguments)
    found = collect()
    if options.save is not None:
        np.savez(options.save, **found)  # pyright: ignore[reportArgumentType]
    if options.compare is None:
        return 0
    lines = compare(dict(np.load(options.compare)), found)
    print("\n".join(lines) or f"all {len(found)} figures are the same, to the bit")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
