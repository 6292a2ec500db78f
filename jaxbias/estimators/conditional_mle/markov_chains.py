"""Samples of the rewards given the arms: HMC, MALA and random-walk Metropolis. No other file imports NumPyro.

A chain is a pure function of its key, its log-density and where it starts, so that trials, chains and mean vectors are `vmap`s of
it. There are two: `continue_chain` runs NumPyro's own `hmc` for a few transitions with a given step size, and `sample_chain` a
whole chain with warm-up, of any kernel, made of NumPyro's leapfrog and its dual averaging. The latter counts a NaN energy by
itself; in NumPyro's it is a divergence.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from jaxbias._core.layout import materialize
from jaxbias._core.randomness import normal, root_words, step_key
from jaxbias._core.settings import COUNT, COUNT_OR_ZERO, POSITIVE, one_of, setting

Density = Callable[..., Float[Array, ""]]

# Acceptance at which each kernel mixes best in many dimensions: Roberts et al. (1997), Roberts and Rosenthal (1998); for HMC
# Beskos et al. (2013) say 0.65 and NumPyro aims at 0.8. The random walks' is the middle of the paper's 20 to 50%.
TARGETS = {"random_walk": 0.35, "single_site": 0.35, "mala": 0.574, "hmc": 0.8}
RANDOM_WALKS = ("random_walk", "single_site")
DIVERGENCE = 1000.0  # an energy error that no good trajectory makes: NumPyro's and Stan's bound
JITTER = 0.2  # HMC's step sizes vary by this share, as a fixed number of equal leapfrogs can come back to where it began
PURPOSES = 2  # random numbers of a transition: the proposal, and the uniform numbers for acceptance and jitter


@partial(
    jax.tree_util.register_dataclass,
    data_fields=("step_size",),
    meta_fields=("kernel", "num_samples", "num_warmup", "num_leapfrog", "thinning"),
)
@dataclasses.dataclass(frozen=True, kw_only=True)
class Sampler:
    """How to sample.

    Arguments:
        kernel: "hmc", "mala" (HMC of one leapfrog), "random_walk" (all rewards at once) or "single_site" (one of them at a time).
        num_samples: how many samples to keep.
        num_warmup: transitions before the first that is kept; they tune the step size where it is not set.
        step_size: of the leapfrog or the random walk, in units of `scale`; None to have it tuned. It may be traced.
        num_leapfrog: leapfrogs of one HMC transition.
        thinning: transitions from one kept sample to the next.
    """

    kernel: str = setting(default="hmc", allowed=one_of(*TARGETS))
    num_samples: int = setting(default=500, allowed=COUNT)
    num_warmup: int = setting(default=200, allowed=COUNT_OR_ZERO)
    step_size: Any = dataclasses.field(default=None, metadata={"allowed": POSITIVE})
    num_leapfrog: int = setting(default=5, allowed=COUNT)
    thinning: int = setting(default=1, allowed=COUNT)


class ChainInfo(NamedTuple):
    """What a chain says about itself, over the transitions after warm-up."""

    acceptance: Float[Array, ""]  # mean probability of acceptance
    divergences: Int[Array, ""]  # trajectories whose energy was off by more than 1000
    nan_energies: Int[Array, ""] | None  # proposals rejected because their energy was not a number; None where not counted apart
    step_size: Float[Array, ""]  # as set, or as tuned


class Running(NamedTuple):
    """What a log-density computes from all rewards, such as running sums, kept up to date as one of them changes.

    Fields:
        start: from the rewards.
        change: from what was kept, the place of the reward that changes, and by how much.

    The log-density then has it as its last argument.
    """

    start: Callable[[Float[Array, " steps"]], Any]
    change: Callable[[Any, Int[Array, ""], Float[Array, ""]], Any]


class Point(NamedTuple):
    """Where a chain is; the gradient only where the kernel uses it, and what is kept only where it changes one reward."""

    rewards: Float[Array, " steps"]
    energy: Float[Array, ""]
    gradient: Float[Array, " steps"] | None
    kept: Any = None


class Move(NamedTuple):
    """What one transition did."""

    acceptance: Float[Array, ""]
    diverged: Bool[Array, ""]
    was_nan: Bool[Array, ""]


Transition = Callable[[Int[Array, ""], Point, Float[Array, ""]], tuple[Point, Move]]


def sample_chain(
    key: PRNGKeyArray,
    log_density: Density,
    start: Float[Array, " steps"],
    sampler: Sampler,
    *arguments: Any,
    scale: Float[Array, " steps"] | None = None,
    running: Running | None = None,
) -> tuple[Float[Array, "samples steps"], ChainInfo]:
    """One chain from exp(log_density(rewards, *arguments)).

    Arguments:
        key: of this chain.
        log_density: of a vector of rewards; what else it needs, such as the means, comes in `arguments`.
        start: where the chain begins.
        sampler: the kernel and how long it runs.
        arguments: passed on to `log_density`.
        scale: about how far each reward spreads; 1 where it is not given.
        running: what the log-density keeps of the rewards, for "single_site".

    Returns:
        The samples, and what the chain says about itself.

    >>> import jax, jax.numpy as jnp
    >>> samples, info = sample_chain(jax.random.key(0), lambda x: -jnp.sum(x**2) / 2, jnp.zeros(3), Sampler())
    >>> samples.shape, int(info.divergences)
    ((500, 3), 0)
    """
    energy = lambda rewards, *kept: -log_density(rewards, *arguments, *kept)
    scale = jnp.ones_like(start) if scale is None else scale
    transition = _transition(sampler, energy, scale, root_words(key), running)
    number = jnp.arange(sampler.num_warmup + sampler.num_samples * sampler.thinning)
    point, step_size = _warm_up(sampler, transition, _first_point(sampler, energy, start, running), number[: sampler.num_warmup])

    def keep(point: Point, numbers: Int[Array, " thinning"]) -> tuple[Point, tuple[Array, Move]]:
        point, moves = jax.lax.scan(lambda point, one: transition(one, point, step_size), point, numbers)
        return point, (point.rewards, moves)

    kept = number[sampler.num_warmup :].reshape(sampler.num_samples, sampler.thinning)
    _, (samples, moves) = jax.lax.scan(keep, point, kept)
    return samples, ChainInfo(
        acceptance=jnp.mean(moves.acceptance),
        divergences=jnp.sum(moves.diverged, dtype=jnp.int32),
        nan_energies=jnp.sum(moves.was_nan, dtype=jnp.int32),
        step_size=step_size,
    )


def continue_chain(
    key: PRNGKeyArray,
    log_density: Density,
    start: Float[Array, " steps"],
    sampler: Sampler,
    *arguments: Any,
    scale: Float[Array, " steps"],
) -> tuple[Float[Array, "samples steps"], ChainInfo]:
    """Transitions of NumPyro's own HMC, or MALA (HMC of one leapfrog), from where the chain is; arguments as of `sample_chain`.

    The step size must be set: nothing is tuned, as the density changes from one call to the next with its arguments.

    >>> import jax, jax.numpy as jnp
    >>> sampler = Sampler(num_samples=3, step_size=0.5)
    >>> density = lambda rewards, mean: -jnp.sum((rewards - mean) ** 2) / 2
    >>> samples, info = continue_chain(jax.random.key(0), density, jnp.zeros(4), sampler, 1.0, scale=jnp.ones(4))
    >>> samples.shape, int(info.divergences)
    ((3, 4), 0)
    """
    dtype, jitter_key, chain_key = start.dtype, *jax.random.split(key)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):  # as NumPyro is written
        begin, transition = _numpyro("numpyro.infer.hmc").hmc(
            potential_fn_gen=lambda *arguments: lambda rewards: -log_density(rewards.astype(dtype), *arguments), algo="HMC"
        )
        step_size = sampler.step_size
        if sampler.kernel == "hmc":
            step_size = step_size * jax.random.uniform(jitter_key, (), dtype, 1 - JITTER, 1 + JITTER)
        # NumPyro computes in JAX's default float. Without a trajectory length of None it would choose another step size.
        state = begin(
            start.astype(jnp.result_type(float)),
            num_warmup=0,
            step_size=step_size,
            inverse_mass_matrix=jnp.square(scale).astype(jnp.result_type(float)),
            adapt_step_size=False,
            adapt_mass_matrix=False,
            num_steps=1 if sampler.kernel == "mala" else sampler.num_leapfrog,
            trajectory_length=None,
            model_args=arguments,
            rng_key=chain_key,
        )

        def body(state: Any, _: None) -> tuple[Any, tuple[Array, Array, Array]]:
            state = transition(state, model_args=arguments)
            return state, (state.z.astype(dtype), state.accept_prob, state.diverging)

        _, (samples, acceptance, diverging) = jax.lax.scan(body, state, None, length=sampler.num_samples)
    return samples, ChainInfo(
        acceptance=jnp.mean(acceptance).astype(dtype),
        divergences=jnp.sum(diverging, dtype=jnp.int32),
        nan_energies=None,
        step_size=jnp.asarray(sampler.step_size, dtype),
    )


def _numpyro(module: str = "numpyro.infer.hmc_util") -> Any:
    """A module of NumPyro's. They take most of a second to load, so only chains do; and outside of what is being traced, as a
    module keeps the arrays that it makes."""
    with jax.ensure_compile_time_eval():
        return import_module(module)


def _first_point(sampler: Sampler, energy: Density, start: Float[Array, " steps"], running: Running | None) -> Point:
    if running is not None:
        kept = running.start(start)
        return Point(rewards=start, energy=energy(start, kept), gradient=None, kept=kept)
    if sampler.kernel in RANDOM_WALKS:
        return Point(rewards=start, energy=energy(start), gradient=None)
    value, gradient = jax.value_and_grad(energy)(start)
    return Point(rewards=start, energy=value, gradient=gradient)


def first_step_size(kernel: str, num_rewards: int) -> float:
    """The step size that suits independent normal rewards: 2.38 / d^(1/2), 1.65 / d^(1/6), and about 1 / d^(1/4) for HMC."""
    best = {"random_walk": (2.38, 1 / 2), "single_site": (2.38, 0), "mala": (1.65, 1 / 6), "hmc": (1.0, 1 / 4)}
    factor, power = best[kernel]
    return factor * num_rewards**-power


def _warm_up(
    sampler: Sampler, transition: Transition, point: Point, numbers: Int[Array, " warmup"]
) -> tuple[Point, Float[Array, ""]]:
    """The first transitions; where the step size is not set, NumPyro's dual averaging of its logarithm."""
    dtype = point.rewards.dtype
    tuned = sampler.step_size is None
    guess = first_step_size(sampler.kernel, point.rewards.shape[0]) if tuned else sampler.step_size
    guess = jnp.asarray(guess, dtype)
    if not numbers.shape[0]:
        return point, guess
    begin, update = _numpyro().dual_averaging()

    def body(carry: tuple[Point, Any], number: Int[Array, ""]) -> tuple[tuple[Point, Any], None]:
        point, state = carry
        point, move = transition(number, point, jnp.exp(state[0]).astype(dtype) if tuned else guess)
        with jax.numpy_dtype_promotion("standard"):
            state = update(TARGETS[sampler.kernel] - move.acceptance, state)
        return (point, state), None

    log_guess = jnp.log(guess).astype(jnp.result_type(float))
    state = (log_guess, *begin(log_guess)[1:])  # pyright: ignore[reportArgumentType]
    (point, state), _ = jax.lax.scan(body, (point, state), numbers)
    return point, jnp.exp(state[1]).astype(dtype) if tuned else guess


