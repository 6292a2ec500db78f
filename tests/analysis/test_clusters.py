"""Clusters: the correlation against simulated truth and closed forms, wider intervals, and their coverage."""

import io
import json

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import jaxbias as jb
from jaxbias._core.errors import ArgumentError
from jaxbias.analysis.clusters import measure_clusters, widen
from jaxbias.cli import main
from jaxbias.logs.notes import NoteKind
from jaxbias.reporting.clusters import cluster_document, cluster_sentence
from jaxbias.reporting.log_notes import describe_note

MEAN, USERS, ROWS_EACH = np.array([0.5, 0.0]), 60, 5


def clustered_logs(policy, number, shared=0.7):
    """Logs in which users come for five rows each and bring a level of their own; a reward has variance 1 given its arm."""
    steps, own = USERS * ROWS_EACH, np.sqrt(1 - shared)

    def one(key):
        levels = np.sqrt(shared) * jax.random.normal(jax.random.fold_in(key, steps), (USERS,))

        def step(state, place):
            choice, noise = jax.random.split(jax.random.fold_in(key, place))
            arm = jnp.where(place < len(MEAN), place, policy.sample(choice, state)).astype(jnp.int32)
            reward = jnp.asarray(MEAN, jnp.float32)[arm] + levels[place // ROWS_EACH] + own * jax.random.normal(noise)
            return policy.update(state, arm, reward), (arm, reward)

        return jax.lax.scan(step, policy.init(len(MEAN)), jnp.arange(steps))[1]

    arms, rewards = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), number))
    return jb.History(arms=arms, rewards=rewards, num_arms=len(MEAN)), np.repeat(np.arange(USERS), ROWS_EACH)


def test_the_correlation_is_the_one_that_was_simulated():
    rng = np.random.default_rng(0)
    cluster = np.repeat(np.arange(4000), rng.integers(1, 6, 4000))
    arms = rng.integers(0, 2, len(cluster))
    rewards = arms + np.sqrt(0.3) * rng.normal(size=4000)[cluster] + np.sqrt(0.7) * rng.normal(size=len(cluster))
    found = measure_clusters(arms, rewards, cluster, 3)
    assert found.correlation == pytest.approx(0.3, abs=0.03)
    sizes = [np.bincount(cluster[arms == arm]).astype(float) for arm in (0, 1)]
    expected = [1 + (np.sum(size**2) / np.sum(size) - 1) * found.correlation for size in sizes]
    np.testing.assert_allclose(found.design_effect, [*expected, 1.0])
    np.testing.assert_allclose(found.robust_ratio[:2] ** 2, expected, rtol=0.06)
    assert np.isnan(found.robust_ratio[2])
    independent = measure_clusters(arms, rng.normal(size=len(cluster)), cluster, 2)
    assert independent.correlation < 0.03
    assert measure_clusters([0, 1, 0], [1.0, 2.0, 3.0], [0, 1, 2], 2).correlation == 0  # no two rewards of one cluster


def test_the_analysis_of_variance_by_hand():
    """Two clusters of sizes 2 and 1 in one arm: B = 1/2 (4 + 8) ..., written out."""
    found = measure_clusters([0, 0, 0, 0, 0], [1.0, 3.0, 7.0, 9.0, 5.0], [0, 0, 1, 1, 2], 1)
    between, within = (2 * 3.0**2 + 2 * 3.0**2 + 0) / 2, (1 + 1 + 1 + 1) / 2
    typical = (5 - (4 + 4 + 1) / 5) / 2
    assert found.correlation == pytest.approx((between - within) / (between + (typical - 1) * within))


def test_intervals_are_wider_by_the_root_of_the_design_effect():
    logs, cluster = clustered_logs(jb.Thompson(), 1)
    log = logs.trial(0)
    found = measure_clusters(log.arms, log.rewards, cluster, 2)
    plain = jb.compare(jax.random.key(0), log, None, jb.Normal(), methods=["sample_mean", "shrinkage"])
    wide = widen(plain, found, (-np.inf, np.inf))
    for name, estimate in wide.estimates.items():
        before, factor = plain.estimates[name], np.sqrt(found.design_effect)
        np.testing.assert_allclose(estimate.upper - estimate.mean, (before.upper - before.mean) * factor, rtol=1e-4)
        np.testing.assert_allclose(estimate.stderr, before.stderr * factor, rtol=1e-4)
        np.testing.assert_array_equal(estimate.mean, before.mean)
    narrow = widen(plain, found, (0.0, 0.6)).estimates["sample_mean"]
    assert (narrow.upper >= plain.estimates["sample_mean"].upper).all()  # an end outside the range stays where it was


