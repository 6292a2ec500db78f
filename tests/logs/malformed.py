"""Malformed logs, and the message for each: for `read_log` and for the command line."""

import gzip
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd

from tests.logs.malformed_counts import CASES


class Case(NamedTuple):
    """A malformed log: bytes, or a function that makes the file at a path.

    The message has {name} for that path and <decimal> for the argument `decimal`, which the command line calls --decimal.
    """

    id: str
    content: bytes | Callable[[Path], Any]
    message: str
    options: Mapping[str, Any] = MappingProxyType({})
    suffix: str = ".csv"

    def message_for(self, path: Path, name_of: Callable[[str], str]) -> str:
        """The message about the log at a path, with arguments as `name_of` calls them."""
        return re.sub("<([a-z._]+)>", lambda found: name_of(found[1]), self.message).replace("{name}", str(path))

    def make(self, folder: Path) -> Path:
        """The malformed log in a folder."""
        path = folder / f"log{self.suffix}"
        if callable(self.content):
            self.content(path)
        else:
            path.write_bytes(self.content)
        return path


def parquet(**columns):
    return lambda path: pd.DataFrame(columns).to_parquet(path, index=False)


def cut_parquet(path):
    parquet(arm=["a"] * 100, reward=[1.0] * 100)(path)
    path.write_bytes(path.read_bytes()[:-40])


def altered_parquet(path):
    parquet(arm=["a"] * 100, reward=[1.0] * 100)(path)
    content = bytearray(path.read_bytes())
    content[4:60] = bytes(56)
    path.write_bytes(bytes(content))


