"""Writing a log: one pull per row."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxbias._core.errors import ArgumentError
from jaxbias._core.files import check_writable, written_whole

if TYPE_CHECKING:
    from jaxbias.history import History

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")


def check_log_path(out: Path) -> None:
    """Refuses a path that `write_log` cannot write to; for a caller that wants to know before the work."""
    if not out.name.endswith(SUFFIXES):
        raise ArgumentError("out", str(out), f"a file that ends in {', '.join(SUFFIXES)}")
    check_writable(out)


def write_log(history: "History", out: Path, labels: Sequence[str] | None = None) -> None:
    """Writes trial, step, arm and reward, one pull per row; of batches also which, and whether the pull was forced;
    of late rewards the step that `seen_at` has.

    The file is written completely or not at all. Labels are written as they are, so that the file reads back as the same log:
    a spreadsheet may take one that begins with =, +, - or @ for a formula. Steps after a trial was stopped are left out.

    Arguments:
        history: one trial, whose log has no column trial, or several trials.
        out: a file that ends in .csv, .tsv, .csv.gz, .tsv.gz or .parquet; an existing file is replaced.
        labels: of arm 0, 1, ...; by default the numbers themselves.

    >>> import jaxbias as jb, numpy as np, pathlib, tempfile
    >>> history = jb.History(arms=np.array([0, 1]), rewards=np.array([0.5, 2.0]), num_arms=2)
    >>> out = pathlib.Path(tempfile.mkdtemp()) / "log.csv"
    >>> write_log(history, out, labels=["red", "blue"])
    >>> out.read_text().split()
    ['step,arm,reward', '0,red,0.5', '1,blue,2.0']
    """
    check_log_path(out)
    if not history.order_known:
        raise ArgumentError("history", history, "one pull a row, to be written so", problem="has counts")
    frame = _frame(history, labels)
    with written_whole(out) as temporary, temporary.open("xb") as file:
        _write_frame(frame, file, out.name)


def _frame(history: "History", labels: Sequence[str] | None) -> Any:
    import numpy as np
    import pandas as pd

    arms, rewards = np.asarray(history.arms), np.asarray(history.rewards)
    names = ("trial", "step")[2 - arms.ndim :]
    columns: dict[str, Any] = {name: index.ravel() for name, index in zip(names, np.indices(arms.shape), strict=True)}
    columns["arm"] = arms.ravel()
    if labels is not None:
        if len(labels) != history.num_arms or len(set(labels)) != len(labels):
            raise ArgumentError("labels", list(labels), f"{history.num_arms} different labels, one for each arm")
        columns["arm"] = pd.Categorical.from_codes(columns["arm"], categories=list(labels))
    columns["reward"] = rewards.ravel()
    if history.batch_sizes is not None:
        batch = np.repeat(np.arange(len(history.batch_sizes)), history.batch_sizes)
        columns["batch"] = np.broadcast_to(batch, arms.shape).ravel()
        columns["forced"] = np.asarray(history.forced_steps).ravel().astype(int)
    if history.seen_at is not None:
        columns["seen_at"] = np.broadcast_to(np.asarray(history.seen_at), arms.shape).ravel()
        columns["forced"] = np.asarray(history.forced_steps).ravel().astype(int)
    frame = pd.DataFrame(columns)
    if history.lengths is None:
        return frame
    taken = np.arange(arms.shape[-1]) < np.asarray(history.lengths)[..., None]
    return frame[taken.ravel()]


def _write_frame(frame: Any, file: Any, name: str) -> None:
    # Without the time and the temporary name in the archive, the same log gives the same bytes.
    gzip = {"method": "gzip", "mtime": 0, "filename": ""}
    if name.endswith(".parquet"):
        frame.to_parquet(file, index=False)
        return
    separator = "\t" if ".tsv" in name[-7:] else ","
    frame.to_csv(file, sep=separator, index=False, mode="wb", compression=gzip if name.endswith(".gz") else None)
