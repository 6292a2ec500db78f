"""The command line against the calls it stands for."""

import dataclasses
import gzip
import io
import json
import os
import signal
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from typer.main import get_command

import jaxbias as jb
from jaxbias._core.errors import ArgumentError
from jaxbias.cli import main
from jaxbias.cli.app import app
from jaxbias.cli.errors import option_names
from jaxbias.reporting import terminal as report

SMALL = ["--steps", "8", "--trials", "200"]  # the same sizes everywhere: compiled once for each policy
TWO_ARMS = ["--mean", "1.0", "--mean", "-0.5"]


def run(capsys, *arguments):
    """Exit code, standard output, standard error."""
    code = main([str(argument) for argument in arguments])
    return code, *capsys.readouterr()


def read_json(text):
    def refuse(token):
        raise AssertionError(f"{token} is not JSON")

    return json.loads(text, parse_constant=refuse)


def run_json(capsys, *arguments):
    code, out, err = run(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    return read_json(out)


def python(*arguments, **options):
    """A process of its own."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", **options.pop("env", {})}
    return subprocess.run([sys.executable, *arguments], text=True, env=environment, timeout=120, check=False, **options)


def summary_of(bias, stderr, num_trials=1000):
    bias, stderr = np.array(bias), np.array(stderr)
    joint = np.full(len(bias) + 1, 1 / (len(bias) + 1))
    return jb.bias.BiasSummary(
        bias,
        stderr,
        bias**2,
        stderr,
        joint,
        joint / 10,
        bias.mean(),
        0.01,
        1.0,
        0.01,
        bias * 0 + 4,
        2.5,
        0.02,
        0.7,
        0.01,
        num_trials,
    )


def plain(value):
    """Policies, families and arrays as plain lists, which compare."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if dataclasses.is_dataclass(value):
        return [type(value).__name__, plain(vars(value))]
    return [plain(part) for part in value] if isinstance(value, list) else np.asarray(value).tolist()


FIVE_ARMS = summary_of([-0.1] * 5, [0.01] * 5)
PER_ARM = np.array([0.1, 2.0])

# What is asked before anything runs


def test_help_and_version_do_not_import_jax():
    code = (
        "import sys; from jaxbias.cli import main\n"
        "codes = [main(words) for words in ([], ['--help'], ['simulate', '--help'], ['check', '-h'], ['--version'], ['nope'])]\n"
        "assert codes == [0, 0, 0, 0, 0, 2], codes\n"
        "assert 'jax' not in sys.modules"
    )
    done = python("-c", code, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "jaxbias: No such command 'nope'.\n")
    assert done.stdout.count("Usage: jaxbias") == 4
    assert done.stdout.count("Example: jaxbias") == 4


def test_module_runs_as_the_command():
    done = python("-m", "jaxbias", "--version", capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"jaxbias {jb.__version__}\n", "")


def test_shell_completes_policy_names():
    words = {"_JAXBIAS_COMPLETE": "complete_bash", "COMP_WORDS": "jaxbias simulate --policy ep", "COMP_CWORD": "3"}
    done = python("-c", "from jaxbias.cli import main; main()", capture_output=True, env=words)
    assert done.stdout.split() == ["epsilon-greedy"]


# simulate


@pytest.mark.parametrize(
    ("words", "policy", "family"),
    [
        (["greedy", "--tau", "0.5"], jb.Greedy(tau=0.5), jb.Normal()),
        (["greedy", "--ties", "first", "--sigma", "2"], jb.Greedy(ties="first"), jb.Normal(2.0)),
        (["epsilon-greedy"], jb.EpsilonGreedy(epsilon=0.1), jb.Normal()),
        (["lil-ucb"], jb.LilUCB(epsilon=0.01), jb.Normal()),
        (["lil-ucb", "--beta", "0.5", "--epsilon", "0.1", "--delta", "0.01"], jb.LilUCB(0.5, 0.1, 0.01), jb.Normal()),
        (["ucb1", "--sigma", "0.1", "--sigma", "2"], jb.UCB1(), jb.Normal(PER_ARM)),
        (["thompson", "--sigma", "2"], jb.Thompson(sigma=2.0), jb.Normal(2.0)),
        (
            ["thompson", "--sigma", "2", "--policy-sigma", "1", "--prior-mean", "-1", "--prior-mean", "1", "--prior-sigma", "3"],
            jb.Thompson(np.array([-1.0, 1.0]), 3.0, 1.0),
            jb.Normal(2.0),
        ),
        (["exp3", "--gamma", "0.5"], jb.Exp3(gamma=0.5), jb.Normal()),
        (["uniform"], jb.Uniform(), jb.Normal()),
    ],
    ids=lambda value: "-".join(value).replace("---", "-") if isinstance(value, list) else "",
)
def test_simulate_makes_the_call_that_the_words_say(capsys, monkeypatch, words, policy, family):
    calls = []
    monkeypatch.setattr(jb, "measure_bias", lambda *args, **options: calls.append((args, options)) or FIVE_ARMS)
    settings = run_json(capsys, "simulate", *SMALL, *TWO_ARMS, "--seed", 3, "--policy", *words)["settings"]
    [((key, *problem), options)] = calls
    assert key == jax.random.key(3)
    assert plain(problem) == plain([policy, family, [1.0, -0.5]])
    assert options == {"num_steps": 8, "num_trials": 200, "progress": False}
    of_policy = {"policy_sigma" if name == "sigma" else name: value for name, value in vars(policy).items()}
    run = {"mean": [1.0, -0.5], "steps": 8, "trials": 200, "seed": 3, "version": jb.__version__}
    assert settings == plain({"policy": words[0], **of_policy, "family": "normal", "sigma": family.sigma, **run})


@pytest.mark.parametrize(
    ("words", "policy", "family"),
    [
        (["greedy"], jb.Greedy(), jb.Normal()),
        (["exp3", "--gamma", "0.5"], jb.Exp3(gamma=0.5), jb.Normal()),
        (["thompson", "--sigma", "0.1", "--sigma", "2"], jb.Thompson(sigma=PER_ARM), jb.Normal(PER_ARM)),
    ],
    ids=["greedy", "exp3", "thompson"],
)
def test_simulate_gives_the_numbers_of_the_call(capsys, words, policy, family):
    found = run_json(capsys, "simulate", *SMALL, *TWO_ARMS, "--seed", 3, "--policy", *words)
    expected = jb.measure_bias(jax.random.key(3), policy, family, [1.0, -0.5], num_steps=8, num_trials=200)
    del found["settings"]
    assert found == plain({name: value for name, value in expected._asdict().items() if value is not None})


def test_beta_thompson_has_rewards_of_0_and_1(capsys):
    words = ["--prior-success", "2", "--prior-failure", "1", "--prior-failure", "3", "--mean", "0.5", "--mean", "0.25"]
    found = run_json(capsys, "simulate", "--policy", "beta-thompson", *SMALL, *words)
    policy = jb.BetaThompson(2.0, np.array([1.0, 3.0]))
    expected = jb.measure_bias(jax.random.key(0), policy, jb.Bernoulli(), [0.5, 0.25], num_steps=8, num_trials=200)
    assert found["bias"] == expected.bias.tolist()
    assert found["settings"]["family"] == "bernoulli"
    assert "sigma" not in found["settings"]


def test_what_is_not_a_number_is_null_in_json(capsys):
    found = run_json(capsys, "simulate", "--policy", "greedy", "--steps", 8, "--trials", 1, *TWO_ARMS)
    assert found["bias_stderr"] == [None, None]
    assert found["average_mse_stderr"] is None
    assert None not in found["bias"]


def test_defaults_are_the_example_of_the_help(capsys, monkeypatch):
    asked = {}
    monkeypatch.setattr(jb, "measure_bias", lambda *args, **options: asked.update(args=args[1:], **options) or FIVE_ARMS)
    code, _, _ = run(capsys, "simulate")
    assert code == 0
    assert asked["args"] == (jb.LilUCB(), jb.Normal(), [1.0, 0.75, 0.5, 0.38, 0.25])
    assert (asked["num_steps"], asked["num_trials"]) == (100, 100_000)


def test_simulate_prints_the_same_numbers_as_a_table(capsys):
    arguments = ["simulate", "--policy", "greedy", *SMALL, *TWO_ARMS]
    found = run_json(capsys, *arguments)
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "")
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in out.splitlines() if line.startswith("│")]
    assert [row[0] for row in rows] == ["0", "1", "average", "0", "1", "2"]
    assert [row[1] for row in rows[:2]] == ["1", "-0.5"]
    for column, name in ((3, "bias"), (4, "mse")):
        expected = [[*found[name], found[f"average_{name}"]], [*found[f"{name}_stderr"], found[f"average_{name}_stderr"]]]
        figures = [[float(part) for part in row[column].split(" ± ")] for row in rows[:3]]
        off = np.abs(np.transpose(figures) - expected)
        assert (off < 0.051 * np.asarray(expected[1])).all()  # two digits of the error, rounded
    assert [float(row[2]) for row in rows[:2]] == [round(pulls, 2) for pulls in found["pulls"]]
    shares = [[float(part) for part in row[1].split(" ± ")] for row in rows[3:]]
    np.testing.assert_allclose(np.transpose(shares), [found["joint"], found["joint_stderr"]], atol=6e-4)
    assert out.splitlines()[-3].startswith("On average over 200 trials, the sample mean")
    regret, error = (float(part) for part in out.splitlines()[-1].split()[3:6:2])
    assert abs(regret - found["regret"]) < 0.051 * error
    share, error = (float(word.strip("%")) for word in out.splitlines()[-1].split("which gets ")[1].split()[:3:2])
    assert abs(share - 100 * found["best_share"]) < 0.051 * error
    assert abs(error - 100 * found["best_share_stderr"]) < 0.051 * error


