"""What a policy is: three pure functions, `init`, `log_probs` and `update`.

    init(num_arms) -> state                     before anything was seen
    log_probs(state) -> (arms,)                 the log-probability that each arm is pulled next
    update(state, arm, reward) -> state         after one reward was seen

Nothing else is needed and nothing is registered: simulation samples from `log_probs`, the likelihood scores with it. A policy
may also bring `sample(key, state)`, a faster way to draw the same distribution, and `log_concave = True` where every
log-probability is concave in the summed rewards. Its settings may be pytree leaves.
"""

import dataclasses
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jaxbias.settings import check_settings


@runtime_checkable
class Policy(Protocol):
    """Any class with these three methods is a policy."""

    def init(self, num_arms: int) -> Any:
        """The state before anything was seen."""
        ...

    def log_probs(self, state: Any) -> Float[Array, " arms"]:
        """The log-probability of each arm being pulled next."""
        ...

    def update(self, state: Any, arm: Int[Array, ""], reward: Float[Array, ""]) -> Any:
        """The state after this arm gave this reward."""
        ...


class ArmStatistics(NamedTuple):
    """Pulls and summed rewards of each arm.

    Sums and not running means: sums of 0 and 1 are exact, so that equal means compare equal and ties are ties.
    """

    pulls: Int[Array, "*trials arms"]
    total: Float[Array, "*trials arms"]

    @property
    def mean(self) -> Float[Array, "*trials arms"]:
        """The sample mean of each arm; 0 for one that was never pulled."""
        return self.total / jnp.maximum(self.pulls, 1).astype(self.total.dtype)


class StatisticsPolicy:
    """A policy that looks at nothing but the pulls and the summed rewards of each arm."""

    def init(self, num_arms: int) -> ArmStatistics:
        """No pulls, no rewards."""
        return ArmStatistics(pulls=jnp.zeros(num_arms, jnp.int32), total=jnp.zeros(num_arms))

    def update(self, state: ArmStatistics, arm: Int[Array, ""], reward: Float[Array, ""]) -> ArmStatistics:
        """One more pull of this arm."""
        chosen = jnp.arange(state.pulls.shape[0], dtype=arm.dtype) == arm
        return ArmStatistics(
            pulls=state.pulls + chosen.astype(state.pulls.dtype),
            total=state.total + jnp.where(chosen, reward.astype(state.total.dtype), 0),
        )


def keeps_statistics(policy: Any) -> bool:
    """Whether the policy's state is the plain pulls and sums, so that counting can replace replaying."""
    return isinstance(policy, StatisticsPolicy) and type(policy).update is StatisticsPolicy.update


def sample_arm(key: PRNGKeyArray, policy: Policy, state: Any) -> Int[Array, ""]:
    """Draws the next arm, in the policy's own way where it has one."""
    own = getattr(policy, "sample", None)
    return jax.random.categorical(key, policy.log_probs(state)) if own is None else own(key, state)


def check_policy(policy: Any, num_arms: int) -> None:
    """Raises ValueError where the policy's settings are not allowed or its functions do not fit each other."""
    if isinstance(policy, type):
        raise ValueError(f"policy is the class {policy.__name__}; allowed: an instance of it, {policy.__name__}(...)")
    missing = [name for name in ("init", "log_probs", "update") if not callable(getattr(policy, name, None))]
    if missing:
        raise ValueError(f"policy is {policy!r}, without {', '.join(missing)}; allowed: init, log_probs and update")
    check_settings(policy, "policy")
    if getattr(policy, "policy", None) is not None:  # one that wraps another
        check_policy(policy.policy, num_arms)
    for name, value in getattr(policy, "__dict__", {}).items():
        if name in _settings_of(policy) and getattr(value, "shape", ()) not in ((), (num_arms,)):
            raise ValueError(f"policy.{name} has shape {value.shape}; allowed: one number, or one for each of {num_arms} arms")
    state = jax.eval_shape(lambda: policy.init(num_arms))
    log_probs = jax.eval_shape(policy.log_probs, state)
    shape = getattr(log_probs, "shape", type(log_probs).__name__)
    if shape != (num_arms,):
        raise ValueError(f"policy.log_probs returns shape {shape}; allowed: {(num_arms,)}, one for each arm")
    arm, reward = jax.ShapeDtypeStruct((), jnp.int32), jax.ShapeDtypeStruct((), jnp.result_type(float))
    after = jax.eval_shape(policy.update, state, arm, reward)
    if _shapes(after) != _shapes(state):
        raise ValueError(f"policy.update returns {_shapes(after)}; allowed: the shapes of init, {_shapes(state)}")


def _settings_of(policy: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(policy)} if dataclasses.is_dataclass(policy) else set()


def _shapes(tree: Any) -> Any:
    return jax.tree.structure(tree), [leaf.shape for leaf in jax.tree.leaves(tree)]
