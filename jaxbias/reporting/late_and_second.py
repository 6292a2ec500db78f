"""Rewards that came late, and rewards that the policy did not learn from: what was done and what was assumed, in words."""

from jaxbias.analysis.findings import Analysis
from jaxbias.policy_fit.delays import CLEAR
from jaxbias.reporting.formatting import count, probability
from jaxbias.reporting.labels import quote


def policy_reward_sentence(analysis: Analysis) -> str:
    """Which reward the policy learned from, and how the other one is corrected."""
    found = analysis.policy_reward
    if found is None:
        return ""
    column = "another reward" if found.column is None else f"column {quote(found.column)}"
    linear = "always so, as it is 0 or 1" if found.binary else "assumed: look at a plot of one against the other"
    return (
        f"The policy learned from {column}: its fit, the probabilities and the choice of the method are by that reward. The "
        "means here are of the reward of the question, corrected as far as it goes with the other: by its line on the other "
        f"within each arm. The expected reward must be linear in the other ({linear}), and the policy must not have looked at it."
    )


def delay_sentence(analysis: Analysis) -> str:
    """How late the rewards came, and what is assumed about it."""
    found = analysis.delays
    if found is None:
        return ""
    never = f"; {count(found.never)} had not arrived at the end" if found.never else ""
    by = f"{found.median:g} steps at the median and {count(found.largest)} at most"
    by = f"{found.median:g} steps" if found.median == found.largest else by
    said = f"Rewards came late, by {by}{never}. The correction assumes that the delay does not depend on the arm or on the reward"
    clear = {"the arm": found.by_arm, "the reward": found.by_reward}
    broken = [f"{name} (p = {probability(value)})" for name, value in clear.items() if value < CLEAR]
    if broken:
        return f"{said}. In this log it does depend on {' and on '.join(broken)}: corrected means may be off."
    return f"{said}; nothing in this log speaks against that."