@pytest.mark.parametrize(
    ("bias", "stderr", "sentence"),
    [
        ([-0.4, -0.31], [0.1, 0.1], "the sample mean of every arm is too low by more than 3 standard errors."),
        (
            [-0.4, -0.29, -0.4],
            [0.1, 0.1, 0.1],
            "the sample means of arms 0 and 2 are too low by more than 3 standard errors; "
            "the sample mean of arm 1 is within 3 standard errors of right.",
        ),
        (
            [0.4, -0.4],
            [0.1, 0.1],
            "the sample mean of arm 1 is too low by more than 3 standard errors; "
            "the sample mean of arm 0 is too high by more than 3 standard errors.",
        ),
        ([0.0, -0.1], [0.0, 0.1], "the sample mean of every arm is within 3 standard errors of right."),
    ],
)
def test_sentences_follow_the_numbers(capsys, bias, stderr, sentence):
    report.print_bias(summary_of(bias, stderr), mean=[0.0] * len(bias))
    assert f"On average over 1,000 trials, {sentence}" in capsys.readouterr().out.splitlines()


def test_one_trial_says_nothing_about_bias(capsys):
    report.print_bias(summary_of([-0.4, -0.4], [np.nan, np.nan], num_trials=1), mean=[0.0, 0.0])
    out = capsys.readouterr().out
    assert "too low" not in out
    assert "nan" not in out
    assert "One trial has no standard error" in out


