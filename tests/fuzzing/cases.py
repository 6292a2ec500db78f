"""Random logs and random options for the command line, each from a seed of its own."""

import gzip
import io
import random
from functools import cache
from typing import Any

import typer.main

import jaxbias.cli  # noqa: F401  (it registers the commands)
from jaxbias.cli.app import app
from jaxbias.naming.names import Allocation, BatchBy, FamilyName, Opening, PolicyName, Ties
from jaxbias.naming.presets import PresetName
from jaxbias.naming.settings import SETTINGS

HEADERS = (["arm", "reward"], ["arm", "reward", "batch"], ["time", "arm", "reward"], ["arm", "reward", "p_a", "p_b"])
HEADERS += (["arm", "pulls", "successes", "period"], ["arm", "reward", "propensity", "forced", "trial"], ["arm"], [])
CELLS = ("a", "b", "0", "1", "2", "0.5", "-1", "1e300", "5e-324", "nan", "inf", "", " ", '"', "True", "2024-01-01", "=1+1", "é")
CELLS += ("1e400", "9" * 400, "0x10", "1_000", "1,5", "\0", "null", "NA", "💥", "1+2j", "-0", ".", "18446744073709551616")
NUMBERS = (
    "0",
    "1",
    "2",
    "3",
    "12",
    "-1",
    "0.5",
    "1e-3",
    "1e-6",
    "1e-300",
    "5e-324",
    "1e300",
    "1e308",
    "1e9",
    "1e5",
    "inf",
    "nan",
)
NUMBERS += ("nan", "0.95", "0.1", "10", "100", "-0.0", "x", "", "1e400", "4294967295", "4294967296", "99999999999999999999")
COUNTS, QUICK = ("--steps", "--trials", "--cases"), ("0", "-1", "1", "2", "3", "x", "", "1e3", "nan", "1.5", "9" * 20)
WORDS = ("", "a", "b", "arm", "reward", "x" * 300, "é", "\n", "fit", "estimate", "0")
CHOICES: dict[str, Any] = dict(policy=PolicyName, family=FamilyName, allocation=Allocation, opening=Opening, ties=Ties)
CHOICES |= dict(batch_by=BatchBy, preset=PresetName)
TEXTS = ("method", "control", "example", "arm", "trial", "separator", "decimal", "cluster", "log", "stop_arm", "names")
SLOW = {"wait", "coordinator", "num_processes", "process_id", "config", "weights", "out", "save_config", "jobs"}


def random_log(seed: int) -> tuple[bytes, str]:
    """The bytes of a file, and how its name ends."""
    rng = random.Random(seed)
    kind = rng.randrange(10)
    if kind >= 6:
        return _nearly_good(rng), ".csv"
    if kind == 0:
        return rng.randbytes(rng.choice([0, 1, 7, 100, 4000])), rng.choice([".csv", ".parquet", ".csv.gz", ".tsv"])
    content = _table(rng, rng.choice([",", ",", ",", ",", "\t", ";"]), proper=kind < 4)
    content = _encode(rng, content)
    if rng.random() < 0.15:
        content = gzip.compress(content)
    for _ in range(rng.choice([0, 0, 0, 1, 3, 20]) if content else 0):
        content = _damage(rng, content)
    suffix = ".csv" if rng.random() < 0.8 else rng.choice([".tsv", ".parquet", ".gz", ""])
    if kind == 5 and rng.random() < 0.5:
        return _parquet(rng), ".parquet"
    return content, suffix


def _nearly_good(rng: random.Random) -> bytes:
    """Most of these are read, so that what comes after reading is tried too."""
    content = _table(rng, ",", proper=True, damaged=0.002).encode()
    return _damage(rng, content) if content and rng.random() < 0.3 else content


