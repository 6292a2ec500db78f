"""Random files and random options through the command line, in one process: no traceback, exit codes 0, 1 and 2 alone, at most
one line on standard error, and JSON documents that obey their schemas.

    nice python benchmarks/fuzz.py --files 20000 --options 5000

Every case has a seed; one that fails is printed with it, and `--only files 17` runs it again. Time is processor time.
"""

import argparse
import collections
import contextlib
import io
import json
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.fuzzing.cases import random_config, random_log, random_options, random_weights

HANGS = 60  # seconds of processor time of one case
ALLOWED = (0, 1, 2)
MOST_MAPS = 20_000  # memory maps of this process, of the 65,530 that Linux allows: compiled programs are dropped
GOOD = b"arm,reward\n" + b"".join(b"%c,%d\n" % (b"abbabaabbaba"[row], row * 7 % 3 % 2) for row in range(12))
BATCHES = b"arm,reward,batch\n" + b"".join(b"%c,%d,%d\n" % (b"abbabaabbaba"[row], row * 7 % 3 % 2, row // 3) for row in range(12))
SCHEMAS = Path(__file__).parents[1] / "docs" / "reference" / "schemas"
SAMPLE_MEANS, WEIGHTED = ["sample_mean"], ["propensity_weighting", "--policy", "greedy", "--tau", "1"]
PROGRESS = re.compile(r"jaxbias: .*, [0-9]+ (s|min) so far")  # not every sentence with these words


class Hang(BaseException):
    """A case that took too long."""


class Outcome(NamedTuple):
    """How one case ended: what is wrong, "" for nothing, its exit code, and its processor time."""

    wrong: str
    code: Any
    seconds: float


def run_case(arguments: Sequence[str]) -> Outcome:
    """Runs the command line and judges its end."""
    from jaxbias.cli import main

    out, err, began = io.StringIO(), io.StringIO(), time.process_time()
    signal.setitimer(signal.ITIMER_PROF, HANGS)
    code, wrong = None, ""
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("error")
            code = main(arguments)
    except Hang:
        wrong = "hangs"
    except BaseException:
        wrong = traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    wrong = wrong or judge(code, err.getvalue()) or ("--json" in arguments and judge_document(arguments[0], code, out.getvalue()))
    return Outcome(wrong or "", code, time.process_time() - began)


def judge(code: Any, err: str) -> str:
    """What is wrong with an exit code and what was printed on standard error."""
    lines = [line for line in err.splitlines() if not PROGRESS.match(line)]
    if code not in ALLOWED:
        return f"exit code {code}: {err}"
    if code == 2 and (len(lines) != 1 or not lines[0].startswith("jaxbias: ")):
        return f"exit code 2 with {len(lines)} lines: {err}"
    return f"standard error: {err}" if any(not line.startswith("jaxbias: ") for line in lines) else ""


def judge_document(command: str, code: int | None, text: str) -> str:
    """What is wrong with what `--json` printed on standard output: one document, or nothing at all if there is an error."""
    if code == 2:
        return f"exit code 2, and standard output: {text}" if text else ""
    try:
        errors = list(_validator(command).iter_errors(json.loads(text, parse_constant=_refuse)))
    except ValueError as error:
        return f"no JSON document ({error}): {text}"
    return "\n".join(f"schema: {error.json_path}: {error.message[:200]}" for error in errors)


@cache
def _validator(command: str) -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(json.loads((SCHEMAS / f"{command}.json").read_text()))


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def file_case(seed: int, folder: Path) -> list[str]:
    """A random file, with a policy or without."""
    content, suffix = random_log(seed)
    path = folder / f"log{suffix}"
    path.write_bytes(content)
    method = WEIGHTED if seed % 3 == 0 else SAMPLE_MEANS
    return ["debias", str(path), "--no-evaluate", "--quiet", *["--json"][: seed % 2], "--method", *method]


def option_case(seed: int, folder: Path) -> list[str]:
    """Random options, of a log that is well."""
    path = folder / "good.csv"
    path.write_bytes(GOOD)
    return random_options(seed, str(path))


def config_case(seed: int, folder: Path) -> list[str]:
    """A random file of settings, of a log that is well."""
    log, settings = folder / "good.csv", folder / "settings.toml"
    log.write_bytes(GOOD)
    settings.write_bytes(random_config(seed))
    words = ["debias", str(log), "--config", str(settings), "--no-evaluate", "--quiet"]
    return [*words, *["--json"][: seed % 2], *(["--method", "sample_mean"] if seed % 8 else ["--budget", "1"])]


def weights_case(seed: int, folder: Path) -> list[str]:
    """A random second file, of weights, of a log that is well."""
    log, weights = folder / "batches.csv", folder / "weights.csv"
    log.write_bytes(BATCHES)
    weights.write_bytes(random_weights(seed))
    words = ["debias", str(log), "--weights", str(weights), "--no-evaluate", "--quiet", *["--json"][: seed % 2]]
    return [*words, "--method", *(WEIGHTED if seed % 3 == 0 else SAMPLE_MEANS)]


CASES: dict[str, Callable[[int, Path], list[str]]] = {"files": file_case, "options": option_case}
CASES |= {"configs": config_case, "weights": weights_case}


def run_cases(kind: str, seeds: range) -> int:
    """Runs the cases of one kind, prints what is wrong, and returns how many are."""
    counts: collections.Counter[str] = collections.Counter()
    longest, failed = (0.0, -1), 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            arguments = CASES[kind](seed, Path(folder))
            outcome = run_case(arguments)
            longest = max(longest, (outcome.seconds, seed))
            counts[f"exit {outcome.code}" if not outcome.wrong else outcome.wrong.strip().splitlines()[-1][:90]] += 1
            if outcome.wrong:
                failed += 1
                print(f"--- {kind} {seed}: {' '.join(map(repr, arguments))}\n{outcome.wrong}", flush=True)
            if seed % 100 == 99:
                print(f"# {kind} {seed + 1 - seeds.start}: {dict(counts.most_common(8))}, longest {longest}", flush=True)
                _drop_programs()
    print(f"{kind}: {len(seeds)} cases, {failed} failed, {dict(counts)}; longest {longest[0]:.1f} s (seed {longest[1]})")
    return failed


def _drop_programs() -> None:
    if Path("/proc/self/maps").read_text().count("\n") > MOST_MAPS:
        import jax

        from jaxbias._core.programs import PROGRAMS

        PROGRAMS.loaded.clear()
        jax.clear_caches()


def _raise_hang(*_: Any) -> None:
    raise Hang


def main(arguments: Sequence[str] | None = None) -> int:
    """Reads the arguments and runs the cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=0, help="how many random files")
    parser.add_argument("--options", type=int, default=0, help="how many random sets of options")
    parser.add_argument("--configs", type=int, default=0, help="how many random files of settings")
    parser.add_argument("--weights", type=int, default=0, help="how many random files of weights")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", nargs=2, metavar=("KIND", "SEED"), help="one case")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGPROF, _raise_hang)
    if chosen.only:
        return run_cases(chosen.only[0], range(int(chosen.only[1]), int(chosen.only[1]) + 1))
    numbers = {kind: getattr(chosen, kind) for kind in CASES}
    return sum(run_cases(kind, range(chosen.first, chosen.first + number)) for kind, number in numbers.items() if number)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
