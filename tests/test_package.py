"""The shape of the package: which module imports which, what an import changes, and which names the package gives."""

import ast
import inspect
import subprocess
import sys
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

import jaxbias as jb

PACKAGE = Path(jb.__file__).parent
STUB = PACKAGE / "__init__.pyi"
MOST_NAMES = 52  # functions and classes that a user sees at the top, beside the subpackages that have the others
MOST_ESTIMATOR_FILES = 14  # directly in estimators/: a large estimator has a folder

# Each imports only from those above it: the tree of the design. `naming` is our addition to it: policies, families and rules by
# the words of a command line or a file. `policy_fit` and `logs` do not need each other, so their order does not matter.
FLOW = [
    "_core",
    "rewards",
    "policies",
    "history",
    "stopping",
    "simulation",
    "bias",
    "likelihood",
    "estimators",
    "evaluation",
    "planning",
    "policy_fit",
    "logs",
    "analysis",
    "reporting",
    "naming",
    "paper",
    "examples",
    "cli",
    "__main__",
]


class Import(NamedTuple):
    """One file imports another; both as the parts of their names below `jaxbias`, such as ("policies", "base")."""

    file: tuple[str, ...]
    imported: tuple[str, ...]

    def __str__(self):
        return f"{'.'.join(self.file)} imports {'.'.join(self.imported)}"


def parts_of(path):
    return path.relative_to(PACKAGE).with_suffix("").parts


def is_module(parts):
    return (PACKAGE.joinpath(*parts)).is_dir() or PACKAGE.joinpath(*parts).with_suffix(".py").is_file()


def locate(parts, name):
    """Where `from parts import name` leads: a module of that name, or the module that has the name."""
    if parts == () and name in PUBLIC:
        return PUBLIC[name]
    return (*parts, name) if is_module((*parts, name)) else parts


def absolute(node, folder):
    """The module of a `from` import below `jaxbias`, or None for one of another package."""
    if node.level:
        return (*folder[: len(folder) - node.level + 1], *(node.module.split(".") if node.module else ()))
    names = (node.module or "").split(".")
    return tuple(names[1:]) if names[0] == "jaxbias" else None


def imports_in(source, folder):
    """The modules below `jaxbias` that a file imports anywhere: also inside functions, and for type checkers only.

    What is used of `import jaxbias as jb` counts as an import of the module that has it; () stands for the whole package.
    """
    tree, aliases = ast.parse(source), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (module := absolute(node, folder)) is not None:
            yield from (locate(module, alias.name) for alias in node.names if (module, alias.name) != ((), "__version__"))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                names = alias.name.split(".")
                if names[0] == "jaxbias" and len(names) > 1:
                    yield tuple(names[1:])
                elif names == ["jaxbias"]:
                    aliases.add(alias.asname or "jaxbias")
    used = {id(node.value): node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in aliases and used.get(id(node)) != "__version__":
            yield locate((), used[id(node)]) if id(node) in used else ()


def public_names():
    """Every name of the package, with the module that it comes from."""
    nodes = [node for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.ImportFrom)]
    assert all(node.level == 1 and alias.asname == alias.name for node in nodes for alias in node.names)
    return {alias.name: tuple(node.module.split(".")) if node.module else (alias.name,) for node in nodes for alias in node.names}


PUBLIC = public_names()
FILES = sorted(
    path for path in [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")] if path.parent != PACKAGE or path.stem != "__init__"
)
IMPORTS = [Import(parts_of(path), found) for path in FILES for found in imports_in(path.read_text(), parts_of(path)[:-1])]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import jaxbias.logs.files", [("logs", "files")]),
        ("from jaxbias.policies import ArmStatistics", [("policies",)]),
        ("from jaxbias.policies import base, winning", [("policies", "base"), ("policies", "winning")]),
        ("from jaxbias import policies", [("policies",)]),
        ("from jaxbias import Greedy, __version__", [("policies",)]),
        ("from . import base", [("policies", "base")]),
        ("from .base import Policy", [("policies", "base")]),
        ("from .. import history", [("history",)]),
        ("def later():\n    from jaxbias.bias.exact import exact_bias", [("bias", "exact")]),
        ("if TYPE_CHECKING:\n    from jaxbias.history import History", [("history",)]),
        ("import jaxbias as jb\njb.measure_bias(jb.__version__)", [("bias",)]),
        ("import jaxbias\njaxbias.plots.plot_fit()", [("reporting",)]),
        ("import jaxbias as jb\ngetattr(jb, 'simulate')", [()]),
        ("import jax\nfrom jax import numpy", []),
    ],
)
def test_every_kind_of_import_is_seen(source, expected):
    assert list(imports_in(source, ("policies",))) == expected


def test_modules_import_only_from_those_above():
    top = {one: FLOW.index(one.file[0]) for one in IMPORTS}
    wrong = [
        str(one)
        for one in IMPORTS
        if one.file[0] != "cli" or one.imported != ()  # the command line may ask the package for a name
        if not one.imported or (one.imported[0] != one.file[0] and FLOW.index(one.imported[0]) >= top[one])
    ]
    assert not wrong


def test_every_module_is_in_the_order():
    assert {parts_of(path)[0] for path in FILES} == set(FLOW)


def test_no_cycles_inside_a_folder():
    """Between the files and folders of each folder; a file that imports from its own folder's `__init__` makes one, too."""
    folders = {parts_of(path)[:-1] for path in FILES} - {()}
    cycles = []
    for folder in sorted(folders):
        depth, graph = len(folder), defaultdict(set)
        for one in IMPORTS:
            if one.file[:depth] == one.imported[:depth] == folder and len(one.file) > depth:
                imported = one.imported[depth] if len(one.imported) > depth else "__init__"
                if imported != one.file[depth]:
                    graph[one.file[depth]].add(imported)
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            cycles.append(f"{'/'.join(folder)}: {' -> '.join(error.args[1])}")
    assert not cycles


def test_large_estimators_stand_alone():
    """What all estimators share knows none of them: the registry names them by strings. And they do not know each other."""
    large = {"conditional_mle", "mean_matching"}
    wrong = [
        str(one)
        for one in IMPORTS
        if one.file[0] == "estimators" and len(one.imported) > 1 and one.imported[0] == "estimators"
        if one.imported[1] in large - {one.file[1]}
    ]
    assert not wrong


def test_files_of_estimators():
    assert len(list((PACKAGE / "estimators").glob("*.py"))) <= MOST_ESTIMATOR_FILES


def test_no_module_has_the_name_of_a_function():
    modules = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert not [name for name, module in PUBLIC.items() if name in modules and module != (name,)]


def test_public_names():
    subpackages = [name for name in jb.__all__ if inspect.ismodule(getattr(jb, name))]
    assert len(jb.__all__) - len(subpackages) <= MOST_NAMES
    assert set(jb.__all__) == set(PUBLIC)  # what type checkers read and what is there at run time
    assert [name for name in jb.__all__ if getattr(jb, name) is None] == []
    assert set(jb.__all__) <= set(dir(jb))


def run(code):
    return subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True).stdout


def test_what_importing_does():
    """It does not import JAX; loading every name changes no setting of JAX; a name is found before its module is imported."""
    code = """
import sys
import jaxbias as jb
assert "jax" not in sys.modules
import jax
before = dict(jax.config.values)
jb.measure_bias
assert callable(jb.simulate)
for name in jb.__all__:
    assert getattr(jb, name) is not None
assert before == dict(jax.config.values)
print("same")
"""
    assert run(code) == "same\n"