def test_tables_print_where_only_ascii_is_understood(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    report.print_bias(FIVE_ARMS, mean=[0.0] * 5)
    stream.flush()
    assert b"-0.100 +/- 0.010" in stream.buffer.getvalue()


@pytest.mark.parametrize(("terminal", "words", "expected"), [(True, [], True), (True, ["--quiet"], False), (False, [], False)])
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_progress_bar_is_for_a_terminal(capsys, monkeypatch, terminal, words, expected, as_json):
    asked = {}
    monkeypatch.setattr(jb, "measure_bias", lambda *args, **options: asked.update(options) or FIVE_ARMS)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    assert main(["simulate", *words, *as_json]) == 0
    assert asked["progress"] is expected


# The log

READERS = {".csv": pd.read_csv, ".csv.gz": pd.read_csv, ".parquet": pd.read_parquet}


@pytest.mark.parametrize("suffix", READERS)
def test_log_is_what_simulate_returns(capsys, tmp_path, suffix):
    out = tmp_path / f"log{suffix}"
    found = run_json(capsys, "simulate", "--policy", "greedy", *SMALL, *TWO_ARMS, "--out", out, "--log-trials", 200)
    history = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, -0.5], num_steps=8, num_trials=200)
    frame = READERS[suffix](out)
    assert list(frame.columns) == ["trial", "step", "arm", "reward"]
    np.testing.assert_array_equal(frame.trial, np.repeat(np.arange(200), 8))
    np.testing.assert_array_equal(frame.step, np.tile(np.arange(8), 200))
    np.testing.assert_array_equal(frame.arm, np.ravel(history.arms))
    np.testing.assert_array_equal(frame.reward.astype(history.rewards.dtype), np.ravel(history.rewards))
    means = frame.groupby(["trial", "arm"]).reward.mean().unstack().to_numpy()
    np.testing.assert_allclose(means.mean(axis=0) - [1.0, -0.5], found["bias"], atol=1e-6)
    assert list(tmp_path.iterdir()) == [out]


