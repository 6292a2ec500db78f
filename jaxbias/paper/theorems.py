"""Theorem 1 and Propositions 1 and 2 as checks: which policies have the conditions, and that the bias is then at most zero."""

from jaxbias.paper.experiments import Experiment
from jaxbias.paper.spec import Entry, Expectation, Spec, figure, largest_in_errors

THREE, TWO = (1.0, 0.75, 0.5), (1.0, 0.75)
STEPS, MANY = 40, 100
NOT_AS_DEFINED = (
    "With three arms, IIO as Definition 2 states it does not hold for this policy, although Proposition 1 says so; the pathwise "
    "form, which the proof uses, does."
)
LARGEST = "largest bias, in standard errors"


def _run(policy: str, mean: tuple[float, ...]) -> Experiment:
    return Experiment(policy=policy, mean=mean, steps=STEPS, method="conditions", more=MANY)


def _check(policy: str, experiment: Experiment, condition: str, why: str = "") -> Entry:
    """1 where no counterexample was found, as the paper says."""
    expects: Expectation = "" if why else "agrees"
    return Entry(
        row=policy,
        column=condition,
        experiments=(experiment,),
        read=figure(condition),
        paper=1.0,
        digit=0.0,
        expects=expects,
        why=why,
    )


def _bias(policy: str, experiment: Experiment, expects: Expectation = "at most 0") -> Entry:
    read = largest_in_errors("bias", size=expects == "is 0")
    return Entry(row=policy, column=LARGEST, experiments=(experiment,), read=read, expects=expects)


def _theorem_rows() -> tuple[Entry, ...]:
    entries = []
    for policy in ("Greedy", "lil' UCB", "UCB1", "ε-Greedy", "TS"):
        experiment = _run(policy, THREE)
        defined = policy not in ("ε-Greedy", "TS")
        entries += [
            _check(policy, experiment, "Exploit"),
            _check(policy, experiment, "IIO", "" if defined else NOT_AS_DEFINED),
            _check(policy, experiment, "IIO pathwise"),
        ]
        entries.append(_bias(policy, experiment))
    experiment = _run("Uniform", THREE)
    entries += [_check("Uniform", experiment, name) for name in ("Exploit", "IIO", "IIO pathwise")]
    return (*entries, _bias("Uniform", experiment, "is 0"))


THEOREM_1 = Spec(
    name="theorem1",
    title="Theorem 1 and Proposition 1. Exploit and IIO, and the bias of three arms",
    setting=f"A search for counterexamples over 10,000 pairs of histories (1: none found, 0: found), and the bias of "
    f"T = {STEPS} steps: the arm whose sample mean is least low, in standard errors.",
    entries=_theorem_rows(),
    seen="Every policy that has Exploit and the pathwise IIO has no sample mean above its mean beyond chance. Where the pulls do "
    "not depend on the rewards (Uniform), the bias is zero.",
)
PROPOSITION_2 = Spec(
    name="proposition2",
    title="Proposition 2. With two arms, Exploit alone",
    setting=THEOREM_1.setting,
    entries=tuple(
        entry
        for policy in ("Greedy", "lil' UCB", "UCB1", "ε-Greedy", "TS")
        for entry in (_check(policy, _run(policy, TWO), "Exploit"), _bias(policy, _run(policy, TWO)))
    ),
    seen="Every policy with Exploit has no sample mean above its mean beyond chance.",
)

THEOREMS = (THEOREM_1, PROPOSITION_2)
