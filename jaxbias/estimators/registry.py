"""The one list of methods: what each needs, what it costs, and how it is called.

`compare`, `debias`, the command line, the plots, `reproduce` and the documentation read it. A new estimator is one file and one
entry here. Functions are found by the name of their module and loaded when they are called, so that reading the list imports no
JAX.
"""

import dataclasses
import enum
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


class Need(enum.Enum):
    """What a method needs beside the arms and the rewards."""

    POLICY = "the policy that chose the arms"
    FAMILY = "the reward family"
    RANDOM_CHOICES = "choices that were random"
    BATCHES = "batches"
    HELD_OUT = "held-out rewards"
    EVERY_PROBABILITY = "the probability of every arm, where the policy is not known"


class Cost(enum.IntEnum):
    """What takes the time, the cheapest first."""

    SUMS = 0  # a few sums over the log
    REPLAY = 1  # the policy's log-probabilities at every step, once
    SIMULATION = 2  # thousands of simulated paths
    WEIGHTED_PATHS = 3  # the policy's log-probabilities at every step, for thousands of paths


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method:
    """One estimator.

    Arguments:
        name: of the function, and of the method wherever it is named.
        module: where the function is.
        summary: what it does, in a line.
        needs: what it cannot do without.
        takes: the arguments it is called with, by name; those it cannot find in a question are left out.
        cost: what takes its time.
        knows_stopping: whether it stays right where a rule could stop the experiment.
        holds_at_every_step: whether its intervals hold at all steps together, so that differences are between their ends.
        corrects: whether its means are free of the bias, where its needs are met.
        preference: its rank where methods are not evaluated on logs like the one at hand: first the guarded one, then those that
            correct, the one with the least bias first. None where it is never preferred.
        fallback: its rank where the policy is not known or does not fit, the one that assumes the least first. None where it
            needs the policy.
        by_default: whether it is tried where no methods are named.
        guarded: whether the error of an arm that was pulled often is that of its sample mean at most. Where methods are evaluated
            on logs like the one at hand, these are recommended before the others: such logs are simulated at estimates, and
            cannot show whose error grows where the estimates are lucky.
        inverts: whether its intervals are those of `test_inversion`, which several methods of a comparison then share.
        most_paths: paths beyond which its Monte Carlo error no longer matters; a comparison has it simulate no more.
        options: other arguments that it is called with where it is one method among others.
    """

    name: str
    module: str
    summary: str
    needs: frozenset[Need] = frozenset()
    takes: tuple[str, ...]
    cost: Cost = Cost.SUMS
    knows_stopping: bool = False
    holds_at_every_step: bool = False
    corrects: bool = False
    preference: int | None = None
    fallback: int | None = None
    by_default: bool = True
    guarded: bool = False
    inverts: bool = False
    most_paths: int | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def function(self) -> Callable[..., Any]:
        """The estimator itself."""
        return getattr(import_module(self.module), self.name)

    @property
    def needs_policy(self) -> bool:
        """Whether it uses the policy's probabilities."""
        return Need.POLICY in self.needs


