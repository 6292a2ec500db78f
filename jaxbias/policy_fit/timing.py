"""What a choice may have seen, other than all rewards before it: batches, delays, and nothing at all in a warm-up.

The log-probabilities after each number of rewards are known from the replay, so that every size of a batch and every delay is
another way to read the same table, and all of them can be tried.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float, Int

from jaxbias.policy_fit.alternatives import Alternative, Cause, Replay, with_noise

EVERY_SIZE = 500  # of batches, and delays, up to which all are tried; above it, steps of a hundredth and round numbers
LONGEST_SHARE = 0.5  # of the log, for a batch, a delay or a warm-up: what is longer leaves nothing to learn from
LATEST_BATCHES = 4  # batches late
AS_GOOD = 2.0  # less log-likelihood than the best number: of these the roundest, which somebody is more likely to have set
ROUND = (1000, 500, 250, 100, 50, 25, 10, 5, 2)  # numbers that people set are multiples of these, the earlier the better


def timing_alternatives(replay: Replay) -> Iterator[Alternative]:
    """The best size of a batch, the best delay, and the best end of a warm-up."""
    if replay.history.batch_sizes is not None and len(replay.rows) == replay.history.num_steps:
        yield from _late_batches(replay)
    elif getattr(replay.history, "seen_at", None) is None:
        yield from _sizes_and_delays(replay)
    yield from _warm_up(replay)


def _sizes_and_delays(replay: Replay) -> Iterator[Alternative]:
    numbers = _numbers(int(LONGEST_SHARE * replay.history.num_steps))
    sizes = [(size, replay.steps // size * size) for size in numbers if size > 1]
    delays = [(delay, np.maximum(replay.steps - delay, 0)) for delay in numbers]
    for cause, setting, candidates in ((Cause.BATCHES, "batch_size", sizes), (Cause.DELAY, "delay", delays)):
        if candidates:
            place = _roundest([value for value, _ in candidates], [_score(replay, seen) for _, seen in candidates])
            value, seen = candidates[place]
            yield Alternative(cause, {setting: value}, _read(replay, seen), num_parameters=2)


def _numbers(longest: int) -> list[int]:
    """The sizes and delays that are tried."""
    above = np.geomspace(EVERY_SIZE, max(longest, EVERY_SIZE), 1 + int(100 * np.log(max(longest / EVERY_SIZE, 1))))
    tried = {*range(1, EVERY_SIZE + 1), *map(round, above), *range(EVERY_SIZE, longest + 1, max(longest // 200 // 50, 1) * 50)}
    return sorted(number for number in tried if number <= longest)


def _roundest(values: Sequence[int], scores: Sequence[float]) -> int:
    """The place of the best value, or of a rounder one that is nearly as good."""
    roundness = [next((place for place, part in enumerate(ROUND) if value % part == 0), len(ROUND)) for value in values]
    good = np.flatnonzero(np.asarray(scores) >= max(scores) - AS_GOOD)
    return int(min(good.tolist(), key=lambda place: (roundness[place], -scores[place])))


def _score(replay: Replay, seen: Int[np.ndarray, " choices"]) -> float:
    return replay.score_chosen(np.where(seen == 0, replay.uniform, replay.at_rows[replay.after(seen), replay.arms]))


def _read(replay: Replay, seen: Int[np.ndarray, " choices"]) -> Float[np.ndarray, "choices arms"]:
    """The log-probabilities after so many rewards; before the first one, equal allocation, as of a forced pull."""
    return np.where(seen[:, None] == 0, replay.uniform, replay.at_rows[replay.after(seen)])


def _late_batches(replay: Replay) -> Iterator[Alternative]:
    """Every choice saw the rewards up to some batches before its own."""
    sizes = np.asarray(replay.history.batch_sizes)
    starts = np.cumsum(sizes) - sizes
    batch = np.searchsorted(starts, replay.steps, side="right") - 1
    late = [(count, starts[np.maximum(batch - count, 0)]) for count in range(1, min(LATEST_BATCHES, len(sizes) - 2) + 1)]
    if late:
        value, seen = max(late, key=lambda candidate: _score(replay, candidate[1]))
        yield Alternative(Cause.DELAY, {"delay_in_batches": value}, _read(replay, seen), num_parameters=1)


def _warm_up(replay: Replay) -> Iterator[Alternative]:
    """Equal allocation up to a step, at the step where the running gain is the largest."""
    chosen = np.take_along_axis(replay.log_probs, replay.arms[:, None], axis=1)[:, 0]
    gain = np.cumsum(replay.uniform - with_noise(chosen, replay.num_arms))
    allowed = int(np.sum(replay.steps < LONGEST_SHARE * replay.history.num_steps))
    if allowed:
        end = _roundest((replay.steps[:allowed] + 1).tolist(), gain[:allowed].tolist())
        during = np.arange(len(replay.steps)) <= end
        log_probs = np.where(during[:, None], replay.uniform, replay.log_probs)
        yield Alternative(Cause.WARM_UP, {"warm_up": int(replay.steps[end]) + 1}, log_probs, num_parameters=2)
