"""Prints the versions of everything that jaxbias and its extras need, as this environment has them: `> constraints.txt`."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
waiting = [*project["dependencies"], *(need for needs in project["optional-dependencies"].values() for need in needs)]
found: dict[str, str] = {}
while waiting:
    need = waiting.pop()
    name = re.split(r"[^\w.-]", need)[0].lower().replace("_", "-")
    marker = need.partition(";")[2]
    if name == "jaxbias" or name in found or re.search(r"extra ==|win32|Windows|cygwin|emscripten", marker):
        continue
    try:
        package = distribution(name)
    except PackageNotFoundError:
        continue  # for another system or another Python
    found[name] = package.version
    waiting += package.requires or []
print("# What this release was tested with: pip install -c constraints.txt '.[test]'. Made by .ci/constraints.py.")
print("\n".join(f"{name}=={version}" for name, version in sorted(found.items())))
