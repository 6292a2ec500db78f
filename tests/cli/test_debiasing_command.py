"""`jaxbias debias` and `jaxbias examples`: the words, the numbers, the manners."""

import dataclasses
import gzip
import inspect
import io
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from typer.main import get_command

import jaxbias as jb
from jaxbias._core import cache
from jaxbias.cli import main
from jaxbias.cli.app import app
from jaxbias.cli.errors import option_names
from jaxbias.cli.options import _policy_options, _stop_options
from jaxbias.naming.building import build_policy
from jaxbias.naming.config import COMMENT, read_config, write_config
from jaxbias.naming.names import Opening, PolicyName
from jaxbias.naming.settings import AROUND_SETTINGS, POLICY_SETTINGS, STOP_SETTINGS
from jaxbias.reporting import terminal as report
from tests.logs.malformed import MALFORMED

LOGS = Path(__file__).parents[1] / "logs"
EXAMPLE = jb.examples.load_example().path
FAST = ["--method", "sample_mean", "--method", "mean_matching", "--method", "confidence_sequence"]
LIL_UCB = ["--policy", "lil-ucb", "--tau", "0.2", "--sigma", "1"]


def run(capsys, *arguments):
    """Exit code, standard output, standard error."""
    code = main([str(argument) for argument in arguments])
    return code, *capsys.readouterr()


def run_json(capsys, *arguments, code=0):
    found = run(capsys, *arguments, "--json", "--quiet")
    assert (found[0], found[2]) == (code, "")
    return json.loads(found[1], parse_constant=lambda token: pytest.fail(f"{token} is not JSON"))


def process(*arguments, **options):
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", **options.pop("env", {})}
    command = [sys.executable, "-m", "jaxbias", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, env=environment, timeout=300, check=False, **options)


# The numbers


def test_the_numbers_are_those_of_the_call(capsys):
    found = run_json(capsys, "debias", EXAMPLE, *LIL_UCB, *FAST, "--seed", 3)
    methods = ["sample_mean", "mean_matching", "confidence_sequence"]
    expected = jb.debias(jax.random.key(3), EXAMPLE, jb.LilUCB(tau=0.2), jb.Normal(sigma=1.0), methods=methods)
    assert [arm["arm"] for arm in found["arms"]] == ["A", "B", "C"]
    for number, arm in enumerate(found["arms"]):
        assert arm["pulls"] == expected.comparison.pulls[number]
        assert list(arm["estimates"]) == methods
        for method, figures in arm["estimates"].items():
            for name in ("mean", "stderr", "lower", "upper"):
                assert figures[name] == float(getattr(expected.comparison.estimates[method], name)[number])
        assert (arm["bias"], arm["bias_stderr"]) == (expected.bias.bias[number], expected.bias.stderr[number])
    assert found["recommended"]["method"] == "mean_matching"
    assert found["best"]["arm"] == expected.labels[expected.best.arm]
    assert found["best"]["margin"] == expected.best.margin
    assert found["fit"]["verdict"] == expected.fit.verdict
    assert found["fit"]["log_prob"] == expected.fit.log_prob
    assert (found["trusted"], found["warnings"], found["log"]) == (True, [], {"name": "simulated.csv", "rows": 60})
    assert found["settings"] == {
        "policy": "lil-ucb",
        "beta": 1.0,
        "epsilon": 0.01,
        "delta": 0.005,
        "tau": 0.2,
        "ties": "random",
        "family": "normal",
        "sigma": 1.0,
        "seed": 3,
        "version": jb.__version__,
    }


def rows_of(out):
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in out.splitlines() if line.startswith("│")]


