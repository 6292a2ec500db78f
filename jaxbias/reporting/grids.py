"""Tables of words, as aligned text and as HTML; they need no other package."""

import dataclasses
from collections.abc import Sequence
from html import escape

STYLE = "text-align: right; padding: 0.2em 0.8em; white-space: nowrap"
LEFT = "text-align: left; padding: 0.2em 0.8em; white-space: nowrap"


@dataclasses.dataclass(frozen=True)
class Grid:
    """A table.

    Fields:
        title: what it shows, and what ± is.
        header: of each column.
        rows: of as many words each; the first is the name of the row.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def to_text(self) -> str:
        """Aligned, the names of the rows on the left and all else on the right.

        >>> print(Grid("Pulls", ["arm", "pulls"], [["A", "9"], ["B", "10"]]).to_text())
        Pulls
        arm  pulls
        A        9
        B       10
        """
        lines = [list(self.header), *map(list, self.rows)]
        widths = [max(len(line[place]) for line in lines) for place in range(len(self.header))]
        aligned = [
            "  ".join(cell.rjust(width) if place else cell.ljust(width) for place, (cell, width) in enumerate(cells)).rstrip()
            for cells in ([*zip(line, widths, strict=True)] for line in lines)
        ]
        return "\n".join([*filter(None, [self.title]), *aligned])

    def to_html(self) -> str:
        """One `<table>`; every word is escaped.

        >>> Grid("<b>", ["arm"], [["&"]]).to_html().count("&lt;b&gt;")
        1
        """
        head = "".join(_cell("th", word, place, "col") for place, word in enumerate(self.header))
        rows = [
            "".join(_cell("td" if place else "th", word, place, "" if place else "row") for place, word in enumerate(row))
            for row in self.rows
        ]
        caption = f'<caption style="text-align: left">{escape(self.title)}</caption>' if self.title else ""
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(tag: str, word: str, place: int, scope: str) -> str:
    said = f' scope="{scope}"' if scope else ""
    return f'<{tag}{said} style="{STYLE if place else LEFT}">{escape(word)}</{tag}>'


@dataclasses.dataclass(frozen=True)
class Shown:
    """What a result shows of itself: the answer, tables, and what there is to say about them."""

    answer: str = ""
    grids: Sequence[Grid] = ()
    notes: Sequence[str] = ()

    def to_text(self) -> str:
        """Parts with an empty line between them."""
        return "\n\n".join(filter(None, [self.answer, *(grid.to_text() for grid in self.grids), "\n".join(self.notes)]))

    def to_html(self) -> str:
        """The same parts."""
        answer = f"<p><strong>{escape(self.answer)}</strong></p>" if self.answer else ""
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<div>{answer}{''.join(grid.to_html() for grid in self.grids)}{notes}</div>"
