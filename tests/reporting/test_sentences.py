"""The words follow the findings."""

import dataclasses

import jax
import numpy as np
import pandas as pd
import pytest

import jaxbias as jb
from jaxbias.analysis.findings import Assumed, Assumption, Distrust, Reason, Recommendation, WeightingLoss
from jaxbias.estimators.estimate import Status
from jaxbias.estimators.registry import FALLBACKS, METHODS, PREFERRED
from jaxbias.logs.notes import Note, NoteKind
from jaxbias.policy_fit.alternatives import Cause
from jaxbias.policy_fit.causes import LikelyCause
from jaxbias.reporting.answer import basis_sentences
from jaxbias.reporting.assumptions import describe_assumption, warnings_of
from jaxbias.reporting.documents import debias_document, to_json
from jaxbias.reporting.page import render_report
from jaxbias.reporting.page_answers import short_answers
from jaxbias.reporting.recommendation import describe_reason
from jaxbias.reporting.sentences import bias_sentence, describe_distrust, few_sentence, fit_sentence, sentences
from jaxbias.reporting.statuses import WORDS, describe_doubts, describe_status, doubt_sentence
from jaxbias.reporting.terminal import print_debias

POLICY, FAMILY = jb.LilUCB(tau=0.5), jb.Normal(sigma=1.0)
QUICK = ("sample_mean", "mean_matching", "confidence_sequence")


def analyse(collected=POLICY, policy=POLICY, num_steps=40, **options):
    history = jb.simulate(jax.random.key(0), collected, FAMILY, [1.0, 0.5, 0.0], num_steps=num_steps)
    frame = pd.DataFrame({"arm": ["ABC"[arm] for arm in np.asarray(history.arms)], "reward": np.asarray(history.rewards)})
    return jb.debias(jax.random.key(5), frame, policy, **{"family": FAMILY, "methods": QUICK, **options})


@pytest.fixture(scope="module")
def whole():
    return analyse()


@pytest.fixture(scope="module")
def misfit():
    return analyse(jb.Uniform(), jb.Greedy())


@pytest.fixture(scope="module")
def with_absent_arm():
    return analyse(arms=["A", "B", "C", "D"])


def test_the_words_follow_the_numbers(whole):
    fit, recommended, best, _, bias = sentences(whole)
    assert fit.startswith("The choices fit LilUCB: the log-probability of its 37 choices is ")
    assert recommended.startswith("Recommended: mean_matching, because ")
    label = whole.labels[int(np.argmax(whole.estimate.mean))]
    assert best.startswith(f"'{label}' has the largest estimate, ")
    low = [whole.labels[arm] for arm in range(3) if whole.bias.bias[arm] < -3 * whole.bias.stderr[arm]]
    assert low
    assert all(repr(name) in bias for name in low)
    assert "negative" not in " ".join(sentences(whole))


@pytest.mark.parametrize(
    ("bias", "stderr", "words"),
    [
        ([-0.1, 0.1, 0.0], [0.01, 0.01, 0.01], "too low for 'A'; too high for 'B'; within 3 standard errors of right for 'C'"),
        ([0.1, 0.1, 0.1], [0.01, 0.01, 0.01], "too high for 'A', 'B' and 'C'"),
        ([np.nan, 0.01, 0.02], [np.nan, 0.01, 0.01], "within 3 standard errors of right for 'B' and 'C'"),
    ],
)
def test_a_bias_may_have_either_sign(whole, bias, stderr, words):
    found = whole.bias._replace(bias=np.array(bias), stderr=np.array(stderr))
    sentence = bias_sentence(dataclasses.replace(whole, bias=found))
    assert sentence == (
        f"If these estimates are right, the sample mean of such a log is on average {words} (from 16,384 simulated logs)."
    )