def test_the_table_has_the_same_numbers(capsys):
    words = ["debias", EXAMPLE, *LIL_UCB, *FAST]
    found = run_json(capsys, *words)
    code, out, err = run(capsys, *words, "--quiet", "--details")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == found["answer"]
    assert "Corrected: mean_matching" in out
    rows = rows_of(out)
    for row, arm in zip(rows[:3], found["arms"], strict=True):
        label, pulls, naive, estimate, interval, bias = row
        figures = arm["estimates"]["mean_matching"]
        assert (label, int(pulls)) == (arm["arm"], arm["pulls"])
        assert float(naive) == pytest.approx(arm["estimates"]["sample_mean"]["mean"], abs=0.006)
        assert [float(part) for part in estimate.split(" ± ")] == pytest.approx([figures["mean"], figures["stderr"]], abs=0.006)
        assert json.loads(interval) == pytest.approx([figures["lower"], figures["upper"]], abs=0.006)
        assert [float(part) for part in bias.split(" ± ")] == pytest.approx([arm["bias"], arm["bias_stderr"]], abs=6e-5)
    every = rows[3:]
    assert [row[1] for row in every] == ["sample_mean", "mean_matching", "confidence_sequence"] * 3
    assert [row[4] for row in every] == ["", ">", ""] * 3
    for sentence in found["sentences"]:
        assert sentence in out.splitlines()
    short = run(capsys, *words, "--quiet")[1]
    assert rows_of(short) == rows[:3]
    assert "--details prints the estimates of every method" in short
    assert "--details" not in out


@pytest.mark.slow
def test_the_seed_repeats_every_digit_in_another_process():
    words = ["debias", EXAMPLE, *LIL_UCB, *FAST, "--json", "--seed", "7"]
    first, again = process(*words), process(*words)
    assert first.returncode == 0
    assert first.stderr.startswith(b"jaxbias: The choices ")  # the verdict, as soon as it is known
    assert first.stdout == again.stdout
    other = process(*words[:-1], "8")
    assert other.stdout != first.stdout


# What it reads


def test_without_a_log_it_runs_on_the_example(capsys):
    found = run_json(capsys, "debias", *FAST)
    assert found["log"]["name"] == "simulated.csv"
    assert found["settings"]["policy"] == "lil-ucb"
    assert found["arms"] == run_json(capsys, "debias", EXAMPLE, *LIL_UCB, *FAST)["arms"]


def test_the_ecmo_example_shows_little(capsys):
    found = run_json(capsys, "debias", "--example", "ecmo", *FAST)
    assert [(arm["arm"], arm["pulls"]) for arm in found["arms"]] == [("conventional", 1), ("ECMO", 11)]
    assert (found["trusted"], found["fit"]["fits"], found["best"]["clear"]) == (True, True, False)
    assert found["fit"]["log_prob"] == pytest.approx(np.log(1 / 26))
    safe = [arm["estimates"]["confidence_sequence"] for arm in found["arms"]]
    assert found["sentences"][-1].startswith(
        f"What 12 pulls show whatever chose the arms: the mean of 'ECMO' is above {safe[1]['lower']:.2f}, that of 'conventional'"
        f", with 1 pull, between {safe[0]['lower']:.2f} and {safe[0]['upper']:.2f} and the lead of 'ECMO' over it between "
    )


@pytest.mark.parametrize("name", ["ecmo", "simulated"])
def test_an_example_is_the_same_in_both(capsys, name):
    """The first pulls of the ECMO trial were chosen by its policy: the example's log says so."""
    found = run_json(capsys, "debias", "--example", name, *FAST)
    loaded = jb.examples.load_example(name).load()
    assert (loaded.log.history.forced is not None) == (name == "ecmo")
    expected = jb.debias(jax.random.key(0), *loaded, methods=[word for word in FAST if word != "--method"])
    for method, estimate in expected.comparison.estimates.items():
        figures = [arm["estimates"][method]["mean"] for arm in found["arms"]]
        np.testing.assert_array_equal(np.array(figures, float), np.asarray(estimate.mean))
    assert found["fit"]["log_prob"] == expected.fit.log_prob
    assert found["settings"]["policy"] == jb.examples.load_example(name).settings["policy"]