def _transition(
    sampler: Sampler, energy: Density, scale: Float[Array, " steps"], words: Array, running: Running | None
) -> Transition:
    """One transition of the chain: a proposal, and whether it is accepted."""

    def random_walk(number: Int[Array, ""], point: Point, step_size: Float[Array, ""]) -> tuple[Point, Move]:
        noise, (uniform, _) = _noise(words, number, scale)
        rewards = point.rewards + step_size * scale * noise
        proposal = Point(rewards=rewards, energy=energy(rewards), gradient=None)
        return _accept(uniform, point, proposal, proposal.energy - point.energy, diverges=False)

    def single_site(number: Int[Array, ""], point: Point, step_size: Float[Array, ""]) -> tuple[Point, Move]:
        noise, (uniform, where) = _noise(words, number, scale[0])
        site = (where * scale.shape[0]).astype(jnp.int32)
        change = jnp.where(jnp.arange(scale.shape[0], dtype=jnp.int32) == site, step_size * scale * noise, 0)
        rewards = point.rewards + change
        kept = () if running is None else (running.change(point.kept, site, jnp.sum(change)),)
        proposal = Point(rewards, energy(rewards, *kept), gradient=None, kept=kept[0] if kept else None)
        return _accept(uniform, point, proposal, proposal.energy - point.energy, diverges=False)

    def hamiltonian(number: Int[Array, ""], point: Point, step_size: Float[Array, ""]) -> tuple[Point, Move]:
        noise, (uniform, jitter) = _noise(words, number, scale)
        if sampler.kernel == "hmc":
            step_size = step_size * (1 + JITTER * (2 * jitter - 1))
        inverse_mass = jnp.square(scale)
        kinetic_energy = _numpyro().euclidean_kinetic_energy
        _, leapfrog = _numpyro().velocity_verlet(energy, kinetic_energy)
        begin = _numpyro().IntegratorState(point.rewards, noise / scale, point.energy, point.gradient)
        length = 1 if sampler.kernel == "mala" else sampler.num_leapfrog
        end = jax.lax.fori_loop(0, length, lambda _, state: leapfrog(step_size, inverse_mass, state), begin)
        kinetic = kinetic_energy(inverse_mass, end.r) - kinetic_energy(inverse_mass, begin.r)
        proposal = Point(rewards=end.z, energy=end.potential_energy, gradient=end.z_grad)
        return _accept(uniform, point, proposal, proposal.energy - point.energy + kinetic, diverges=True)

    return {"random_walk": random_walk, "single_site": single_site}.get(sampler.kernel, hamiltonian)


def _noise(
    words: Array, number: Int[Array, ""], like: Float[Array, "*steps"]
) -> tuple[Float[Array, "*steps"], Float[Array, "2"]]:
    noise = normal(step_key(words, number * PURPOSES), like.shape, like.dtype)
    uniform = jax.random.uniform(step_key(words, number * PURPOSES + 1), (2,), like.dtype)
    return materialize((noise, uniform))


def _accept(
    uniform: Float[Array, ""], point: Point, proposal: Point, change: Float[Array, ""], diverges: bool
) -> tuple[Point, Move]:
    """Metropolis: the proposal with probability exp(-change), where a change that is not a number is a rejection."""
    was_nan = jnp.isnan(change)
    acceptance = jnp.where(was_nan, 0, jnp.exp(jnp.minimum(-jnp.where(was_nan, 0, change), 0)))
    accepted = uniform < acceptance
    point = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), proposal, point)
    diverged = change > DIVERGENCE if diverges else jnp.zeros_like(was_nan)
    return point, Move(acceptance=acceptance, diverged=diverged, was_nan=was_nan)
