"""One policy that is any of several, so that a test of all of them compiles one program."""

from typing import Any

import jax
import pytest

from jaxbias._core.settings import settings
from jaxbias.policies import StatisticsPolicy


@settings
class OneOf(StatisticsPolicy):
    """One of several policies of pulls and sums, by its number, which is traced: another one does not recompile.

    For the conditional likelihood, which asks a policy for its `log_probs` alone.
    """

    policies: tuple[Any, ...]
    number: Any

    def log_probs(self, state):
        """Those of this policy."""
        return jax.lax.switch(self.number, [policy.log_probs for policy in self.policies], state)


@pytest.fixture(scope="session")
def one_of():
    """`one_of(policies, name)`: the policy of that name in a dictionary, in one program with the others."""
    return lambda policies, name: OneOf(policies=tuple(policies.values()), number=list(policies).index(name))