@pytest.mark.slow
def test_a_log_in_batches_with_a_rule(capsys, tmp_path):
    """Written by `simulate`, read by `debias`; what the log's settings say is what the call gets."""
    log, mean = tmp_path / "log.csv", ["--mean", "1", "--mean", "0"]
    words = ["--policy", "epsilon-greedy", "--stop-difference", "0.8", "--stop-first", "12"]
    sizes = ["--steps", "40", "--trials", "100", "--batch-size", "4", "--allocation", "shares", "--log-trials", "1"]
    assert run(capsys, "simulate", *words, *mean, *sizes, "--out", log)[0] == 0
    rows = len(log.read_text().splitlines()) - 1
    assert log.read_text().startswith("trial,step,arm,reward,batch,forced\n")
    more = ["--sigma", "1", "--allocation", "shares", "--max-steps", "40", "--trial-column", ""]
    found = run_json(capsys, "debias", log, *words, *more, "--save-config", tmp_path / "log.toml")
    assert found["log"]["rows"] == rows
    expected = jb.debias(
        jax.random.key(0),
        jb.read_log(log, columns={"trial": ""}),
        jb.EpsilonGreedy(),
        jb.Normal(sigma=1.0),
        allocation="shares",
        stop=jb.StopAtDifference(threshold=0.8, first=12),
        num_steps=40,
    )
    assert [arm["estimates"]["mean_matching"]["mean"] for arm in found["arms"]] == expected.estimate.mean.tolist()
    assert found["bias_trials"] == expected.bias.num_trials
    again = run_json(capsys, "debias", log, "--config", tmp_path / "log.toml")
    assert again["arms"] == found["arms"]


@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["text", "gzip"])
def test_standard_input(capsys, monkeypatch, compress):
    content = io.BytesIO(compress(EXAMPLE.read_bytes()))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=content))
    found = run_json(capsys, "debias", "-", *LIL_UCB, *FAST)
    assert found["log"]["name"] == "standard input"
    assert found["arms"] == run_json(capsys, "debias", EXAMPLE, *LIL_UCB, *FAST)["arms"]


def test_columns_separator_decimals_and_arms(capsys, tmp_path):
    lines = [line.split(",") for line in EXAMPLE.read_text().split()]
    rows = [";".join([step, arm, reward.replace(".", ",")]) for step, arm, reward in lines[1:]]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(["when;variant;gain", *rows]), encoding="utf-8-sig")
    words = ["--arm-column", "variant", "--reward-column", "gain", "--time-column", "when", "--separator", ";", "--decimal", ","]
    found = run_json(capsys, "debias", log, *LIL_UCB, *FAST, *words)
    assert found["arms"] == run_json(capsys, "debias", EXAMPLE, *LIL_UCB, *FAST)["arms"]
    named = [word for label in "CBAD" for word in ("--arm", label)]
    reordered = run_json(capsys, "debias", EXAMPLE, *LIL_UCB, *FAST, *named, "--first", 40)
    assert [arm["arm"] for arm in reordered["arms"]] == ["C", "B", "A", "D"]
    assert sum(arm["pulls"] for arm in reordered["arms"]) == 40
    assert reordered["arms"][3]["estimates"]["mean_matching"]["mean"] is None


@pytest.mark.slow
def test_a_simulated_log_comes_back(capsys, tmp_path):
    log = tmp_path / "log.parquet"
    words = ["--policy", "greedy", "--mean", "1", "--mean", "0.5", "--steps", "20", "--trials", "50", "--out", log]
    assert run(capsys, "simulate", *words)[0] == 0
    found = run_json(capsys, "debias", log, "--trial", 7, "--policy", "greedy", "--sigma", 1, *FAST)
    history = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.5], num_steps=20, num_trials=50)
    pulls = np.bincount(np.asarray(history.arms)[7], minlength=2)
    assert [arm["pulls"] for arm in found["arms"]] == pulls.tolist()
    assert found["fit"]["fits"]


