"""The paper's tables: joint bias (1, 5, 6), and the bias and error that each method leaves (2, 3, 4, 7)."""

from collections.abc import Iterator
from typing import Any

from jaxbias.paper.experiments import Experiment
from jaxbias.paper.spec import Entry, Spec, figure, in_percent, percent

MEANS = (1.0, 0.75, 0.5, 0.38, 0.25)
MANY = 100  # times the paper's trials, where they cost a second
JOINT = {  # share of trials in which 0, 1, ... sample means are below their means, as printed
    "table1": {
        "Greedy": (0.02, 0.09, 0.23, 0.34, 0.24, 0.08),
        "lil' UCB": (0.01, 0.05, 0.21, 0.36, 0.30, 0.08),
        "ε-Greedy": (0.02, 0.12, 0.27, 0.33, 0.21, 0.05),
        "TS": (0.01, 0.08, 0.24, 0.34, 0.26, 0.07),
    },
    "table5": {
        "Greedy": (0.11, 0.50, 0.39),
        "lil' UCB": (0.20, 0.51, 0.29),
        "ε-Greedy": (0.20, 0.51, 0.29),
        "TS": (0.17, 0.51, 0.32),
    },
    "table6": {
        "Greedy": (0.05, 0.26, 0.44, 0.25),
        "lil' UCB": (0.07, 0.32, 0.43, 0.18),
        "ε-Greedy": (0.09, 0.34, 0.40, 0.17),
        "TS": (0.07, 0.31, 0.43, 0.20),
    },
}
NOT_THE_CAPTION = "The captioned means do not give the printed shares; twice those means do."


def joint_bias(name: str) -> Spec:
    """How often several sample means are too low together, at the captioned means and at twice those."""
    printed = JOINT[name]
    num_arms = len(printed["Greedy"]) - 1
    entries = []
    for scale, words in ((1, "captioned means"), (2, "twice those")):
        for policy, shares in printed.items():
            mean = tuple(scale * value for value in MEANS[:num_arms])
            experiment = Experiment(policy=policy, mean=mean, steps=100, method="joint", trials=10_000, more=10)
            known: dict[str, Any] = dict(expects="agrees") if scale == 2 else dict(why=NOT_THE_CAPTION)
            entries += [
                Entry(
                    row=f"{policy}, {words}",
                    column=f"m = {count}",
                    experiments=(experiment,),
                    read=figure("joint", count),
                    paper=share,
                    **known,
                )
                for count, share in enumerate(shares)
            ]
    return Spec(
        name=name,
        title=f"Table {name[-1]}. Joint bias: the share of trials in which m of {num_arms} sample means are below their means",
        setting="T = 100, sigma 1. Printed from 10,000 trials.",
        entries=tuple(entries),
        seen="Many sample means are too low together more often than not. The printed shares belong to means twice as far apart "
        "as the caption says.",
    )


ROWS = ((8, 2), (16, 2), (20, 5), (40, 5))
POLICIES = ("lil' UCB", "ε-Greedy", "Greedy")
BIAS = {  # original bias, and the percentage that cMLE leaves of it
    "lil' UCB": ((-0.26, 6.2), (-0.29, 5.2), (-0.32, 14.9), (-0.35, 14.2)),
    "ε-Greedy": ((-0.25, 7.3), (-0.25, 1.6), (-0.31, 9.1), (-0.27, 8.8)),
    "Greedy": ((-0.29, 2.8), (-0.32, 8.3), (-0.35, 18.0), (-0.37, 15.9)),
}
MSE = {  # original MSE, and the percentages of it that data splitting and cMLE have
    "lil' UCB": ((0.56, 108, 86), (0.50, 101, 40), (0.57, 112, 99), (0.54, 104, 52)),
    "ε-Greedy": ((0.51, 123, 76), (0.38, 123, 52), (0.52, 123, 94), (0.39, 135, 62)),
    "Greedy": ((0.56, 108, 78), (0.53, 107, 45), (0.59, 111, 89), (0.54, 107, 52)),
}
PROPENSITY = (295, 244, 399, 290)
SHARED_FIRST = (
    "The printed percentage comes out only if the first reward of each arm counts as seen and as held out at once, and the two "
    "samples of a later step as two of the T; split as the text says, the estimate is unbiased and its error another."
)
SHORT_CHAIN = "The printed figure is that of the paper's short chains, which stop before the maximum; this is the maximum."
UNNAMED = {
    "noisy mean": ("sample_mean", 1.0, MANY),
    "matching, τ = 1": ("mean_matching", 1.0, 1),
    "matching, τ = 0": ("mean_matching", 0.0, 1),
}


def _experiment(
    policy: str, steps: int, num_arms: int, method: str = "sample_mean", tau: float = 0.0, more: int | float = 1
) -> Any:
    return Experiment(policy=policy, mean=MEANS[:num_arms], steps=steps, method=method, tau=tau, more=more)


