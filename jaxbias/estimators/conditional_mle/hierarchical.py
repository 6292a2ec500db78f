"""The posterior mean of the arms' means given the arms, under the prior of `shrinkage`.

    posterior(theta) ~ likelihood of the rewards given the arms (theta) x prior(theta)

The mean and not the mode: with several arms the density of the hierarchical prior is largest, without bound, where all means are
the same. Given the settings of the prior there is one mode, since both factors are log-concave, and around it the posterior is
about Normal (Laplace's method). So it is a mixture: for each node of a grid of settings the mode, by Newton's method on weighted
samples of the sums that serve all nodes, from one node to the next; its weight is the evidence,

    likelihood x prior at the mode / root of the determinant of the penalised information

Where choices do not depend on rewards, this is the posterior of `shrinkage`. The samples are made at a mean vector, and anew at
the posterior mean where that is far.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxbias._core.search import damp, search
from jaxbias.estimators.conditional_mle.hierarchical_prior import Node, Prior
from jaxbias.estimators.conditional_mle.newton import (
    LONGEST_MOVE,
    NEAR,
    BoundedFit,
    NewtonFit,
    Sample,
)
from jaxbias.estimators.conditional_mle.record import Record
from jaxbias.estimators.conditional_mle.weighted_samples import SampleMoments, Samples, moments_at
from jaxbias.estimators.shrinkage.posterior import normalise

LEAST = 0.1  # the share of the samples that must be left at a mode for them to say more about it than the moments elsewhere


class Mixture(NamedTuple):
    """The posterior, a Normal distribution of the natural parameters for each node.

    Fields:
        weight: of the nodes; they sum to one.
        natural: the modes.
        covariance: around them.
        rest: what Newton's method leaves, whose errors are squared by each move: the last move times its length.
    """

    weight: Float[Array, " nodes"]
    natural: Float[Array, "nodes arms"]
    covariance: Float[Array, "nodes arms arms"]
    rest: Float[Array, "nodes arms"]


class Place(NamedTuple):
    """Natural parameters, the moments of the sums there, and whether the samples leave enough to know them."""

    natural: Float[Array, "*row arms"]
    found: SampleMoments
    enough: Bool[Array, "*row"]


class NodeSearch(NamedTuple):
    """The modes at the nodes of the prior, by one set of samples.

    Fields:
        samples: made at the means `at`.
        least: the share of the samples that must be left at a node; where it is less, the rough likelihood takes their place.
        first: the moments at `at`.
    """

    samples: Samples
    prior: Prior
    record: Record
    at: Float[Array, " arms"]
    least: float
    first: SampleMoments

    def look(self, natural: Float[Array, " arms"]) -> Place:
        """The moments at natural parameters; the normaliser relative to that of the samples."""
        tilt = natural - self.prior.natural(self.at)
        found = moments_at(self.samples, tilt)
        normaliser = found.log_normaliser + tilt @ self.samples.known @ tilt / 2 - self.first.log_normaliser
        return Place(natural, found._replace(log_normaliser=normaliser), found.effective >= self.least)

    def move_from(self, place: Place, node: Node) -> tuple[Array, Array]:
        """The Newton move towards the mode at a node, damped and in the family's range, and its length."""
        information = place.found.covariance + self.prior.curvature(node.setting, place.natural)
        move = jnp.linalg.solve(information, self.prior.slope(node.setting, place.natural) - place.found.total)
        length = jnp.sqrt(jnp.maximum(move @ information @ move, 0))
        ceiling = self.prior.natural(jnp.full_like(self.at, jnp.inf))
        return jnp.minimum(damp(move, length, LONGEST_MOVE), (ceiling - place.natural) / 2), length

    def laplace(self, node: Node, natural: Array, height: Array, information: Array) -> tuple[Array, Array]:
        """The log-evidence of a node, and the covariance around its mode."""
        penalised = information + self.prior.curvature(node.setting, natural)
        height = height + self.prior.log_density(node.setting, natural)
        evidence = node.log_weight + height - jnp.linalg.slogdet(penalised)[1] / 2
        return jnp.where(jnp.isfinite(evidence), evidence, -jnp.inf), jnp.linalg.inv(penalised)

    def advance(self, before: Place, node: Node) -> tuple[Place, Mixture]:
        """From the mode of the node before to that of this one, with two looks at the samples; the weight is not yet one."""
        predicted = jnp.where(before.enough, before.natural + self.move_from(before, node)[0], node.start)
        near = self.look(predicted)
        place = self.look(predicted + self.move_from(near, node)[0])
        move, length = self.move_from(place, node)
        sampled = self.laplace(node, place.natural, -place.found.log_normaliser, place.found.covariance)
        rough = self.laplace(node, node.start, *self.prior.rough(self.record, self.at, self.first, node.start))
        choose = partial(jnp.where, place.enough)
        evidence, covariance, mode = map(choose, (*sampled, place.natural + move), (*rough, node.start))
        return place, Mixture(evidence, mode, covariance, choose(move * length, 0))


