"""Logs whose rewards came late, and logs with two rewards: read, written, and refused where something is wrong."""

import io

import jax
import numpy as np
import pandas as pd
import pytest
from typer.main import get_command

import jaxbias as jb
from jaxbias._core.arrivals import check_arrivals, delayed
from jaxbias.cli import main
from jaxbias.cli.app import app
from jaxbias.cli.errors import option_names
from jaxbias.history import check_history
from jaxbias.logs import NoteKind, read_log, write_log
from jaxbias.logs.errors import library_name
from jaxbias.policy_fit.delays import check_delays
from tests.logs.malformed import Case

STEPS = "step,arm,reward,seen_at\n"


def read(text, **options):
    return read_log(io.StringIO(text), **options)


def test_steps_from_any_number():
    """In the units of the log's own step, from 0 or from 1; a later row has seen the reward."""
    for first in (0, 1, 10):
        rows = "".join(f"{first + step},{'ab'[step % 2]},{step},{first + late}\n" for step, late in enumerate((2, 1, 2, 5, 4)))
        assert read(STEPS + rows).history.seen_at == (2, 1, 2, 4, 4)


def test_times_and_rewards_that_never_arrived():
    rows = [
        "2024-01-01 10:00,a,1,2024-01-01 10:30",
        "2024-01-01 10:10,b,2,",
        "2024-01-01 10:20,a,3,2024-01-01T10:20",
        "2024-01-01 10:40,b,4,2024-01-02",
    ]
    log = read("time,arm,reward,seen_at\n" + "\n".join(rows))
    assert log.history.seen_at == (2, 4, 2, 3)
    assert [note.kind for note in log.notes] == [NoteKind.NEVER_SEEN]
    frame = pd.DataFrame({"time": pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"]).astype("datetime64[s]")})
    frame = frame.assign(arm=["a", "b", "a"], reward=1.0, seen_at=["2024-01-02 00:00:00+00:00", "2024-01-02", "2024-01-04"])
    assert read_log(frame).history.batch_sizes == (2, 1)  # both are seen after the second


def test_a_delay_and_what_is_no_delay():
    plain = read("arm,reward\na,1\nb,2\na,3\nb,4\n")
    late = read("arm,reward\na,1\nb,2\na,3\nb,4\n", delay=1)
    assert late.history.seen_at == plain.history.with_delay(1).seen_at == (1, 2, 3, 4)
    for same in (read("arm,reward\na,1\nb,2\n", delay=0), read(STEPS + "1,a,1,1\n2,b,2,2\n")):
        assert (same.history.seen_at, same.history.batch_sizes) == (None, None)
    batched = read(STEPS + "1,a,1,2\n2,b,2,2\n3,a,3,4\n4,b,4,9\n")
    assert (batched.history.seen_at, batched.history.batch_sizes, batched.batch.tolist()) == (None, (2, 2), [0, 0, 1, 1])


def test_a_written_log_is_read_again(tmp_path):
    history = jb.History(
        arms=np.array([0, 1, 0, 1]), rewards=np.arange(4.0), num_arms=2, forced=np.array([1, 1, 0, 0], bool), seen_at=(2, 1, 3, 8)
    )
    write_log(history, tmp_path / "log.csv")
    found = read_log(tmp_path / "log.csv").history
    assert found.seen_at == (2, 1, 3, 3)
    np.testing.assert_array_equal(found.forced, history.forced)
    np.testing.assert_array_equal(check_history(found).rewards, history.rewards)


def test_two_rewards():
    log = read("arm,clicked,revenue\na,1,5\nb,0,0\n", columns={"reward": "revenue", "policy_reward": "clicked"})
    assert (log.history.rewards.tolist(), log.history.policy_rewards.tolist()) == ([5.0, 0.0], [1.0, 0.0])
    assert log.policy_reward == "clicked"


def test_delays_that_depend_on_the_arm_or_the_reward():
    """Found where they do, and not where both only change over time."""
    rng = np.random.default_rng(0)
    number, late = 400, rng.integers(0, 20, 400)
    steps = np.arange(number)
    arms, rewards = (rng.random(number) < steps / number).astype(int), rng.normal(size=number)
    drifting = (late * (steps + 50)) // number
    check = lambda delay: check_delays(jb.History(arms=arms, rewards=rewards, num_arms=2).with_delay(delay))
    assert min(check(drifting)[3:]) > 0.01
    assert check(late + 5 * arms).by_arm < 1e-6
    assert check(late + 5 * arms).by_reward > 0.01
    assert check(late + np.clip(5 * rewards, 0, None).astype(int)).by_reward < 1e-6
    assert check_delays(jb.History(arms=arms, rewards=rewards, num_arms=2)) is None
    p_values = [check(rng.integers(0, 20, number))[3:] for _ in range(100)]
    assert (np.mean(np.array(p_values) < 0.1, axis=0) < 0.2).all()


IGNORE = "to ignore this column, set <columns.seen_at> to ''"
MALFORMED = [
    Case(
        "seen before its own step",
        (STEPS + "1,a,1,1\n2,b,2,1\n3,a,3,3\n").encode(),
        f"{{name}}: column 'seen_at' in row 3 is 1; it must be at or after the 'step' of its own row; {IGNORE}",
    ),
    Case(
        "seen before its own time",
        b"time,arm,reward,seen_at\n2024-01-01,a,1,2023-12-31\n2024-01-02,b,2,2024-01-02\n",
        f"{{name}}: column 'seen_at' in row 2 is '2023-12-31'; it must be at or after the 'time' of its own row; {IGNORE}",
    ),
    Case(
        "seen_at in words",
        (STEPS + "1,a,1,1\n2,b,2,soon\n").encode(),
        "{name}: column 'seen_at' in row 3 is 'soon'; it must be a number, like the column 'step', or empty where the reward "
        f"never arrived; {IGNORE}",
    ),
    Case(
        "steps and dates",
        (STEPS + "1,a,1,2024-01-01\n2,b,2,2\n").encode(),
        "{name}: column 'seen_at' in row 2 is '2024-01-01'; it must be a number, like the column 'step', or empty where the "
        f"reward never arrived; {IGNORE}",
    ),
    Case(
        "dates and steps",
        b"time,arm,reward,seen_at\n2024-01-01,a,1,7\n2024-01-02,b,2,2024-01-02\n",
        "{name}: column 'seen_at' in row 2 is '7'; it must be a timestamp such as 2024-01-31 12:00:00, like the column 'time', "
        f"or empty where the reward never arrived; {IGNORE}",
    ),
    Case(
        "mixed date formats",
        b"time,arm,reward,seen_at\n2024-01-01,a,1,2024-01-01\n2024-01-02,b,2,02/01/2024\n",
        "{name}: column 'seen_at' in row 3 is '02/01/2024'; it must be a timestamp such as 2024-01-31 12:00:00, like the column "
        f"'time', or empty where the reward never arrived; {IGNORE}",
    ),
    Case(
        "seen_at without a time",
        b"arm,reward,seen_at\na,1,1\nb,2,2\n",
        "{name} has a column 'seen_at', and no column 'time' or 'step' to compare it with; name it with <columns.time>, or give "
        "<delay>",
    ),
    Case(
        "seen_at with batches",
        b"step,arm,reward,seen_at,batch\n1,a,1,1,0\n2,b,2,2,1\n",
        "{name} has batches, and a column 'seen_at'; the rewards of a batch are seen after it: give one of them; to ignore "
        "columns, set <columns.batch> or <columns.seen_at> to ''",
    ),
    Case(
        "a delay with batches",
        b"arm,reward,batch\na,1,0\nb,2,1\n",
        "{name} has batches, and <delay> is 3; the rewards of a batch are seen after it: give one of them; to ignore columns, "
        "set <columns.batch> or <columns.seen_at> to ''",
        {"delay": 3},
    ),
    Case(
        "a delay and seen_at",
        (STEPS + "1,a,1,1\n2,b,2,2\n").encode(),
        "{name} has a column 'seen_at', and <delay> is 1; to ignore the column, set <columns.seen_at> to ''",
        {"delay": 1},
    ),
    Case(
        "a negative delay",
        b"arm,reward\na,1\nb,2\n",
        "<delay> is -1; it must be a whole number of steps, 0 or more",
        {"delay": -1},
    ),
    Case(
        "a delay of counts",
        b"arm,pulls,successes\na,5,1\nb,5,2\n",
        "<delay> is 1 with <counts>; the rewards of a period are seen after it; a period is a batch",
        {"delay": 1, "counts": True},
    ),
    Case(
        "a missing policy reward",
        b"arm,reward,views\na,1,1\nb,2,2\n",
        "{name} has no column 'clicked'; its columns are arm, reward, views; choose one of them with <columns.policy_reward>",
        {"columns": {"policy_reward": "clicked"}},
    ),
    Case(
        "one column for both rewards",
        b"arm,reward\na,1\nb,2\n",
        "{name}: column 'reward' is used for reward and for policy_reward; change <columns.reward> or <columns.policy_reward>",
        {"columns": {"policy_reward": "reward"}},
    ),
    Case(
        "a policy reward in words",
        b"arm,reward,clicked\na,1,1\nb,2,often\n",
        "{name}: column 'clicked' in row 3 is 'often'; it must be a finite number; to ignore this column, set "
        "<columns.policy_reward> to ''",
        {"columns": {"policy_reward": "clicked"}},
    ),
    Case(
        "an empty policy reward",
        b"arm,reward,clicked\na,1,1\nb,2,\n",
        "{name}: column 'clicked' in row 3 is empty; it must be a finite number; to ignore this column, set "
        "<columns.policy_reward> to ''",
        {"columns": {"policy_reward": "clicked"}},
    ),
]


@pytest.mark.parametrize("case", MALFORMED, ids=lambda case: case.id)
def test_malformed(case, tmp_path, capsys):
    path = case.make(tmp_path)
    with pytest.raises(jb.ArgumentError) as caught:
        read_log(path, **case.options)
    assert str(caught.value) == case.message_for(path, library_name)
    words = [word for role, name in case.options.get("columns", {}).items() for word in (f"--{role.replace('_', '-')}", name)]
    words += ["--delay", str(case.options["delay"])] if "delay" in case.options else []
    words += ["--counts"] if "counts" in case.options else []
    expected = case.message_for(path, option_names(get_command(app).commands["debias"]))
    assert main(["debias", str(path), *words]) == 2
    assert capsys.readouterr().err == f"jaxbias: {' '.join(expected.split())}\n"


def test_counts_have_no_second_reward():
    with pytest.raises(jb.ArgumentError, match="has the key 'policy_reward'"):
        read("arm,pulls,successes,x\na,5,1,1\nb,5,2,1\n", counts=True, columns={"policy_reward": "x"})


GOOD = dict(arms=np.array([0, 1, 0]), rewards=np.arange(3.0), num_arms=2)
HISTORIES = {
    "early": (dict(seen_at=(0, 0, 2)), r"history\.seen_at is 0 at step 1; it must be the step itself \(from 0\) or a later one"),
    "short": (dict(seen_at=(0, 1)), r"history\.seen_at has 2 entries; it must be a tuple of 3 whole numbers"),
    "batches": (dict(seen_at=(1, 2, 3), batch_sizes=(1, 2)), r"history\.seen_at is given beside batch_sizes; it must be None"),
    "shares": (dict(seen_at=(1, 2, 3), allocation="shares"), r"history\.allocation is 'shares'; it must be 'independent'"),
    "shape": (dict(policy_rewards=np.zeros(2)), r"history\.policy_rewards has shape \(2,\); it must be of the shape of rewards"),
    "infinite": (dict(policy_rewards=np.array([0, 1, np.inf])), r"history\.policy_rewards .*inf"),
}


@pytest.mark.parametrize(("fields", "message"), HISTORIES.values(), ids=list(HISTORIES))
def test_malformed_histories(fields, message):
    with pytest.raises(jb.ArgumentError, match=message):
        check_history(jb.History(**GOOD, **fields), two_rewards=True)


def test_malformed_delays():
    with pytest.raises(jb.ArgumentError, match=r"history\.seen_at is of list; it must be a tuple of 3 whole numbers"):
        check_arrivals([0, 1, 2], None, "independent", 3)
    with pytest.raises(jb.ArgumentError, match=r"history\.seen_at has entries that are not whole numbers"):
        check_arrivals((0, 1, float("nan")), None, "independent", 3)
    with pytest.raises(jb.ArgumentError, match="delay is -2 at step 1; it must be 0 or more"):
        delayed([0, -2, 0], 3)
    with pytest.raises(jb.ArgumentError, match=r"delay has shape \(2,\)"):
        delayed([0, 2], 3)
    with pytest.raises(jb.ArgumentError, match=r"delay is 1\.5; it must be a whole number of steps"):
        delayed(1.5, 3)
    with pytest.raises(jb.ArgumentError, match="delay is 1; it must be None for a log with batches"):
        jb.History(**GOOD, batch_sizes=(1, 2)).with_delay(1)
    problem = (jb.Greedy(), jb.Normal(), [1.0, 0.5], 8)
    with pytest.raises(jb.ArgumentError, match="delay is 1; it must be None with batch_size"):
        trial(problem, delay=1, batch_size=2)
    with pytest.raises(jb.ArgumentError, match="delay is 1; it must be None with stop"):
        trial(problem, delay=1, stop=jb.StopAtDifference(1.0))
    with pytest.raises(jb.ArgumentError, match="delay is -1; it must be 0 or more"):
        trial(problem, delay=-1)


def trial(problem, **options):
    return jb.simulate(jax.random.key(0), *problem, **options)
