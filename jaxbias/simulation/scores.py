"""The score of a trial: the derivative, in the policy's settings and in the means, of the log-probability of all that happened.

    sum over free steps of   d log_probs(state before the step)[arm]   +   sum over steps of   d log_prob(reward, mean of its arm)

It is kept in the state of a policy that wraps the simulated one and draws the same arms from the same random numbers, so that
trials of any length need no more memory than their state and one number for each setting. Where the state is pulls and sums, it
does not depend on the settings, and each step takes one gradient; otherwise the derivative of the state is carried along.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxbias._core.layout import materialize
from jaxbias._core.settings import always, setting, settings
from jaxbias.policies import BasePolicy, complete_policy
from jaxbias.rewards import at_arm
from jaxbias.simulation.steps import Batching

FEW_SETTINGS = 8  # up to which one derivative after the other is faster than all of them backward

Rebuild = Callable[[Float[Array, " settings"]], Any]


class SettingsVector(NamedTuple):
    """The settings of a policy that are floating-point numbers, as one vector, and the way back.

    Fields:
        values: all of them.
        rebuild: the policy with other values.
        parts: where each leaf of the policy is in the vector.
        unflatten: from an array with the settings as its last axis to one array for each leaf, in a policy's structure; NaN for a
            number that is not among them.
    """

    values: Float[Array, " settings"]
    rebuild: Rebuild
    parts: tuple[slice, ...]
    unflatten: Callable[[Any], Any]


def settings_vector(policy: Any, dtype: Any) -> SettingsVector:
    """The settings that a derivative can be taken in: numbers known before compilation, such as a tau of 0, are not among them.

    >>> import jax.numpy as jnp, jaxbias as jb
    >>> settings_vector(jb.LilUCB(beta=2.0, tau=0.5), jnp.float32).values
    Array([2.   , 0.01 , 0.005, 0.5  ], dtype=float32)
    """
    leaves, structure = jax.tree.flatten(policy)
    leaves = [float(leaf) if type(leaf) is int and isinstance(policy, BasePolicy) else leaf for leaf in leaves]
    shapes = [jnp.shape(leaf) if _is_float(leaf) else None for leaf in leaves]
    ends = np.cumsum([0 if shape is None else int(np.prod(shape)) for shape in shapes])
    slices = [slice(end - int(np.prod(shape)), end) for shape, end in zip(shapes, ends, strict=True) if shape is not None]
    flat = [jnp.ravel(jnp.asarray(leaf, dtype)) for leaf in leaves if _is_float(leaf)]

    def rebuild(values: Float[Array, " settings"]) -> Any:
        parts = iter(slices)
        new = [leaf if shape is None else values[next(parts)].reshape(shape) for leaf, shape in zip(leaves, shapes, strict=True)]
        return jax.tree.unflatten(structure, new)

    def unflatten(values: Any) -> Any:
        parts = iter(slices)
        lead, unknown = values.shape[:-1], np.full(values.shape[:-1], np.nan)
        new = [unknown if shape is None else values[..., next(parts)].reshape((*lead, *shape)) for shape in shapes]
        return _without_numbers(jax.tree.unflatten(structure, new))

    return SettingsVector(jnp.concatenate(flat) if flat else jnp.zeros(0, dtype), rebuild, tuple(slices), unflatten)


def _without_numbers(policy: Any) -> Any:
    """The policy with NaN for each number that is static because of its value, such as a tau of 0: it is not a derivative."""
    if not dataclasses.is_dataclass(policy) or isinstance(policy, type):
        return policy
    fields = [field for field in dataclasses.fields(policy) if field.metadata.get("static") is not always]
    values = {field.name: getattr(policy, field.name) for field in fields}
    changed = {name: _without_numbers(value) for name, value in values.items() if dataclasses.is_dataclass(value)}
    changed |= {name: math.nan for name, value in values.items() if isinstance(value, int | float)}
    return dataclasses.replace(policy, **changed) if changed else policy


def _is_float(leaf: Any) -> bool:
    return isinstance(leaf, float) or jnp.issubdtype(getattr(leaf, "dtype", np.dtype(bool)), jnp.floating)


class ScoredState(NamedTuple):
    """The policy's state, and what its score needs.

    Fields:
        state: the policy's.
        seen: in a batch, the state at its start.
        slope: the derivative of `state` in each setting, where it has one; of `seen` in a batch, its second part.
        step: how many steps were taken.
        score: of the choices so far, one for each setting.
        reward_score: of the rewards so far, one for each arm, where the family does not say its variance.
    """

    state: Any
    seen: Any
    slope: Any
    step: Int[Array, ""]
    score: Float[Array, " settings"]
    reward_score: Float[Array, " arms"] | None


@settings
class ScoredPolicy(BasePolicy):
    """A policy that also keeps the score of its settings and of the means.

    Fields:
        policy: what is simulated, in the form it prefers.
        tangents: the derivative of each number in that form, such as a table, in each setting along the last axis.
        values: its settings; `rebuild` makes the policy of them.
        first: whether a batch starts at each step; None without batches.
        mean: of each arm.
        family: of the rewards, where their score is kept too; otherwise None.
    """

    policy: Any
    tangents: Any
    values: Any
    rebuild: Any = setting(static=always)
    first: Any
    mean: Any
    family: Any

    def init(self, num_arms: int) -> ScoredState:
        """The policy's state before anything was seen, and a score of zero."""
        state = jax.tree.map(jnp.asarray, self.policy.init(num_arms))
        slope = None
        if not self._own.keeps_statistics:
            start = lambda values: _floats(self.rebuild(values).init(num_arms))
            slope = jax.jacfwd(start)(self.values)
        return ScoredState(
            state=state,
            seen=None if self.first is None else state,
            slope=slope if self.first is None or slope is None else (slope, slope),
            step=jnp.zeros((), jnp.int32),
            score=jnp.zeros_like(self.values),
            reward_score=None if self.family is None else jnp.zeros_like(self.mean),
        )

    @property
    def _own(self) -> BasePolicy:
        return complete_policy(self.policy)

    @property
    def has_sampler(self) -> bool:
        """Whether the policy has one."""
        return self._own.has_sampler

    @property
    def scores_draws(self) -> bool:
        """As the policy does."""
        return self._own.scores_draws

    def log_probs(self, state: ScoredState) -> Float[Array, " arms"]:
        """The policy's own."""
        return self.policy.log_probs(state.state)

    def sample(self, key: PRNGKeyArray, state: ScoredState) -> Int[Array, ""]:
        """In the policy's own way."""
        return self._own.sample(key, state.state)

    def draw(self, key: PRNGKeyArray, state: ScoredState) -> Float[Array, " arms"]:
        """The policy's own."""
        return self._own.draw(key, state.state)

    def choose(self, key: PRNGKeyArray, state: ScoredState, draws: Float[Array, " arms"]) -> Int[Array, ""]:
        """The policy's own."""
        return self._own.choose(key, state.state, draws)

    def update_after(self, draws: Any, state: ScoredState, arm: Int[Array, ""], reward: Float[Array, ""]) -> ScoredState:
        """The policy's own update, after the derivative of the log-probability of this arm is added to the score."""
        own, slope = state.state, state.slope
        seen, seen_slope = self._at_choice(state)
        score = self._choice_score(seen, seen_slope, arm, draws)
        free = state.step >= self.mean.shape[0]  # each arm's first pull is forced
        after = jax.tree.map(lambda new, old: jnp.asarray(new).astype(old.dtype), self.policy.update(own, arm, reward), own)
        if slope is not None:
            current = slope if self.first is None else slope[0]
            current = self._updated_slope(own, current, arm, reward)
            slope = current if self.first is None else (current, seen_slope)
        return ScoredState(
            state=after,
            seen=None if self.first is None else seen,
            slope=slope,
            step=state.step + 1,
            score=state.score + jnp.where(free, score, 0),
            reward_score=self._reward_score(state, arm, reward),
        )

    def _at_choice(self, state: ScoredState) -> tuple[Any, Any]:
        """The state that the choice was made from, and its derivative."""
        if self.first is None:
            return state.state, state.slope
        starts: Bool[Array, ""] = self.first[state.step]
        latest = (state.state, None if state.slope is None else state.slope[0])
        frozen = (state.seen, None if state.slope is None else state.slope[1])
        return jax.tree.map(lambda new, old: jnp.where(starts, new, old), latest, frozen)

    def _choice_score(self, seen: Any, slope: Any, arm: Int[Array, ""], draws: Any) -> Float[Array, " settings"]:
        """The derivative of the log-probability of this arm in each setting, also by way of the state.

        Backward, where the state does not depend on the settings and these are many, or what was drawn is looked at; otherwise
        forward, through tables made once.
        """
        size = self.values.shape[0]
        if slope is None and (size == 0 or size > FEW_SETTINGS or self.scores_draws):
            return jax.grad(lambda values: _log_prob(self.rebuild(values), seen, arm, draws))(self.values)
        start = (_floats(self.policy), [] if slope is None else _floats(seen))

        def log_probs(numbers: list[Array], floats: list[Array]) -> Float[Array, " arms"]:
            return _with_floats(self.policy, numbers).log_probs(seen if slope is None else _with_floats(seen, floats))

        chosen = jnp.arange(self.mean.shape[0], dtype=arm.dtype) == arm
        moves = jnp.stack(
            [_along(log_probs, start, _last(self.tangents, place), _last(slope or [], place)) for place in range(size)]
        )
        return jnp.sum(jnp.where(chosen[None], moves, 0), axis=1)

    def _updated_slope(self, state: Any, slope: Any, arm: Int[Array, ""], reward: Float[Array, ""]) -> Any:
        """The derivative of the state after this reward."""
        directions = jnp.eye(self.values.shape[0], dtype=self.values.dtype)

        def after(values: Array, floats: Any) -> Any:
            return _floats(self.rebuild(values).update(_with_floats(state, floats), arm, reward))

        moves = [
            _along(after, (self.values, _floats(state)), direction, _last(slope, place))
            for place, direction in enumerate(directions)
        ]
        return jax.tree.map(lambda *parts: jnp.stack(parts, axis=-1), *moves)

    def _reward_score(self, state: ScoredState, arm: Int[Array, ""], reward: Float[Array, ""]) -> Array | None:
        if state.reward_score is None:
            return None
        family, mean = at_arm((self.family, self.mean), arm, self.mean.shape[0])
        slope = jax.grad(lambda mean: family.log_prob(reward, mean))(mean)
        chosen = jnp.arange(self.mean.shape[0], dtype=arm.dtype) == arm
        return state.reward_score + jnp.where(chosen, slope, 0)


