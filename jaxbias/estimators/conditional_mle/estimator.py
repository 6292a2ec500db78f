"""The conditional maximum likelihood estimator: the means that make the rewards most likely, given the arms that were chosen."""

import dataclasses
from typing import Any, Literal

from jaxtyping import PRNGKeyArray

from jaxbias._core.chunks import as_many, log_keys, only_one
from jaxbias._core.derivatives import held, refuse_derivative
from jaxbias._core.door import public
from jaxbias._core.errors import ArgumentError
from jaxbias._core.settings import check_settings
from jaxbias.estimators.conditional_mle.checks import LogProblem, check_arguments, check_prior
from jaxbias.estimators.conditional_mle.contrastive_divergence import ContrastiveDivergence
from jaxbias.estimators.conditional_mle.markov_chains import Sampler
from jaxbias.estimators.conditional_mle.normal_rewards import Sizes, fit_divergence, fit_newton, fit_posterior, fit_sigma
from jaxbias.estimators.conditional_mle.one_parameter import fit_one_parameter
from jaxbias.estimators.conditional_mle.results import from_bounded, from_divergence, from_newton, from_sigma
from jaxbias.estimators.conditional_mle.sensitivity import (
    Sensitivity,
    differentiable,
    live_problem,
    of_newton,
    of_one_parameter,
    of_sigma,
)
from jaxbias.estimators.estimate import Estimate
from jaxbias.history import History
from jaxbias.policies import Policy
from jaxbias.rewards import Family, Normal, UnknownSigma

NOT_DIFFERENTIABLE = ArgumentError("solver", "contrastive_divergence", "'newton' where an estimate is differentiated")