GOOD = b"arm,reward\na,1\nb,2\n"
MALFORMED = [
    # The file
    Case(
        "missing",
        lambda path: None,
        ("{name} cannot be read (No such file or directory); it must be a CSV, TSV or Parquet file, plain or gzipped"),
    ),
    Case(
        "a folder", Path.mkdir, "{name} cannot be read (Is a directory); it must be a CSV, TSV or Parquet file, plain or gzipped"
    ),
    Case("empty", b"", "{name} is empty; it must have a row of column names, and one row for each pull below it"),
    Case("blank", b" \n\n \n", "{name} is empty; it must have a row of column names, and one row for each pull below it"),
    Case("header only", b"arm,reward\n", "{name} has column names, but no rows; it must have one row for each pull"),
    Case("header without end of line", b"arm,reward", "{name} has column names, but no rows; it must have one row for each pull"),
    Case(
        "empty first row",
        b"\narm,reward\na,1\n",
        "{name}: row 1 is empty; it must have the names of the columns, such as arm and reward",
    ),
    Case("empty rows only", b"arm,reward\n\n,\n", "{name} has column names, but no rows; it must have one row for each pull"),
    Case(
        "NUL",
        b"arm,reward\na,1\nb\x00,2\n",
        (
            "{name} has a NUL byte in line 3; it must be a CSV, TSV or Parquet file, plain or gzipped; text must "
            "be UTF-8, or UTF-16 with a byte order mark"
        ),
    ),
    Case(
        "Latin-1",
        "arm,reward\na,1\ncafé,2\n".encode("latin-1"),
        (
            "{name} has byte 0xe9 in line 3, which is not UTF-8; it must be a CSV, TSV or Parquet file, plain or "
            "gzipped; text must be UTF-8, or UTF-16 with a byte order mark"
        ),
    ),
    Case(
        "cut within a letter",
        "arm,reward\na,1\né".encode()[:-1],
        (
            "{name} has byte 0xc3 in line 3, which is not UTF-8; it must be a CSV, TSV or Parquet file, plain or "
            "gzipped; text must be UTF-8, or UTF-16 with a byte order mark"
        ),
    ),
    Case(
        "UTF-16 without mark",
        "arm,reward\na,1\n".encode("utf-16-le"),
        (
            "{name} has a NUL byte in line 1; it must be a CSV, TSV or Parquet file, plain or gzipped; text must "
            "be UTF-8, or UTF-16 with a byte order mark"
        ),
    ),
    Case(
        "UTF-16 cut",
        "arm,reward\na,1\n".encode("utf-16")[:-1],
        (
            "{name} has byte 0x0a in line 2, which is not UTF-16; it must be a CSV, TSV or Parquet file, plain or"
            " gzipped; text must be UTF-8, or UTF-16 with a byte order mark"
        ),
    ),
    Case(
        "rubbish",
        bytes(range(255, 0, -1)),
        (
            "{name} has byte 0xdf in line 1, which is not UTF-16; it must be a CSV, TSV or Parquet file, plain or"
            " gzipped; text must be UTF-8, or UTF-16 with a byte order mark"
        ),
    ),
    Case(
        "binary",
        b"\x89HDF\r\n\x1a\n" + bytes(range(256)),
        (
            "{name} has byte 0x89 in line 1, which is not UTF-8; it must be a CSV, TSV or Parquet file, plain or "
            "gzipped; text must be UTF-8, or UTF-16 with a byte order mark"
        ),
    ),
    Case(
        "gzip with more after it",
        gzip.compress(GOOD) + b"and more",
        "{name} is a damaged gzip file, cut off or altered; compress or copy it again",
    ),
    Case(
        "gzip cut", gzip.compress(GOOD * 10)[:-12], "{name} is a damaged gzip file, cut off or altered; compress or copy it again"
    ),
    Case(
        "gzip altered",
        gzip.compress(GOOD)[:-8] + bytes(8),
        "{name} is a damaged gzip file, cut off or altered; compress or copy it again",
    ),
    Case("gzip header only", b"\x1f\x8b", "{name} is a damaged gzip file, cut off or altered; compress or copy it again"),
    Case(
        "gzip of nothing",
        gzip.compress(b""),
        "{name} is empty; it must have a row of column names, and one row for each pull below it",
    ),
    Case(
        "gzip of rubbish",
        gzip.compress(bytes(range(255, 0, -1))),
        (
            "{name} has byte 0xdf in line 1, which is not UTF-16; it must be a CSV, TSV or Parquet file, plain or"
            " gzipped; text must be UTF-8, or UTF-16 with a byte order mark"
        ),
    ),
    Case(
        "Excel workbook",
        b"PK\x03\x04" + bytes(50),
        ("{name} is a zip archive or an Excel workbook; it must be a CSV, TSV or Parquet file, plain or gzipped"),
    ),
    Case("Parquet cut", cut_parquet, "{name} is not a Parquet file, or is damaged; write or copy it again", suffix=".parquet"),
    Case(
        "Parquet altered",
        altered_parquet,
        "{name} is not a Parquet file, or is damaged; write or copy it again",
        suffix=".parquet",
    ),
    Case("Parquet without its name", cut_parquet, "{name} is not a Parquet file, or is damaged; write or copy it again"),
    Case("text named Parquet", GOOD, "{name} is not a Parquet file, or is damaged; write or copy it again", suffix=".parquet"),
    Case(
        "Parquet empty",
        parquet(arm=pd.Series([], dtype=str), reward=pd.Series([], dtype=float)),
        "{name} has column names, but no rows; it must have one row for each pull",
        suffix=".parquet",
    ),
    Case(
        "Parquet nested",
        parquet(arm=["a"], reward=[[1.0, 2.0]]),
        "{name}: column 'reward' has type 'list<element: double>'; it must have one value in each row",
        suffix=".parquet",
    ),
    Case(
        "Parquet structs",
        parquet(arm=[{"name": "a"}], reward=[1.0]),
        "{name}: column 'arm' has type 'struct<name: string>'; it must have one value in each row",
        suffix=".parquet",
    ),
    Case(
        "Parquet without column",
        parquet(variant=["a"], reward=[1.0]),
        "{name} has no column 'arm'; its columns are variant, reward; choose one of them with <columns.arm>",
        suffix=".parquet",
    ),
    Case(
        "Parquet text",
        parquet(arm=["a", "b"], reward=["1.5", "x"]),
        "{name}: column 'reward' in row 1 is 'x'; it must be a finite number",
        suffix=".parquet",
    ),
    Case(
        "Parquet missing",
        parquet(arm=["a", None], reward=[1.0, 2.0]),
        "{name}: column 'arm' in row 1 is empty; it must be a label",
        suffix=".parquet",
    ),
    # Rows and columns
    Case("long row", b"arm,reward\na,1\nb,2,3\nc,1\n", "{name}: row 3 has 3 fields; row 1 has 2"),
    Case("long first row", b"arm,reward\na,1,5\nb,2,5\n", "{name}: row 2 has too many fields; row 1 has 2"),
    Case(
        "R's short header",
        (Path(__file__).parent / "r_short_header.csv").read_bytes(),
        "{name}: row 2 has too many fields; row 1 has 5",
    ),
    Case("long row after an empty one", b"arm,reward\n\na,1,5\n", "{name}: row 3 has 3 fields; row 1 has 2"),
    Case("short row", b"arm,reward\na,1\nb\n", "{name}: column 'reward' in row 3 is empty; it must be a finite number"),
    Case(
        "open quotation mark",
        b'arm,reward\na,1\n"b,2\nc,3\n',
        "{name}: row 3 has a quotation mark that is never closed",
    ),
    Case(
        "label in control characters",
        b"arm,reward\n\x1b[31mred,1\n",
        ("{name}: column 'arm' in row 2 is '\\x1b[31mred'; it must be a label on one line, without control characters"),
    ),
    Case(
        "open quotation mark in the header",
        b'arm,"reward\na,1\nb,2\n',
        ("{name} has no column 'reward'; its columns are arm, 'reward\\na,1\\nb,2\\n'; choose one of them with <columns.reward>"),
    ),
    Case(
        "quotation mark that closes late",
        b'arm,reward\na,1\n"b,2\nc,3\n"d",4\n',
        ("{name}: column 'arm' in row 3 is 'b,2\\nc,3\\nd\"'; it must be a label on one line, without control characters"),
    ),
    Case(
        "endless field",
        b"arm,reward\n" + b"x" * 2_000_000 + b",1\n",
        (
            "{name}: column 'arm' in row 2 is 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...'; it must be a label "
            "of at most 1000 characters"
        ),
    ),
    Case(
        "endless header",
        b"x" * 2_000_000 + b"\na,1\n",
        "{name}: row 1 cannot be read; it must have the names of the columns, such as arm and reward",
    ),
    Case(
        "no arm",
        b"variant,reward\na,1\n",
        "{name} has no column 'arm'; its columns are variant, reward; choose one of them with <columns.arm>",
    ),
    Case(
        "neither arm nor reward, but counts",
        b"version,sessions,purchases\na,54,2\n",
        (
            "{name} has no column 'arm'; its columns are version, sessions, purchases; choose one of them with <columns.arm>, "
            "and if 'sessions' counts pulls, give <counts> too"
        ),
    ),
    Case(
        "no reward",
        b"arm,revenue\na,1\n",
        ("{name} has no column 'reward'; its columns are arm, revenue; choose one of them with <columns.reward>"),
    ),
    Case(
        "neither",
        b"# exported on Monday\narm,reward\na,1\n",
        ("{name} has no column 'arm'; its columns are # exported on Monday; choose one of them with <columns.arm>"),
    ),
    Case(
        "many columns",
        ",".join(f"x{number}" for number in range(30)).encode() + b"\n",
        (
            "{name} has no column 'arm'; its columns are x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, and 20 more; "
            "choose one of them with <columns.arm>"
        ),
    ),
    Case(
        "column in control characters",
        b"\x1b[31marm,reward\na,1\n",
        ("{name} has no column 'arm'; its columns are '\\x1b[31marm', reward; choose one of them with <columns.arm>"),
    ),
    Case("two arms", b"arm,reward,arm\na,1,a\n", "{name} has 2 columns named 'arm'; keep one of them"),
    Case(
        "arms in two cases",
        b"Arm,ARM,reward\na,a,1\n",
        "{name} has several columns for 'arm': 'Arm', 'ARM'; choose one with <columns.arm>",
    ),
    Case(
        "named column absent",
        b"arm,reward\na,1\n",
        "{name} has no column 'p'; its columns are arm, reward; choose one of them with <columns.propensity>",
        options={"columns": {"propensity": "p"}},
    ),
    Case(
        "named arm absent",
        b"arm,reward\na,1\n",
        "{name} has no column 'variant'; its columns are arm, reward; choose one of them with <columns.arm>",
        options={"columns": {"arm": "variant"}},
    ),
    Case(
        "one column twice",
        b"arm,reward\na,1\n",
        "{name}: column 'reward' is used for arm and for reward; change <columns.arm> or <columns.reward>",
        options={"columns": {"arm": "reward"}},
    ),
    Case(
        "Excel in Europe",
        b"\xef\xbb\xbfarm;reward\r\na;1,5\r\nb;2,25\r\n",
        (
            "{name} has semicolons between its columns and decimal commas in its numbers; set <separator> to ';' "
            "and <decimal> to ','"
        ),
    ),
    Case("semicolons", b"arm;reward\na;1\n", "{name} has semicolons between its columns; set <separator> to ';'"),
    Case(
        "other names and semicolons",
        b"variant;revenue\na;1,5\n",
        (
            "{name} has semicolons between its columns and decimal commas in its numbers; set <separator> to ';' "
            "and <decimal> to ','"
        ),
    ),
    Case("tabs", b"arm\treward\na\t1\n", "{name} has tabs between its columns; set <separator> to '\\t'"),
    Case("commas in .tsv", GOOD, "{name} has commas between its columns; set <separator> to ','", suffix=".tsv"),
    Case(
        "Excel's Unicode text",
        "arm\treward\r\na\t1\r\n".encode("utf-16"),
        "{name} has tabs between its columns; set <separator> to '\\t'",
        suffix=".txt",
    ),
    Case(
        "decimal commas left",
        b"arm;reward\na;1,5\n",
        ("{name}: column 'reward' in row 2 is '1,5'; it must be a finite number; to read decimal commas, set <decimal> to ','"),
        options={"separator": ";"},
    ),
    Case(
        "decimal commas in quotes",
        b'arm,reward\na,"1,5"\nb,"2,5"\n',
        (
            "{name}: column 'reward' in row 2 is '1,5'; it must be a finite number; 1 other row has the same "
            "problem; to read decimal commas, set <decimal> to ','"
        ),
    ),
    Case(
        "decimal commas between commas",
        b"arm,reward\na,1,5\nb,2,5\n",
        "{name}: row 2 has too many fields; row 1 has 2",
        options={"decimal": ","},
    ),
    Case(
        "decimal points with commas",
        b"arm;reward\na;1.5\n",
        "{name}: column 'reward' in row 2 is '1.5'; it must be a finite number",
        options={"separator": ";", "decimal": ","},
    ),
    # Values
    Case(
        "empty arm",
        b"arm,reward\na,1\n,2\n,3\n",
        "{name}: column 'arm' in row 3 is empty; it must be a label; 1 other row has the same problem",
    ),
    Case("blank arm", b"arm,reward\na,1\n  ,2\n", "{name}: column 'arm' in row 3 is '  '; it must be a label"),
    Case(
        "arm NA",
        b"arm,reward\na,1\nNA,2\n",
        ("{name}: column 'arm' in row 3 is 'NA'; it must be a label; if this is a label, give all labels with <arms>"),
    ),
    Case("reward empty", b"arm,reward\na,1\nb,\n", "{name}: column 'reward' in row 3 is empty; it must be a finite number"),
    Case(
        "reward NA",
        b"arm,reward\na,1\nb,NA\nc,NA\nd,NA\n",
        ("{name}: column 'reward' in row 3 is 'NA'; it must be a finite number; 2 other rows have the same problem"),
    ),
    Case(
        "reward after empty rows",
        b"arm,reward\n\n\na,1\n\nb,x\n",
        "{name}: column 'reward' in row 6 is 'x'; it must be a finite number",
    ),
    Case(
        "reward after a field of two lines",
        b'arm,text,reward\na,"one\ntwo",1\nc,three,x\n',
        "{name}: column 'reward' in row 3 is 'x'; it must be a finite number",
    ),
    Case("reward infinite", b"arm,reward\na,1\nb,-inf\n", "{name}: column 'reward' in row 3 is -inf; it must be a finite number"),
    Case(
        "reward of 400 digits",
        b"arm,reward\na," + b"9" * 400 + b"\nb,x\n",
        (
            "{name}: column 'reward' in row 2 is '9999999999999999999999999999999999999999...'; it must be a "
            "finite number; 1 other row has the same problem"
        ),
    ),
    Case(
        "reward too large",
        b"arm,reward\na,1e400\nb,x\n",
        ("{name}: column 'reward' in row 2 is '1e400'; it must be a finite number; 1 other row has the same problem"),
    ),
    Case("reward nan", b"arm,reward\na,1\nb,nan\n", "{name}: column 'reward' in row 3 is 'nan'; it must be a finite number"),
    Case("reward word", b"arm,reward\na,yes\n", "{name}: column 'reward' in row 2 is 'yes'; it must be a finite number"),
    Case(
        "reward with underscore",
        b"arm,reward\na,1_000\n",
        "{name}: column 'reward' in row 2 is '1_000'; it must be a finite number",
    ),
    Case(
        "reward with thousands",
        b'arm,reward\na,"1,000.5"\n',
        "{name}: column 'reward' in row 2 is '1,000.5'; it must be a finite number",
    ),
    Case(
        "reward endless",
        b"arm,reward\na," + b"9x" * 50_000 + b"\n",
        ("{name}: column 'reward' in row 2 is '9x9x9x9x9x9x9x9x9x9x9x9x9x9x9x9x9x9x9x9x...'; it must be a finite number"),
    ),
    Case(
        "reward in control characters",
        b"arm,reward\na,\x1b[31m\n",
        "{name}: column 'reward' in row 2 is '\\x1b[31m'; it must be a finite number",
    ),
    Case(
        "forced",
        b"arm,reward,forced\na,1,1\nb,2,maybe\n",
        (
            "{name}: column 'forced' in row 3 is 'maybe'; it must be 0, 1, true or false; to ignore this column, "
            "set <columns.forced> to ''"
        ),
    ),
    Case(
        "forced empty",
        b"arm,reward,forced\na,1,1\nb,2,\n",
        (
            "{name}: column 'forced' in row 3 is empty; it must be 0, 1, true or false; to ignore this column, "
            "set <columns.forced> to ''"
        ),
    ),
    Case(
        "batch negative",
        b"arm,reward,batch\na,1,-1\n",
        (
            "{name}: column 'batch' in row 2 is -1; it must be an integer, 0 or more; to ignore this column, set "
            "<columns.batch> to ''"
        ),
    ),
    Case(
        "batch not whole",
        b"arm,reward,batch\na,1,0\na,1,0.5\n",
        (
            "{name}: column 'batch' in row 3 is 0.5; it must be an integer, 0 or more; to ignore this column, set"
            " <columns.batch> to ''"
        ),
    ),
    Case(
        "batch down",
        b"arm,reward,batch\na,1,0\na,1,2\na,1,1\n",
        (
            "{name}: column 'batch' in row 4 is 1; it must be at least the batch of the pull before it; to ignore"
            " this column, set <columns.batch> to ''"
        ),
    ),
    Case(
        "batch down in time",
        b"arm,reward,batch,time\na,1,0,3\na,1,2,2\na,1,1,1\n",
        (
            "{name}: column 'batch' in row 2 is 0; it must be at least the batch of the pull before it; to ignore"
            " this column, set <columns.batch> to ''"
        ),
    ),
    Case(
        "propensity 0",
        b"arm,reward,propensity\na,1,0\n",
        (
            "{name}: column 'propensity' in row 2 is 0; it must be above 0 and at most 1; it may be empty only "
            "where the pull was forced; to ignore this column, set <columns.propensity> to ''"
        ),
    ),
    Case(
        "propensity above 1",
        b"arm,reward,propensity\na,1,0.5\na,1,50\n",
        (
            "{name}: column 'propensity' in row 3 is 50.0; it must be above 0 and at most 1; it may be empty only"
            " where the pull was forced; to ignore this column, set <columns.propensity> to ''"
        ),
    ),
    Case(
        "propensity missing",
        b"arm,reward,propensity\na,1,\na,1,NA\n",
        (
            "{name}: column 'propensity' in row 3 is 'NA'; it must be above 0 and at most 1; it may be empty only"
            " where the pull was forced; to ignore this column, set <columns.propensity> to ''"
        ),
    ),
    Case(
        "propensity missing and not forced",
        b"arm,reward,propensity,forced\na,1,,0\n",
        (
            "{name}: column 'propensity' in row 2 is empty; it must be above 0 and at most 1; it may be empty "
            "only where the pull was forced; to ignore this column, set <columns.propensity> to ''"
        ),
    ),
    Case(
        "time",
        b"arm,reward,time\na,1,1\nb,2,2\nc,3,noon\n",
        (
            "{name}: column 'time' in row 4 is 'noon'; it must be a number, or a timestamp such as 2024-01-31 "
            "12:00:00; to ignore this column, set <columns.time> to ''"
        ),
    ),
    Case(
        "time missing",
        b"arm,reward,time\na,1,1\nb,2,\n",
        (
            "{name}: column 'time' in row 3 is empty; it must be a number, or a timestamp such as 2024-01-31 "
            "12:00:00; to ignore this column, set <columns.time> to ''"
        ),
    ),
    Case(
        "timestamp",
        b"arm,reward,time\na,1,2024-01-31\nb,2,2024-02-30\n",
        (
            "{name}: column 'time' in row 3 is '2024-02-30'; it must be a number, or a timestamp such as "
            "2024-01-31 12:00:00; to ignore this column, set <columns.time> to ''"
        ),
    ),
    Case(
        "timestamp of a country",
        b"arm,reward,time\na,1,31/01/2024 12:00\n",
        (
            "{name}: column 'time' in row 2 is '31/01/2024 12:00'; it must be a number, or a timestamp such as "
            "2024-01-31 12:00:00; to ignore this column, set <columns.time> to ''"
        ),
    ),
    Case(
        "step",
        b"arm,reward,step\na,1,1\nb,2,two\n",
        (
            "{name}: column 'step' in row 3 is 'two'; it must be a number, or a timestamp such as 2024-01-31 "
            "12:00:00; to ignore this column, set <columns.time> to ''"
        ),
    ),
    Case(
        "trials",
        b"trial,arm,reward\n0,a,1\n1,a,2\n",
        "{name} has 2 trials in column 'trial'; choose one with <trial>, such as '0'",
    ),
    Case(
        "trial missing",
        b"trial,arm,reward\n0,a,1\n,a,2\n",
        (
            "{name}: column 'trial' in row 3 is empty; it must be the label of a trial; to ignore this column, "
            "set <columns.trial> to ''"
        ),
    ),
    # Options
    Case(
        "trial that is not there",
        b"trial,arm,reward\n0,a,1\n1,a,2\n",
        "<trial> is '7'; it must be one of the trials in column 'trial' of {name}: 0, 1",
        options={"trial": "7"},
    ),
    Case(
        "rows of a trial alone are checked",
        b"trial,arm,reward\n0,a,x\n1,a,1\n1,b,y\n",
        "{name}: column 'reward' in row 4 is 'y'; it must be a finite number",
        options={"trial": "1"},
    ),
    Case(
        "trial without column",
        GOOD,
        "<trial> is '7', but {name} has no column 'trial'; name it with <columns.trial>",
        options={"trial": "7"},
    ),
    Case(
        "arm outside",
        b"arm,reward\na,1\nb,2\nc,3\nb,1\n",
        ("{name}: column 'arm' in row 3 is 'b'; it must be one of <arms>: a, c; 1 other row has the same problem"),
        options={"arms": ["a", "c"]},
    ),
    Case(
        "arms alike",
        GOOD,
        "<arms> is ['a', 'b', 'a ']; it must be a list of labels, all different",
        options={"arms": ["a", "b", "a "]},
    ),
    Case(
        "separator", GOOD, "<separator> is '::'; it must be one character, such as ',', ';' or '\\t'", options={"separator": "::"}
    ),
    Case("decimal", GOOD, "<decimal> is 'x'; it must be '.' or ','", options={"decimal": "x"}),
    Case("first", GOOD, "<first> is 0; it must be an integer, 1 or more", options={"first": 0}),
]
MALFORMED += [Case(name, content, message, options) for name, content, options, message in CASES]