def posterior_of_samples(samples: Samples, prior: Prior, record: Record, at: Float[Array, " arms"], least: float) -> Mixture:
    """By one set of samples, made at the means `at`."""
    first = moments_at(samples, jnp.zeros_like(at))
    nodes = prior.nodes(record, at, first)
    search_nodes = NodeSearch(samples, prior, record, at, least, first)
    begin = jax.vmap(search_nodes.look)(nodes.start[0])
    rows = jax.lax.scan(jax.vmap(search_nodes.advance), begin, nodes)[1]
    found: Mixture = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), rows)
    return found._replace(weight=normalise(found.weight))


def summarise_mixture(mixture: Mixture, samples: Samples, prior: Prior, record: Record, at: Float[Array, " arms"]) -> NewtonFit:
    """Moments of the means; the Monte Carlo error of the expected sums goes into them as rewards do, by their covariance."""
    weight, mean = mixture.weight, prior.mean(mixture.natural)
    slope = prior.variance(mean)
    average = weight @ mean
    within = jnp.einsum("n,ni,nij,nj->ij", weight, slope, mixture.covariance, slope)
    between = jnp.einsum("n,ni,nj->ij", weight, mean - average[None], mean - average[None])
    covariance = within + between
    found = moments_at(samples, prior.natural(average) - prior.natural(at))
    gain = covariance / prior.variance(average)[None]
    return NewtonFit(
        mean=average,
        covariance=covariance,
        move=average - at,
        rest=jnp.einsum("n,ni,ni->i", weight, slope, mixture.rest),
        monte_carlo_error=jnp.sqrt(jnp.diag(gain @ found.error @ gain.T)),
        effective=found.effective * samples.log_weight.size,
        rounds=jnp.ones((), jnp.int32),
        log_normaliser=found.log_normaliser + prior.log_normaliser(record, at, average),
    )


def interval_of_mixture(mixture: Mixture, prior: Prior, level: Float[Array, ""]) -> Float[Array, "arms 2"]:
    """The same posterior probability on both sides: at each node the distribution conjugate to the family, with its curvature."""
    mean = prior.mean(mixture.natural)
    worth = 1 / (prior.variance(mean) * jnp.diagonal(mixture.covariance, axis1=1, axis2=2))
    ends = [prior.quantile(mixture.weight, mean, worth, share) for share in ((1 - level) / 2, (1 + level) / 2)]
    return jnp.stack(ends, axis=1)


class Round(NamedTuple):
    """After a round: the means of the samples, what came of them, and what the next ones start from."""

    at: Float[Array, " arms"]
    mixture: Mixture
    fit: NewtonFit
    reference: Any


def posterior_from_samples(
    sample: Sample,
    prior: Prior,
    record: Record,
    start: Float[Array, " arms"],
    reference: Any,
    level: Any,
    max_rounds: int,
    least: float = LEAST,
) -> tuple[BoundedFit, Any]:
    """Samples, the posterior by their weights, and again from its mean where that was far; for one trial."""

    def fit_at(at: Array, reference: Any) -> Round:
        samples, reference = sample(at, reference)
        mixture = posterior_of_samples(samples, prior, record, at, least)
        return Round(at, mixture, summarise_mixture(mixture, samples, prior, record, at), reference)

    def improve(before: Round) -> tuple[Round, Array]:
        after = fit_at(before.at + before.fit.move, before.reference)
        move = after.fit.move
        length = jnp.sqrt(jnp.maximum(move @ jnp.linalg.solve(after.fit.covariance, move), 0))
        return after, jnp.where(jnp.all(jnp.isfinite(after.fit.mean)), length, 0)

    shapes = jax.eval_shape(fit_at, start, reference)
    nothing: Round = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    begin = nothing._replace(at=start, reference=reference)
    found = search(improve, begin, max_rounds=max_rounds, tolerance=NEAR, dtype=start.dtype)
    last = found.state
    newton = last.fit._replace(rounds=found.rounds)
    ends = interval_of_mixture(last.mixture, prior, jnp.asarray(level, start.dtype))
    return BoundedFit(newton=newton, ends=ends, at_edge=jnp.zeros(start.shape, bool)), last.reference
