"""Samples of the rewards given the arms by Markov chains: for policies that look at more than pulls and sums."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from jaxbias.estimators.conditional_mle.chain_diagnostics import chain_diagnostics
from jaxbias.estimators.conditional_mle.markov_chains import ChainInfo, Sampler, sample_chain
from jaxbias.estimators.conditional_mle.record import Record
from jaxbias.estimators.conditional_mle.weighted_samples import Samples, make_samples
from jaxbias.likelihood import choice_log_probs, log_prob_of_choices, reward_log_prob
from jaxbias.policies import Policy
from jaxbias.rewards import Normal


class ChainSummary(NamedTuple):
    """What several chains say about the sums they sampled: the worst arm's figures."""

    effective_sample_size: Float[Array, ""]
    r_hat: Float[Array, ""]
    acceptance: Float[Array, ""]
    divergences: Int[Array, ""]
    nan_energies: Int[Array, ""]


class Chains(NamedTuple):
    """Where the chains are, to go on from when the means have moved."""

    rewards: Float[Array, "chains steps"]
    summary: ChainSummary


def start_chains(record: Record, num_chains: int) -> Chains:
    """All chains at the rewards of the log."""
    unknown, none = jnp.full((), jnp.nan, record.rewards.dtype), jnp.zeros((), jnp.int32)
    summary = ChainSummary(unknown, unknown, unknown, none, none)
    return Chains(rewards=jnp.broadcast_to(record.rewards, (num_chains, record.rewards.shape[0])), summary=summary)


def sample_chains(
    key: PRNGKeyArray,
    policy: Policy,
    family: Normal,
    record: Record,
    mean: Float[Array, " arms"],
    chains: Chains,
    sampler: Sampler,
    squares: bool = False,
) -> tuple[Samples, Chains]:
    """Every chain goes on, at these means; a sample is the summed rewards of each arm, a group is a chain.

    With `squares`, each arm's sum of squares around its mean is a statistic too.
    """
    num_chains, num_arms = chains.rewards.shape[0], mean.shape[0]
    scale = jnp.broadcast_to(jnp.asarray(family.sigma, mean.dtype), mean.shape)[record.arms]

    def density(rewards: Float[Array, " steps"], mean: Float[Array, " arms"]) -> Float[Array, ""]:
        made = jax.vmap(log_prob_of_choices)(record.choices, choice_log_probs(policy, record.arms, rewards, num_arms))
        return reward_log_prob(family, mean, record.arms, rewards) + jnp.sum(made)

    def run(key: PRNGKeyArray, start: Float[Array, " steps"]) -> tuple[Array, Array, ChainInfo]:
        samples, info = sample_chain(key, density, start, sampler, mean, scale=scale)
        off = samples - record.rewards[None]
        total = jnp.zeros((num_arms, off.shape[0]), off.dtype).at[record.arms].add(off.T)
        if squares:
            change = off * (off + 2 * (record.rewards - mean[record.arms])[None])
            total = jnp.concatenate([total, jnp.zeros_like(total).at[record.arms].add(change.T)])
        return total, samples[-1], info

    keys = jax.vmap(partial(jax.random.fold_in, key))(jnp.arange(num_chains))
    total, last, info = jax.vmap(run)(keys, chains.rewards)
    diagnostics = chain_diagnostics(jnp.moveaxis(total, 1, 2))
    assert info.nan_energies is not None
    summary = ChainSummary(
        effective_sample_size=jnp.min(diagnostics.effective_sample_size),
        r_hat=jnp.max(diagnostics.r_hat),
        acceptance=jnp.mean(info.acceptance),
        divergences=jnp.sum(info.divergences, dtype=jnp.int32),
        nan_energies=jnp.sum(info.nan_energies, dtype=jnp.int32),
    )
    unknown = jnp.full((), jnp.nan, mean.dtype)  # chains do not determine the normaliser
    even = jnp.zeros((total.shape[2], num_chains), mean.dtype)
    return make_samples(jnp.moveaxis(total, 0, 2), even, unknown), Chains(rewards=last, summary=summary)
