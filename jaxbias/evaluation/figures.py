"""The figures of a method over many simulated logs: bias, mean squared error, coverage and width, with Monte Carlo errors."""

import dataclasses
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from jaxbias._core.errors import ArgumentError
from jaxbias._core.showing import as_html, as_text
from jaxbias.estimators.estimate import Estimate, Status
from jaxbias.history import History

if TYPE_CHECKING:
    import pandas

Counted = Literal["converged", "finite"]  # which estimates have a part in the figures
COUNTED = get_args(Counted)
THIRDS = ("few", "middle", "many")  # pulls of an arm, over the logs
FEWEST = 2  # squares that a ratio has an error of
# One pull has a mean, and no interval where sigma is not known. Without such arms the sample mean would look less biased.
MEAN_ALONE = (Status.PULLED_ONCE, Status.TOO_FEW_PULLS, Status.NO_SPREAD)
BY_PULLS = ("rmse_by_pulls", "relative_rmse_by_pulls")


class MethodFigures(NamedTuple):
    """How one method does. Arrays have one figure for each arm; every figure has a Monte Carlo standard error.

    Fields:
        bias: the average error of the estimates.
        mse: their mean squared error.
        coverage: the share of intervals that hold the mean.
        width: of the intervals, on average.
        too_low, too_high: the share of intervals that lie below, or above, the mean.
        average_bias, average_mse, average_coverage, average_width: over arms.
        rms_bias: the root of the average over arms of bias^2, as an average of biases hides opposite signs.
        rmse_by_pulls: the root mean squared error in the third of the logs that pulled an arm the least, the middle third, and
            the third that pulled it the most, over all arms.
        relative_rmse: the root mean squared error over that of the sample mean in the same logs.
        relative_rmse_by_pulls: the same by thirds of the pulls. The errors of these ratios are those of paired differences.
        usable: the share of estimates that exist and have converged. Only these count, and in bias and error also means whose
            pulls were too few for an interval; where all finite estimates are asked for, their share, and they count.
    """

    bias: np.ndarray
    bias_stderr: np.ndarray
    mse: np.ndarray
    mse_stderr: np.ndarray
    coverage: np.ndarray
    coverage_stderr: np.ndarray
    width: np.ndarray
    width_stderr: np.ndarray
    too_low: np.ndarray
    too_low_stderr: np.ndarray
    too_high: np.ndarray
    too_high_stderr: np.ndarray
    average_bias: float
    average_bias_stderr: float
    average_mse: float
    average_mse_stderr: float
    average_coverage: float
    average_coverage_stderr: float
    average_width: float
    average_width_stderr: float
    rms_bias: float
    rms_bias_stderr: float
    rmse_by_pulls: np.ndarray
    rmse_by_pulls_stderr: np.ndarray
    relative_rmse: float
    relative_rmse_stderr: float
    relative_rmse_by_pulls: np.ndarray
    relative_rmse_by_pulls_stderr: np.ndarray
    usable: np.ndarray


class TrueLogs(NamedTuple):
    """What is known about simulated logs.

    Fields:
        mean: the true means, of each log or of all.
        pulls, sample_mean: of each log and arm.
        point: the number of the mean vector that each log was simulated at; thirds of the pulls are among logs of the same one.
    """

    mean: np.ndarray
    pulls: np.ndarray
    sample_mean: np.ndarray
    point: np.ndarray

    @classmethod
    def of(cls, logs: History, mean: np.ndarray, point: np.ndarray | None = None) -> "TrueLogs":
        """Of logs with an axis of trials, at one mean vector unless the points say otherwise."""
        pulls, plain = np.asarray(logs.statistics.pulls), np.asarray(logs.statistics.mean, np.float64)
        same = np.zeros(len(pulls), int) if point is None else point
        return cls(mean=mean, pulls=pulls, sample_mean=np.where(pulls > 0, plain, np.nan), point=same)


def summarise_estimates(estimate: Estimate, logs: TrueLogs, count: Counted = "converged") -> MethodFigures:
    """The figures of estimates of many logs, (trials, arms), whose true means are known."""
    mean = logs.mean
    values, lower, upper = (np.asarray(part, np.float64) for part in (estimate.mean, estimate.lower, estimate.upper))
    usable = np.isfinite(values) & (np.asarray(estimate.converged) | (count == "finite"))
    estimated = np.isfinite(values) & (usable | np.isin(np.asarray(estimate.status), MEAN_ALONE))
    error = np.where(estimated, values - mean, np.nan)
    bounded = usable & np.isfinite(lower) & np.isfinite(upper)
    by_name = {
        "bias": error,
        "mse": error**2,
        "coverage": np.where(bounded, (lower <= mean) & (mean <= upper), np.nan),
        "width": np.where(bounded, upper - lower, np.nan),
        "too_low": np.where(bounded, upper < mean, np.nan),
        "too_high": np.where(bounded, lower > mean, np.nan),
    }
    figures: dict[str, Any] = {}
    for name, each in by_name.items():
        figures[name], figures[f"{name}_stderr"] = _mean(each)
        if name in ("bias", "mse", "coverage", "width"):
            figures[f"average_{name}"], figures[f"average_{name}_stderr"] = map(float, _mean(_average_over_arms(each)))
    figures["rms_bias"], figures["rms_bias_stderr"] = _root_mean_square(figures["bias"], figures["bias_stderr"])
    figures |= _by_pulls(error, logs.sample_mean - mean, _thirds(logs))
    return MethodFigures(**figures, usable=usable.mean(axis=0))


