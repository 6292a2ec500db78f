"""What an analysis finds out about one log. The terminal, the JSON document, the page and the plots all read these values."""

import dataclasses
import enum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jaxbias._core.showing import as_html, as_text
from jaxbias.analysis.clusters import Clusters
from jaxbias.analysis.decisions import Decisions
from jaxbias.analysis.drift import Drift
from jaxbias.bias.at_given_means import ArmBias
from jaxbias.estimators.compare import Comparison, can_use
from jaxbias.estimators.estimate import Estimate, Status
from jaxbias.estimators.registry import METHODS
from jaxbias.evaluation import Evaluation
from jaxbias.logs import Log
from jaxbias.policy_fit.causes import LikelyCause
from jaxbias.policy_fit.check import PolicyFit
from jaxbias.policy_fit.delays import DelayCheck
from jaxbias.policy_fit.tuning import Fitted
from jaxbias.policy_fit.weights import WeightsCheck

if TYPE_CHECKING:
    import pandas


class Reason(enum.Enum):
    """Why a method is recommended."""

    POLICY_UNKNOWN = enum.auto()
    POLICY_DOES_NOT_FIT = enum.auto()
    NOTHING_TO_CORRECT = enum.auto()  # the arms were chosen without looking at the rewards
    EVALUATED = enum.auto()  # the least error on simulated logs like this one
    PREFERRED = enum.auto()  # the first of the preferred methods that converged for every arm
    NONE_CONVERGED = enum.auto()  # none of the preferred methods did
    NONE_TRIED = enum.auto()  # none of the preferred methods was tried, or none applies
    WEIGHTS_KNOWN = enum.auto()  # the policy is not known, or does not fit, but its weights are logged


class WeightingLoss(NamedTuple):
    """The arm that loses the largest share of its pulls if rewards are weighted by their propensities."""

    arm: int
    pulls: int
    effective: float  # sample size


class EvaluatedChoice(NamedTuple):
    """What the evaluation says for the recommended method.

    Fields:
        error: its root mean squared error on simulated logs like this one, over all arms.
        naive_error: that of the sample mean.
        coverage: of its intervals.
        num_trials: how many logs were simulated.
    """

    error: float
    naive_error: float
    coverage: float
    num_trials: int


class Recommendation(NamedTuple):
    """Which method to believe for this log, and why.

    Fields:
        method: its name in the registry.
        corrects: whether its means are free of the bias; otherwise only its intervals can be used.
        reason: why this one.
        tried: the preferred methods that gave an estimate, the most preferred first.
        least_pulls: of the arms that were pulled.
        few_pulls: the arms whose pulls are too few for more than a wide interval.
        weighting_loss: where propensity weighting is no substitute, by how much.
        evaluated: what the evaluation says for it, where that is the reason.
        means_from: where its means are not corrected, the method whose means have less error; its intervals are still the ones.
    """

    method: str
    corrects: bool
    reason: Reason
    tried: tuple[str, ...] = ()
    least_pulls: int = 0
    few_pulls: tuple[int, ...] = ()
    weighting_loss: WeightingLoss | None = None
    evaluated: EvaluatedChoice | None = None
    means_from: str | None = None


class BestArm(NamedTuple):
    """The arm with the largest recommended estimate, and its margin over the next one.

    Fields:
        arm: it.
        runner_up: the arm with the second largest estimate.
        margin: the difference of the two estimates.
        stderr: of the margin.
        lower, upper: the interval of the margin: by a simulated test where there is one, otherwise from the two estimates.
        rivals: the other arms that may be the best.
    """

    arm: int
    runner_up: int
    margin: float
    stderr: float
    lower: float
    upper: float
    rivals: tuple[int, ...]

    @property
    def is_clear(self) -> bool:
        """Whether every other arm is ruled out."""
        return not self.rivals


class LowerBound(NamedTuple):
    """An arm whose mean is above a bound, whatever chose the arms."""

    arm: int
    lower: float


class FewPulls(NamedTuple):
    """What a log of 0 and 1 can show that has very few pulls of some arm, and what no method can get from it.

    Fields:
        total: pulls of all arms.
        shown: the arms with enough pulls, and what their means are above.
        weakest, pulls, lower, upper: the arm with the fewest pulls, and the interval of its mean.
        rival, lead_lower, lead_upper: the most pulled of the other arms, and how far it may be ahead; None where there is none.
    """

    total: int
    shown: tuple[LowerBound, ...]
    weakest: int
    pulls: int
    lower: float
    upper: float
    rival: int | None
    lead_lower: float
    lead_upper: float


class MovingRow(NamedTuple):
    """A row of the log, and the estimate it moves.

    Fields:
        step: of the row, from 0.
        arm, reward: what it pulled, and what that gave.
        estimate_of: the arm whose estimate it moves.
        weight: by how much for each unit of the reward.
        shift: how far the row has moved it, from what it would be with the average of the arm's other rows in its place; NaN for
            the only row of an arm.
        errors: the same in standard errors, without its sign.
    """

    step: int
    arm: int
    reward: float
    estimate_of: int
    weight: float
    shift: float
    errors: float


class CarriedEstimate(NamedTuple):
    """An estimate that one row carries: alone, by its weight, or by how far its reward is from the others."""

    arm: int
    row: MovingRow
    alone: bool


class Influence(NamedTuple):
    """How the rows of a log move the recommended estimates.

    Fields:
        moved: (arms, steps), the derivative of each estimate in each reward.
        rows: those that move an estimate most, in its standard errors.
        carried: the estimates that one row carries.
    """

    moved: np.ndarray
    rows: tuple[MovingRow, ...]
    carried: tuple[CarriedEstimate, ...]


