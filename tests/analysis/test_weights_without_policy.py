"""A log with weights and no policy: what is recommended, which checks it passes, and what the report says of it."""

import io
import json

import jax
import numpy as np
import pandas as pd
import pytest

import jaxbias as jb
from jaxbias.analysis.findings import Distrust, Reason
from jaxbias.analysis.propensities import find_propensities
from jaxbias.reporting.documents import debias_document, to_json
from jaxbias.reporting.sentences import sentences

KEY = jax.random.key(5)
POLICY, FAMILY = jb.EpsilonGreedy(epsilon=0.3), jb.Bernoulli()
WITHOUT = ("sample_mean", "propensity_weighting", "adaptive_weighting", "shrinkage", "confidence_sequence")


@pytest.fixture(scope="module")
def frame():
    """300 pulls with the exact probabilities of every arm."""
    history = jb.simulate(jax.random.key(0), POLICY, FAMILY, [0.6, 0.5, 0.4], num_steps=300)
    arms = np.array(list("ABC"))[np.asarray(history.arms)]
    log = jb.read_log(pd.DataFrame({"arm": arms, "reward": np.asarray(history.rewards, float)}))
    return pd.read_csv(io.StringIO(find_propensities(log, POLICY).table))


def analyse(frame, policy=None, **options):
    return jb.debias(KEY, frame, policy, FAMILY, **{"methods": WITHOUT, "evaluate": False, **options})


def test_weights_without_a_policy(frame, tmp_path):
    found = analyse(frame)
    assert (found.recommended.method, found.recommended.reason, found.recommended.corrects) == (
        "adaptive_weighting",
        Reason.WEIGHTS_KNOWN,
        True,
    )
    assert (found.trusted, found.fit, found.bias, found.evaluation, found.misled) == (True, None, None, None, ())
    assert found.weights.ratio.agrees
    assert found.weights.policy is None
    with jax.enable_x64(True):
        history = jb.History(**vars(found.log.history))
        expected = jb.adaptive_weighting(history, POLICY, FAMILY)
    np.testing.assert_allclose(found.estimate.mean, expected.mean, rtol=1e-6)
    np.testing.assert_allclose(found.estimate.lower, expected.lower, rtol=1e-6)
    said = " ".join(sentences(found))
    assert said.startswith("The policy that chose the arms was not given, but the weights with which it chose them are")
    for part in (
        "Recommended: adaptive_weighting, because it needs only the weights with which the arms were chosen",
        "no logs like this one can be simulated to evaluate the methods on",
        "The pulls agree with the logged weights (p = ",
        "adaptive_weighting corrects the means, whatever the policy looked at",
        "those of confidence_sequence in any log whose policy looked at nothing but past pulls and rewards",
        "Without the policy no log like this one can be simulated",
    ):
        assert part in said
    jb.write_report(found, tmp_path / "report.html")
    assert '<table id="ratio">' in (tmp_path / "report.html").read_text()
    document = debias_document(found)["weights"]
    assert (document["policy"], document["ratio"]["agrees"], len(document["ratio"]["arms"])) == (None, True, 3)
    assert '"expected"' in to_json(document)


def test_weights_with_which_the_pulls_do_not_agree(frame):
    swapped = frame.assign(p_A=frame.p_B, p_B=frame.p_A)
    found = analyse(swapped)
    assert (found.recommended.method, found.recommended.means_from) == ("confidence_sequence", "shrinkage")
    assert not found.weights.ratio.agrees
    said = " ".join(sentences(found))
    assert "The pulls do not agree with the logged weights (p < 0.001): " in said
    assert "adaptive_weighting is not recommended, as the pulls do not agree with the weights." in said
    alone = analyse(swapped, methods=("adaptive_weighting",))
    assert Distrust.WEIGHTS_OFF in alone.distrust
    assert not alone.trusted