@pytest.mark.parametrize("name", ["r_plain.csv", "r_row_names.csv", "r_semicolons.csv"])
def test_logs_that_r_wrote(capsys, name):
    code, out, err = run(capsys, "debias", LOGS / name, "--method", "sample_mean", "--json", "--sigma", 1)
    if code == 2:  # write.csv2: the message says which options read it
        assert "set --separator to ';' and --decimal to ','" in err
        options = ["--separator", ";", "--decimal", ","]
        code, out, err = run(capsys, "debias", LOGS / name, "--method", "sample_mean", "--json", "--sigma", 1, *options)
    assert code == 0
    assert json.loads(out)["arms"]


# What it refuses


def as_words(options):
    """The options of reading as they are typed."""
    words = []
    for name, value in options.items():
        if name == "columns":
            words += [word for role, column in value.items() for word in (f"--{role}-column", column)]
        elif name == "arms":
            words += [word for label in value for word in ("--arm", label)]
        elif value is True:
            words += [f"--{name}"]
        else:
            words += [f"--{name.replace('_', '-')}", str(value)]
    return words


@pytest.mark.parametrize("case", MALFORMED, ids=lambda case: case.id)
def test_a_malformed_log_is_one_line(capsys, tmp_path, case):
    path = case.make(tmp_path)
    expected = case.message_for(path, option_names(get_command(app).commands["debias"]))
    assert run(capsys, "debias", path, *as_words(case.options)) == (2, "", f"jaxbias: {' '.join(expected.split())}\n")


PLACE = "it must be a file in an existing folder with write permission"
BAD = {
    "debias log.csv --tau 1": "--tau is given without --policy; give both",
    "debias log.csv --policy greedy --tau x": "Invalid value for '--tau': 'x' is neither a number nor 'fit'",
    "debias log.csv --policy greedy --epsilon fit": "--epsilon is not a setting of greedy; its settings are --tau, --ties",
    "debias log.csv --policy lil-ucb --epsilon fit": "--epsilon is 'fit'; it must be a number with lil-ucb; only the epsilon of "
    "epsilon-greedy can be fitted",
    "debias log.csv --policy uniform --gamma 1": "--gamma is not a setting of uniform; it has no settings",
    "debias log.csv --policy beta-thompson --family normal": "--family is normal; it must be bernoulli with beta-thompson",
    "debias log.csv --family bernoulli --sigma 1": "--sigma is not a setting of bernoulli rewards; leave it out",
    "debias log.csv --sigma 1 --sigma 2 --sigma 3": "--sigma is [1.0, 2.0, 3.0]; it must be one number, or one for each of 2 "
    "arms",
    "debias log.csv --sigma estimate --sigma 1": "--sigma is ['estimate', 1.0]; it must be a number, or one for each arm, or one "
    "word",
    "debias log.csv --sigma 1 --sigma estimate-each": "--sigma is [1.0, 'estimate-each']; it must be a number, or one for each "
    "arm, or one word",
    "debias log.csv --sigma x": "Invalid value for '--sigma': 'x' is not a number, 'estimate' or 'estimate-each'",
    "debias log.csv --sigma estimate-each --family bernoulli": "--sigma is not a setting of bernoulli rewards; leave it out",
    "debias log.csv --example ecmo": "--example is 'ecmo' and LOG is 'log.csv'; give one of them",
    "debias --example nope": "--example is 'nope'; it must be one of ecmo, signups, simulated",
    "debias log.csv --report nowhere/page.html": f"--report is 'nowhere/page.html'; {PLACE}",
    "debias log.csv --config nope.toml": "--config is 'nope.toml', which cannot be read (No such file or directory); it must be "
    "a TOML file",
    "debias log.csv --config log.csv": "--config is 'log.csv', which is not TOML: Expected '=' after a key in a key/value pair "
    "(at line 1, column 4)",
    "debias log.csv --sigma 1 --save-config nowhere/a.toml": f"--save-config is 'nowhere/a.toml'; {PLACE}",
    "debias log.csv --report pipe": f"--report is 'pipe'; {PLACE}",
    "debias log.csv --save-config pipe": f"--save-config is 'pipe'; {PLACE}",
    "debias ": "LOG is empty; it must be a path, or - for standard input",
    "debias log.csv --sigma 1 --max-steps 99": "--max-steps is given without a stopping rule; also give --stop-difference or "
    "--stop-mean",
    "debias log.csv --sigma 1 --stop-mean 9 --max-steps 1": "--max-steps is 1; it must be at least 2, the rows of the log",
    "debias log.csv --sigma 1 --stop-first 9": "--stop-first is given without a stopping rule; also give --stop-difference or "
    "--stop-mean",
    "debias log.csv --sigma 1 --stop-mean 1 --stop-arm nope": "--stop-arm is 'nope'; it must be one of a, b",
}
REFUSED_BY_THE_LIBRARY = {  # the option and its value; the library's own tests have the rest of the message
    "debias log.csv --policy greedy --tau -1 --sigma 1": "--tau is -1.0",
    "debias log.csv --family bernoulli": "the reward is 1.5 at step 1",
    "debias log.csv --sigma 0": "--sigma is 0.0",
    "debias log.csv --policy greedy": "--sigma ",
    "debias log.csv --level 95 --sigma 1": "--level is 95.0",
    "debias log.csv --sigma 1 --allocation shares": "--allocation is 'shares'",
}