def _mean(each: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The average over the logs of what exists, and its standard error; NaN where nothing does."""
    number = np.sum(np.isfinite(each), axis=0)
    known = np.where(number > 0, number, 1)
    average = np.where(number > 0, np.nansum(each, axis=0) / known, np.nan)
    squares = np.nansum((each - average) ** 2, axis=0)
    spread = np.sqrt(squares / np.maximum(number - 1, 1))
    return average, np.where(number > 1, spread / np.sqrt(known), np.nan)


def _average_over_arms(each: np.ndarray) -> np.ndarray:
    """Of each log, over the arms that have a figure."""
    number = np.sum(np.isfinite(each), axis=1)
    return np.where(number > 0, np.nansum(each, axis=1) / np.maximum(number, 1), np.nan)


def _root_mean_square(bias: np.ndarray, stderr: np.ndarray) -> tuple[float, float]:
    """Over arms, and its standard error by the delta method."""
    known = np.isfinite(bias)
    if not known.any():
        return np.nan, np.nan
    root = float(np.sqrt(np.mean(bias[known] ** 2)))
    error = np.sqrt(np.sum((bias[known] * stderr[known]) ** 2)) / (known.sum() * root) if root > 0 else np.nan
    return root, float(error)


def _thirds(logs: TrueLogs) -> np.ndarray:
    """Of each log and arm, whether its pulls are in the first, second or last third of the logs at the same means."""
    third = np.empty(logs.pulls.shape, int)
    for point in np.unique(logs.point):
        rows = np.flatnonzero(logs.point == point)
        order = np.argsort(logs.pulls[rows], axis=0, kind="stable")
        for number, part in enumerate(np.array_split(order, len(THIRDS), axis=0)):
            np.put_along_axis(third, rows[part], number, axis=0)
    return third


def _by_pulls(error: np.ndarray, naive: np.ndarray, third: np.ndarray) -> dict[str, Any]:
    """The root mean squared error by thirds, and over that of the sample mean, by thirds and over all."""
    parts = [np.where(third == number, error**2, np.nan) for number in range(len(THIRDS))]
    squares = [_mean(part.reshape(-1)) for part in parts]
    roots = np.array([np.sqrt(mean) for mean, _ in squares])
    errors = np.array([stderr for _, stderr in squares]) / (2 * np.where(roots > 0, roots, np.nan))
    ratios = [_ratio(part, np.where(np.isfinite(part), naive**2, np.nan)) for part in (*parts, error**2)]
    return {
        "rmse_by_pulls": roots,
        "rmse_by_pulls_stderr": errors,
        "relative_rmse": ratios[-1][0],
        "relative_rmse_stderr": ratios[-1][1],
        "relative_rmse_by_pulls": np.array([value for value, _ in ratios[:-1]]),
        "relative_rmse_by_pulls_stderr": np.array([stderr for _, stderr in ratios[:-1]]),
    }


def _ratio(squares: np.ndarray, naive: np.ndarray) -> tuple[float, float]:
    """The root of the ratio of two mean squares of the same logs, and its standard error by the delta method."""
    known = np.isfinite(squares) & np.isfinite(naive)
    number, total = known.sum(), naive[known].sum()
    if number < FEWEST or total <= 0:
        return np.nan, np.nan
    ratio = squares[known].sum() / total
    by_log = np.sum(np.where(known, squares - ratio * naive, 0), axis=1)
    stderr = np.sqrt(np.sum(by_log**2)) / total
    root = float(np.sqrt(ratio))
    return root, float(stderr / (2 * root)) if root > 0 else np.nan


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation:
    """How methods do in an experiment; printed, it is a table of averages over arms.

    Fields:
        methods: the figures of each, by name.
        reasons: by the name of each method that does not apply, the error that says why not.
        mean: the true mean of each arm; the average where logs were simulated at several mean vectors.
        pulls: of each arm on average.
        num_trials: how many logs were simulated.
        level: of the intervals.
        num_points: at how many mean vectors.
    """

    methods: dict[str, MethodFigures]
    reasons: dict[str, ArgumentError]
    mean: np.ndarray
    pulls: np.ndarray
    num_trials: int
    level: float
    num_points: int = 1

    def to_frame(self) -> "pandas.DataFrame":
        """One row for each method and arm, as a pandas data frame; needs pandas. The errors by pulls are those of all arms."""
        import pandas

        names = [name for name in MethodFigures._fields if not name.startswith(("average", "rms", "relative"))]
        rows = [
            {"method": method, "arm": arm, "mean": self.mean[arm]}
            | {name: float(getattr(figures, name)[arm]) for name in names}
            | _columns_by_pulls(figures)
            for method, figures in self.methods.items()
            for arm in range(len(self.mean))
        ]
        return pandas.DataFrame(rows)

    __str__ = as_text
    _repr_html_ = as_html


def _columns_by_pulls(figures: MethodFigures) -> dict[str, float]:
    """By name and third, such as `rmse_many` and `relative_rmse_many_stderr`."""
    return {
        f"{name.removesuffix('_by_pulls')}_{third}{end}": float(getattr(figures, f"{name}{end}")[place])
        for name in BY_PULLS
        for place, third in enumerate(THIRDS)
        for end in ("", "_stderr")
    }
