"""What grows without bound has a limit that someone chose, and a message that names it."""

import gzip
import subprocess
import sys

import jax
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.analysis.limits import path_cost
from jaxbias.cli import main
from jaxbias.policies import BetaExplorationSampling, BetaThompson

BINARY = jb.History(arms=np.array([0, 1] * 6), rewards=np.array([0.0, 1.0, 1.0, 0.0] * 3), num_arms=2)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(
        "arm,reward\n" + "".join(f"{arm},{reward:g}\n" for arm, reward in zip(BINARY.arms, BINARY.rewards, strict=True))
    )
    return str(path)


def test_a_hundred_thousand_arms(tmp_path, capsys):
    path = tmp_path / "log.csv"
    path.write_text("arm,reward\n" + "".join(f"a{number},{number % 2}\n" for number in range(100_000)))
    assert main(["debias", str(path), "--quiet"]) == 2
    assert capsys.readouterr().err == "jaxbias: the number of arms is 100000; it must be a whole number from 1 to 65536\n"


def test_as_many_arms_as_are_allowed_and_as_many_rows(tmp_path, capsys):
    """XLA found no memory for 17 GB of probabilities and ended the process."""
    path = tmp_path / "log.csv"
    path.write_text("arm,reward\n" + "".join(f"a{number},{number % 2}\n" for number in range(65_536)))
    assert main(["debias", str(path), "--policy", "lil-ucb", "--tau", "1", "--quiet"]) == 2
    assert capsys.readouterr().err.startswith(
        "jaxbias: rows times arms is 4,294,967,296; it must be at most 67,108,864, because the policy gives every arm"
    )


def test_a_gzip_file_that_unpacks_to_one_long_field(tmp_path, capsys):
    """2 MB that unpacked to 2 GB took 12.6 GB; here a hundredth of it is enough to be refused."""
    path = tmp_path / "log.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"arm,reward\n")
        for _ in range(20):
            file.write(b"a" * 2**20)
    assert main(["debias", str(path), "--quiet"]) == 2
    assert "has more than 16 million characters in line 2; it must be a CSV" in capsys.readouterr().err


def test_rows_of_any_number_are_no_long_line(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("arm,reward\n" + "a,1\nb,0\n" * 300_000)
    assert jb.read_log(path).history.num_steps == 600_000


def test_priors_that_need_too_many_nodes():
    with pytest.raises(
        jb.ArgumentError, match=r"^policy.prior_success is 100000.0; it must be at most 40,965 with prior_failure"
    ):
        BetaThompson(prior_success=1e5).table_nodes(12)
    assert BetaThompson(prior_success=1e4).table_nodes(12) < 2048


@pytest.mark.parametrize("value", ["1e300", "5e-324"])
def test_priors_at_the_ends_of_floating_point(value, log, capsys):
    assert main(["debias", log, "--policy", "beta-thompson", "--prior-success", value, "--quiet"]) == 2
    assert "it must be 0, or from 6e-76 to 2e+75 in size, in float64" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--policy", "greedy", "--tau", "1e-300"], "--tau is 1e-300; it must be 0, or from 6e-76"),
        (["--policy", "thompson", "--prior-sigma", "5e-324"], "--prior-sigma is 5e-324; it must be 0, or from 6e-76"),
        (["--policy", "thompson", "--prior-sigma", "1e300"], "--prior-sigma is 1e+300; it must be 0, or from 6e-76"),
        (["--level", "1e-300"], "--level is 1e-300; it must be from 0.000001"),
    ],
)
def test_options_at_the_ends_of_floating_point(log, words, message, capsys):
    """They ended in tracebacks, in a sentence about the fit or in the confidence sequence."""
    assert main(["debias", log, *words, "--quiet"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"jaxbias: {message}")


@pytest.mark.slow
@pytest.mark.parametrize("policy", [BetaThompson(prior_success=1e5), BetaExplorationSampling()])
def test_twelve_rows_have_an_answer(policy):
    """The first took more than 60 s on a busy machine, the second more than 6 minutes."""
    rows = {"arm": BINARY.arms, "reward": BINARY.rewards}
    found = jb.debias(jax.random.key(0), rows, policy, jb.Bernoulli(), evaluate=False)
    assert found.recommended is not None
    assert all(np.isfinite(estimate.mean).any() for estimate in found.comparison.estimates.values())


def test_a_billion_steps(log, capsys):
    words = ["--policy", "greedy", "--stop-difference", "2", "--max-steps", "1000000000", "--quiet"]
    assert main(["debias", log, *words]) == 2
    assert "--max-steps is 1000000000; it must be at most 1,048,576" in capsys.readouterr().err
    with pytest.raises(jb.ArgumentError, match=r"^num_steps is 1000000000; it must be at most 8388608$"):
        jb.mean_matching(
            jax.random.key(0), BINARY, jb.Greedy(tau=1.0), jb.Normal(), stop=jb.StopAtDifference(5.0), num_steps=10**9
        )


def test_a_policy_that_draws_from_its_integral_costs_what_the_integral_does():
    """A log of 12 rows took over six minutes: its paths were counted as if they were drawn."""
    three = jb.History(arms=np.array([0, 1, 2] * 4), rewards=BINARY.rewards, num_arms=3)
    drawn, integrated = (path_cost(three, policy, jb.Bernoulli()) for policy in (BetaThompson(), BetaExplorationSampling()))
    assert integrated == 50 * drawn
    assert path_cost(BINARY, BetaExplorationSampling(), jb.Bernoulli()) < drawn  # two arms have one half each


@pytest.mark.slow
def test_two_hundred_arms(tmp_path):
    """It took more than five minutes; in a process of its own, as a user has it."""
    random = np.random.default_rng(0)
    arms = np.concatenate([np.arange(200), random.integers(0, 200, 1800)])
    path, rewards = tmp_path / "log.csv", random.normal(size=2000)
    path.write_text("arm,reward\n" + "".join(f"a{arm},{reward:.4f}\n" for arm, reward in zip(arms, rewards, strict=True)))
    words = ["debias", str(path), "--policy", "uniform", "--sigma", "1", "--quiet"]
    done = subprocess.run([sys.executable, "-m", "jaxbias", *words], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in (0, 1)
    assert done.stderr == ""
    assert "a17" in done.stdout or "--all-arms" in done.stdout