def test_log_holds_the_first_trials_and_says_so(capsys, tmp_path):
    out = tmp_path / "log [red].csv"
    arguments = ["simulate", "--policy", "greedy", *SMALL, *TWO_ARMS, "--out", out]
    code, text, _ = run(capsys, *arguments)
    assert code == 0
    assert text.splitlines()[-1] == f"The first 200 trials are in {out}."
    whole = pd.read_csv(out)
    assert run(capsys, *arguments, "--log-trials", 7)[0] == 0
    pd.testing.assert_frame_equal(pd.read_csv(out), whole[whole.trial < 7])


def test_log_is_the_same_bytes_each_time(tmp_path):
    history = jb.History(arms=jnp.array([[0, 1]]), rewards=jnp.array([[0.5, 1.5]]), num_arms=2)
    for name in ("a.csv.gz", "b.csv.gz"):
        jb.logs.write_log(history, tmp_path / name)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()) == b"trial,step,arm,reward\n0,0,0,0.5\n0,1,1,1.5\n"
    assert (tmp_path / "a.csv.gz").stat().st_mode & 0o777 == 0o666 & ~current_umask()


def current_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt()])
def test_log_that_cannot_be_finished_leaves_the_old_one(capsys, monkeypatch, tmp_path, failure):
    def half(frame, file, **_):
        file.write(b"trial,st")
        raise failure

    out = tmp_path / "log.csv"
    out.write_text("old")
    monkeypatch.setattr(pd.DataFrame, "to_csv", half)
    code, text, err = run(capsys, "simulate", "--policy", "greedy", *SMALL, *TWO_ARMS, "--out", out)
    expected = (2, "", "jaxbias: disk full\n") if isinstance(failure, OSError) else (130, "", "jaxbias: interrupted\n")
    assert (code, text, err) == expected
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


# check


def test_check_gives_the_results_of_the_calls(capsys):
    found = run_json(capsys, "check", "--policy", "epsilon-greedy", "--epsilon", 0.2, "--cases", 500, "--seed", 1)
    key, policy, search = jax.random.key(1), jb.EpsilonGreedy(epsilon=0.2), {"num_arms": 3, "num_cases": 500}
    expected = [jb.bias.check_exploit(key, policy, **search)]
    expected += [jb.bias.check_iio(key, policy, form=form, **search) for form in ("conditional", "pathwise")]
    assert [result["condition"] for result in found["conditions"]] == [result.condition for result in expected]
    assert [result["holds"] for result in found["conditions"]] == [True, False, True]
    example = expected[1].counterexample
    assert example is not None
    printed = found["conditions"][1]["counterexample"]
    assert printed.pop("explanation").startswith(f"given that arm {example.arm} is not chosen, arm {example.compared} is chosen")
    assert printed == {name: np.asarray(value).tolist() for name, value in example._asdict().items()}
    settings = {"policy": "epsilon-greedy", "epsilon": 0.2, "tau": 0.0, "ties": "random", "arms": 3, "cases": 500, "seed": 1}
    assert found["settings"] == {**settings, "version": jb.__version__}