@public
def conditional_mle(
    key: PRNGKeyArray,
    history: History,
    policy: Policy,
    family: Family,
    solver: Literal["newton", "contrastive_divergence"] = "newton",
    *,
    prior: Literal["hierarchical"] | None = None,
    level: float = 0.95,
    given_draws: bool = False,
    num_paths: int = 1024,
    max_rounds: int = 30,
    sampler: Sampler | None = None,
    num_chains: int = 16,
    settings: ContrastiveDivergence | None = None,
) -> Estimate:
    """The means that maximise the likelihood of the rewards given the arms, with standard errors from its information.

    Arguments:
        key: a `jax.random.key`.
        history: one trial or many.
        policy: how the arms were chosen; its choices must have been random (tau > 0, or random by nature).
        family: what the rewards are: `Normal` with its sigma, or without it (None, or "each") to have it estimated too;
            `Bernoulli`, `Poisson` or `Exponential`.
        solver: "newton", or "contrastive_divergence": stochastic gradients from NumPyro's Hamiltonian Monte Carlo, for Normal
            rewards. Both reach the maximum; Newton's method is faster.
        prior: None for the maximum of the likelihood; "hierarchical" for the posterior mean under the prior of `shrinkage`
            (solver "newton", and a sigma that is known), as `conditional_posterior` says.
        level: of the intervals.
        given_draws: condition on the posterior draws that Thompson sampling recorded in `history.draws`, as the paper does;
            otherwise they are integrated out, which needs no record of them.
        num_paths: paths sampled at each mean vector; the Monte Carlo error falls with their square root. For rewards that are not
            Normal four times as many particles; none where the recursion over the successes of Bernoulli rewards is exact.
        max_rounds: how often they are sampled, at most.
        sampler: of the chains that replace the paths, where the policy looks at more than pulls and sums, or where it is given.
        num_chains: how many of them.
        settings: of contrastive divergence; `ContrastiveDivergence.paper()` is the paper's Algorithm 2, which stops short of the
            maximum.

    Returns:
        An `Estimate`. Where an arm had no success, or no failure, its estimate is at the end of the range, with an interval on
        one side and a status that says so; it has converged, and so may the others. Those of "newton" are differentiable in the
        rewards and in the settings of policy and family, as `Estimate` says. Diagnostics of "newton": `covariance` of the
        means, (arms, arms); `jacobian`, the derivative of the means in the sample means, and where sigma is estimated in the
        logarithm of that within arms; `monte_carlo_error` of each mean, `effective_samples`, `rounds`, `last_move`, and
        `log_normaliser`, the log-probability of the arms at the estimate; with chains `r_hat`, `acceptance`, `divergences` and
        `nan_energies`;
        where sigma is estimated, the maximum likelihood `sigma` with `sigma_stderr` and the degrees of `freedom` of the
        intervals, one or one for each arm. Of "contrastive_divergence": `drift` of the iterates over the tail, `acceptance`,
        `step_size` and `divergences` of the chains; of several chains that go on `covariance` and `monte_carlo_error`; of random
        walks `nan_energies`; and the `iterates` where they were asked for.

    >>> import jax, jaxbias as jb
    >>> policy, family = jb.Greedy(tau=1.0), jb.Normal(sigma=1.0)
    >>> history = jb.simulate(jax.random.key(0), policy, family, [1.0, 0.75], num_steps=12)
    >>> estimate = jb.conditional_mle(jax.random.key(1), history, policy, family)
    >>> estimate.mean.shape, bool(estimate.converged.all())
    ((2,), True)
    """
    for name, number in (("num_paths", num_paths), ("num_chains", num_chains)):
        if number < 2:
            raise ArgumentError(name, number, "2 or more")
    for name, options in (("settings", settings), ("sampler", sampler)):
        if options is not None:
            check_settings(options, name)
    if solver == "contrastive_divergence":
        history, policy, family = refuse_derivative((history, policy, family), NOT_DIFFERENTIABLE)
    problem = check_arguments(*held((history, policy, family)), solver, level, given_draws)
    check_prior(prior, problem.family, solver)
    single = problem.history.arms.ndim == 1
    if single:
        problem = problem._replace(history=as_many(problem.history))
    if sampler is None and not problem.policy.keeps_statistics:
        sampler = Sampler()
    sizes = Sizes(pairs=(num_paths + 1) // 2, sampler=sampler, num_chains=num_chains, max_rounds=max_rounds)
    keys = log_keys(key, problem.history.arms.shape[0])
    if solver == "contrastive_divergence":
        estimate = from_divergence(*fit_divergence(keys, problem, settings or ContrastiveDivergence(), sizes), level)
    else:
        estimate, found = _solve(keys, problem, sizes, level, prior)
        live = live_problem(history, policy, family, problem)
        estimate = differentiable(estimate, keys, problem, live, found, 2 * sizes.pairs, prior)
    return only_one(estimate) if single else estimate


def conditional_posterior(
    key: PRNGKeyArray,
    history: History,
    policy: Policy,
    family: Family,
    *,
    level: float = 0.95,
    num_paths: int = 1024,
    max_rounds: int = 30,
) -> Estimate:
    """The posterior mean of each arm given the arms that were chosen, under the prior of `shrinkage`.

        posterior(means) ~ density of the rewards given the arms (means) x prior(means)

    The maximum of the first factor, `conditional_mle`, overshoots where choices were nearly greedy: they leave little to learn
    given the arms. The prior takes the means of the arms for draws from one distribution, whose centre and spread are integrated
    out, and draws them together by as much as the likelihood leaves open. Where choices do not depend on rewards, this is the
    posterior of `shrinkage`. Given the spread it is taken for Normal, or conjugate, around its mode, with the curvature there.

    It does not help where the arms leave the common level open too, as with very few successes; `shrinkage` is better there.

    Arguments:
        key: a `jax.random.key`.
        history: one trial or many.
        policy: how the arms were chosen; its choices must have been random (tau > 0, or random by nature).
        family: `Normal` with its sigma, `Bernoulli`, `Poisson` or `Exponential`.
        level: of the intervals, which have about this posterior probability, the same on both sides. They are credible intervals:
            over experiments at fixed means they can cover less, foremost those of an arm far from the others (95% intervals:
            92 to 98% of the time for single arms in the settings of `benchmarks/README.md`).
        num_paths, max_rounds: as in `conditional_mle`, which is this with `prior="hierarchical"` and has more options.

    Returns:
        An `Estimate`; `stderr` is the posterior standard deviation. It draws the best arm down and the worst up, as `shrinkage`
        does. No estimate is at the end of the range. Differentiable in the rewards, by the posterior covariance; not in settings.
        Diagnostics as of `conditional_mle`; `covariance` is that of the posterior.

    >>> import jax, jaxbias as jb
    >>> policy, family = jb.EpsilonGreedy(0.1), jb.Bernoulli()
    >>> history = jb.simulate(jax.random.key(0), policy, family, [0.3, 0.35], num_steps=12)
    >>> estimate = conditional_posterior(jax.random.key(1), history, policy, family)
    >>> estimate.mean.shape, bool(estimate.converged.all())
    ((2,), True)
    """
    sizes: Any = dict(num_paths=num_paths, max_rounds=max_rounds)
    return conditional_mle(key, history, policy, family, prior="hierarchical", level=level, **sizes)


def _solve(keys: Any, problem: LogProblem, sizes: Sizes, level: float, prior: str | None) -> tuple[Estimate, Sensitivity]:
    """The estimates of many logs, by what their family asks for, and how they depend on the logs."""
    history, _, family = problem
    if isinstance(family, UnknownSigma):
        fit, spread = fit_sigma(keys, problem, sizes)
        return from_sigma(fit, spread, family, history.num_arms, level), of_sigma(fit, family, history)
    if not isinstance(family, Normal):
        found = fit_one_parameter(keys, problem, 2 * sizes.pairs, sizes.max_rounds, level, prior is not None)
        return _named(from_bounded(found, level), prior), of_one_parameter(found, family, history)
    if prior is not None:
        found = fit_posterior(keys, problem, sizes, level)
        return _named(from_bounded(found, level), prior), of_newton(found.newton, family, history)
    fit = fit_newton(keys, problem, sizes)
    return from_newton(fit, level), of_newton(fit, family, history)


def _named(estimate: Estimate, prior: str | None) -> Estimate:
    return estimate if prior is None else dataclasses.replace(estimate, method="conditional_posterior")
