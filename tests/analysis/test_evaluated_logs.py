"""How many logs the methods are evaluated on."""

import jax

import jaxbias as jb
from jaxbias.analysis import limits


def test_evaluated_logs_come_in_three_numbers(monkeypatch):
    """Programs are compiled for each: none at first, then the fewest, then halfway, then the most."""
    monkeypatch.setattr(limits, "EVALUATED_LOGS", (50, 100))
    policy, family = jb.Greedy(), jb.Normal(sigma=1.0)
    log = jb.simulate(jax.random.key(0), policy, family, [1.0, 0.5], num_steps=10)
    cost = limits.EVALUATION_PATHS * limits.path_cost(log, policy, family)
    found = []
    for number in (49.5, 50.5, 74.5, 75.5, 99.5, 100.5, 1e6):
        monkeypatch.setattr(limits, "EVALUATION_WORK", number * cost)
        found.append(limits.evaluated_logs(log, policy, family))
    assert found == [0, 50, 50, 75, 75, 100, 100]