def _log_prob(policy: Any, seen: Any, arm: Int[Array, ""], draws: Float[Array, " arms"] | None) -> Float[Array, ""]:
    return policy.log_probs(seen)[arm] if draws is None else complete_policy(policy).drawn_log_prob(seen, arm, draws)


def _along(function: Callable[..., Any], start: tuple[Any, Any], *direction: Any) -> Any:
    """The derivative in one direction.

    Several are taken one after the other and not by `vmap`, and each is computed before what follows: with settings as one more
    axis, XLA on a CPU runs one trial at a time (Exp3: 7 in place of 2 times the simulation's time).
    """
    return materialize(jax.jvp(function, start, direction)[1])


def _last(tree: Any, place: int) -> Any:
    """One setting's part."""
    return jax.tree.map(lambda leaf: leaf[..., place], tree)


def _floats(state: Any) -> list[Array]:
    """The parts of a state that have a derivative."""
    return [jnp.asarray(leaf) for leaf in jax.tree.leaves(state) if _is_float(leaf)]


def _with_floats(state: Any, floats: list[Array]) -> Any:
    """The state with other values of those parts."""
    leaves, structure = jax.tree.flatten(state)
    new = iter(floats)
    return jax.tree.unflatten(structure, [next(new) if _is_float(leaf) else leaf for leaf in leaves])


def scored(
    policy: BasePolicy, own: SettingsVector, mean: Float[Array, " arms"], family: Any, num_steps: int, batching: Batching
) -> ScoredPolicy:
    """The policy with its score; with the score of the rewards where a family is given."""
    numbers = lambda values: _floats(complete_policy(own.rebuild(values)).for_steps(num_steps))
    return ScoredPolicy(
        policy=policy.for_steps(num_steps),
        tangents=jax.jacfwd(numbers)(own.values),
        values=own.values,
        rebuild=own.rebuild,
        first=batch_starts(batching, num_steps),
        mean=mean,
        family=family,
    )


def batch_starts(batching: Batching, num_steps: int) -> Bool[Array, " steps"] | None:
    """Whether a batch starts at each step; None without batches."""
    if batching.batch_sizes is None:
        return None
    starts = np.cumsum([0, *batching.batch_sizes[:-1]])
    return jnp.asarray(np.isin(np.arange(num_steps), starts))
