"""The shape of the package: who imports whom, what an import changes, which names it gives."""

import ast
import subprocess
import sys
from pathlib import Path

import jaxbias as jb

PACKAGE = Path(jb.__file__).parent
FLOW = [  # each room imports only from rooms above it
    "files",
    "settings",
    "layout",
    "compiling",
    "devices",
    "randomness",
    "rewards",
    "policies",
    "history",
    "conditions",
    "stopping",
    "steps",
    "simulate",
    "sources",
    "bias",
    "exact",
    "likelihood",
    "sampling",
    "estimators",
    "io",
    "fit",
    "tuning",
    "analysis",
    "advice",
    "debias",
    "plots",
    "page",
    "paper",
    "naming",
    "config",
    "examples",
    "report",
    "cli",
    "__main__",
]


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jaxbias."):
            yield node.module.split(".")[1]
        if isinstance(node, ast.Import):
            yield from (name.name.split(".")[1] for name in node.names if name.name.startswith("jaxbias."))


def test_rooms_import_only_from_rooms_above():
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {room}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path != PACKAGE / "__init__.py"
        for room in imported_rooms(path)
        if room != room_of(path) and FLOW.index(room) >= FLOW.index(room_of(path))
    ]
    assert not wrong


def test_every_room_is_in_the_flow():
    assert {room_of(path) for path in PACKAGE.rglob("*.py")} - {"__init__"} <= set(FLOW)


def run(code):
    return subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_changes_no_setting_of_jax():
    code = """
import jax
before = dict(jax.config.values)
import jaxbias as jb
for name in jb.__all__:
    getattr(jb, name)
assert before == dict(jax.config.values)
print("same")
"""
    assert run(code) == "same\n"


def test_importing_does_not_import_jax():
    assert run("import sys, jaxbias; print('jax' in sys.modules)") == "False\n"


def test_a_room_with_the_name_of_its_function_is_the_function():
    assert run("import jaxbias as jb; jb.measure_bias; print(callable(jb.simulate))") == "True\n"


def test_type_checkers_see_the_names_that_are_there():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    names = {alias.name for node in guarded.body for alias in node.names}
    assert names == set(jb.__all__)
    assert all(getattr(jb, name) is not None for name in names)
