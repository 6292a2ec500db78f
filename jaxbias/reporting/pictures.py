"""Plots written to files."""

from pathlib import Path
from typing import Any

from jaxbias._core.errors import ArgumentError
from jaxbias._core.files import check_writable, written_whole

SUFFIXES = (".png", ".svg")


def check_picture(out: Path) -> None:
    """Refuses a path that no picture can be written to; for a caller that wants to know before the work."""
    if out.suffix.lower() not in SUFFIXES:
        raise ArgumentError("out", str(out), f"the name of a {' or '.join(SUFFIXES)} file")
    check_writable(out)


def write_picture(figure: Any, out: Path, *, title: str) -> None:
    """Writes a figure as PNG or SVG, by the name of the file; the title is for those who do not see it."""
    from jaxbias.reporting.plots.canvas import to_png  # here, so that a command that draws nothing does not load it
    from jaxbias.reporting.plots.svg import to_svg

    check_picture(out)
    is_png = out.suffix.lower() == ".png"
    with written_whole(out) as temporary:
        temporary.write_bytes(to_png(figure) if is_png else to_svg(figure, title=title, salt=out.stem).encode())