def _share(name: str, row: str, column: str, experiment: Experiment, original: Experiment, **known: Any) -> Entry:
    known = {"digit": 1.0 if name == "mse" else 0.1, "unit": "%", **known}
    return Entry(row=row, column=column, experiments=(experiment, original), read=percent(name), **known)


def _debiasing(name: str, policy: str, place: int) -> Iterator[Entry]:
    """One row of Table 2 (bias) or 3 (MSE): the paper's columns, and the estimators it does not have."""
    steps, num_arms = ROWS[place]
    row = f"T={steps}, K={num_arms}, {policy}"
    original = _experiment(policy, steps, num_arms, more=MANY)
    printed, *held, paper_cmle = (BIAS if name == "bias" else MSE)[policy][place]
    yield Entry(row=row, column="original", experiments=(original,), read=figure(name), paper=printed, expects="agrees")

    def share(column: str, method: str, tau: float, more: int | float = 1, **known: Any) -> Entry:
        return _share(name, row, column, _experiment(policy, steps, num_arms, method, tau, more), original, **known)

    yield share("noisy mean", *UNNAMED["noisy mean"])
    text: dict[str, Any] = dict(paper=held[0], why=SHARED_FIRST) if held else {}
    yield share("held out, text", "held_out", 0.0, MANY, **text)
    yield share("held out, tables", "held_out_shared", 0.0, MANY, **(dict(paper=held[0], expects="agrees") if held else {}))
    if policy == "ε-Greedy":
        known: dict[str, Any] = dict(paper=PROPENSITY[place], expects="agrees") if name == "mse" else {}
        yield share("propensity", "propensity", 0.0, MANY, **known)
        yield share("propensity, normalised", "propensity_normalised", 0.0, MANY)
    yield share("cMLE, paper's algorithm", "paper_cmle", 1.0, paper=paper_cmle, expects="agrees")
    yield share("cMLE, converged", "cmle", 1.0, paper=paper_cmle, why=SHORT_CHAIN)
    for column in ("matching, τ = 1", "matching, τ = 0"):
        yield share(column, *UNNAMED[column])
    if name == "bias":
        for column, method, tau in (("cMLE covers", "cmle", 1.0), ("matching covers, τ = 0", "mean_matching", 0.0)):
            experiment = _experiment(policy, steps, num_arms, method, tau)
            yield Entry(row=row, column=column, experiments=(experiment,), read=in_percent("coverage"), unit="%")


def _every_row(name: str) -> tuple[Entry, ...]:
    return tuple(entry for place in range(len(ROWS)) for policy in POLICIES for entry in _debiasing(name, policy, place))


SETTING = (
    "Sigma 1, every arm pulled once first, averages over arms. Percentages are of the original. τ is the scale of the Gumbel "
    "noise with which the data were collected; cMLE needs it, mean matching does not."
)
TABLE_2 = Spec(
    name="table2",
    title="Table 2. Bias, and what each method leaves of it",
    setting=SETTING,
    entries=_every_row("bias"),
    seen="The original biases are as printed, and so is what the paper's algorithm leaves. The noise alone removes a third to "
    "three quarters of the bias: the noisy mean is the plain mean of the data that cMLE corrects. With the noise, mean matching "
    "leaves as little with less error (Table 3); without it, it still removes most of the bias.",
)
TABLE_3 = Spec(
    name="table3",
    title="Table 3. Mean squared error, in percent of the original",
    setting=SETTING,
    entries=_every_row("mse"),
    seen="The original errors are as printed. The maximum of the conditional likelihood has more error than the paper's early "
    "stop; of the corrections, mean matching of the noisy data has the least.",
)

HALVED = (
    "The printed bias and MSE are about half of what the captioned setting gives; no reading of it that gives them is known, and "
    "the Thompson row T=80, K=5 has the same factor."
)
NOT_RUN = "Printed from the paper's algorithm, whose 30 short steps hardly move a thousand rewards; this is the maximum."
TABLE_4_PRINTED = {2: (-0.2, 0.0, 0.255, 89.8, 0.4), 5: (-0.21, 1.0, 0.277, 94.9, 1.1)}