def _table(rng: random.Random, mark: str, proper: bool, damaged: float = 0.02) -> str:
    header = rng.choice(HEADERS[:4] if rng.random() < 0.7 else HEADERS)
    good = {"arm": "ab", "reward": "01", "p_a": ["0.5"], "p_b": ["0.5"], "pulls": "23", "successes": "01", "propensity": ["0.5"]}
    rows = [header]
    for number in range(rng.choice([0, 1, 2, 6, 12, 12, 12])):
        row = [rng.choice(good.get(name, [str(number // 2)])) if proper else rng.choice(CELLS) for name in header]
        if row and rng.random() < damaged:
            row[rng.randrange(len(row))] = rng.choice(CELLS)
        if rng.random() < damaged:
            row = row[:-1] if rng.random() < 0.5 else [*row, rng.choice(CELLS)]
        rows.append(row)
    ending = rng.choice(["\n", "\n", "\r\n", "\r"])
    return ending.join(mark.join(row) for row in rows) + rng.choice(["", ending])


def _encode(rng: random.Random, text: str) -> bytes:
    encoding = rng.choice(["utf-8"] * 6 + ["utf-16", "latin-1", "utf-8-sig", "utf-32"])
    return text.encode(encoding, errors="replace")


def _damage(rng: random.Random, content: bytes) -> bytes:
    if not content:
        return rng.randbytes(3)
    place = rng.randrange(len(content))
    kind = rng.randrange(4)
    if kind == 0:
        return content[:place] + rng.randbytes(1) + content[place + 1 :]
    if kind == 1:
        return content[:place]
    if kind == 2:
        return content[:place] + content[place : place + 20] + content[place:]
    return content[:place] + rng.choice(CELLS).encode() + content[place:]


def _parquet(rng: random.Random) -> bytes:
    import pandas as pd

    size = rng.choice([1, 2, 12])
    pool: list[Any] = [1, 2.5, None, "a", float("nan"), True, b"a", 2**63 - 1, [1], {"a": 1}]
    columns = {}
    for name in rng.choice(HEADERS) or ["arm"]:
        columns[name] = [rng.choice(pool)] * size if rng.random() < 0.5 else [rng.choice(["a", "b"]) for _ in range(size)]
    written = io.BytesIO()
    pd.DataFrame(columns).to_parquet(written)
    content = written.getvalue()
    return _damage(rng, content) if rng.random() < 0.5 else content


@cache
def _commands() -> Any:
    return typer.main.get_command(app)


def random_options(seed: int, log: str) -> list[str]:
    """Arguments of the command line, most of them wrong; what would compute for long is kept small."""
    rng = random.Random(seed)
    commands = _commands()
    name = rng.choice(["debias"] * 5 + ["simulate"] * 4 + ["evaluate", "plan", "check", "propensities", "presets", "examples"])
    command = commands.commands[name]
    small = {
        "debias": [log, "--no-evaluate", "--quiet", "--method", rng.choice(METHODS)],
        "propensities": [log],
        "simulate": ["--steps", "12", "--trials", "16", "--quiet"],
        "evaluate": ["--steps", "8", "--trials", "8", "--method", "sample_mean"],
        "plan": ["--steps", "8", "--trials", "8"],
        "check": ["--cases", "50"],
    }.get(name, [])
    words = [name, *small]
    usable = [parameter for parameter in command.params if parameter.name not in SLOW and parameter.opts[0] not in small]
    if any(parameter.name == "policy" for parameter in usable) and rng.random() < 0.8:
        words += ["--policy", rng.choice(list(PolicyName))]
    for parameter in rng.sample(usable, min(len(usable), rng.choice([0, 1, 1, 2, 3, 5]))):
        words += _one(rng, parameter)
    words += ["--json"] if rng.random() < 0.5 else []
    counts = [word for word in small if word in COUNTS]
    if counts and rng.random() < 0.2:  # the last one counts
        words += [rng.choice(counts), rng.choice(QUICK)]
    return [str(word) for word in words]


METHODS = ("sample_mean", "shrinkage", "propensity_weighting", "adaptive_weighting", "confidence_sequence", "batched_ols")


def _one(rng: random.Random, parameter: Any) -> list[str]:
    option = rng.choice(parameter.opts)
    if not option.startswith("-"):
        return [rng.choice(WORDS)]
    if getattr(parameter, "is_flag", False):
        return [option]
    if parameter.name in CHOICES and rng.random() < 0.8:
        return [option, str(rng.choice(list(CHOICES[parameter.name])))]
    is_text = parameter.name.endswith("_column") or parameter.name in TEXTS
    values = WORDS if is_text or rng.random() < 0.05 else NUMBERS
    times = rng.choice([1, 1, 2, 3]) if parameter.multiple else 1
    return [word for _ in range(times) for word in (option, rng.choice(values))]


VALUES = (
    "true",
    "false",
    "inf",
    "nan",
    "-inf",
    "[]",
    "{}",
    "[1]",
    "[1, 2]",
    "[1, 'a']",
    "[[1]]",
    "'fit'",
    "'estimate'",
    "'a'",
    "''",
)
VALUES += (
    "1979-05-27",
    "0x10",
    "1_000",
    "{arm = 'a'}",
    "{arm = 1}",
    "['a', 'b']",
    "['a']",
    "'0'",
    "['sample_mean']",
    "'\\u0000'",
)


def random_config(seed: int) -> bytes:
    """A configuration file: settings that exist with values that mostly do not, some of them damaged."""
    rng = random.Random(seed)
    lines = []
    for name in rng.sample(sorted({*SETTINGS, "nothing"} - {"weights"}), rng.choice([0, 1, 1, 2, 3])):
        choices = [f"'{choice}'" for choice in CHOICES.get(name, ())]
        numbers = [value for value in NUMBERS if value not in ("x", "")]
        lines.append(f"{name} = {rng.choice(rng.choice([list(VALUES), numbers, choices or numbers]))}")
    if rng.random() < 0.6 and "policy" not in " ".join(lines):
        lines.append(f"policy = '{rng.choice(list(PolicyName))}'")
    content = "\n".join(lines).encode()
    return _damage(rng, content) if rng.random() < 0.1 else content


def random_weights(seed: int) -> bytes:
    """A file of the weights of two arms in four periods, most of them nearly well."""
    rng = random.Random(seed)
    if rng.random() < 0.3:
        return random_log(seed)[0]
    rows = [
        rng.choice(["period,a,b"] * 4 + ["period,p_a,p_b", "period,a", "period,b,a,c", "a,b", "period,arm,weight"]).split(",")
    ]
    for period in range(rng.choice([4, 4, 4, 4, 3, 5, 0])):
        share = rng.choice([0.5, 0.25, 0.0, 1.0, 1 / 3])
        cells = [str(period), str(share), str(1 - share), "1"][: len(rows[0])]
        rows.append([rng.choice(CELLS) if rng.random() < 0.03 else cell for cell in cells])
    content = "\n".join(map(",".join, rows)).encode()
    return _damage(rng, content) if rng.random() < 0.1 else content
