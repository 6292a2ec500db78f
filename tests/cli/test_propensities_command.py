"""`jaxbias propensities`, and weights on the command line: what is written, what is wrong, and the way back."""

import io
import json
import re

import numpy as np
import pandas as pd
import pytest
from typer.main import get_command

import jaxbias as jb
from jaxbias.cli import main
from jaxbias.cli.app import app
from jaxbias.cli.errors import option_names
from tests.cli.test_debiasing_command import as_words, run
from tests.logs.malformed_weights import CASES

EPSILON = ["--policy", "epsilon-greedy", "--epsilon", "0.2"]
FRAME = pd.DataFrame({"arm": ["A", "B", "A", "A", "B", "A"], "reward": [1.0, 0.0, 0.5, 1.5, 2.5, 1.0]})
EXACT = [[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.1, 0.9]]  # of the last four pulls: B leads after 2.5
COUNTS = "day,arm,users,conversions\n2024-01-01,A,50,5\n2024-01-01,B,50,9\n2024-01-02,A,20,2\n2024-01-02,B,80,15\n"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_malformed_weights_are_one_line(case, capsys, tmp_path):
    _, content, second, options, message = case
    (tmp_path / "log.csv").write_bytes(content)
    words = as_words({name: value for name, value in options.items() if name != "columns"})
    words += ["--weights-prefix", options["columns"]["weights"]] if "columns" in options else []
    if second is not None:
        words += ["--weights", str(tmp_path / "weights.csv")]
        if isinstance(second, bytes):
            (tmp_path / "weights.csv").write_bytes(second)
    option_of = option_names(get_command(app).commands["debias"])
    expected = re.sub("<([a-z._]+)>", lambda found: option_of(found[1]), message)
    expected = expected.replace("{name}", str(tmp_path / "log.csv")).replace("{weights}", str(tmp_path / "weights.csv"))
    assert run(capsys, "debias", tmp_path / "log.csv", *words) == (2, "", f"jaxbias: {expected}\n")


def test_a_log_that_has_none(capsys, tmp_path):
    FRAME.to_csv(tmp_path / "log.csv", index=False)
    code, out, err = run(capsys, "propensities", tmp_path / "log.csv", *EPSILON)
    assert (code, err) == (0, "")
    written = pd.read_csv(io.StringIO(out))
    assert list(written) == ["step", "arm", "reward", "p_A", "p_B"]
    np.testing.assert_allclose(written[["p_A", "p_B"]][2:], EXACT, rtol=1e-9)
    assert written[["p_A", "p_B"]][:2].isna().all(axis=None)
    assert run(capsys, "propensities", tmp_path / "log.csv", *EPSILON, "--out", tmp_path / "new.csv") == (0, "", "")
    assert (tmp_path / "new.csv").read_text() == out
    code, out, _ = run(capsys, "propensities", tmp_path / "log.csv", *EPSILON, "--json", "--opening", "chosen")
    found = json.loads(out)
    assert (code, found["rows"], found["weights"][0]) == (0, 6, [0.5, 0.5])


def test_logged_ones_that_are_right_and_wrong(capsys, tmp_path):
    weights = pd.DataFrame([[np.nan, np.nan]] * 2 + EXACT, columns=["p_A", "p_B"])
    pd.concat([FRAME, weights], axis=1).to_csv(tmp_path / "right.csv", index=False)
    weights.loc[3] = [0.7, 0.3]
    pd.concat([FRAME, weights], axis=1).to_csv(tmp_path / "wrong.csv", index=False)
    code, out, _ = run(capsys, "propensities", tmp_path / "right.csv", *EPSILON)
    assert code == 0
    assert out.startswith("The logged weights are those of EpsilonGreedy: the largest difference in 4 rows is ")
    code, out, _ = run(capsys, "propensities", tmp_path / "wrong.csv", *EPSILON)
    assert code == 1
    assert (
        "1 of 4 rows are off by more than 0.01; the largest difference is in row 4 for 'A' (0.7 logged, 0.9 by the policy)" in out
    )
    assert run(capsys, "propensities", tmp_path / "wrong.csv", *EPSILON, "--tolerance", "0.3")[0] == 0
    code, out, _ = run(capsys, "propensities", tmp_path / "wrong.csv", *EPSILON, "--json")
    found = json.loads(out)
    assert (code, found["policy"]["wrong"], found["policy"]["worst"][0]["row"]) == (1, 1, 3)
    assert (found["policy"]["largest"], found["ratio"]["agrees"]) == (pytest.approx(0.2), True)
    FRAME.assign(propensity=[1, 1, 0.9, 0.9, 0.3, 0.1]).to_csv(tmp_path / "pulled.csv", index=False)
    code, out, _ = run(capsys, "propensities", tmp_path / "pulled.csv", *EPSILON)
    assert code == 1
    assert "The logged propensities are not those of EpsilonGreedy: 1 of 4 rows" in out


def test_a_file_by_period_and_back(capsys, tmp_path):
    (tmp_path / "counts.csv").write_text(COUNTS)
    words = ["propensities", tmp_path / "counts.csv", "--counts", *EPSILON]
    assert run(capsys, *words, "--out", tmp_path / "weights.csv") == (0, "", "")
    written = pd.read_csv(tmp_path / "weights.csv")
    assert written.period.tolist() == ["2024-01-01", "2024-01-02"]
    np.testing.assert_allclose(written[["p_A", "p_B"]][1:], [[0.1, 0.9]])
    code, out, _ = run(capsys, *words, "--weights", tmp_path / "weights.csv")
    assert code == 0
    assert "the largest difference in 1 periods is " in out
    methods = ["--method", "sample_mean", "--method", "adaptive_weighting", "--method", "confidence_sequence"]
    debias = ["debias", tmp_path / "counts.csv", "--counts", "--weights", tmp_path / "weights.csv", *methods, "--json", "--quiet"]
    assert main([*map(str, debias), "--save-config", str(tmp_path / "all.toml")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["recommended"]["method"] == "confidence_sequence"  # 20 pulls where 10 are expected
    assert found["weights"]["ratio"]["agrees"] is False
    again = ["debias", tmp_path / "counts.csv", "--config", tmp_path / "all.toml", "--json", "--quiet"]
    assert main([*map(str, again)]) == 0
    assert json.loads(capsys.readouterr().out)["arms"] == found["arms"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Missing option '--policy'."),
        (["--policy", "greedy", "--tau", "fit"], "--tau is 'fit'; it must be a number; only debias has a log to fit it to"),
        ([*EPSILON, "--tolerance", "-1"], "--tolerance is -1.0; it must be 0 or more"),
        ([*EPSILON, "--out", "missing/file.csv"], "--out is 'missing/file.csv'"),
    ],
)
def test_bad_options(words, message, capsys, tmp_path):
    FRAME.to_csv(tmp_path / "log.csv", index=False)
    code, out, err = run(capsys, "propensities", tmp_path / "log.csv", *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"jaxbias: {message}")


def test_the_help_says_what_it_is_for(capsys):
    assert main(["propensities", "--help"]) == 0
    assert "exact probability of every arm" in capsys.readouterr().out
    assert jb.policy_fit.policy_weights is not None
