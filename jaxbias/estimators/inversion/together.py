"""Tests of many logs of one experiment with few sets of paths: for experiments that are simulated many times.

The tests of a log simulate paths around its own sample means. The sample means of logs of one experiment are near each other, so
that paths at anchors spread over what all logs of a group say serve each of them: their likelihood at other means is known
(`tilting`), whichever means they were simulated at. A log is tested as `test_inversion` does it; the paths are what is shared.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from jaxbias._core.chunks import LogChunks, log_keys, split_logs
from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import compiled
from jaxbias._core.randomness import root_words, trial_words
from jaxbias.estimators.estimate import Estimate
from jaxbias.estimators.inversion.anchors import Anchors, assign_anchors, draw_nuisance, place_anchors
from jaxbias.estimators.inversion.estimator import estimate_of
from jaxbias.estimators.inversion.inverting import DRAWS, InvertedTests, invert_contrast, observed_sums, of_few, path_data
from jaxbias.estimators.inversion.question import Question, Weighted
from jaxbias.policies import ArmStatistics
from jaxbias.rewards import UnknownSigma
from jaxbias.simulation.paths import Design, PathSums, design_of, simulate_sums

PLACES = 64  # anchors of each arm: four times those of one log, as the logs of a group cover about four times its range
SPREAD = 1.5  # of the anchors of each log before they are pooled: the ends of its interval are then inside them


def invert_together(
    key: PRNGKeyArray, question: Question, weighted: Weighted, level: float, null: float, num_groups: int
) -> Estimate:
    """As `test_inversion`, of contrasts of many logs with the same forced pulls; logs one after another share a set of paths.

    Arguments:
        key: a `jax.random.key`.
        question: the logs, of one experiment; a whole number of them in each group. `num_paths` is that of a set.
        weighted: the contrasts.
        level: of the intervals.
        null: the value that is tested.
        num_groups: how many sets of paths there are.
    """
    if isinstance(question.family, UnknownSigma):
        raise ArgumentError("family", question.family, "one with a known sigma")
    logs, dtype = question.history, question.history.rewards.dtype
    design = design_of(jax.tree.map(lambda leaf: leaf[0], logs), question.stop)
    groups = jax.tree.map(lambda leaf: leaf.reshape(num_groups, -1, *leaf.shape[1:]), (logs.statistics, logs.rewards[:, 0]))
    keys, given = log_keys(key, num_groups), (question.policy, question.family)
    numbers = jnp.full(2, (1 - level) / 2, dtype), jnp.asarray(null, dtype)
    chunks = split_logs(1, (keys, groups, *given))
    sets = chunks.collect(_simulate(*given, keys, groups, design, num_paths=question.num_paths, chunks=chunks))
    chunks = split_logs(1, (keys, sets, question.family))
    tests = chunks.collect(_test(question.family, keys, sets, weighted, *numbers, chunks=chunks))
    tests = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), tests)
    return estimate_of(tests, weighted, question, level)


class _Set(NamedTuple):
    """One set of paths, and what the logs that share it gave: whatever their number of steps, tests of them are one program."""

    sums: PathSums
    anchors: Anchors
    logs: ArmStatistics
    reward: Float[Array, ""]


@partial(compiled, static=("num_paths", "chunks"), pads=("design",))
def _simulate(policy: Any, family: Any, keys: Any, groups: Any, design: Design, num_paths: int, chunks: LogChunks) -> _Set:
    def one(group: tuple[Any, tuple[ArmStatistics, Array]]) -> _Set:
        key, (statistics, first) = group
        paths_key, order_key, _ = jax.random.split(key, 3)
        common = pool_anchors(_spread_by(SPREAD, family, statistics))
        means = assign_anchors(order_key, common, num_paths)
        words = trial_words(root_words(paths_key), jnp.uint32(0), num_paths)
        return _Set(simulate_sums(words, policy, family, means, design), common, statistics, first[0])

    return chunks.map(one, (keys, groups))


@partial(compiled, static=("chunks",))
def _test(family: Any, keys: Any, sets: _Set, weighted: Weighted, chance: Any, null: Any, chunks: LogChunks) -> InvertedTests:
    return chunks.map(lambda one: _invert_group(one[0], one[1], family, weighted, chance, null), (keys, sets))


def _invert_group(
    key: PRNGKeyArray,
    paths: _Set,
    family: Any,
    weighted: Weighted,
    chance: Float[Array, "2"],
    null: Float[Array, ""],
) -> InvertedTests:
    own, common = _spread_by(1.0, family, paths.logs), paths.anchors
    data = path_data(paths.sums, common, family, family, paths.reward)

    def one(log: tuple[Any, Any, Anchors]) -> InvertedTests:
        log_key, sums, anchors = log
        nuisance, observed = draw_nuisance(log_key, anchors, DRAWS), observed_sums(sums, anchors, None)
        placed = common._replace(stderr=anchors.stderr)
        contrast = lambda which: of_few(which[0], which[1], family, placed, nuisance, data, observed)
        once = jnp.ones((), jnp.int32)
        return jax.lax.map(lambda which: invert_contrast(contrast(which), chance, null, once), tuple(weighted))

    keys = jax.random.split(jax.random.split(key, 3)[2], paths.logs.pulls.shape[0])
    return jax.lax.map(one, (keys, paths.logs, own))


def _spread_by(spread: float, family: Any, logs: ArmStatistics) -> Anchors:
    """The anchors of every log."""
    place = lambda mean, pulls: place_anchors(family, mean, pulls, jnp.asarray(spread, mean.dtype))
    return jax.vmap(place)(logs.mean, logs.pulls)


def pool_anchors(own: Anchors) -> Anchors:
    """Of a group of logs: quantiles of all their anchors together, so that logs with few pulls of an arm have some far out."""
    ordered = jnp.sort(jnp.moveaxis(own.places, 0, 1).reshape(own.places.shape[1], -1), axis=1)
    which = ((np.arange(PLACES) + 0.5) / PLACES * ordered.shape[1]).astype(int)
    return Anchors(centre=jnp.mean(own.centre, axis=0), stderr=jnp.mean(own.stderr, axis=0), places=ordered[:, which])