def test_check_prints_the_counterexample(capsys):
    arguments = ["check", "--policy", "epsilon-greedy", "--cases", 500]
    example = run_json(capsys, *arguments)["conditions"][1]["counterexample"]
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "")
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in out.splitlines() if line.startswith("│")]
    assert rows[:3] == [["Exploit", "holds", "500"], ["IIO (conditional)", "fails", "500"], ["IIO (pathwise)", "holds", "500"]]
    pulls = zip(example["arms"], example["rewards"], example["other_rewards"], strict=True)
    history = [[str(step), str(arm), f"{one + 0.0:.4g}", f"{other + 0.0:.4g}"] for step, (arm, one, other) in enumerate(pulls)]
    chosen = ["next", "chosen", str(example["chosen"]), str(example["other_chosen"])]
    assert rows[3:-1] == [*history, chosen]
    assert rows[-1][:2] == ["", "probability"]
    assert [float(cell) for cell in rows[-1][2:]] == pytest.approx(
        [example["probability"], example["other_probability"]], abs=5e-5
    )
    assert f"{example['explanation']}." in out


def test_check_takes_one_setting_for_each_arm(capsys):
    words = ["--arms", 2, "--policy-sigma", 1, "--policy-sigma", 2, "--cases", 100]
    found = run_json(capsys, "check", "--policy", "thompson", *words)
    assert found["settings"]["policy_sigma"] == [1.0, 2.0]


# Bad input, and ends that come early

BAD = {
    "simulate --policy greedy --gamma 0.1": "--gamma is not a setting of greedy; its settings are --tau, --ties",
    "simulate --policy exp3 --tau 1": "--tau is not a setting of exp3; its settings are --gamma",
    "simulate --policy uniform --tau 0": "--tau is not a setting of uniform; it has no settings",
    "simulate --policy ucb1 --epsilon 0.1": "--epsilon is not a setting of ucb1; its settings are --tau, --ties",
    "simulate --policy lil-ucb --prior-mean 0": "--prior-mean is not a setting of lil-ucb; "
    "its settings are --beta, --epsilon, --delta, --tau, --ties",
    "simulate --policy beta-thompson --policy-sigma 1": "--policy-sigma is not a setting of beta-thompson; "
    "its settings are --prior-success, --prior-failure",
    "check --policy thompson --ties first": "--ties is not a setting of thompson; "
    "its settings are --prior-mean, --prior-sigma, --policy-sigma, --tau",
    "simulate --family bernoulli --sigma 1": "--sigma is not a setting of bernoulli rewards; leave it out",
    "simulate --policy beta-thompson --family normal": "--family is normal; it must be bernoulli with beta-thompson",
    "simulate --policy beta-thompson --family poisson": "--family is poisson; it must be bernoulli with beta-thompson",
    "simulate --family exponential --sigma 1": "--sigma is not a setting of exponential rewards; leave it out",
    "simulate --sigma 1 --sigma 2": "--sigma is [1.0, 2.0]; it must be one number, or one for each of 5 arms",
    "simulate --policy thompson --sigma 1 --sigma 2": "--sigma is [1.0, 2.0]; it must be one number, or one for each of 5 arms",
    "check --policy thompson --prior-sigma 1 --prior-sigma 2": "--prior-sigma is [1.0, 2.0]; "
    "it must be one number, or one for each of 3 arms",
    "simulate --out log.txt": "--out is 'log.txt'; it must be a file that ends in .csv, .csv.gz, .tsv, .tsv.gz, .parquet",
    "simulate --out no/such/log.csv": "--out is 'no/such/log.csv'; it must be a file in an existing folder with write permission",
    "simulate --log-trials 5": "--log-trials is given without --out; give both",
    "simulate --trials 10 --out log.csv --log-trials 11": "--log-trials is 11; it must be from 1 to 10, the number of --trials",
    "simulate --out log.csv --log-trials 0": "--log-trials is 0; it must be from 1 to 100000, the number of --trials",
    "simulate --stop-difference 1 --stop-mean 1": "--stop-difference and --stop-mean are both given; give one of them",
    "simulate --stop-difference 1 --stop-arm 1": "--stop-arm is given with --stop-difference; "
    "it can only be used with --stop-mean",
    "simulate --stop-mean 1 --stop-arm 9": "--stop-arm is '9'; it must be one of 0, 1, 2, 3, 4",
    "simulate --stop-first 9": "--stop-first is given without a stopping rule; also give --stop-difference or --stop-mean",
    "simulate --tau fit": "--tau is 'fit'; it must be a number; only debias has a log to fit it to",
    "simulate --mean": "Option '--mean' requires an argument.",
    "nope": "No such command 'nope'.",
}


