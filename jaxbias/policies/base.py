"""What a policy is: three pure functions, `init`, `log_probs` and `update`.

    init(num_arms) -> state                     before anything was seen
    log_probs(state) -> (arms,)                 the log-probability that each arm is pulled next
    update(state, arm, reward) -> state         after one reward was seen

Nothing else is needed and nothing is registered: simulation samples from `log_probs`, the likelihood scores with it. `BasePolicy`
documents what a policy may bring beside them, each with a default; a class of the user's own need not derive from it.
"""

import dataclasses
import math
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jaxbias._core.errors import ArgumentError
from jaxbias._core.jit import split_numbers
from jaxbias._core.layout import add_at
from jaxbias._core.settings import check_settings, settings

FUNCTIONS = ("init", "log_probs", "update")
FEW_ARMS = 32  # for which it is checked that the probabilities of a policy of one's own sum to 1
CLOSE = 1e-3  # to 0, the logarithm of their sum
MOST_KINDS = 256  # of policies whose functions are known to fit each other
_FITTING: set[Any] = set()


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


class BasePolicy:
    """What a policy may bring beside its three functions.

    Attributes:
        log_concave: whether every log-probability is concave in the summed rewards.
        unit_rewards: whether rewards count as successes, so that they must be from 0 to 1.
        is_adaptive: whether the choices depend on the rewards.
        noise_settings: the settings that say how random the choices are, which `fit_settings` can estimate.
        shift_invariant: whether adding one number to every reward changes no log-probability; each class declares it for
            itself; it is not inherited.
        records_draws: whether it draws a value for every arm and pulls the largest: then it has `draw`, `choose` and `given`.
    """

    log_concave: bool = False
    unit_rewards: bool = False
    is_adaptive: bool = True
    noise_settings: tuple[str, ...] = ()
    shift_invariant: bool = False
    records_draws: bool = False

    def init(self, num_arms: int) -> Any:
        """The state before anything was seen."""
        raise TypeError(f"{type(self).__name__} must define init, for {num_arms} arms")

    def log_probs(self, state: Any) -> Float[Array, " arms"]:
        """The log-probability of each arm being pulled next."""
        raise TypeError(f"{type(self).__name__} must define log_probs of its state, {type(state).__name__}")

    def update(self, state: Any, arm: Int[Array, ""], reward: Float[Array, ""]) -> Any:
        """The state after this arm gave this reward."""
        raise TypeError(f"{type(self).__name__} must define update of its state, {type(state).__name__}, by {arm} and {reward}")

    def sample(self, key: PRNGKeyArray, state: Any) -> Int[Array, ""]:
        """Draws the next arm; a policy with a faster way to draw the same distribution overrides this."""
        return jax.random.categorical(key, self.log_probs(state))

    def log_prob(self, state: Any, arm: Int[Array, ""]) -> Float[Array, ""]:
        """The log-probability of one arm; a policy that has it sooner than all of them overrides this."""
        return self.log_probs(state)[arm]

    def choice_quadratic(self, state: Any, arm: Int[Array, ""]) -> tuple[Array, Array, Array] | None:
        """The log-probability of one arm, its slope in the summed rewards, and minus its second derivative, where the policy has
        a faster way than automatic differentiation; None where it has not."""
        del state, arm
        return None

    @property
    def has_sampler(self) -> bool:
        """Whether `sample` is the policy's own."""
        return type(self).sample is not BasePolicy.sample

    @property
    def keeps_statistics(self) -> bool:
        """Whether the state is the plain pulls and sums, so that counting can replace replaying."""
        return False

    def sample_by_quantile(self, key: PRNGKeyArray, state: Any) -> Int[Array, ""]:
        """As `sample`, with draws that grow with what was seen: a seed then means the same in two histories."""
        return self.sample(key, state)

    def for_steps(self, num_steps: int) -> "BasePolicy":
        """The same policy in the form it prefers for at most this many steps."""
        del num_steps
        return self

    def for_arms(self, num_arms: int) -> "BasePolicy":
        """The same policy in the form it prefers for simulations with so many arms."""
        del num_arms
        return self

    def for_settings(self) -> "BasePolicy":
        """The same policy in the form it prefers for its settings, where they are known now."""
        return self

    def log_prob_cost(self, num_arms: int) -> float:
        """About how long `log_probs` takes, in units of a closed form."""
        del num_arms
        return 1.0

    def shifted(self, offset: float) -> "BasePolicy | None":
        """The policy that does with rewards less `offset` what this one does with the rewards; None where there is none.

        A class that compares means only says so itself, as a subclass may compare something else.
        """
        del offset
        return self if vars(type(self)).get("shift_invariant", False) else None

    def choice_probs(self, state: Any) -> Float[Array, " arms"]:
        """The probabilities of `log_probs`, for simulated batches: a policy with a faster way to five digits overrides this."""
        return jnp.exp(self.log_probs(state))

    def choice_cost(self, num_arms: int) -> float:
        """About how many draws of `sample` take as long as `choice_probs` once."""
        return self.log_prob_cost(num_arms) if self.has_sampler else 0.0

    def table_nodes(self, most_pulls: int) -> int | None:
        """How many nodes `tables` needs for so many pulls of one arm; None for a policy without tables."""
        del most_pulls
        return None

    def tables(self, num_arms: int, rows: int, nodes: int, dtype: Any) -> Any:
        """The log-probabilities at many numbers of successes at once; see `BetaTables`."""
        raise TypeError(f"{type(self).__name__} has no tables of {(num_arms, rows, nodes, dtype)}")

    def drawn_log_prob(self, state: Any, arm: Int[Array, ""], draws: Float[Array, " arms"]) -> Float[Array, ""]:
        """The joint log-density of this arm and of what `draw` gave before it was chosen.

        Given the state and the arm, its derivative in the policy's settings is on average that of the arm's log-probability, an
        integral over the draws.
        """
        raise TypeError(f"{type(self).__name__} draws no values of the arms: {state}, {arm}, {draws}")

    def update_after(self, draws: Any, state: Any, arm: Int[Array, ""], reward: Float[Array, ""]) -> Any:
        """`update`, for a policy that also looks at the draws before its choice; they are None where nobody asked for them."""
        del draws
        return self.update(state, arm, reward)

    @property
    def scores_draws(self) -> bool:
        """Whether `drawn_log_prob` looks at what was drawn."""
        return type(self).drawn_log_prob is not BasePolicy.drawn_log_prob

    @property
    def has_own_draw(self) -> bool:
        """Whether it has `log_prob_given_own_draw`, and `posterior`: location and scale of each arm's draw."""
        return False

    def log_prob_given_own_draw(self, state: Any, arm: Int[Array, ""], standard: Float[Array, ""]) -> Float[Array, ""]:
        """The log-probability of the arm given its own draw in standard units, as a standard Normal variable: its average over
        that variable is the arm's probability, and it needs no integral."""
        raise TypeError(f"{type(self).__name__} draws no values of the arms: {state}, {arm}, {standard}")

    def draw(self, key: PRNGKeyArray, state: Any) -> Float[Array, " arms"]:
        """A value for every arm, drawn from its posterior."""
        raise TypeError(f"{type(self).__name__} draws no values of the arms from {type(state).__name__} and {key}")

    def choose(self, key: PRNGKeyArray, state: Any, draws: Float[Array, " arms"]) -> Int[Array, ""]:
        """The arm that is pulled after these draws."""
        raise TypeError(f"{type(self).__name__} does not choose by {draws} ({type(state).__name__}, {key})")

    def given(self, draws: Float[Array, "steps arms"]) -> "BasePolicy":
        """The policy of one trial whose draws are known."""
        raise TypeError(f"{type(self).__name__} draws no values of the arms: {draws}")


