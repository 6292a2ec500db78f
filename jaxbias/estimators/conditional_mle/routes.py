"""How the logs of rewards that are not Normal are computed: exactly where there are few states, else by particles."""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from jaxbias._core.settings import evaluate, is_concrete
from jaxbias.estimators.conditional_mle.success_counts import MOST_STATES, TABLE_STATES, share_shapes, table_sizes
from jaxbias.history import History, pulls_of
from jaxbias.rewards import Bernoulli


class Route(NamedTuple):
    """How a group of logs is computed, known before compilation.

    Fields:
        shape: of the grid of successes; None for particles.
        nodes: of the policy's tables, where it has them.
        rows: of the tables of the particles.
    """

    shape: tuple[int, ...] | None
    nodes: int | None
    rows: int | None


def choose_routes(policy: Any, family: Any, history: History) -> tuple[list[Route], Int[Array, "trials arms"]]:
    """How each log is to be computed, and which arm goes along each axis: those with few states first."""
    if is_concrete(history):
        pulls, total = (np.asarray(part) for part in evaluate(lambda history: history.statistics, history))
    elif is_concrete(history.arms):  # the rewards are traced: any number of successes is possible
        pulls = np.asarray(evaluate(pulls_of, history.arms, history.num_arms))
        total = pulls.astype(float)
    else:
        pulls = np.full((history.arms.shape[0], history.num_arms), history.num_steps)
        total = pulls.astype(float)
    exact = isinstance(family, Bernoulli) and policy.keeps_statistics
    nodes = policy.table_nodes(history.num_steps) if isinstance(family, Bernoulli) else None
    sizes = table_sizes(pulls, total) if exact else np.full(pulls.shape, history.num_steps)
    order = np.argsort(sizes, axis=1, kind="stable")
    shapes = [tuple(row) for row in np.sort(sizes, axis=1).tolist()]
    most = MOST_STATES if nodes is None else TABLE_STATES
    few = [exact and math.prod(shape) <= most for shape in shapes]
    shared = iter(share_shapes([shape for shape, fits in zip(shapes, few, strict=True) if fits]))
    rows = int(np.max(sizes))  # of the particles' tables, the same for all
    routes = [Route(next(shared), nodes, None) if fits else Route(None, nodes, rows) for fits in few]
    return routes, jnp.asarray(order, jnp.int32)