@pytest.mark.parametrize("words", BAD)
def test_bad_input_is_one_line(capsys, monkeypatch, tmp_path, words):
    monkeypatch.chdir(tmp_path)
    assert run(capsys, *words.split()) == (2, "", f"jaxbias: {BAD[words]}\n")
    assert list(tmp_path.iterdir()) == []


REFUSED_BY_THE_LIBRARY = {  # the option and its value; the library's own tests have the rest of the message
    "simulate --sigma 0": "--sigma is 0.0",
    "simulate --sigma nan": "--sigma is nan",
    "simulate --policy thompson --policy-sigma -1": "--policy-sigma (by default --sigma) is -1.0",
    "simulate --tau -1": "--tau is -1.0",
    "check --tau inf": "--tau is inf",
    "simulate --delta 1": "--delta is 1.0",
    "simulate --beta -1": "--beta is -1.0",
    "simulate --policy epsilon-greedy --epsilon 2": "--epsilon is 2.0",
    "simulate --policy exp3 --gamma 0": "--gamma is 0.0",
    "simulate --policy thompson --prior-sigma 0": "--prior-sigma is 0.0",
    "simulate --policy beta-thompson --prior-success 0": "--prior-success is 0.0",
    "simulate --mean nan": "--mean is [nan]",
    "simulate --mean -0.5 --family bernoulli": "--mean is [-0.5]",
    "simulate --trials 0": "--trials is 0",
    "simulate --steps 4": "--steps is 4",
    "simulate --batch-size 0": "--batch-size is 0",
    "simulate --allocation shares": "--allocation is 'shares'",
    "simulate --stop-difference 0": "--stop-difference or --stop-mean is 0.0",
    "check --arms 1": "--arms is 1",
    "check --cases 0": "--cases is 0",
}


@pytest.mark.parametrize("words", REFUSED_BY_THE_LIBRARY)
def test_what_the_library_refuses_is_one_line_with_the_option(capsys, words):
    code, out, err = run(capsys, *words.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"jaxbias: {REFUSED_BY_THE_LIBRARY[words]}")


@pytest.mark.parametrize(
    ("argument", "option"),
    [
        ("num_steps", "--steps"),
        ("num_trials", "--trials"),
        ("policy.tau", "--tau"),
        ("policy.prior_mean", "--prior-mean"),
        ("family.sigma", "--sigma"),
        ("stop.first", "--stop-first"),
        ("out", "--out"),
        ("mean", "--mean"),
        ("history.rewards", "the reward"),
        ("of_the_library.alone", "of_the_library.alone"),
    ],
)
def test_an_error_names_the_option(capsys, monkeypatch, argument, option):
    def fail(*_, **__):
        raise ArgumentError(argument, 3, lambda name_of: f"less than {name_of('num_cases')}")

    monkeypatch.setattr(jb, "measure_bias", fail)
    assert run(capsys, "simulate") == (2, "", f"jaxbias: {option} is 3; it must be less than --cases\n")