def _long_row(num_arms: int) -> Iterator[Entry]:
    bias, bias_left, mse, held, mse_left = TABLE_4_PRINTED[num_arms]
    row, steps = f"K={num_arms}", 1000
    original = _experiment("Greedy", steps, num_arms, more=10)
    for name, column, printed, digit in (("bias", "bias, original", bias, 0.01), ("mse", "MSE, original", mse, 0.001)):
        known: dict[str, Any] = dict(paper=printed, digit=digit, why=HALVED)
        yield Entry(row=row, column=column, experiments=(original,), read=figure(name), **known)
    shared = _experiment("Greedy", steps, num_arms, "held_out_shared", 0.0, 10)
    split = _experiment("Greedy", steps, num_arms, "held_out", 0.0, 10)
    yield _share("mse", row, "MSE, held out, text", split, original, paper=held, digit=0.1, why=SHARED_FIRST)
    yield _share("mse", row, "MSE, held out, tables", shared, original, paper=held, digit=0.1, expects="agrees")
    noisy = _experiment("Greedy", steps, num_arms, "sample_mean", 1.0, 10)
    cmle = _experiment("Greedy", steps, num_arms, "cmle", 1.0)
    for name, printed in (("bias", bias_left), ("mse", mse_left)):
        word = "bias" if name == "bias" else "MSE"
        yield _share(name, row, f"{word}, noisy mean", noisy, original)
        yield _share(name, row, f"{word}, cMLE", cmle, original, paper=printed, digit=0.1, why=NOT_RUN)


TABLE_4 = Spec(
    name="table4",
    title="Table 4. Greedy over a long horizon, T = 1000",
    setting="As Table 2.",
    entries=(*_long_row(2), *_long_row(5)),
    seen="With noise of scale 1 nothing is left to correct after a thousand steps: the plain mean of the noisy data has less "
    "error than its correction.",
)

THOMPSON_ROWS = ((24, 2), (32, 2), (60, 5), (80, 5))
THOMPSON = {  # bias, percent left by cMLE, MSE, percent of held-out, percent of cMLE
    (24, 2): (-0.19, 18.7, 0.32, 130, 90),
    (32, 2): (-0.17, 20.5, 0.28, 110, 77),
    (60, 5): (-0.23, 37.3, 0.34, 123, 85),
    (80, 5): (-0.11, 28.8, 0.16, 125, 62),
}
DRAWS_TELL_ALL = "Given the draws, the rewards are all but known, and the maximum has more error than no correction."
NOT_ITS_TEXT = "3,000 iterations given the draws, as its text has it, do not give the printed figure; what does is not known."
NO_RECORD = "The printed figure is conditional on the posterior draws; here they are integrated out, and no noise is added."


def _thompson_row(steps: int, num_arms: int) -> Iterator[Entry]:
    bias, bias_left, mse, held, mse_left = THOMPSON[steps, num_arms]
    row = f"T={steps}, K={num_arms}"
    original = _experiment("TS", steps, num_arms, more=MANY)
    halved: dict[str, Any] = dict(why=HALVED) if (steps, num_arms) == (80, 5) else dict(expects="agrees")
    few = 1 if num_arms == 2 else 0.2  # the probability of a choice is an integral where there are more than two arms
    for name, column, printed, left in (("bias", "bias", bias, bias_left), ("mse", "MSE", mse, mse_left)):

        def share(words: str, method: str, tau: float, more: int | float = 1, name=name, column=column, **known: Any) -> Entry:
            experiment = _experiment("TS", steps, num_arms, method, tau, more)
            return _share(name, row, f"{column}, {words}", experiment, original, **known)

        yield Entry(row=row, column=f"{column}, original", experiments=(original,), read=figure(name), paper=printed, **halved)
        yield share("noisy mean", "sample_mean", 1.0, MANY)
        if name == "mse":
            yield share("held out, text", "held_out", 0.0, MANY, paper=held, why=SHARED_FIRST)
            yield share("held out, tables", "held_out_shared", 0.0, MANY, paper=held, expects="agrees")
        if num_arms == 2:
            yield share("cMLE given draws, paper's algorithm", "paper_cmle_given_draws", 1.0, paper=left, why=NOT_ITS_TEXT)
        yield share("cMLE given draws, converged", "cmle_given_draws", 1.0, paper=left, why=DRAWS_TELL_ALL)
        yield share("cMLE, draws integrated out", "cmle", 0.0, few, paper=left, why=NO_RECORD)
        yield share("matching, τ = 0", "mean_matching", 0.0)


TABLE_7 = Spec(
    name="table7",
    title="Table 7. Thompson sampling, prior N(0, 25)",
    setting="As Table 2. With five arms the draws are integrated out in fewer trials (each choice is an integral), and the "
    "paper's 3,000 iterations are left out.",
    entries=tuple(entry for steps, num_arms in THOMPSON_ROWS for entry in _thompson_row(steps, num_arms)),
    seen="The original figures are as printed but for the last row. The conditional MLE is the wrong tool here, in both forms; "
    "mean matching needs neither noise nor draws, and leaves a tenth or less, within its error.",
)

TABLES = (joint_bias("table1"), TABLE_2, TABLE_3, TABLE_4, joint_bias("table5"), joint_bias("table6"), TABLE_7)