def test_a_log_that_is_unusual_for_the_policy_is_not_simply_called_fitting(whole):
    cause = LikelyCause(
        cause=Cause.DELAY, settings={"delay": 12}, gain=18.0, fits=True, impossible=0, declared_impossible=0, choices=37
    )
    fit = whole.fit._replace(p_value=0.0015, calibration_p_value=1.0)
    found = dataclasses.replace(whole, fit=fit, causes=(cause,))
    assert found.trusted
    assert fit_sentence(found).startswith("The choices are unusual for LilUCB, though possible (p = 0.0015): ")
    assert basis_sentences(found)[0].startswith("The log is unusual for the declared policy LilUCB (p = 0.0015), so check ")
    assert short_answers(found)["fit_short"] == "Unusual (p = 0.0015)"
    assert "The choices fit if its rewards came 12 rows late (log-likelihood higher by 18): add" in render_report(found)
    assert fit_sentence(dataclasses.replace(whole, fit=fit._replace(p_value=0.02))).startswith("The choices fit LilUCB: ")


def test_a_log_that_another_policy_chose(misfit):
    assert fit_sentence(misfit).startswith("The log cannot come from Greedy: at step ")
    unlikely = analyse(jb.Uniform(), jb.Greedy(tau=0.05), num_steps=200)
    assert fit_sentence(unlikely).startswith("The log does not look like Greedy's")
    unknown = analyse(policy=None)
    assert fit_sentence(unknown).startswith("The policy that chose the arms was not given")


# What is not to be trusted


def test_every_reason_for_distrust_has_its_sentence(misfit, with_absent_arm):
    assert describe_distrust(misfit) == [fit_sentence(misfit), "The means of confidence_sequence are not corrected."]
    assert describe_distrust(with_absent_arm) == []  # an arm that was never pulled is a doubt, and no reason for distrust
    doubted = dataclasses.replace(with_absent_arm, distrust=(Distrust.NOT_CONVERGED,))
    assert describe_distrust(doubted) == ["Not reliable: 'D' (never pulled)."]
    assert not doubted.trusted
    for reason in Distrust:
        assert all(describe_distrust(dataclasses.replace(with_absent_arm, distrust=(reason,))))


def test_the_terminal_the_page_and_the_document_give_the_same_reasons(misfit, capsys):
    print_debias(misfit)
    printed = capsys.readouterr().out
    page = jb.reporting.render_report(misfit)
    document = debias_document(misfit)
    assert document["trusted"] is False
    for reason in document["distrust"]:
        assert reason in printed.splitlines()
        assert reason.replace("'", "&#39;") in page


def test_a_doubtful_arm_has_its_status(with_absent_arm):
    assert doubt_sentence(with_absent_arm) == "Not reliable: 'D' (never pulled)."
    assert describe_status(with_absent_arm, "mean_matching", 3) == "never pulled"
    assert describe_status(with_absent_arm, "mean_matching", 0) == "converged"
    assert describe_doubts(with_absent_arm) == [f"{method} of 'D' (never pulled)" for method in QUICK]


def test_every_status_has_words():
    assert set(WORDS) == set(Status)
    assert len(set(WORDS.values())) == len(Status)


# Recommendations


@pytest.mark.parametrize(
    ("recommended", "words"),
    [
        (
            Recommendation("confidence_sequence", corrects=False, reason=Reason.POLICY_UNKNOWN),
            "the policy is not known, and this method does not use it",
        ),
        (
            Recommendation("mean_matching", corrects=False, reason=Reason.POLICY_DOES_NOT_FIT),
            "the log does not look like the declared policy's, and no method that needs no policy was tried",
        ),
        (
            Recommendation(
                "sample_mean", corrects=False, reason=Reason.NONE_CONVERGED, tried=("mean_matching", "conditional_mle")
            ),
            "mean_matching and conditional_mle did not converge for every arm, and this one needs no policy",
        ),
        (
            Recommendation("data_splitting", corrects=True, reason=Reason.NONE_TRIED),
            "no method that uses the policy was tried or applies, and this one needs no policy",
        ),
        (
            Recommendation("sample_mean", corrects=True, reason=Reason.NOTHING_TO_CORRECT),
            "the arms were chosen without looking at the rewards: nothing to correct",
        ),
        (
            Recommendation(
                "adaptive_weighting",
                corrects=True,
                reason=Reason.PREFERRED,
                tried=("adaptive_weighting",),
                least_pulls=3,
                few_pulls=(1,),
                weighting_loss=WeightingLoss(arm=0, pulls=1200, effective=34.56),
            ),
            "it needs the probabilities of the choices alone; it converged for every arm; the least pulled has 3 pulls ('B' too "
            "few for more than a wide interval); with propensity weighting the 1,200 pulls of 'A' would count as 34.6",
        ),
    ],
)
def test_why_a_method_is_recommended(recommended, words):
    assert describe_reason(recommended, ("A", "B")) == words