def test_a_log_with_users():
    logs, cluster = clustered_logs(jb.Thompson(), 1)
    frame = pd.DataFrame({"arm": np.asarray(logs.arms[0]), "reward": np.asarray(logs.rewards[0]), "user id": cluster})
    noted = jb.read_log(frame)
    assert [note.kind for note in noted.notes] == [NoteKind.IDS_REPEAT]
    assert "60 different values in 300 rows" in describe_note(noted.notes[0])
    assert noted.cluster is None
    log = jb.read_log(frame, cluster="user id")
    assert log.notes == ()
    np.testing.assert_array_equal(log.cluster, cluster)
    analysis = jb.debias(jax.random.key(0), log, None, jb.Normal(), methods=["sample_mean", "shrinkage"])
    assert analysis.clusters is not None
    assert "60 clusters" in cluster_sentence(analysis)
    assert [one["arm"] for one in cluster_document(analysis.clusters, analysis.labels)["arms"]] == ["0", "1"]
    once = frame.assign(**{"user id": np.arange(300)})
    assert jb.read_log(once).notes == ()


def test_on_the_command_line(tmp_path, capsys):
    logs, cluster = clustered_logs(jb.Thompson(), 1)
    path = tmp_path / "log.csv"
    columns = {"arm": np.asarray(logs.arms[0]), "reward": np.asarray(logs.rewards[0]), "visitor_id": cluster}
    pd.DataFrame(columns).to_csv(path, index=False)
    options = ["debias", str(path), "--sigma", "1", "--method", "sample_mean", "--method", "confidence_sequence", "--json"]
    assert main(options) == 0
    plain, warned = capsys.readouterr()
    assert "name it with --cluster" in warned
    assert main([*options, "--cluster", "visitor_id"]) == 0
    wide, warned = capsys.readouterr()
    assert warned == ""
    plain, wide = json.loads(plain), json.loads(wide)
    ends = [document["arms"][0]["estimates"]["sample_mean"]["stderr"] for document in (plain, wide)]
    assert ends[1] / ends[0] == pytest.approx(np.sqrt(wide["clusters"]["arms"][0]["design_effect"]), rel=1e-6)
    assert (plain["clusters"], wide["clusters"]["number"]) == (None, USERS)
    assert main([*options, "--cluster", "nobody"]) == 2
    assert "choose one of them with --cluster" in capsys.readouterr().err


def test_what_is_refused():
    text = "arm,reward,user\nA,1,x\nB,2,\n"
    with pytest.raises(ArgumentError, match="user"):
        jb.read_log(io.StringIO(text), cluster="user")
    with pytest.raises(ArgumentError, match="has no column"):
        jb.read_log(io.StringIO(text), cluster="visitor")
    with pytest.raises(ArgumentError, match="cluster is ''"):
        jb.read_log(io.StringIO(text), cluster="")
    with pytest.raises(ArgumentError, match="cluster"):
        jb.read_log(io.StringIO("arm,pulls,sum\nA,3,1\n"), counts=True, cluster="user")
    with pytest.raises(ArgumentError, match="cluster"):
        measure_clusters([0, 1], [1.0, 2.0], [0], 2)


@pytest.mark.slow
def test_coverage_with_users():
    """Thompson sampling, users of five rows with correlation 0.7: plain intervals are too narrow, widened ones are not."""
    logs, cluster = clustered_logs(jb.Thompson(), 1000)
    estimate = jb.shrinkage(logs, jb.Normal())
    mean, half = np.asarray(estimate.mean), np.asarray(estimate.upper - estimate.mean)
    effects = [measure_clusters(logs.arms[row], logs.rewards[row], cluster, 2).design_effect for row in range(1000)]
    off = np.abs(mean - MEAN)
    plain, wide = np.mean(off < half), np.mean(off < half * np.sqrt(effects))
    assert plain < 0.85
    assert wide > 0.93
