"""The sign of a bias: which arms are clearly too low, clearly too high, and neither."""

from typing import Any, NamedTuple

import numpy as np

CLEAR = 3  # standard errors from 0 before a sign is reported: chance does that once in 370 times


class Signs(NamedTuple):
    """Arms by the sign of their bias."""

    too_low: tuple[int, ...]
    too_high: tuple[int, ...]
    unclear: tuple[int, ...]


def signs_of(bias: Any, stderr: Any) -> Signs:
    """Groups arms by the sign of their bias; both arguments are (arms,), and an arm without a bias is in no group.

    >>> signs_of([-0.5, 0.5, 0.1, float("nan")], [0.1, 0.1, 0.1, 0.1])
    Signs(too_low=(0,), too_high=(1,), unclear=(2,))
    """
    bias, stderr = np.asarray(bias), np.asarray(stderr)
    low, high = bias < -CLEAR * stderr, bias > CLEAR * stderr
    groups = (low, high, ~low & ~high & np.isfinite(bias))
    return Signs(*(tuple(np.flatnonzero(group).tolist()) for group in groups))