def test_every_preferred_method_has_a_reason(monkeypatch):
    for method in PREFERRED:
        recommended = Recommendation(method.name, corrects=True, reason=Reason.PREFERRED, tried=(method.name,), least_pulls=9)
        assert describe_reason(recommended, "A").endswith("; it converged for every arm; the least pulled has 9 pulls")
    monkeypatch.setitem(METHODS, "new", dataclasses.replace(METHODS["mean_matching"], name="new", summary="a new mean"))
    recommended = Recommendation("new", corrects=True, reason=Reason.PREFERRED, tried=("new",), least_pulls=9)
    assert describe_reason(recommended, "A").startswith("it gives a new mean; ")


def test_without_a_policy_the_method_that_assumes_the_least_is_first():
    assert [one.name for one in FALLBACKS] == ["confidence_sequence", "data_splitting", "sample_mean", "batched_ols"]


# Assumptions


@pytest.mark.parametrize(
    ("assumption", "words"),
    [
        (Assumption(Assumed.NORMAL), "The family was not given; Normal was assumed."),
        (Assumption(Assumed.BERNOULLI), "The family was not given; every reward is 0 or 1, so Bernoulli."),
        (
            Assumption(
                Assumed.SIGMA_ESTIMATED,
                method="mean_matching",
                sigma=np.array([1.23456]),
                lower=np.array([1.0]),
                upper=np.array([1.5]),
            ),
            "sigma was not given; mean_matching estimated it together with the means: 1.235 [1, 1.5].",
        ),
        (
            Assumption(
                Assumed.SIGMA_ESTIMATED,
                method="mean_matching",
                each=True,
                sigma=np.array([1.5, np.nan]),
                lower=np.array([1.25, np.nan]),
                upper=np.array([2.0, np.nan]),
            ),
            "sigma was not given, and each arm has its own; mean_matching estimated it together with the means: "
            "1.5 [1.25, 2] ('A'), – ('B').",  # noqa: RUF001
        ),
        (
            Assumption(Assumed.SIGMA_WITHIN_ARMS, sigma=np.array([0.5]), taken_by=("confidence_sequence",)),
            "sigma was not given; 0.5 is the standard deviation within arms, which confidence_sequence takes as known.",
        ),
        (
            Assumption(Assumed.SIGMA_WITHIN_ARMS, sigma=np.array([0.5])),
            "sigma was not given; 0.5 is the standard deviation within arms.",
        ),
    ],
)
def test_an_assumption_is_a_sentence(assumption, words):
    assert describe_assumption(assumption, ("A", "B")) == words


def test_warnings_are_the_notes_of_the_log_and_the_assumptions():
    found = analyse(family=None)
    assert warnings_of(found) == [describe_assumption(assumption, found.labels) for assumption in found.assumptions]
    assert len(found.assumptions) == 2
    noted = dataclasses.replace(
        found, log=dataclasses.replace(found.log, notes=(Note(NoteKind.EMPTY_ROWS_SKIPPED, {"count": 2}),))
    )
    assert warnings_of(noted) == ["2 empty rows were skipped.", *warnings_of(found)]


# Documents


def test_the_document_keeps_its_names(whole):
    document = debias_document(whole)
    assert set(document["recommended"]) == {"method", "why", "corrects"}
    assert document["recommended"]["why"] == describe_reason(whole.recommended, whole.labels)
    assert (document["sentences"], document["warnings"], document["distrust"]) == (sentences(whole), [], [])
    assert document["arms"][0]["estimates"]["mean_matching"]["status"] == "converged"
    assert few_sentence(whole) == ""
    to_json(document)


def test_an_ascii_console_gets_ascii(whole, monkeypatch):
    import io
    import sys

    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    print_debias(whole)
    stream.flush()
    assert b" +/- " in stream.buffer.getvalue()
