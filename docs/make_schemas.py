"""The schemas of what `--json` prints, from what it prints, in docs/reference/schemas, and their page:

    python docs/make_schemas.py             # run every command
    python docs/make_schemas.py plan check  # some of them
    python docs/make_schemas.py --write     # none: the page only

Each command is run with options that fill the optional parts. What a key means is in `docs/reference/json.toml`; a key without a
meaning is an error.
"""

import contextlib
import io
import json
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "reference"
MAPS = {  # objects whose keys are names of methods, arms or settings
    "debias": {"arms.estimates", "decisions.best_probability", "evaluation.methods", "evaluation.not_applicable", "fitted"},
    "evaluate": {"methods"},
    "presets": {"presets.settings"},
    "reproduce": {"verdicts"},
}
MAPS_EVERYWHERE = {"not_applicable"}
ANYTHING = {"settings"}  # objects with any keys and any values
SMALL = ["--steps", "8", "--trials", "50"]
TWO = ["--mean", "1", "--mean", "0.5"]
PLANNED = [*TWO, "--steps", "8", "--trials", "32", "--paths", "128"]
SIGNUPS = ["jaxbias/examples/signups.csv", "--counts", "--arm-column", "variant", "--policy", "beta-thompson", "--control", "A"]
# Written here: what the optional parts need, and no bundled log has.
LOG, WEIGHTED, CERTAIN, LONE, SINGLE = (f"build/{name}.csv" for name in ("log", "weighted", "certain", "lone", "single"))
ROWS = [("ab"[(number * 5 // 3) % 2], number * 7 % 3 % 2) for number in range(12)]
FILES = {
    LOG: ["arm,reward,user,clicked", *(f"{arm},{reward},{number // 2},{reward}" for number, (arm, reward) in enumerate(ROWS))],
    WEIGHTED: ["arm,reward,p_a,p_b", *(f"{arm},{reward},0.5,0.5" for arm, reward in ROWS)],
    CERTAIN: ["arm,reward,p_a,p_b", *(f"{arm},{reward},{int(arm == 'a')},{int(arm == 'b')}" for arm, reward in ROWS)],
    LONE: ["arm,reward,propensity", *(f"{arm},{reward},0.5" for arm, reward in ROWS)],
    SINGLE: ["arm,reward", "a,1", "a,0"],
}
FAST = ["--method", "sample_mean", "--method", "shrinkage"]
RUNS = {
    "debias": [
        ["--example", "simulated", *FAST, "--method", "mean_matching", "--control", "A"],
        ["--example", "simulated", *FAST, "--tau", "fit", "--no-evaluate"],
        ["--example", "ecmo", *FAST, "--no-evaluate"],
        [*SIGNUPS, *FAST, "--no-evaluate"],
        [LOG, *FAST, "--no-evaluate", "--cluster", "user"],
        [LOG, *FAST, "--no-evaluate", "--policy", "thompson", "--delay", "2", "--policy-reward", "clicked"],
        [WEIGHTED, *FAST, "--method", "propensity_weighting", "--no-evaluate"],
        [WEIGHTED, *FAST, "--no-evaluate", "--policy", "thompson"],
        [CERTAIN, *FAST, "--no-evaluate"],
        [LONE, *FAST, "--no-evaluate", "--policy", "uniform"],
        [SINGLE, *FAST, "--no-evaluate"],
    ],
    "simulate": [
        ["--policy", "greedy", *TWO, *SMALL],
        ["--policy", "greedy", *TWO, *SMALL, "--stop-difference", "1", "--choose-largest"],
        ["--policy", "greedy", *TWO, *SMALL, "--stop-difference", "1"],
    ],
    "evaluate": [["--policy", "greedy", *TWO, *SMALL, *FAST]],
    "plan": [["--policy", "greedy", *PLANNED], ["--policy", "uniform", *PLANNED, "--half-width", "0.9", "--control", "0"]],
    "check": [["--policy", "epsilon-greedy"]],
    "reproduce": [["table1", "--trials", "20", "--out", "build/paper"]],
    "examples": [[]],
    "presets": [[]],
    "propensities": [["docs/data/orders.csv", "--policy", "thompson", "--sigma", "1.5", "--out", "build/weights.csv"]],
}


def documents(command: str) -> list[Any]:
    """What a command prints with `--json`, for each set of options."""
    from jaxbias.cli import main

    for name, lines in FILES.items():
        Path(name).write_text("\n".join(lines) + "\n")
    found = []
    for words in RUNS[command]:
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as errors:
            code = main([command, *words, "--json"])
        if code > 1:
            raise SystemExit(f"jaxbias {command} {' '.join(words)}: {errors.getvalue()}")
        found.append(json.loads(out.getvalue()))
    return found


def schema_of(values: list[Any], maps: set[str], place: str = "") -> dict[str, Any]:
    """The JSON Schema of values that stand in the same place."""
    kinds = sorted({kind_of(value) for value in values})
    if "integer" in kinds and "number" in kinds:
        kinds.remove("integer")
    if "number" in kinds:  # a figure that does not exist, such as a standard error of one pull, is null
        kinds = sorted({*kinds, "null"})
    schema: dict[str, Any] = {"type": kinds[0] if len(kinds) == 1 else kinds}
    if place in ANYTHING:
        return schema
    objects = [value for value in values if isinstance(value, dict)]
    if objects and place in maps:
        schema["additionalProperties"] = schema_of(
            [part for one in objects for part in one.values()] or [None], maps, f"{place}.*"
        )
    elif objects:
        names = list(dict.fromkeys(name for one in objects for name in one))
        inside = {name: [one[name] for one in objects if name in one] for name in names}
        schema["properties"] = {name: schema_of(inside[name], maps, f"{place}.{name}".lstrip(".")) for name in names}
        schema["required"] = [name for name in names if len(inside[name]) == len(objects)]
    items = [item for value in values if isinstance(value, list) for item in value]
    if items:
        schema["items"] = schema_of(items, maps, place)
    return schema


def kind_of(value: Any) -> str:
    """The type, by its name in JSON Schema."""
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return "null" if value is None else kinds[type(value)]


def keys_of(schema: dict[str, Any], place: str = "") -> dict[str, dict[str, Any]]:
    """Every key by its path, such as `arms.pulls`, with its schema."""
    found = {}
    for name, part in schema.get("properties", {}).items():
        path = f"{place}.{name}".lstrip(".")
        found[path] = part
        found |= keys_of(part, path)
    for inside in ("items", "additionalProperties"):
        if isinstance(schema.get(inside), dict):
            found |= keys_of(schema[inside], f"{place}.*" if inside == "additionalProperties" else place)
    return found


def meaning_of(meanings: dict[str, Any], command: str, path: str) -> str | None:
    """Of the path, or of the last part of it where that means the same everywhere."""
    last = path.rpartition(".")[2]
    if last.endswith("_stderr"):
        return f"Monte Carlo standard error of `{last.removesuffix('_stderr')}`"
    return meanings.get(command, {}).get(path) or meanings["everywhere"].get(last)


def page(schemas: dict[str, Any], meanings: dict[str, Any]) -> str:
    """The page of all schemas."""
    parts = [meanings["introduction"]["text"].strip()]
    for command, schema in schemas.items():
        link = f"[{command}.json](schemas/{command}.json)"
        parts.append(f"\n## {command}\n\n{meanings['introduction'][command]}\n\nSchema: {link}\n")
        parts.append("| key | type | meaning |\n|---|---|---|")
        for path, part in keys_of(schema).items():
            kinds = part["type"] if isinstance(part["type"], list) else [part["type"]]
            words = meaning_of(meanings, command, path)
            if words is None:
                raise SystemExit(f"docs/reference/json.toml does not say what {command}: {path} means")
            parts.append(f"| `{path}` | {' or '.join(kinds)} | {words} |")
    return "\n".join(parts) + "\n"


def make(command: str) -> dict[str, Any]:
    """The schema of one command."""
    title = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"jaxbias {command} --json"}
    return title | schema_of(documents(command), MAPS_EVERYWHERE | MAPS.get(command, set()))


def main() -> None:
    os.chdir(FOLDER.parents[1])
    folder = FOLDER / "schemas"
    for place in (folder, Path("build")):
        place.mkdir(exist_ok=True)
    for command in [] if "--write" in sys.argv else sys.argv[1:] or RUNS:
        (folder / f"{command}.json").write_text(json.dumps(make(command), indent=1) + "\n")
        print(command, flush=True)
    schemas = {command: json.loads((folder / f"{command}.json").read_text()) for command in RUNS}
    (FOLDER / "json.md").write_text(page(schemas, tomllib.loads((FOLDER / "json.toml").read_text())))


if __name__ == "__main__":
    main()
