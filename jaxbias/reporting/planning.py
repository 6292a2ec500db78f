"""A plan in words, as a table, as a document and as a page."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxbias._core.files import written_whole
from jaxbias.reporting.formatting import NONE, count, figure, given, level, number, percent, share_decimals
from jaxbias.reporting.labels import plain_text

if TYPE_CHECKING:
    from jaxbias.planning.results import Plan, Target

HEADERS = ("policy", "steps", "regret", "bias", "half-width", "coverage", "power", "best arm found")
PERCENT = ("coverage", "power", "best_arm")
FIGURES = ("regret", "bias", "half_width", *PERCENT)


def plan_document(plan: "Plan") -> dict[str, Any]:
    """All figures by name."""
    return {
        "designs": [design._asdict() for design in plan.designs],
        "targets": [target._asdict() for target in plan.targets],
        "level": plan.level,
        "control": plan.control,
    }


def plan_rows(plan: "Plan") -> list[list[str]]:
    """The designs as rows of text, the columns of each figure with the same decimals."""
    columns = [[design.policy for design in plan.designs], [count(design.steps) for design in plan.designs]]
    for name in FIGURES:
        scale, unit = (100, "%") if name in PERCENT else (1, "")
        values = [scale * getattr(design, name) for design in plan.designs]
        errors = [scale * getattr(design, f"{name}_stderr") for design in plan.designs]
        shared = share_decimals(errors)
        columns.append([figure(*one, unit=unit) for one in zip(values, errors, shared, strict=True)])
    return [list(row) for row in zip(*columns, strict=True)]


def plan_sentences(plan: "Plan") -> list[str]:
    """Which numbers of steps reach the goals, what the difference is, and which designs have logs without an interval."""
    found = [describe_target(target, plan) for target in plan.targets]
    who = "the best arm and the second best" if plan.control is None else f"the best of the other arms and arm {plan.control}"
    points = f", at {count(len(plan.mean))} mean vectors" if len(plan.mean) > 1 else ""
    power = f"power at p < {given(round(1 - plan.level, 6))}"
    found.append(f"The difference is that of {who}{points}; intervals of {level(plan.level)}, {power}.")
    found += [
        f"{design.policy}, {count(design.steps)} steps: {percent(1 - design.usable)} of the logs have no interval."
        for design in plan.designs
        if design.usable < 1
    ]
    return found


def plan_answer(plan: "Plan") -> str:
    """The goal reached with the fewest steps; without goals, the design that loses least and the one that teaches most."""
    reached = [target for target in plan.targets if target.steps is not None]
    if plan.targets:
        return describe_target(min(reached, key=lambda target: target.steps or 0) if reached else plan.targets[0], plan)
    known = [design for design in plan.designs if np.isfinite(design.half_width)]
    if not known:
        return "No design has an interval of the difference."
    least, sharpest = min(known, key=lambda one: one.regret / one.steps), min(known, key=lambda one: one.half_width)
    width = f"a half-width of {number(sharpest.half_width, sharpest.half_width_stderr)}"
    loss = f"{number(least.regret / least.steps, least.regret_stderr / least.steps)} a step"
    if least is sharpest:
        return f"{least.policy} with {count(least.steps)} steps loses least, {loss}, and teaches most: {width}."
    first = f"{least.policy} with {count(least.steps)} steps loses least, {loss}"
    return f"{first}; {sharpest.policy} with {count(sharpest.steps)} steps teaches most: {width}."


def describe_target(target: "Target", plan: "Plan") -> str:
    """One goal: the number of steps with what was measured there, or how far the most steps came."""
    word = {"half_width": "a half-width", "power": "a power"}[target.figure]
    goal = f"{word} of {given(target.goal)}"
    if target.steps is None:
        most = f"with {count(target.largest)} steps, the most that were tried, it is {number(target.at_largest)}"
        return f"{target.policy} does not reach {goal}: {most}."
    below = f"; {count(target.lower)} are too few" if target.lower else ""
    return f"{target.policy} needs {count(target.steps)} steps for {goal}{_measured(target, plan)}{below}."


def _measured(target: "Target", plan: "Plan") -> str:
    """The figure of the design that reaches a goal."""
    unit = "%" if target.figure in PERCENT else ""
    scale = 100 if unit else 1
    for design in plan.designs:
        if (design.policy, design.steps) == (target.policy, target.steps):
            value, stderr = (scale * getattr(design, name) for name in (target.figure, f"{target.figure}_stderr"))
            return f" (measured: {figure(value, stderr, unit=unit)})"
    return ""


def write_plan(plan: "Plan", out: str | Path, *, command: str | None = None) -> None:
    """Writes the page; if anything goes wrong, no file is written and an older one stays.

    Arguments:
        plan: from `jb.plan`.
        out: the file.
        command: what was typed to get it, for readers who want to repeat it.
    """
    with written_whole(Path(out)) as temporary:
        temporary.write_text(render_plan(plan, command), encoding="utf-8", newline="\n")


def render_plan(plan: "Plan", command: str | None = None) -> str:
    """The page as text."""
    from markupsafe import Markup

    from jaxbias.reporting.plots import plot_plan, to_svg  # here, as a command that draws nothing should not load them
    from jaxbias.reporting.provenance import describe_run, describe_software
    from jaxbias.reporting.templating import render_template

    picture = to_svg(plot_plan(plan), title="Regret per step against the half-width of the difference", salt="plan")
    means = [", ".join(map(given, row)) for row in plan.mean[:1]]
    return render_template(
        "plan.html",
        headers=HEADERS,
        rows=[[plain_text(cell) for cell in row] for row in plan_rows(plan)],
        answer=plain_text(plan_answer(plan)),
        sentences=[plain_text(sentence) for sentence in plan_sentences(plan) if sentence != plan_answer(plan)],
        logs=count(max((design.logs for design in plan.designs), default=0)) or NONE,
        picture=Markup(picture) if plan.designs else None,
        repeat={
            **describe_run(command, plan.key_words),
            "means": means[0] if len(plan.mean) == 1 else f"{count(len(plan.mean))} vectors, the first {means[0]}",
            **describe_software(),
        },
    )
