"""What `jaxbias propensities` prints for a log that has probabilities of its own."""

from typing import TYPE_CHECKING, Any

from jaxbias.reporting.formatting import number
from jaxbias.reporting.labels import LONGEST_IN_TABLE, short_names
from jaxbias.reporting.terminal.common import add_row, make_console, make_table, say

if TYPE_CHECKING:
    from jaxbias.logs import Log
    from jaxbias.policy_fit.sample_ratio import SampleRatio
    from jaxbias.policy_fit.weights import AgainstPolicy


def print_propensities(log: "Log", policy: str, ratio: "SampleRatio | None", found: "AgainstPolicy") -> None:
    """Prints whether the logged probabilities are the policy's, the rows that are furthest off, and whether the pulls agree."""
    from jaxbias.reporting.weights import describe_difference, describe_ratio, row_name  # here, as it imports JAX

    console, names = make_console(), short_names(log.labels, len(log.labels), LONGEST_IN_TABLE)
    say(console, describe_difference(found, log, policy))
    if found.worst:
        table = make_table("The rows that are furthest off", "where", "arm", "logged", "exact", left=(0, 1))
        for one in found.worst:
            add_row(console, table, row_name(log, one.row), names[one.arm], number(one.logged), number(one.exact))
        console.print(table)
    if ratio is not None:
        say(console, describe_ratio(ratio, log.labels))


def propensities_document(log: "Log", ratio: "SampleRatio | None", found: "AgainstPolicy") -> dict[str, Any]:
    """The same for programs."""
    from jaxbias.reporting.weights import difference_document, ratio_document

    return {"policy": difference_document(found, log), "ratio": ratio and ratio_document(ratio, log.labels)}