@pytest.mark.parametrize("words", BAD)
def test_bad_words_are_one_line(capsys, monkeypatch, tmp_path, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text("arm,reward\na,1\nb,1.5\n")
    os.mkfifo(tmp_path / "pipe")
    assert run(capsys, *words.split(" ")) == (2, "", f"jaxbias: {BAD[words]}\n")


@pytest.mark.parametrize("words", REFUSED_BY_THE_LIBRARY)
def test_what_the_library_refuses_is_one_line_with_the_option(capsys, monkeypatch, tmp_path, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text("arm,reward\na,1\nb,1.5\n")
    code, out, err = run(capsys, *words.split(" "))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"jaxbias: {REFUSED_BY_THE_LIBRARY[words]}")


# Manners


def test_exit_code_and_words_where_the_policy_does_not_fit(capsys):
    code, out, err = run(capsys, "debias", EXAMPLE, "--policy", "greedy", "--sigma", 1, *FAST)
    assert code == 1
    assert err.startswith("jaxbias: The log cannot come from Greedy")  # as soon as it is known
    first, second = out.splitlines()[:2]
    assert first == "Do not decide from these figures yet: the log does not match the declared policy Greedy."
    assert second.startswith("The log cannot come from Greedy: at step ")
    assert out.index("cannot come from") < out.index("Not corrected: confidence_sequence")


@pytest.mark.slow
def test_warnings_are_on_standard_error_and_quiet_leaves_them_out(capsys):
    words = ["debias", EXAMPLE, "--policy", "lil-ucb", "--tau", "0.2", *FAST]
    code, out, err = run(capsys, *words, "--json")
    assert code == 0
    warnings = json.loads(out)["warnings"]
    assert err.startswith("jaxbias: The choices fit LilUCB")  # then what it waits for, and at the end
    assert err.endswith("".join(f"jaxbias: {warning}\n" for warning in warnings))
    assert warnings[0] == "The family was not given; Normal was assumed."
    assert run(capsys, *words, "--quiet")[2] == ""


def test_fitted_noise_is_in_both_answers(capsys):
    words = ["debias", EXAMPLE, "--policy", "lil-ucb", "--tau", "fit", "--sigma", 1, *FAST]
    found = run_json(capsys, *words)
    fitted = found["fitted"]["tau"]
    assert fitted["lower"] < 0.2 < fitted["upper"]
    assert found["settings"]["tau"] == fitted["value"]
    assert f"tau was estimated from the log: {fitted['value']:.4g} [" in run(capsys, *words)[1]


def test_a_config_is_saved_read_and_overruled(capsys, tmp_path):
    saved, second = tmp_path / "log.toml", tmp_path / "second.toml"
    words = ["--policy", "thompson", "--prior-mean", 0, "--prior-mean", 1, "--prior-mean", 2, "--sigma", 1, "--opening", "chosen"]
    words += ["--arm-column", "arm", "--level", 0.9, "--method", "sample_mean", "--arm", 'A"\\', "--arm", "B", "--arm", "C"]
    log = tmp_path / "log.csv"
    log.write_text(EXAMPLE.read_text().replace(",A,", ',"A""\\",'))
    first = run_json(capsys, "debias", log, *words, "--save-config", saved, code=1)
    assert tomllib.loads(saved.read_text()) == {
        "policy": "thompson",
        "prior_mean": [0.0, 1.0, 2.0],
        "sigma": [1.0],
        "method": ["sample_mean"],
        "level": 0.9,
        "opening": "chosen",
        "arms": ['A"\\', "B", "C"],
        "columns": {"arm": "arm"},
    }
    again = run_json(capsys, "debias", log, "--config", saved, "--save-config", second, code=1)
    assert again == first
    assert second.read_bytes() == saved.read_bytes()
    other = run_json(capsys, "debias", log, "--config", saved, "--policy", "greedy", "--tau", 0.5, code=1)
    assert (other["settings"]["policy"], other["settings"]["tau"]) == ("greedy", 0.5)
    assert "prior_mean" not in other["settings"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv", "log.toml", "second.toml"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("policy = 'nope'", 'policy is "nope"; it must be one of greedy, epsilon-greedy, lil-ucb, ucb1, kl-ucb, thompson, '
         "beta-thompson, exploration-sampling, beta-exploration-sampling, growthbook, play-the-winner, exp3, uniform"),
        ("policies = 1", "policies is not a setting; the settings are added, allocation, arms, balls, batch_by, batch_size, "),
        ("tau = true", "tau is true; it must be a number, or 'fit'"),
        ("tau = [1.0]", "tau is [1.0]; it must be a number, or 'fit'"),
        ("sigma = []", "sigma is []; it must be a number, or a list with one for each arm, or 'estimate', or 'estimate-each'"),
        ("beta = 'fit'", 'beta is "fit"; it must be a number'),
        ("arms = 'A'", 'arms is "A"; it must be a list of texts'),
        ("separator = 1", "separator is 1; it must be text"),
        ("columns = {arms = 'x'}", 'columns is {"arms": "x"}; it must be a table with names for arm, reward, batch, propensity, '
         "time, forced, trial"),
    ],
)  # fmt: skip
def test_a_config_that_is_wrong(tmp_path, text, message):
    path = tmp_path / "log.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"log\.toml: ") as caught:
        read_config(path)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_a_config_has_no_option_in_its_messages(tmp_path, capsys):
    path = tmp_path / "log.toml"
    path.write_text("tau = true")
    assert run(capsys, "debias", "--config", path)[2] == f"jaxbias: {path}: tau is true; it must be a number, or 'fit'\n"


