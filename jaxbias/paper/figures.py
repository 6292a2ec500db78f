"""The paper's figures: what is drawn, and the numbers that summarise it."""

from functools import partial

import numpy as np

from jaxbias.paper import draw
from jaxbias.paper.experiments import Experiment, Result
from jaxbias.paper.spec import Entry, Spec, figure, less
from jaxbias.paper.summaries import Figure
from jaxbias.reporting.formatting import given

MANY = 20  # times the paper's trials, for the curves
ARMS = (2.0, 1.5, 1.0)
FINAL = -1
DIGITS = 12  # of an exact figure: beyond them is rounding


def _largest(result: Result) -> Figure:
    return Figure(round(float(np.max(result.figures["bias"].value)), DIGITS), 0.0)


def _deepest(result: Result) -> Figure:
    """How far the lowest bias of the map is below zero."""
    return Figure(-float(np.min(result.figures["bias"].value)), 0.0)


def _off_formula(result: Result) -> Figure:
    """The largest distance from the paper's closed form of both biases at T = 3."""
    values = np.linspace(0, 1, result.figures["bias"].value.shape[0])
    first, second = np.meshgrid(values, values, indexing="ij")
    formula = np.stack([-first * (1 - first) * second / 2, -second * (1 - second) * (1 - first) / 2], axis=-1)
    return Figure(round(float(np.abs(result.figures["bias"].value - formula).max()), DIGITS), 0.0)


HEAT = {steps: Experiment(policy="Greedy", mean=(0.5, 0.5), steps=steps, method="exact", trials=1) for steps in (3, 10)}
FIGURE_1 = Spec(
    name="figure1",
    title="Figure 1. The bias of arm 1 under Greedy, two Bernoulli arms",
    setting="Every sequence of choices and rewards counted with its probability; ties go to arm 1. Nothing is simulated.",
    entries=(
        Entry(row="T=3", column="distance from the closed form", experiments=(HEAT[3],), read=_off_formula, expects="is 0"),
        *(
            Entry(row=f"T={steps}", column="largest bias", experiments=(HEAT[steps],), read=_largest, expects="at most 0")
            for steps in HEAT
        ),
        Entry(
            row="T=10 less T=3",
            column="lowest bias, further down by",
            experiments=(HEAT[10], HEAT[3]),
            read=less(_deepest, _deepest),
            expects="at least 0",
        ),
    ),
    seen="No bias is above zero. At T = 3 it is largest where arm 1 is near one half and arm 2 near one; at T = 10 it is larger, "
    "and no longer a simple function of the two means.",
    draw=partial(draw.heat_maps, experiments=tuple(HEAT.values())),
    drawn=tuple(HEAT.values()),
)


def _curves(policy: str, scale: int) -> Experiment:
    return Experiment(policy=policy, mean=tuple(scale * mean for mean in ARMS), steps=500, method="trajectory", more=MANY)


LIL_UCB = {scale: _curves("lil' UCB", scale) for scale in (1, 2, 3)}
GREEDY = _curves("Greedy", 1)


def _finals(experiment: Experiment) -> tuple[Entry, ...]:
    return tuple(
        Entry(
            row=f"mean {given(mean)}",
            column="bias at T = 500",
            experiments=(experiment,),
            read=figure("bias", (FINAL, arm)),
            expects="at most 0",
        )
        for arm, mean in enumerate(experiment.mean)
    )


def _claim(words: str, higher: tuple[Experiment, int], lower: tuple[Experiment, int]) -> Entry:
    """That one curve ends above another, as the paper says it does."""
    return Entry(
        row=words,
        column="difference",
        experiments=(higher[0], lower[0]),
        read=less(figure("bias", (FINAL, higher[1])), figure("bias", (FINAL, lower[1]))),
        expects="at least 0",
    )


def _curve_spec(letter: str, title: str, experiment: Experiment, claims: tuple[Entry, ...], seen: str) -> Spec:
    return Spec(
        name=f"figure2{letter}",
        title=f"Figure 2({letter}). Bias over the steps: {title}",
        setting="Normal rewards with sigma 1, T = 500. The paper averages 1,000 trials.",
        entries=(*_finals(experiment), *claims),
        seen=seen,
        draw=partial(draw.curves, experiment=experiment),
        drawn=(experiment,),
    )


