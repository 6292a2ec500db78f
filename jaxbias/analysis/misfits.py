"""Why a policy does not fit a log, with the columns of the file that the policy is not said to use."""

from typing import Any

from jaxbias.logs import Log
from jaxbias.logs.errors import LogError
from jaxbias.policy_fit.causes import LikelyCause, find_causes
from jaxbias.policy_fit.check import PolicyFit


def find_log_causes(log: Log, policy: Any, fit: PolicyFit | None) -> tuple[LikelyCause, ...]:
    """The likely causes; none if the policy is not known, or fits without a doubt: then the file is not read again."""
    if fit is None or (fit.fits and not fit.doubtful):
        return ()
    try:
        columns = {} if log.read_unused is None else log.read_unused()
    except (LogError, OSError):  # a column that is no column of values, or a file that is no longer there
        columns = {}
    columns = {name: values for name, values in columns.items() if len(values) == log.history.num_steps}
    return find_causes(log.history, policy, columns)