def test_what_is_written_is_read_back(tmp_path):
    path, odd = tmp_path / "log.toml", "\"'\\\x7f\n\tü🎲"
    settings = {"tau": 0.1 + 0.2, "sigma": [1e-300, 5e20], "opening": Opening.chosen, "arms": [odd, ""], "columns": {"arm": odd}}
    write_config(path, {"columns": {"arm": odd}, **settings, "prior_mean": [np.float32(0.5)]})
    assert read_config(path) == {**settings, "prior_mean": [0.5]}
    assert path.read_text(encoding="utf-8").startswith(COMMENT)


def test_one_list_of_settings():
    """The options, and the fields of the policies, are those of the list."""
    assert tuple(inspect.signature(_policy_options).parameters) == POLICY_SETTINGS
    assert tuple(inspect.signature(_stop_options).parameters) == STOP_SETTINGS
    fields = {field.name for name in PolicyName for field in dataclasses.fields(build_policy(name, {}, 2))}
    named = {"policy_sigma" if field == "sigma" else field for field in fields}
    assert named | set(AROUND_SETTINGS) == set(POLICY_SETTINGS)


def test_the_report_is_written_and_has_the_command(capsys, tmp_path):
    page = tmp_path / "page.html"
    code, out, err = run(capsys, "debias", EXAMPLE, *LIL_UCB, *FAST, "--seed", 4, "--quiet", "--report", page)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == f"The report is in {page}."
    text = page.read_text()
    assert f"jaxbias debias {EXAMPLE} --policy lil-ucb --tau 0.2" in text
    assert "--seed 4" in text


