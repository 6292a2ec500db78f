"""Measured biases as sentences."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jaxbias.analysis.signs import CLEAR, signs_of
from jaxbias.reporting.formatting import count, figure, percent
from jaxbias.reporting.labels import join

if TYPE_CHECKING:
    from jaxbias.bias.measured import BiasSummary
    from jaxbias.bias.sources import BiasSources


def source_sentences(sources: "BiasSources | None") -> list[str]:
    """The parts of the bias of the mean that is reported, with their signs."""
    if sources is None or sources.reported is None:
        return []
    parts = (
        ("sampling", sources.reported_sampling, sources.reported_sampling_stderr),
        ("stopping", sources.reported_stopping, sources.reported_stopping_stderr),
        ("choosing", sources.choosing, sources.choosing_stderr),
    )
    said = join([f"{name} {_signed(value, stderr)}" for name, value, stderr in parts])
    return [
        f"The sample mean that is reported is off by {_signed(sources.reported, sources.reported_stderr)} on average: {said}."
    ]


def _signed(value: float | None, stderr: float | None) -> str:
    """A part of the bias, and whether its sign is clear."""
    assert value is not None
    assert stderr is not None
    return figure(value, stderr) + ("" if abs(value) > CLEAR * stderr else " (not clear of 0)")


def bias_sentences(summary: "BiasSummary") -> list[str]:
    """Which sample means are off, and how often they are too low together."""
    if summary.num_trials < 2:
        return ["One trial has no standard error: more are needed to tell a bias from chance."]
    words = (
        f"too low by more than {CLEAR} standard errors",
        f"too high by more than {CLEAR} standard errors",
        f"within {CLEAR} standard errors of right",
    )
    groups = zip(signs_of(summary.bias, summary.bias_stderr), words, strict=True)
    signs = "; ".join(f"{_name_arms(arms, len(summary.bias))} {word}" for arms, word in groups if arms)
    every, none = percent(summary.joint[-1]), percent(summary.joint[0])
    return [
        f"On average over {count(summary.num_trials)} trials, {signs}.",
        f"In {every} of trials every sample mean came out below its mean; in {none} none did.",
        f"A trial loses {figure(summary.regret, summary.regret_stderr)} against pulling the best arm only, "
        f"which gets {figure(100 * summary.best_share, 100 * summary.best_share_stderr, unit='%')} of the pulls.",
    ]


def _name_arms(arms: Sequence[int], num_arms: int) -> str:
    if len(arms) == num_arms:
        return "the sample mean of every arm is"
    if len(arms) == 1:
        return f"the sample mean of arm {arms[0]} is"
    return f"the sample means of arms {join([str(arm) for arm in arms])} are"