_ALL = (
    Method(
        name="sample_mean",
        module="jaxbias.estimators.sample_mean",
        summary="the average reward of each arm, which is wrong on average",
        takes=("history", "family", "level"),
        knows_stopping=True,  # as right, or wrong, with a rule as without
        guarded=True,
        fallback=3,
    ),
    Method(
        name="data_splitting",
        module="jaxbias.estimators.data_splitting",
        summary="the average of held-out rewards; unbiased, and half of the samples are lost",
        needs=frozenset({Need.HELD_OUT}),
        takes=("history", "family", "level"),
        knows_stopping=True,
        corrects=True,
        preference=4,
        fallback=2,
    ),
    Method(
        name="propensity_weighting",
        module="jaxbias.estimators.weighting.propensity_weighting",
        summary="each reward over the probability of its arm, with weights that sum to one; noisy",
        needs=frozenset({Need.POLICY, Need.RANDOM_CHOICES}),
        takes=("history", "policy", "family", "propensities", "level"),
        cost=Cost.REPLAY,
    ),
    Method(
        name="adaptive_weighting",
        module="jaxbias.estimators.weighting.adaptive_weighting",
        summary="augmented weighting of Hadad et al. (2021)",
        needs=frozenset({Need.POLICY, Need.RANDOM_CHOICES, Need.EVERY_PROBABILITY}),
        takes=("history", "policy", "family", "propensities", "level"),
        cost=Cost.REPLAY,
        corrects=True,
        preference=3,
    ),
    Method(
        name="conditional_mle",
        module="jaxbias.estimators.conditional_mle",
        summary="the means that make the rewards most likely given the arms",
        needs=frozenset({Need.POLICY, Need.FAMILY, Need.RANDOM_CHOICES}),
        takes=("key", "history", "policy", "family", "level"),
        cost=Cost.WEIGHTED_PATHS,
        corrects=True,
        preference=2,
    ),
    Method(
        name="mean_matching",
        module="jaxbias.estimators.mean_matching",
        summary="the means at which the simulated policy gives the observed sample means on average",
        needs=frozenset({Need.POLICY, Need.FAMILY}),
        takes=("key", "history", "policy", "family", "level", "num_paths", "stop", "num_steps"),
        cost=Cost.SIMULATION,
        knows_stopping=True,
        corrects=True,
        preference=1,
        inverts=True,
    ),
    Method(
        name="batched_ols",
        module="jaxbias.estimators.batched_ols",
        summary="means of each batch (Zhang, Janson and Murphy, 2020); differences that a common drift does not touch",
        needs=frozenset({Need.BATCHES}),
        takes=("history", "family", "level"),
        fallback=4,
    ),
    Method(
        name="confidence_sequence",
        module="jaxbias.estimators.confidence_sequence",
        summary="an interval that holds at every step at once, wider than the others",
        takes=("history", "family", "level", "scale"),
        knows_stopping=True,
        holds_at_every_step=True,
        fallback=1,
    ),
    Method(
        name="test_inversion",
        module="jaxbias.estimators.inversion",
        summary="the means that a simulated test does not reject, and the median-unbiased estimate between them",
        needs=frozenset({Need.POLICY, Need.FAMILY}),
        takes=("key", "history", "policy", "family", "level", "stop", "num_steps"),
        cost=Cost.SIMULATION,
        knows_stopping=True,
        corrects=True,
        preference=6,
        inverts=True,
    ),
    Method(
        name="shrinkage",
        module="jaxbias.estimators.shrinkage",
        summary="empirical Bayes: the sample means drawn towards each other; the least error, with a bias of both signs",
        needs=frozenset({Need.FAMILY}),
        takes=("history", "family", "level"),
        knows_stopping=True,  # the likelihood of an adaptive log is the plain one, with a rule too
    ),
    Method(
        name="bias_corrected",
        module="jaxbias.estimators.bias_corrected",
        summary="shrinkage less its bias, which is simulated at the estimate; little bias and little error",
        needs=frozenset({Need.POLICY, Need.FAMILY}),
        takes=("key", "history", "policy", "family", "level", "num_paths", "stop", "num_steps"),
        cost=Cost.SIMULATION,
        knows_stopping=True,
        corrects=True,
        preference=5,
        inverts=True,
        most_paths=2048,  # an error of a fiftieth of the standard error
    ),
    Method(
        name="unbiased",
        module="jaxbias.estimators.unbiased",
        summary="the first reward of each arm averaged over the possible orders; unbiased for any rewards, with more error",
        needs=frozenset({Need.POLICY}),
        takes=("key", "history", "policy", "family", "level", "stop"),
        cost=Cost.WEIGHTED_PATHS,
        knows_stopping=True,
        corrects=True,
        preference=7,
        by_default=False,  # its chains take long, and the others have less error
    ),
    Method(
        name="conditional_posterior",
        module="jaxbias.estimators.conditional_mle",
        summary="the conditional MLE with the prior of shrinkage: less error, with a bias of both signs",
        needs=frozenset({Need.POLICY, Need.FAMILY, Need.RANDOM_CHOICES}),
        takes=("key", "history", "policy", "family", "level"),
        cost=Cost.WEIGHTED_PATHS,
        by_default=False,  # shrinkage has as little error in most settings, in far less time
    ),
    Method(
        name="guarded_shrinkage",
        module="jaxbias.estimators.guarded_shrinkage",
        summary="shrinkage as far as an arm's pulls allow; no more error than the sample mean where it was pulled often",
        needs=frozenset({Need.POLICY, Need.FAMILY}),
        takes=("key", "history", "policy", "family", "level", "num_paths", "stop", "num_steps"),
        cost=Cost.SIMULATION,
        knows_stopping=True,
        preference=0,
        guarded=True,
        inverts=True,
        most_paths=2048,  # its average of 1 / pulls is known to a few percent
    ),
)
METHODS = {method.name: method for method in _ALL}
PREFERRED = tuple(sorted((one for one in _ALL if one.preference is not None), key=lambda one: one.preference or 0))
FALLBACKS = tuple(sorted((one for one in _ALL if one.fallback is not None), key=lambda one: one.fallback or 0))
