"""Logs with something wrong in them, and what is to be said about each: for reading, and for the command line."""

import gzip
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd


class Case(NamedTuple):
    """A malformed log: bytes, or a function that makes the file at a path; the message has {name} for that path."""

    id: str
    content: bytes | Callable[[Path], Any]
    message: str
    options: Mapping[str, Any] = MappingProxyType({})
    suffix: str = ".csv"

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
FILES = "CSV, TSV or Parquet, plain or gzip"
TEXT = f"{FILES}; text in UTF-8, or UTF-16 with a byte order mark"
MALFORMED = [
    # The file
    Case("missing", lambda path: None, "{name} cannot be read: No such file or directory; allowed: a file with " + FILES),
    Case("a folder", Path.mkdir, "{name} cannot be read: Is a directory; allowed: a file with " + FILES),
    Case("empty", b"", "{name} is empty; allowed: a row of column names, and rows below it"),
    Case("blank", b" \n\n \n", "{name} is empty; allowed: a row of column names, and rows below it"),
    Case("header only", b"arm,reward\n", "{name} has no rows below its column names; allowed: one or more"),
    Case("header without end of line", b"arm,reward", "{name} has no rows below its column names; allowed: one or more"),
    Case("empty first row", b"\narm,reward\na,1\n", "{name}: row 1 is empty; allowed: a row of column names"),
    Case("empty rows only", b"arm,reward\n\n,\n", "{name} has no rows below its column names; allowed: one or more"),
    Case("NUL", b"arm,reward\na,1\nb\x00,2\n", "{name} is not text: a NUL byte in line 3; allowed: " + TEXT),
    Case("Latin-1", "arm,reward\na,1\ncafé,2\n".encode("latin-1"), "{name}: byte 0xe9 in line 3 is not UTF-8; allowed: " + TEXT),
    Case("cut within a letter", "arm,reward\na,1\né".encode()[:-1], "{name}: byte 0xc3 in line 3 is not UTF-8; allowed: " + TEXT),
    Case(
        "UTF-16 without mark",
        "arm,reward\na,1\n".encode("utf-16-le"),
        "{name} is not text: a NUL byte in line 1; allowed: " + TEXT,
    ),
    Case("UTF-16 cut", "arm,reward\na,1\n".encode("utf-16")[:-1], "{name}: byte 0x0a in line 2 is not UTF-16; allowed: " + TEXT),
    Case("rubbish", bytes(range(255, 0, -1)), "{name}: byte 0xdf in line 1 is not UTF-16; allowed: " + TEXT),
    Case("binary", b"\x89HDF\r\n\x1a\n" + bytes(range(256)), "{name}: byte 0x89 in line 1 is not UTF-8; allowed: " + TEXT),
    Case(
        "gzip with more after it",
        gzip.compress(GOOD) + b"and more",
        "{name} is a damaged gzip file, cut off or altered; allowed: a whole one",
    ),
    Case("gzip cut", gzip.compress(GOOD * 10)[:-12], "{name} is a damaged gzip file, cut off or altered; allowed: a whole one"),
    Case(
        "gzip altered",
        gzip.compress(GOOD)[:-8] + bytes(8),
        "{name} is a damaged gzip file, cut off or altered; allowed: a whole one",
    ),
    Case("gzip header only", b"\x1f\x8b", "{name} is a damaged gzip file, cut off or altered; allowed: a whole one"),
    Case("gzip of nothing", gzip.compress(b""), "{name} is empty; allowed: a row of column names, and rows below it"),
    Case(
        "gzip of rubbish", gzip.compress(bytes(range(255, 0, -1))), "{name}: byte 0xdf in line 1 is not UTF-16; allowed: " + TEXT
    ),
    Case("Excel workbook", b"PK\x03\x04" + bytes(50), "{name} is a zip archive or an Excel workbook; allowed: " + FILES),
    Case("Parquet cut", cut_parquet, "{name} is a damaged Parquet file, or not one; allowed: a whole one", suffix=".parquet"),
    Case(
        "Parquet altered",
        altered_parquet,
        "{name} is a damaged Parquet file, or not one; allowed: a whole one",
        suffix=".parquet",
    ),
    Case("Parquet without its name", cut_parquet, "{name} is a damaged Parquet file, or not one; allowed: a whole one"),
    Case("text named Parquet", GOOD, "{name} is a damaged Parquet file, or not one; allowed: a whole one", suffix=".parquet"),
    Case(
        "Parquet empty",
        parquet(arm=pd.Series([], dtype=str), reward=pd.Series([], dtype=float)),
        "{name} has no rows below its column names; allowed: one or more",
        suffix=".parquet",
    ),
    Case(
        "Parquet nested",
        parquet(arm=["a"], reward=[[1.0, 2.0]]),
        "{name}: column 'reward' is of type 'list<element: double>'; allowed: one value in each row",
        suffix=".parquet",
    ),
    Case(
        "Parquet structs",
        parquet(arm=[{"name": "a"}], reward=[1.0]),
        "{name}: column 'arm' is of type 'struct<name: string>'; allowed: one value in each row",
        suffix=".parquet",
    ),
    Case(
        "Parquet without column",
        parquet(variant=["a"], reward=[1.0]),
        "{name} has no column 'arm'; it has: variant, reward; name it with --arm-column",
        suffix=".parquet",
    ),
    Case(
        "Parquet text",
        parquet(arm=["a", "b"], reward=["1.5", "x"]),
        "{name}: column 'reward' in row 1 is 'x'; allowed: a finite number",
        suffix=".parquet",
    ),
    Case(
        "Parquet missing",
        parquet(arm=["a", None], reward=[1.0, 2.0]),
        "{name}: column 'arm' in row 1 is empty; allowed: a label",
        suffix=".parquet",
    ),
    # Rows and columns
    Case("long row", b"arm,reward\na,1\nb,2,3\nc,1\n", "{name}: row 3 has 3 fields; allowed: 2, as many as row 1 has"),
    Case("long first row", b"arm,reward\na,1,5\nb,2,5\n", "{name}: row 2 has too many fields; allowed: 2, as many as row 1 has"),
    Case(
        "R's short header",
        (Path(__file__).parent / "logs" / "r_short_header.csv").read_bytes(),
        "{name}: row 2 has too many fields; allowed: 5, as many as row 1 has",
    ),
    Case("long row after an empty one", b"arm,reward\n\na,1,5\n", "{name}: row 3 has 3 fields; allowed: 2, as many as row 1 has"),
    Case("short row", b"arm,reward\na,1\nb\n", "{name}: column 'reward' in row 3 is empty; allowed: a finite number"),
    Case(
        "open quotation mark",
        b'arm,reward\na,1\n"b,2\nc,3\n',
        "{name}: a quotation mark opens in row 3 and never closes; allowed: marks in pairs",
    ),
    Case(
        "label in control characters",
        b"arm,reward\n\x1b[31mred,1\n",
        "{name}: column 'arm' in row 2 is '\\x1b[31mred'; allowed: a label in one line, without control characters",
    ),
    Case(
        "open quotation mark in the header",
        b'arm,"reward\na,1\nb,2\n',
        "{name} has no column 'reward'; it has: arm, 'reward\\na,1\\nb,2\\n'; name it with --reward-column",
    ),
    Case(
        "quotation mark that closes late",
        b'arm,reward\na,1\n"b,2\nc,3\n"d",4\n',
        "{name}: column 'arm' in row 3 is 'b,2\\nc,3\\nd\"'; allowed: a label in one line, without control characters",
    ),
    Case(
        "endless field",
        b"arm,reward\n" + b"x" * 2_000_000 + b",1\n",
        "{name}: column 'arm' in row 2 is 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...'; allowed: a label of at most 1000"
        " characters",
    ),
    Case(
        "endless header",
        b"x" * 2_000_000 + b"\na,1\n",
        "{name}: row 1 is not a row of column names; allowed: names such as arm and reward",
    ),
    Case("no arm", b"variant,reward\na,1\n", "{name} has no column 'arm'; it has: variant, reward; name it with --arm-column"),
    Case("no reward", b"arm,revenue\na,1\n", "{name} has no column 'reward'; it has: arm, revenue; name it with --reward-column"),
    Case(
        "neither",
        b"# exported on Monday\narm,reward\na,1\n",
        "{name} has no column 'arm'; it has: # exported on Monday; name it with --arm-column",
    ),
    Case(
        "many columns",
        ",".join(f"x{number}" for number in range(30)).encode() + b"\n",
        "{name} has no column 'arm'; it has: x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, and 20 more; name it with --arm-column",
    ),
    Case(
        "column in control characters",
        b"\x1b[31marm,reward\na,1\n",
        "{name} has no column 'arm'; it has: '\\x1b[31marm', reward; name it with --arm-column",
    ),
    Case("two arms", b"arm,reward,arm\na,1,a\n", "{name} has 2 columns 'arm'; allowed: one"),
    Case(
        "arms in two cases",
        b"Arm,ARM,reward\na,a,1\n",
        "{name} has several columns for 'arm': 'Arm', 'ARM'; allowed: one; name it with --arm-column",
    ),
    Case(
        "named column absent",
        b"arm,reward\na,1\n",
        "{name} has no column 'p'; it has: arm, reward; allowed with --propensity-column: one of them",
        options={"columns": {"propensity": "p"}},
    ),
    Case(
        "named arm absent",
        b"arm,reward\na,1\n",
        "{name} has no column 'variant'; it has: arm, reward; allowed with --arm-column: one of them",
        options={"columns": {"arm": "variant"}},
    ),
    Case(
        "one column twice",
        b"arm,reward\na,1\n",
        "column 'reward' of {name} is named as arm and as reward; allowed: one of them",
        options={"columns": {"arm": "reward"}},
    ),
    Case(
        "Excel in Europe",
        b"\xef\xbb\xbfarm;reward\r\na;1,5\r\nb;2,25\r\n",
        "{name} has semicolons between its columns and decimal commas in its numbers; read it with --separator ';' --decimal ','",
    ),
    Case("semicolons", b"arm;reward\na;1\n", "{name} has semicolons between its columns; read it with --separator ';'"),
    Case(
        "other names and semicolons",
        b"variant;revenue\na;1,5\n",
        "{name} has semicolons between its columns and decimal commas in its numbers; read it with --separator ';' --decimal ','",
    ),
    Case("tabs", b"arm\treward\na\t1\n", "{name} has tabs between its columns; read it with --separator '\\t'"),
    Case("commas in .tsv", GOOD, "{name} has commas between its columns; read it with --separator ','", suffix=".tsv"),
    Case(
        "Excel's Unicode text",
        "arm\treward\r\na\t1\r\n".encode("utf-16"),
        "{name} has tabs between its columns; read it with --separator '\\t'",
        suffix=".txt",
    ),
    Case(
        "decimal commas left",
        b"arm;reward\na;1,5\n",
        "{name}: column 'reward' in row 2 is '1,5'; allowed: a finite number; --decimal ',' reads decimal commas",
        options={"separator": ";"},
    ),
    Case(
        "decimal commas in quotes",
        b'arm,reward\na,"1,5"\nb,"2,5"\n',
        "{name}: column 'reward' in row 2 is '1,5'; allowed: a finite number; 1 other row is like it; --decimal ',' reads"
        " decimal commas",
    ),
    Case(
        "decimal commas between commas",
        b"arm,reward\na,1,5\nb,2,5\n",
        "{name}: row 2 has too many fields; allowed: 2, as many as row 1 has",
        options={"decimal": ","},
    ),
    Case(
        "decimal points with commas",
        b"arm;reward\na;1.5\n",
        "{name}: column 'reward' in row 2 is '1.5'; allowed: a finite number",
        options={"separator": ";", "decimal": ","},
    ),
    # Values
    Case(
        "empty arm",
        b"arm,reward\na,1\n,2\n,3\n",
        "{name}: column 'arm' in row 3 is empty; allowed: a label; 1 other row is like it",
    ),
    Case("blank arm", b"arm,reward\na,1\n  ,2\n", "{name}: column 'arm' in row 3 is '  '; allowed: a label"),
    Case(
        "arm NA",
        b"arm,reward\na,1\nNA,2\n",
        "{name}: column 'arm' in row 3 is 'NA'; allowed: a label; --arm says that this is one",
    ),
    Case("reward empty", b"arm,reward\na,1\nb,\n", "{name}: column 'reward' in row 3 is empty; allowed: a finite number"),
    Case(
        "reward NA",
        b"arm,reward\na,1\nb,NA\nc,NA\nd,NA\n",
        "{name}: column 'reward' in row 3 is 'NA'; allowed: a finite number; 2 other rows are like it",
    ),
    Case(
        "reward after empty rows",
        b"arm,reward\n\n\na,1\n\nb,x\n",
        "{name}: column 'reward' in row 6 is 'x'; allowed: a finite number",
    ),
    Case(
        "reward after a field of two lines",
        b'arm,text,reward\na,"one\ntwo",1\nc,three,x\n',
        "{name}: column 'reward' in row 3 is 'x'; allowed: a finite number",
    ),
    Case("reward infinite", b"arm,reward\na,1\nb,-inf\n", "{name}: column 'reward' in row 3 is -inf; allowed: a finite number"),
    Case(
        "reward of 400 digits",
        b"arm,reward\na," + b"9" * 400 + b"\nb,x\n",
        "{name}: column 'reward' in row 2 is '9999999999999999999999999999999999999999...'; allowed: a finite number; 1 other"
        " row is like it",
    ),
    Case(
        "reward too large",
        b"arm,reward\na,1e400\nb,x\n",
        "{name}: column 'reward' in row 2 is '1e400'; allowed: a finite number; 1 other row is like it",
    ),
    Case("reward nan", b"arm,reward\na,1\nb,nan\n", "{name}: column 'reward' in row 3 is 'nan'; allowed: a finite number"),
    Case("reward word", b"arm,reward\na,yes\n", "{name}: column 'reward' in row 2 is 'yes'; allowed: a finite number"),
    Case(
        "reward with underscore",
        b"arm,reward\na,1_000\n",
        "{name}: column 'reward' in row 2 is '1_000'; allowed: a finite number",
    ),
    Case(
        "reward with thousands",
        b'arm,reward\na,"1,000.5"\n',
        "{name}: column 'reward' in row 2 is '1,000.5'; allowed: a finite number",
    ),
    Case(
        "reward endless",
        b"arm,reward\na," + b"9x" * 50_000 + b"\n",
        "{name}: column 'reward' in row 2 is '9x9x9x9x9x9x9x9x9x9x9x9x9x9x9x9x9x9x9x9x...'; allowed: a finite number",
    ),
    Case(
        "reward in control characters",
        b"arm,reward\na,\x1b[31m\n",
        "{name}: column 'reward' in row 2 is '\\x1b[31m'; allowed: a finite number",
    ),
    Case(
        "forced",
        b"arm,reward,forced\na,1,1\nb,2,maybe\n",
        "{name}: column 'forced' in row 3 is 'maybe'; allowed: 0, 1, true or false; --forced-column '' leaves the column out",
    ),
    Case(
        "forced empty",
        b"arm,reward,forced\na,1,1\nb,2,\n",
        "{name}: column 'forced' in row 3 is empty; allowed: 0, 1, true or false; --forced-column '' leaves the column out",
    ),
    Case(
        "batch negative",
        b"arm,reward,batch\na,1,-1\n",
        "{name}: column 'batch' in row 2 is -1; allowed: a whole number, 0 or more; --batch-column '' leaves the column out",
    ),
    Case(
        "batch not whole",
        b"arm,reward,batch\na,1,0\na,1,0.5\n",
        "{name}: column 'batch' in row 3 is 0.5; allowed: a whole number, 0 or more; --batch-column '' leaves the column out",
    ),
    Case(
        "batch down",
        b"arm,reward,batch\na,1,0\na,1,2\na,1,1\n",
        "{name}: column 'batch' in row 4 is 1; allowed: a number no smaller than the one before it; --batch-column '' "
        "leaves the column out",
    ),
    Case(
        "batch down in time",
        b"arm,reward,batch,time\na,1,0,3\na,1,2,2\na,1,1,1\n",
        "{name}: column 'batch' in row 2 is 0; allowed: a number no smaller than the one before it; --batch-column '' "
        "leaves the column out",
    ),
    Case(
        "propensity 0",
        b"arm,reward,propensity\na,1,0\n",
        "{name}: column 'propensity' in row 2 is 0; allowed: a number above 0 and at most 1, or nothing where the pull "
        "was forced; --propensity-column '' leaves the column out",
    ),
    Case(
        "propensity above 1",
        b"arm,reward,propensity\na,1,0.5\na,1,50\n",
        "{name}: column 'propensity' in row 3 is 50.0; allowed: a number above 0 and at most 1, or nothing where the pull"
        " was forced; --propensity-column '' leaves the column out",
    ),
    Case(
        "propensity missing",
        b"arm,reward,propensity\na,1,\na,1,NA\n",
        "{name}: column 'propensity' in row 3 is 'NA'; allowed: a number above 0 and at most 1, or nothing where the pull"
        " was forced; --propensity-column '' leaves the column out",
    ),
    Case(
        "propensity missing and not forced",
        b"arm,reward,propensity,forced\na,1,,0\n",
        "{name}: column 'propensity' in row 2 is empty; allowed: a number above 0 and at most 1, or nothing where the "
        "pull was forced; --propensity-column '' leaves the column out",
    ),
    Case(
        "time",
        b"arm,reward,time\na,1,1\nb,2,2\nc,3,noon\n",
        "{name}: column 'time' in row 4 is 'noon'; allowed: a number, or a timestamp such as 2024-01-31 12:00:00; "
        "--time-column '' leaves the column out",
    ),
    Case(
        "time missing",
        b"arm,reward,time\na,1,1\nb,2,\n",
        "{name}: column 'time' in row 3 is empty; allowed: a number, or a timestamp such as 2024-01-31 12:00:00; "
        "--time-column '' leaves the column out",
    ),
    Case(
        "timestamp",
        b"arm,reward,time\na,1,2024-01-31\nb,2,2024-02-30\n",
        "{name}: column 'time' in row 3 is '2024-02-30'; allowed: a number, or a timestamp such as 2024-01-31 12:00:00; "
        "--time-column '' leaves the column out",
    ),
    Case(
        "timestamp of a country",
        b"arm,reward,time\na,1,31/01/2024 12:00\n",
        "{name}: column 'time' in row 2 is '31/01/2024 12:00'; allowed: a number, or a timestamp such as 2024-01-31 "
        "12:00:00; --time-column '' leaves the column out",
    ),
    Case(
        "step",
        b"arm,reward,step\na,1,1\nb,2,two\n",
        "{name}: column 'step' in row 3 is 'two'; allowed: a number, or a timestamp such as 2024-01-31 12:00:00; "
        "--time-column '' leaves the column out",
    ),
    Case(
        "trials",
        b"trial,arm,reward\n0,a,1\n1,a,2\n",
        "{name} has 2 trials in column 'trial'; allowed: one; choose it with --trial, as in --trial '0'",
    ),
    Case(
        "trial missing",
        b"trial,arm,reward\n0,a,1\n,a,2\n",
        "{name}: column 'trial' in row 3 is empty; allowed: a trial; --trial-column '' leaves the column out",
    ),
    # Options
    Case(
        "trial that is not there",
        b"trial,arm,reward\n0,a,1\n1,a,2\n",
        "trial is '7'; allowed: one of column 'trial' in {name}: 0, 1",
        options={"trial": "7"},
    ),
    Case(
        "rows of a trial alone are checked",
        b"trial,arm,reward\n0,a,x\n1,a,1\n1,b,y\n",
        "{name}: column 'reward' in row 4 is 'y'; allowed: a finite number",
        options={"trial": "1"},
    ),
    Case(
        "trial without column",
        GOOD,
        "trial is '7'; allowed: none, as {name} has no column 'trial'; name it with --trial-column",
        options={"trial": "7"},
    ),
    Case(
        "arm outside",
        b"arm,reward\na,1\nb,2\nc,3\nb,1\n",
        "{name}: column 'arm' in row 3 is 'b'; allowed: a, c, the labels given with --arm; 1 other row is like it",
        options={"arms": ["a", "c"]},
    ),
    Case("arms alike", GOOD, "arms is 'a', 'b', 'a '; allowed: labels that differ", options={"arms": ["a", "b", "a "]}),
    Case("separator", GOOD, "separator is '::'; allowed: one character such as ',', ';' or '\\t'", options={"separator": "::"}),
    Case("decimal", GOOD, "decimal is 'x'; allowed: '.' or ','", options={"decimal": "x"}),
    Case("first", GOOD, "first is 0; allowed: a whole number, 1 or more", options={"first": 0}),
]
