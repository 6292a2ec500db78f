"""What platforms put around a policy, on the command line: what is built, the presets, and what is refused."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxbias as jb
from jaxbias.cli import main
from jaxbias.naming.around import unwrap_policy
from jaxbias.naming.building import build_policy, settings_of
from jaxbias.naming.collection import build_collection
from jaxbias.naming.config import read_config, write_config
from jaxbias.naming.names import PolicyName
from jaxbias.naming.presets import PRESETS, PresetName, with_preset
from jaxbias.policies import KLUCB, WarmUp
from jaxbias.policy_fit import fit_settings
from tests.policies.test_contract import CONTRACT
from tests.policy_fit.test_causes import run_for_each_device

LOG = "arm,reward\n" + "".join(f"{'abc'[row % 3]},{row * 7 % 5}\n" for row in range(30))


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    return code, *capsys.readouterr()


def test_the_order_is_that_of_the_platforms():
    built = build_policy(PolicyName.Thompson, {"warm_up": 20.0, "top_two": 0.6, "floor": 0.05, "tau": 0.5}, 3)
    assert built == WarmUp(jb.Floored(jb.TopTwo(jb.Thompson(tau=0.5), beta=0.6), floor=0.05), num_steps=20)
    inner, around = unwrap_policy(built)
    assert (inner, around) == (jb.Thompson(tau=0.5), {"top_two": 0.6, "floor": 0.05, "warm_up": 20})
    assert list(around) == ["top_two", "floor", "warm_up"]
    assert settings_of(PolicyName.Thompson, built)["tau"] == 0.5
    assert settings_of(PolicyName.Thompson, built)["floor"] == 0.05


def test_simulate_and_evaluate_make_the_call_that_the_words_say(capsys, monkeypatch):
    calls = []
    summary = jb.measure_bias(jax.random.key(0), jb.Uniform(), jb.Normal(), [1.0, 0.0], num_steps=8, num_trials=20)
    monkeypatch.setattr(jb, "measure_bias", lambda *args, **options: calls.append(args) or summary)
    words = ["--floor", 0.1, "--warm-up", 5, "--steps", 8, "--mean", 0.2, "--mean", 0.6, "--json"]
    code, out, _ = run(capsys, "simulate", "--policy", "kl-ucb", "--c", 3, *words)
    assert code == 0
    assert calls[0][1:3] == (WarmUp(jb.Floored(KLUCB(c=3.0), floor=0.1), num_steps=5), jb.Bernoulli())
    assert {"policy": "kl-ucb", "c": 3.0, "floor": 0.1, "warm_up": 5}.items() <= json.loads(out)["settings"].items()
    code, out, _ = run(capsys, "simulate", "--preset", "mabwiser-thompson", *words)
    assert code == 0
    assert calls[1][1] == WarmUp(jb.Floored(jb.BetaThompson(1.0, 1.0), floor=0.1), num_steps=5)


def test_a_warm_up_is_the_same_with_and_without_a_counter():
    """A policy on pulls needs none; any other one has it in its state."""
    state = jb.policies.ArmStatistics(pulls=jnp.array([3, 4, 2]), total=jnp.array([1.0, 3.0, 0.0]))
    for num_steps, expected in ((10, np.full(3, 1 / 3)), (9, np.exp(jb.LilUCB(tau=1.0).log_probs(state)))):
        found = WarmUp(jb.LilUCB(tau=1.0), num_steps)
        assert found.keeps_statistics
        np.testing.assert_allclose(np.exp(found.log_probs(state)), expected, rtol=1e-6)
    assert not WarmUp(jb.Exp3(), 5).keeps_statistics


def test_a_floor_and_noise_are_fitted_inside_others():
    policy = WarmUp(jb.Floored(jb.Greedy(tau=0.2), floor=0.05), num_steps=40)
    history = jb.simulate(jax.random.key(0), policy, jb.Normal(), [1.0, 0.5, 0.0], num_steps=1500)
    declared = build_collection({"policy": PolicyName.Greedy, "floor": "fit", "tau": 0.2, "warm_up": 40}, ["a", "b", "c"], 1500)
    assert declared.fit == ("floor",)
    found = fit_settings(history, declared.policy, declared.fit)
    assert found.fitted["floor"].lower < 0.05 < found.fitted["floor"].upper
    assert found.policy.policy.floor == found.fitted["floor"].value
    assert fit_settings(history, policy, ["tau"]).fitted["tau"].value == pytest.approx(0.2, rel=0.3)


def test_presets_are_policies_of_the_contract():
    """Each is of a class, with a way to break ties, that went through the contract; numbers are leaves."""
    kinds = {(type(policy), getattr(policy, "ties", None)) for policy in CONTRACT.values()}
    for name in PresetName:
        settings = with_preset({"preset": name})
        built = build_policy(settings.pop("policy"), settings, 3)
        assert (type(built), getattr(built, "ties", None)) in kinds, name
        assert PRESETS[name].source
        assert any(year in PRESETS[name].source for year in ("2013", "2017", "2020", "2022", "2024", "2026"))
    assert set(PRESETS) == set(PresetName)


def test_presets_are_listed(capsys):
    code, out, err = run(capsys, "presets")
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == len(PRESETS)
    assert "moe-epsilon-greedy: --policy epsilon-greedy --epsilon 0.05 --tau 0 --ties random. Yelp MOE" in out
    assert [one["name"] for one in json.loads(run(capsys, "presets", "--json")[1])["presets"]] == [str(name) for name in PRESETS]


def test_a_configuration_file_has_them(tmp_path):
    path = tmp_path / "log.toml"
    settings = {"preset": PresetName.obp_bernoulli_ts, "floor": 0.01, "warm_up": 100.0, "batch_size": 50.0}
    write_config(path, settings)
    assert read_config(path) == settings
    built = build_collection(read_config(path), ["a", "b"], 200)
    assert built.policy == WarmUp(jb.Floored(jb.BetaThompson(1.0, 1.0), 0.01), 100)
    assert built.batch_size == 50
    path.write_text('policy = "greedy"\nfloor = "fit"\n')
    assert build_collection(read_config(path), ["a", "b"], 200).policy == jb.Floored(jb.Greedy(), 0.25)


REFUSED = {
    "--policy greedy --floor 0.5": "--floor is 0.5; it must be from 0 to 1 / 3, as there are 3 arms",
    "--policy greedy --floor -0.1": "--floor is -0.1; it must be from 0 to 1 / 3, as there are 3 arms",
    "--policy greedy --floor nan": "--floor is nan; it must be from 0 to 1 / 3, as there are 3 arms",
    "--policy greedy --floor often": "Invalid value for '--floor': 'often' is neither a number nor 'fit'",
    "--floor 0.1": "--floor is given without --policy; give both",
    "--policy greedy --warm-up 30": "--warm-up is 30; it must be below 30, the rows of the log",
    "--policy greedy --warm-up 0": "--warm-up is 0; it must be a whole number of pulls, 1 or more",
    "--policy greedy --warm-up -5": "--warm-up is -5; it must be a whole number of pulls, 1 or more",
    "--policy greedy --top-two 0.5": "--top-two is given with greedy; it needs a policy that draws: thompson or beta-thompson",
    "--policy thompson --top-two 1.5": "--top-two is 1.5; it must be from 0 to 1, how often the best draw is kept",
    "--policy greedy --preset mabwiser-ucb1": "--preset is mabwiser-ucb1, which already has --policy ucb1; "
    "leave out one of --preset and --policy",
    "--preset moe-epsilon-greedy --epsilon 0.2": "--preset is moe-epsilon-greedy, which already has --epsilon 0.05; "
    "leave out one of --preset and --epsilon",
    "--preset moe-epsilon-greedy --gamma 0.2": "--gamma is not a setting of epsilon-greedy; "
    "its settings are --epsilon, --tau, --ties",
    "--preset mine": f"Invalid value for '--preset': 'mine' is not one of {', '.join(repr(str(name)) for name in PresetName)}.",
    "--policy greedy --batch-size 30": "--batch-size is 30; it must be a whole number from 1 to 29, below the rows of the log",
    "--policy greedy --batch-size 0": "--batch-size is 0; it must be a whole number from 1 to 29, below the rows of the log",
    "--policy kl-ucb": "the reward is 2.0 at step 1, which Bernoulli() cannot give",
    "--policy kl-ucb --c -1": "--c is -1.0; it must be 0 or more, and finite",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_refused(capsys, tmp_path, words):
    log = tmp_path / "log.csv"
    log.write_text(LOG)
    assert run(capsys, "debias", log, *words.split(), "--quiet") == (2, "", f"jaxbias: {REFUSED[words]}\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("simulate --floor fit", "--floor is 'fit'; it must be a number; only debias has a log to fit it to"),
        ("simulate --steps 50 --warm-up 50", "--warm-up is 50; it must be below 50, the pulls per trial"),
        ("evaluate --floor 0.6", "--floor is 0.6; it must be from 0 to 1 / 2, as there are 2 arms"),
        ("check --preset contextual-ucb1 --tau 1", "--preset is contextual-ucb1, which already has --tau 0.0; "
         "leave out one of --preset and --tau"),
        ("check --policy thompson --top-two -1", "--top-two is -1; it must be from 0 to 1, how often the best draw is kept"),
    ],
)  # fmt: skip
def test_what_the_other_commands_refuse(capsys, words, message):
    assert run(capsys, *words.split()) == (2, "", f"jaxbias: {message}\n")


def test_batches_of_one_size_beside_a_column_are_refused(capsys, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("arm,reward,batch\na,1,0\nb,0,0\na,1,1\nb,1,1\n")
    message = "--batch-size is 2, and the log has batches; leave it out, or ignore the column with --batch-column ''"
    code, _, err = run(capsys, "debias", log, "--policy", "greedy", "--batch-size", 2, "--quiet")
    assert (code, err) == (2, f"jaxbias: {message}\n")


def test_the_cause_of_a_misfit_is_named_with_its_option(capsys, tmp_path):
    """A log whose batches were left out; with the option that is suggested, the choices fit."""
    found = jb.simulate(jax.random.key(0), jb.LilUCB(), jb.Normal(), [0.6, 0.5, 0.3], num_steps=400, batch_size=20)
    log, arms = tmp_path / "log.csv", np.asarray(found.arms).tolist()
    log.write_text("arm,reward\n" + "".join(f"{arm},{float(one)!r}\n" for arm, one in zip(arms, found.rewards, strict=True)))
    words = ["debias", log, "--policy", "lil-ucb", "--sigma", 1, "--method", "sample_mean", "--no-evaluate"]
    code, out, _ = run(capsys, *words)
    assert code == 1
    cause = out.splitlines()[2]
    assert cause.startswith("The choices fit if the policy was updated only every 20 rows (of 397 choices 0 are impossible, not ")
    assert cause.endswith("): add --batch-size 20.")
    document = json.loads(run(capsys, *words, "--json")[1])
    assert document["causes"][0] | {"gain": 0} == {
        **dict(cause="batches", settings={"batch_size": 20}, gain=0, fits=True, impossible=0, choices=397, column=None),
        "declared_impossible": document["causes"][0]["declared_impossible"],
        "p_value": None,
    }
    assert run(capsys, *words, "--batch-size", 20)[1].splitlines()[1].startswith("The choices are those of LilUCB")


def test_a_column_that_the_policy_looked_at_is_named(capsys, tmp_path):
    """Unused columns are read again from the file, in the order of time, and only where there is a misfit."""
    history, columns = run_for_each_device(jb.Greedy(tau=0.1), 0)
    arms, rewards, device = np.asarray(history.arms), np.asarray(history.rewards), columns["device"]
    rows = [f"{row},{arms[row]},{float(rewards[row])!r},{device[row]}" for row in range(len(arms))]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(["time,arm,reward,device", *rows[::-1]]))
    read = jb.read_log(log)
    assert read.read_unused is not None
    np.testing.assert_array_equal(read.read_unused()["device"], device)
    analysis = jb.debias(jax.random.key(0), read, jb.Greedy(tau=0.1), jb.Normal(sigma=1.0), methods=["sample_mean"])
    assert analysis.causes[0].column == "device"
    assert "if the policy looked at column 'device'" in jb.reporting.sentences.sentences(analysis)[1]