@pytest.mark.parametrize(
    ("command", "argument", "option"),
    [
        ("simulate", "out", "--out"),
        ("debias", "out", "--report"),
        ("reproduce", "folder", "--out"),
        ("simulate", "num_steps", "--steps"),
        ("debias", "num_steps", "--max-steps"),
        ("debias", "arms", "--arm"),
        ("check", "num_arms", "--arms"),
        ("debias", "source", "LOG"),
        ("reproduce", "names", "NAME"),
        ("debias", "name", "--example"),
        ("debias", "columns.time", "--time-column"),
        ("debias", "methods", "--method"),
    ],
)
def test_each_command_has_its_own_names(command, argument, option):
    assert option_names(get_command(app).commands[command])(argument) == option


@pytest.mark.parametrize(
    ("words", "start"),  # the rest changes with the release of typer, or with the precision
    [
        ("simulate --mean x", "Invalid value for '--mean': "),
        ("simulate --steps 1e3", "Invalid value for '--steps': "),
        ("simulate --policy greddy", "Invalid value for '--policy': 'greddy' is not one of 'greedy', 'epsilon-greedy', "),
        ("simulate --ties last", "Invalid value for '--ties': 'last' is not one of 'random', 'first'"),
        ("check --seed -1", "Invalid value for '--seed': "),
        ("check --seed 4294967296", "Invalid value for '--seed': "),
        ("check --sigma 1", "No such option: --sigma"),
        ("check extra", "Got unexpected extra argument"),
        ("--nope", "No such option: --nope"),
    ],
)
def test_other_bad_input_is_one_line(capsys, words, start):
    code, out, err = run(capsys, *words.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"jaxbias: {start}")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("debias --policy tompson", "thompson"),
        ("debias --policy=Thompson", "thompson"),
        ("simulate --policy epsilon_greedy", "epsilon-greedy"),
        ("debias --policy ucb", "ucb1"),
        ("debias --method mean-matching", "mean_matching"),
        ("debias --method sample_mean --method CMLE", None),
        ("debias --method sample_mean --method shrinkge", "shrinkage"),
        ("simulate --family binomial", None),
        ("debias --family Bernouli", "bernoulli"),
        ("debias --policy xyz", None),
        ("check --policy", None),
    ],
)
def test_a_name_that_was_probably_meant(capsys, words, meant):
    code, out, err = run(capsys, *words.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.endswith(f" Did you mean {meant}?\n") if meant else "Did you mean" not in err


def test_out_may_not_be_a_folder(capsys, tmp_path):
    (tmp_path / "log.csv").mkdir()
    code, _, err = run(capsys, "simulate", "--out", tmp_path / "log.csv")
    assert (code, "it must be a file in an existing folder" in err) == (2, True)


def test_hidden_names_keep_their_format(tmp_path):
    history = jb.History(arms=jnp.array([[0, 1]]), rewards=jnp.array([[0.5, 1.5]]), num_arms=2)
    jb.logs.write_log(history, tmp_path / ".parquet")
    assert pd.read_parquet(tmp_path / ".parquet").reward.tolist() == [0.5, 1.5]


def test_a_message_of_many_lines_becomes_one(capsys, monkeypatch):
    def fail(*_, **__):
        raise ValueError("one\n  two")

    monkeypatch.setattr(jb, "measure_bias", fail)
    assert run(capsys, "simulate") == (2, "", "jaxbias: one two\n")


def test_other_errors_are_not_hidden(monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(jb, "measure_bias", fail)
    with pytest.raises(ZeroDivisionError):
        main(["simulate"])


def test_control_c_is_one_line(capsys, monkeypatch):
    def interrupt(*_, **__):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(jb, "measure_bias", interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that runs the tests in the background ignores it
    try:
        assert run(capsys, "simulate", "--json") == (130, "", "jaxbias: interrupted\n")
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["check", "--cases", "1"]])
def test_a_closed_pipe_is_quiet(words):
    reader, writer = os.pipe()
    os.close(reader)
    done = python("-m", "jaxbias", *words, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")