def test_a_report_is_not_written_over_what_is_read(capsys, tmp_path):
    """`--report log.csv` replaced the log by a page."""
    log, page, settings = tmp_path / "log.csv", tmp_path / "page.html", tmp_path / "settings.toml"
    log.write_text(content := "arm,reward\na,1\nb,0\nb,1\n")
    settings.write_text("tau = 1.0\n")
    (tmp_path / "link.csv").symlink_to(log)
    os.link(log, tmp_path / "second-name.csv")
    for words in (
        ["--report", log],
        ["--report", tmp_path / "link.csv"],
        ["--report", tmp_path / "second-name.csv"],
        ["--report", tmp_path / "." / "log.csv"],
        ["--save-config", log],
        ["--config", settings, "--report", settings],
        ["--report", page, "--save-config", page],
        ["--weights", page, "--report", page],
    ):
        code, out, err = run(capsys, "debias", log, *words)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "which is also read or written by this command; give it another name" in err
    code, _, err = run(capsys, "propensities", log, "--policy", "greedy", "--out", log)
    assert (code, err.startswith(f"jaxbias: --out is '{log}', which is also read")) == (2, True)
    assert (log.read_text(), settings.read_text(), page.exists()) == (content, "tau = 1.0\n", False)


def test_long_labels_that_differ_at_their_ends_are_told_apart(capsys, tmp_path):
    """A table too wide for the terminal cut the ends of its cells."""
    log = tmp_path / "log.csv"
    log.write_text("arm,reward\n" + f"{10**30},1\n{10**30 + 1},0\n{10**30 + 1},1\n" * 4)
    code, out, _ = run(capsys, "debias", log, "--method", "sample_mean", "--no-evaluate", "--quiet")
    assert code == 1
    names = [line.split()[1] for line in out.splitlines() if line.startswith("│ 1000")]
    assert names == ["10000000000000…00000000000000", "10000000000000…00000000000001"]


def test_examples_are_listed(capsys):
    code, out, err = run(capsys, "examples")
    assert (code, err) == (0, "")
    assert "ecmo: The Michigan ECMO trial" in out.splitlines()
    assert "    Run: jaxbias debias --example simulated" in out.splitlines()
    assert [example["name"] for example in run_examples(capsys)] == ["ecmo", "signups", "simulated"]


def run_examples(capsys):
    code, out, _ = run(capsys, "examples", "--json")
    assert code == 0
    return json.loads(out)["examples"]