CURVES = (
    _curve_spec(
        "a",
        "lil' UCB, means 2, 1.5, 1",
        LIL_UCB[1],
        (
            _claim("mean 2 ends above mean 1.5", (LIL_UCB[1], 0), (LIL_UCB[1], 1)),
            _claim("mean 1.5 ends above mean 1", (LIL_UCB[1], 1), (LIL_UCB[1], 2)),
        ),
        "All three are too low; the best arm's bias goes to zero soonest.",
    ),
    _curve_spec(
        "b",
        "lil' UCB, means 4, 3, 2",
        LIL_UCB[2],
        (
            _claim("the second arm was higher at scale 1", (LIL_UCB[1], 1), (LIL_UCB[2], 1)),
            _claim("the lowest arm was higher at scale 1", (LIL_UCB[1], 2), (LIL_UCB[2], 2)),
        ),
        "Further apart, the second and the lowest arm are more biased: one bad sample costs them more future pulls.",
    ),
    _curve_spec(
        "c",
        "lil' UCB, means 6, 4.5, 3",
        LIL_UCB[3],
        (
            _claim("the second arm was higher at scale 2", (LIL_UCB[2], 1), (LIL_UCB[3], 1)),
            _claim("the lowest arm is higher again than at scale 2", (LIL_UCB[3], 2), (LIL_UCB[2], 2)),
        ),
        "The second arm goes on getting worse; the lowest is now too far behind for its samples to matter, and recovers.",
    ),
    _curve_spec(
        "d",
        "Greedy, means 2, 1.5, 1",
        GREEDY,
        (
            _claim("mean 1 ends above mean 2", (GREEDY, 2), (GREEDY, 0)),
            _claim("mean 2 ends above mean 1.5", (GREEDY, 0), (GREEDY, 1)),
            _claim("mean 2 ends lower than under lil' UCB", (LIL_UCB[1], 0), (GREEDY, 0)),
        ),
        "The lowest arm has the least bias and the best one the next: the best arm need not have the least. Its curve does not "
        "go to zero, as Greedy can stay with a worse arm for good.",
    ),
)

SCATTER = Experiment(policy="lil' UCB", mean=(2.0, 1.5), steps=1000, method="future_pulls")
FIGURE_2E = Spec(
    name="figure2e",
    title="Figure 2(e). Pulls of the best arm after t = 100 against the error of its sample mean then",
    setting="lil' UCB, means 2 and 1.5, T = 1000, a point for each trial.",
    entries=(
        Entry(row="all trials", column="correlation", experiments=(SCATTER,), read=figure("correlation"), expects="at least 0"),
        Entry(row="all trials", column="rank correlation", experiments=(SCATTER,), read=figure("rank correlation")),
    ),
    seen="Large negative errors go with fewer pulls afterwards, as the paper says. It is the few trials in which the best arm "
    "was given up after a pull or two that make the correlation: by ranks, which they hardly enter, there is none.",
    draw=partial(draw.scatter, experiment=SCATTER),
    drawn=(SCATTER,),
)

CONVERGENCE = Experiment(policy="Greedy", mean=(1.0, 0.75), steps=16, method="paper_cmle_path", tau=1.0)


def _shrinks(arm: int) -> Entry:
    return Entry(
        row=f"mean {given(CONVERGENCE.mean[arm])}",
        column="bias after iteration 600 less that after 1",
        experiments=(CONVERGENCE, CONVERGENCE),
        read=less(figure("bias", (FINAL, arm)), figure("bias", (0, arm))),
        expects="at least 0",
    )


FIGURE_2F = Spec(
    name="figure2f",
    title="Figure 2(f). The paper's algorithm over 600 iterations",
    setting="Greedy with τ = 1, means 1 and 0.75. The paper does not say how many steps; 16 is from Table 2.",
    entries=(
        *(
            Entry(
                row=f"mean {given(CONVERGENCE.mean[arm])}",
                column=f"bias after iteration {iteration}",
                experiments=(CONVERGENCE,),
                read=figure("bias", (iteration - 1, arm)),
            )
            for arm in range(2)
            for iteration in (1, 100, 600)
        ),
        *map(_shrinks, range(2)),
    ),
    seen="Both biases shrink from that of the noisy sample mean towards zero, and are not quite there after 600 iterations.",
    draw=partial(draw.convergence, experiment=CONVERGENCE),
    drawn=(CONVERGENCE,),
)

FIGURES = (FIGURE_1, *CURVES, FIGURE_2E, FIGURE_2F)
