"""A figure as SVG inside a page: no fonts, no dates, no colours of its own, and ids that no other figure has."""

import io
import re
import xml.etree.ElementTree as xml
from typing import Any

from jaxbias.reporting.labels import plain_text
from jaxbias.reporting.plots.canvas import COLOURS, INK, drawing

SVG, XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
FONTS = "system-ui, sans-serif"
DECIMALS = 2  # of a coordinate: nobody sees a hundredth of a point


def to_svg(figure: Any, *, title: str, salt: str) -> str:
    """The figure as one `<svg>` element that takes its colours from the page, scales, and is the same text every time.

    Arguments:
        figure: a matplotlib Figure.
        title: what it shows, in a few words, for those who do not see it.
        salt: a word that no other figure of the same page has; the ids of its parts begin with it.

    >>> import jax, jaxbias as jb
    >>> history = jb.simulate(jax.random.key(0), jb.Greedy(), jb.Normal(), [1.0, 0.75], num_steps=16)
    >>> to_svg(jb.plots.plot_running_means(history), title="Running means", salt="running")[:39]
    '<svg xmlns="http://www.w3.org/2000/svg"'
    """
    file = io.StringIO()
    with drawing(**{"svg.hashsalt": salt}):
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    drawn = xml.fromstring(file.getvalue())
    for part in [part for part in drawn if part.tag == f"{SVG}defs" or "metadata" in part.tag]:
        if part.find(f"{SVG}style") is not None or "metadata" in part.tag:
            drawn.remove(part)  # its rule would hold for the whole page
    prefix = re.sub(r"[^A-Za-z0-9-]", "-", salt)
    used = set(re.findall(r"#(\w+)[)\"]", file.getvalue()))
    for part in drawn.iter():
        _clean(part, prefix, used)
    style = f"stroke-linejoin: round; stroke-linecap: butt; font-family: {FONTS}"
    head = {"xmlns": SVG[1:-1], "viewBox": drawn.attrib["viewBox"], "role": "img", "style": style}
    root = xml.Element("svg", head)
    xml.SubElement(root, "title").text = plain_text(title)
    root.extend(drawn)
    return xml.tostring(root, encoding="unicode")


def _clean(part: Any, prefix: str, used: set[str]) -> None:
    """Removes the namespace, the unused id, extra digits and fixed colours of one element."""
    part.tag = part.tag.removeprefix(SVG)
    part.tail = None
    name = part.attrib.pop("id", None)
    if name in used:
        part.set("id", f"{prefix}-{name}")
    if (target := part.attrib.pop(f"{XLINK}href", None)) is not None:
        part.set("href", target.replace("#", f"#{prefix}-"))
    if "clip-path" in part.attrib:
        part.set("clip-path", part.get("clip-path").replace("#", f"#{prefix}-"))
    for place in {"d", "x", "y", "width", "height", "transform"} & part.attrib.keys():
        part.set(place, _shorten(part.get(place)))
    if part.get("transform", "").startswith("rotate(-0 "):
        part.attrib.pop("transform")
    if "style" in part.attrib:
        part.set("style", _in_variables(part.get("style")))
    if part.tag == "g" or (part.text is not None and not part.text.strip()):
        part.text = None


def _shorten(numbers: str) -> str:
    rounded = re.sub(r"-?\d+\.\d+", lambda found: f"{float(found[0]):.{DECIMALS}f}".rstrip("0").rstrip("."), numbers)
    return re.sub(r"\s+", " ", rounded).strip()


def _in_variables(style: str) -> str:
    """Colours as variables of the page, which fall back on what was drawn; the text's own fonts left out."""
    style = re.sub(r"font-family: [^;]*;?", "", style)
    return re.sub(r"#[0-9a-f]{6}", lambda found: _variable(found[0]), style).replace("  ", " ").strip()


def _variable(colour: str) -> str:
    return f"var(--{COLOURS[colour]}, {'currentColor' if colour == INK else colour})" if colour in COLOURS else colour
