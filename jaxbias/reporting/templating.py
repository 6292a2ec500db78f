"""Pages from templates."""

from importlib import resources
from typing import Any


def render_template(template: str, **values: Any) -> str:
    """A page of the package; every value that is put into it is escaped."""
    try:
        import jinja2
    except ModuleNotFoundError as error:
        raise ImportError("writing a report needs jinja2; it comes with pip install 'jaxbias[cli]'") from error
    folder = resources.files("jaxbias.reporting") / "templates"
    loader = jinja2.FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8"))
    options: dict[str, Any] = dict(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return jinja2.Environment(loader=loader, autoescape=True, **options).get_template(template).render(**values)