class Assumed(enum.Enum):
    """What the analysis assumed because it was not given."""

    BERNOULLI = enum.auto()  # every reward is 0 or 1
    NORMAL = enum.auto()
    SIGMA_ESTIMATED = enum.auto()  # by the recommended method, together with the means
    SIGMA_WITHIN_ARMS = enum.auto()  # the standard deviation of the rewards within arms


class Assumption(NamedTuple):
    """One assumption.

    Fields:
        kind: what was assumed.
        method: the method that estimated sigma.
        each: whether each arm has its own sigma.
        sigma: one number, or one for each arm.
        lower, upper: its interval, of the same shape; None where there is none.
        taken_by: the methods that take this sigma as known.
        of_reward: of two rewards, whether it is about the reward and not about what the policy learned from.
    """

    kind: Assumed
    method: str | None = None
    each: bool = False
    sigma: np.ndarray | None = None
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None
    taken_by: tuple[str, ...] = ()
    of_reward: bool = False


class PolicyReward(NamedTuple):
    """What the policy learned from, where that is not the reward.

    Fields:
        column: what the log calls it; None in a history of one's own.
        mean, lower, upper: (arms,), its recommended estimate.
        slope: (arms,), of the reward on it within each arm.
        binary: whether it is 0 or 1, so that the reward is on average linear in it.
    """

    column: str | None
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    slope: np.ndarray
    binary: bool


class Distrust(enum.Enum):
    """A reason not to trust the recommended figures."""

    POLICY_DOES_NOT_FIT = enum.auto()
    NOT_CORRECTED = enum.auto()  # the policy is known, and still the recommended means are biased
    NOT_CONVERGED = enum.auto()  # for an arm that was pulled
    WEIGHTS_OFF = enum.auto()  # the pulls do not agree with the logged weights, which the recommended method uses


class Checked(NamedTuple):
    """What is known once the policy was replayed over the log, before any method has run; named as in `Analysis`."""

    policy: Any
    fit: PolicyFit
    log: Log
    labels: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Analysis:
    """One log, corrected.

    Fields:
        log: what was read.
        policy, family: how its arms were chosen (None: not known), and what its rewards are, including what was estimated.
        fitted: the settings of the policy that were estimated from the log, by name.
        fit: whether the policy explains the choices; None where it is not known.
        comparison: every method that applies, and why the others do not.
        evaluation: how the methods do on logs simulated at the estimates; None where they were not evaluated.
        recommended: the recommended method, and why.
        bias: the average error of the sample means of such a log, if the recommended estimates are right.
        best: the best arm and its margin; None where fewer than two arms can be compared.
        few_pulls: what can be said of a log of 0 and 1 with very few pulls of an arm; None for any other log.
        assumptions: what was not given and had to be assumed.
        distrust: the reasons not to trust the recommended figures; empty where there are none.
        key_words: the data of the random key.
        influence: the rows that move the recommended estimates most; None where that is not known.
        causes: why the policy may not fit, the likeliest first.
        weights: whether the logged weights agree with the pulls, and with the policy; None where the log has none.
        policy_reward: what the policy learned from, where that is not the reward.
        delays: of the rewards, where they came late other than in batches.
        drift: whether the means change over time; None where that was not checked.
        decisions: every arm against a control, the arms that may be the best, and what the policy earned.
        clusters: how alike the rewards of a cluster are, for which the intervals were widened; None where none was named.
        left_out: the methods and stages for which a budget of time had no room.
    """

    log: Log
    policy: Any
    family: Any
    fitted: dict[str, Fitted]
    fit: PolicyFit | None
    comparison: Comparison
    evaluation: Evaluation | None
    recommended: Recommendation
    bias: ArmBias | None
    best: BestArm | None
    few_pulls: FewPulls | None
    assumptions: tuple[Assumption, ...]
    distrust: tuple[Distrust, ...]
    key_words: tuple[int, ...]
    influence: Influence | None = None
    causes: tuple[LikelyCause, ...] = ()
    weights: WeightsCheck | None = None
    policy_reward: PolicyReward | None = None
    delays: DelayCheck | None = None
    drift: Drift | None = None
    clusters: Clusters | None = None
    decisions: Decisions | None = None
    left_out: tuple[str, ...] = ()

    @property
    def estimate(self) -> Estimate:
        """The recommended estimate."""
        return self.comparison.estimates[self.recommended.method]

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the arms."""
        return self.log.labels

    @property
    def trusted(self) -> bool:
        """Whether the recommended figures can be trusted."""
        return not self.distrust

    @property
    def misled(self) -> tuple[str, ...]:
        """The methods that rely on a policy that does not fit the log; recorded propensities need no policy."""
        if self.fit is None or self.fit.fits:
            return ()
        history, recorded = self.log.history, self.log.recorded
        return tuple(
            name
            for name in self.comparison.estimates
            if METHODS[name].needs_policy and not can_use(METHODS[name], history, recorded)
        )

    def status(self, method: str, arm: int) -> Status:
        """Whether the figures of this arm can be believed, and if not, why."""
        return Status(int(self.comparison.estimates[method].status[arm]))

    def to_frame(self) -> "pandas.DataFrame":
        """One row for each method and arm, with the label of the arm; needs pandas."""
        frame = self.comparison.to_frame()
        frame["arm"] = [self.labels[arm] for arm in frame["arm"]]
        frame.insert(1, "recommended", frame["method"] == self.recommended.method)
        return frame

    __str__ = as_text
    _repr_html_ = as_html