def test_help_of_debias_does_not_import_jax():
    code = (
        "import sys; from jaxbias.cli import main\n"
        "codes = [main(words) for words in (['debias', '--help'], ['examples', '-h'], ['examples'], ['debias', '--seed', 'x'])]\n"
        "assert codes == [0, 0, 0, 2], codes\n"
        "assert 'jax' not in sys.modules and 'pandas' not in sys.modules and 'matplotlib' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Example: jaxbias debias" in " ".join(done.stdout.split())


def test_many_arms_are_not_all_printed(capsys, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("arm,reward\n" + "".join(f"a{number % 12},{number % 7}\n" for number in range(48)))
    code, out, _ = run(capsys, "debias", log, "--method", "sample_mean", "--quiet", "--details")
    assert code == 0
    assert len(rows_of(out)) == 12
    said = "Of 12 arms only the recommended estimate is printed; the report and the JSON document have all methods."
    assert said in out.splitlines()


def test_labels_cannot_write_on_the_terminal(capsys, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("arm,reward\n" + "".join(f"[red]x[/red]{number % 2}{'y' * 80},{number % 7}\n" for number in range(20)))
    code, out, _ = run(capsys, "debias", log, "--method", "sample_mean", "--quiet")
    assert code == 0
    assert "[red]x[/red]0" in out
    assert "…" in out


# What was compiled is kept


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"JAXBIAS_CACHE": "off"}, None),
        ({"JAXBIAS_CACHE": "/elsewhere"}, Path("/elsewhere")),
        ({"XDG_CACHE_HOME": "/caches"}, Path("/caches/jaxbias")),
        ({"HOME": "/home/me"}, Path("/home/me/.cache/jaxbias")),
    ],
)
def test_where_the_cache_is(monkeypatch, variables, expected):
    for name in ("JAXBIAS_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache.cache_directory() == expected


def test_the_cache_is_filled_and_a_second_run_adds_nothing(tmp_path):
    folder = tmp_path / "cache"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "JAXBIAS_CACHE": str(folder)}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    words = [sys.executable, "-m", "jaxbias", "debias", "--method", "sample_mean", "--json"]
    outputs = []
    for _ in range(2):
        done = subprocess.run(words, capture_output=True, env=environment, timeout=300, check=False)
        assert done.returncode == 1
        assert done.stderr.startswith(b"jaxbias: The choices ")
        outputs.append((done.stdout, sorted(path.name for path in folder.iterdir() if not path.name.endswith("-atime"))))
    assert outputs[0] == outputs[1]
    assert outputs[0][1]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs owners and permissions")
def test_a_cache_that_others_can_write_to_is_not_used(tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr("jaxbias._core.programs.PROGRAMS.keep_in", kept.append)
    monkeypatch.setattr(jax.config, "update", lambda *_: None)
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    for mode, used in ((0o777, False), (0o770, False), (0o700, True), (None, True)):
        folder = tmp_path / f"cache-{mode}"
        if mode is not None:
            folder.mkdir()
            folder.chmod(mode)
        monkeypatch.setenv("JAXBIAS_CACHE", str(folder))
        kept.clear()
        cache.use_cache()
        assert kept == ([folder] if used else [])
        assert used is False or folder.stat().st_mode & 0o077 == 0


def test_a_cache_that_cannot_be_made_is_done_without(monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv("JAXBIAS_CACHE", str(blocked / "below"))
    before = jax.config.jax_compilation_cache_dir
    cache.use_cache()
    assert jax.config.jax_compilation_cache_dir == before


def test_numbers_have_as_many_digits_as_they_deserve(capsys):
    assert report.to_json({"a": float("nan"), "b": np.array([1.0, np.inf])}) == '{"a": null, "b": [1.0, null]}'


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["--sigma", "estimate"], ["--sigma", "estimate-each"]], ids=["not given", "one", "each"])
def test_sigma_is_estimated(capsys, tmp_path, words):
    """And a file of settings that says so is read back."""
    saved = tmp_path / "saved.toml"
    words = ["debias", EXAMPLE, "--policy", "lil-ucb", "--tau", 0.2, "--method", "mean_matching", *words]
    code, out, err = run(capsys, *words, "--json", "--save-config", saved)
    found = json.loads(out)
    assert code == 0
    assert "mean_matching estimated it together with the means: " in err
    sigma = found["settings"]["sigma"]
    assert len(sigma) == 3 if "estimate-each" in words else 0.7 < sigma < 1.4
    again = run_json(capsys, "debias", EXAMPLE, "--method", "mean_matching", "--config", saved)
    assert again["settings"]["sigma"] == sigma