def test_weights_that_are_not_the_policys(frame, tmp_path):
    right = analyse(frame, POLICY)
    assert right.weights.policy.agrees
    assert "The logged weights are those of EpsilonGreedy: the largest difference in 297 rows is " in " ".join(sentences(right))
    wrong = analyse(frame, jb.EpsilonGreedy(epsilon=0.35))
    assert (wrong.weights.policy.wrong, wrong.weights.policy.largest) == (297, pytest.approx(0.05 * 2 / 3))
    said = " ".join(sentences(wrong))
    assert "The logged weights are not those of EpsilonGreedy: 297 of 297 rows are off by more than 0.01" in said
    assert "explain" in said
    jb.write_report(wrong, tmp_path / "report.html")
    assert '<table id="wrong-weights">' in (tmp_path / "report.html").read_text()


def test_probabilities_of_the_pulled_arm_alone_are_compared_with_the_policy(frame, tmp_path):
    chosen = frame[["p_A", "p_B", "p_C"]].to_numpy()[np.arange(len(frame)), frame["arm"].map({"A": 0, "B": 1, "C": 2})]
    lone = frame[["arm", "reward"]].assign(propensity=chosen)
    right = analyse(lone, POLICY)
    assert right.weights.ratio is None
    assert right.weights.policy.agrees
    assert "The logged propensities are those of EpsilonGreedy" in " ".join(sentences(right))
    wrong = analyse(lone, jb.EpsilonGreedy(epsilon=0.35))
    assert wrong.weights.policy.wrong == 293  # of 297: where two arms are tied, the one pulled is off by less than 0.01
    assert "The logged propensities are not those of EpsilonGreedy" in " ".join(sentences(wrong))
    assert json.loads(to_json(debias_document(wrong)))["weights"]["ratio"] is None
    jb.write_report(wrong, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert '<table id="wrong-weights">' in page
    assert '<table id="ratio">' not in page
    assert analyse(lone).weights is None  # nothing to compare them with


def test_a_policy_that_does_not_fit_leaves_the_weights(frame):
    found = analyse(frame, jb.Greedy())
    assert (found.recommended.method, found.recommended.reason) == ("adaptive_weighting", Reason.WEIGHTS_KNOWN)
    assert (found.misled, found.bias) == ((), None)  # no method here uses the policy
    assert Distrust.POLICY_DOES_NOT_FIT in found.distrust


def test_too_few_choices_for_weights(frame):
    found = analyse(frame[:15])
    assert found.recommended.method == "confidence_sequence"
    assert "adaptive_weighting is not recommended, as it " in " ".join(sentences(found))


def test_neither_policy_nor_weights(frame):
    plain = frame.drop(columns=["p_A", "p_B", "p_C"])
    found = analyse(plain)
    assert (found.recommended.method, found.recommended.means_from, found.weights) == ("confidence_sequence", "shrinkage", None)
    said = " ".join(sentences(found))
    assert "Without the policy and without its weights no method corrects the means. You can still use shrinkage" in said
    assert "the policy looked at nothing but past pulls and rewards" in said
    assert "context" not in said
    generator = np.random.default_rng(0)
    context = plain.assign(age=generator.normal(size=300), country=generator.choice(list("xyz"), size=300))
    said = " ".join(sentences(analyse(context)))
    assert "Columns 'age' and 'country' were not used. If the policy looked at them" in said
    assert "such as a user's context, that breaks both." in said
    recorded = plain.assign(propensity=0.5)
    assert "The log has the probability of the pulled arm only" in " ".join(sentences(analyse(recorded)))


def test_an_estimate_below_0_is_no_message_about_the_mean():
    """An arm whose scores are all below 0: its estimate is clipped, marked, and not recommended."""
    arms, rewards = ["A", "B"] * 10, [1.0, 1.0, *[0.0, 1.0] * 9]
    weights = {"p_A": [np.nan] * 2 + [0.02, 0.98] * 9, "p_B": [np.nan] * 2 + [0.98, 0.02] * 9}
    found = analyse(pd.DataFrame({"arm": arms, "reward": rewards, **weights}))
    weighted = found.comparison.estimates["adaptive_weighting"]
    assert ((np.asarray(weighted.mean) >= 0) & (np.asarray(weighted.mean) <= 1)).all()
    assert found.recommended.method != "adaptive_weighting"
    assert analyse(pd.DataFrame({"arm": arms, "reward": rewards, **weights}), methods=("adaptive_weighting",)).distrust
