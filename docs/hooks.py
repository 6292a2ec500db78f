"""Pages that are made when the site is built: the commands from the command line itself, and the notebooks.

Notebooks are stored without output. Where `build/notebooks` has them as `tests/test_notebooks.py` ran them, they are shown with
their results.
"""

from pathlib import Path
from typing import Any

import nbformat
from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter

ROOT = Path(__file__).parents[1]
EXECUTED = ROOT / "build" / "notebooks"
UNDECORATED = "\n*Without outputs: `pytest -m slow tests/test_notebooks.py`, before the site is built, makes them.*\n"


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that are made."""
    import sys

    sys.path.insert(0, str(ROOT))
    sys.path.insert(0, str(ROOT / "docs"))
    from command_pages import commands_page, contributing_page

    files.append(File.generated(config, "reference/commands.md", content=commands_page()))
    files.append(File.generated(config, "contributing.md", content=contributing_page(ROOT)))
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for name, content in notebook_files(path).items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files


def notebook_files(path: Path) -> dict[str, str | bytes]:
    """A notebook as Markdown, and its pictures, by name."""
    executed = EXECUTED / path.name
    notebook = nbformat.read(executed if executed.exists() else path, as_version=4)
    body, resources = MarkdownExporter().from_notebook_node(notebook)
    pictures = {f"{path.stem}-{name}": content for name, content in (resources.get("outputs") or {}).items()}
    for name in resources.get("outputs") or {}:
        body = body.replace(f"]({name})", f"]({path.stem}-{name})").replace("![png]", "![a plot that the cell above draws]")
    title, _, rest = body.partition("\n")
    note = "" if executed.exists() else UNDECORATED
    return {f"{path.stem}.md": f"{title}\n{note}\n{rest}", **pictures}


def on_post_page(output: str, page: Any, config: Any) -> str:
    """The theme would fetch a script from the network so that the search works in pages opened from a folder: ours is local."""
    del config
    return output.replace("https://unpkg.com/iframe-worker/shim", f"{'../' * page.url.count('/')}javascripts/search-worker.js")


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    """The same for the page of an address that does not exist."""
    del template_name, config
    return output_content.replace("https://unpkg.com/iframe-worker/shim", "javascripts/search-worker.js")