class StatisticsPolicy(BasePolicy):
    """A policy that looks at nothing but the pulls and the summed rewards of each arm."""

    def init(self, num_arms: int) -> ArmStatistics:
        """No pulls, no rewards."""
        return ArmStatistics(pulls=jnp.zeros(num_arms, jnp.int32), total=jnp.zeros(num_arms))

    def update(self, state: ArmStatistics, arm: Int[Array, ""], reward: Float[Array, ""]) -> ArmStatistics:
        """One more pull of this arm."""
        return ArmStatistics(
            pulls=add_at(state.pulls, arm, jnp.ones((), state.pulls.dtype)),
            total=add_at(state.total, arm, reward.astype(state.total.dtype)),
        )

    @property
    def keeps_statistics(self) -> bool:
        """Unless a subclass updates its state in another way."""
        return type(self).update is StatisticsPolicy.update


@settings
class PlainPolicy(BasePolicy):
    """Wraps a class of the user's own that does not derive from `BasePolicy`, and adds the defaults."""

    policy: Any

    def init(self, num_arms: int) -> Any:
        """The policy's own."""
        return self.policy.init(num_arms)

    def log_probs(self, state: Any) -> Float[Array, " arms"]:
        """The policy's own."""
        return self.policy.log_probs(state)

    def update(self, state: Any, arm: Int[Array, ""], reward: Float[Array, ""]) -> Any:
        """The policy's own."""
        return self.policy.update(state, arm, reward)

    def sample(self, key: PRNGKeyArray, state: Any) -> Int[Array, ""]:
        """The policy's own, if it has one."""
        return self.policy.sample(key, state) if self.has_sampler else super().sample(key, state)

    @property
    def has_sampler(self) -> bool:
        """Whether the class has a method `sample`."""
        return callable(getattr(self.policy, "sample", None))

    @property
    def is_adaptive(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As the class says."""
        return getattr(self.policy, "is_adaptive", True)

    @property
    def log_concave(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As the class says."""
        return getattr(self.policy, "log_concave", False)

    @property
    def unit_rewards(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As the class says."""
        return getattr(self.policy, "unit_rewards", False)

    def __repr__(self) -> str:
        """As the user knows it."""
        return repr(self.policy)


def complete_policy(policy: Any) -> BasePolicy:
    """The policy with everything that `BasePolicy` documents."""
    return policy.for_settings() if isinstance(policy, BasePolicy) else PlainPolicy(policy)


def policy_name(policy: Any) -> str:
    """The name of the policy's class."""
    return type(policy.policy if isinstance(policy, PlainPolicy) else policy).__name__


def check_policy(policy: Any, num_arms: int) -> BasePolicy:
    """The policy, completed; refused where its settings are not allowed or its functions do not fit each other."""
    if isinstance(policy, type):
        raise ArgumentError("policy", problem=f"is the class {policy.__name__}", allowed=f"an instance, {policy.__name__}(...)")
    missing = [name for name in FUNCTIONS if not _has_own(policy, name)]
    if missing:
        problem = f"is {policy!r}, without {', '.join(missing)}"
        raise ArgumentError("policy", policy, "an object with init, log_probs and update", problem=problem)
    check_settings(policy, "policy", num_arms)
    for inner in _wrapped(policy):
        check_policy(inner, num_arms)
    _check_shapes(policy, num_arms)
    return complete_policy(policy)


def _has_own(policy: Any, name: str) -> bool:
    """Whether the policy has this function, other than the placeholder of the base class."""
    inherited = getattr(type(policy), name, None) is getattr(BasePolicy, name)
    return callable(getattr(policy, name, None)) and not inherited


def _wrapped(policy: Any) -> list[Any]:
    """The policies that this one wraps."""
    fields = dataclasses.fields(policy) if dataclasses.is_dataclass(policy) else ()
    return [value for field in fields if isinstance(value := getattr(policy, field.name), Policy)]


def _check_shapes(policy: Any, num_arms: int) -> None:
    """Whether `init`, `log_probs` and `update` fit each other; traced once for each kind of policy."""
    jax.eval_shape(lambda: policy.init(num_arms))  # it may refuse settings, whose values are no part of the key
    numbers, frame = split_numbers(policy)
    kinds = tuple(None if one is None else (jnp.shape(one), jnp.result_type(one)) for one in numbers)
    key = (frame, kinds, num_arms, jnp.result_type(float))
    if key not in _FITTING:
        _trace_shapes(policy, num_arms)
        _check_sum(policy, num_arms)
        if len(_FITTING) >= MOST_KINDS:
            _FITTING.clear()
        _FITTING.add(key)


def _check_sum(policy: Any, num_arms: int) -> None:
    """Refuses a policy of one's own that returns probabilities, or scores, in place of log-probabilities.

    Looked at after one pull of each of a few arms, and not where it is traced, or not a number yet.
    """
    if type(policy).__module__.startswith("jaxbias.") or num_arms > FEW_ARMS:
        return
    state = policy.init(num_arms)
    for arm in range(num_arms):
        state = policy.update(state, jnp.asarray(arm), jnp.asarray(0.5))
    total = jax.nn.logsumexp(policy.log_probs(state))
    if not isinstance(total, Tracer) and abs(float(total)) > CLOSE and not math.isnan(float(total)):
        problem = f"returns values whose exponentials sum to {math.exp(min(float(total), 700)):.4g} and not to 1"
        raise ArgumentError(
            "policy.log_probs", problem=problem, remedy="return log-probabilities, such as jax.nn.log_softmax(scores)"
        )


def _trace_shapes(policy: Any, num_arms: int) -> None:
    state = jax.eval_shape(lambda: policy.init(num_arms))
    log_probs = jax.eval_shape(policy.log_probs, state)
    shape = getattr(log_probs, "shape", type(log_probs).__name__)
    if shape != (num_arms,):
        raise ArgumentError("policy.log_probs", shape, f"{(num_arms,)}, one for each arm", problem=f"returns shape {shape}")
    arm, reward = jax.ShapeDtypeStruct((), jnp.int32), jax.ShapeDtypeStruct((), jnp.result_type(float))
    after = jax.eval_shape(policy.update, state, arm, reward)
    if _shapes(after) != _shapes(state):
        allowed = f"the shapes of init, {_shapes(state)}"
        raise ArgumentError("policy.update", after, allowed, problem=f"returns {_shapes(after)}")


def _shapes(tree: Any) -> Any:
    return jax.tree.structure(tree), [leaf.shape for leaf in jax.tree.leaves(tree)]
