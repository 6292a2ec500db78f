"""Writes a reproduction: CSV and Markdown for each table, PNG and SVG for each figure, and one page with everything."""

import csv
import io
from pathlib import Path
from typing import Any

from jaxbias._core.files import written_whole
from jaxbias.paper.experiments import PAPER_TRIALS
from jaxbias.paper.run import Reproduction
from jaxbias.paper.spec import FAR, NOISY, Outcome, Spec
from jaxbias.reporting.formatting import count, figure, given, in_errors, number
from jaxbias.reporting.plots import to_png, to_svg
from jaxbias.reporting.provenance import describe_run, describe_software
from jaxbias.reporting.templating import render_template

COLUMNS: tuple[str, ...] = ("row", "column", "paper", "ours", "stderr", "sigmas", "verdict", "why", "trials")
MARKS = {"differs": " †", "DISAGREES": " ✗", NOISY: " ?"}
VERDICTS = ("agrees", "differs", "DISAGREES", NOISY)


def write_reproduction(reproduction: Reproduction, folder: str | Path, *, command: str | None = None) -> Path:
    """Writes the tables, the pictures and the page into the folder; returns the page.

    Arguments:
        reproduction: from `reproduce`.
        folder: the same one.
        command: what was typed to get it, for readers who want to repeat it.
    """
    folder = Path(folder)
    for name in ("tables", "figures"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for spec in reproduction.specs:
        cells = reproduction.outcomes[spec.name]
        _write(folder / "tables" / f"{spec.name}.csv", to_csv(cells))
        _write(folder / "tables" / f"{spec.name}.md", to_markdown(spec, cells))
        if spec.draw is not None:
            picture = spec.draw(reproduction.results)
            _write(folder / "figures" / f"{spec.name}.png", to_png(picture))
            _write(folder / "figures" / f"{spec.name}.svg", to_svg(picture, title=spec.title, salt=spec.name) + "\n")
    page = folder / "index.html"
    _write(page, render_page(reproduction, command))
    return page


def _write(out: Path, content: str | bytes) -> None:
    with written_whole(out) as path:
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def to_rows(cells: tuple[Outcome, ...]) -> list[dict[str, Any]]:
    """Each cell as a row of words and numbers."""
    return [
        {"row": entry.row, "column": entry.column, "paper": entry.paper, "ours": ours, "stderr": stderr}
        | {"sigmas": sigmas, "verdict": verdict, "why": entry.why if verdict == "differs" else "", "trials": trials}
        for entry, ours, stderr, sigmas, verdict, trials, _ in cells
    ]


def to_csv(cells: tuple[Outcome, ...]) -> str:
    """One line for each cell, with all digits."""
    file = io.StringIO()
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(to_rows(cells))
    return file.getvalue()


def to_markdown(spec: Spec, cells: tuple[Outcome, ...]) -> str:
    """The table for a reader: our number with its error, and the printed number in brackets."""
    table = _grid(cells)
    lines = [f"# {spec.title}", "", f"{spec.setting} {describe_trials(cells)}", "", f"| | {' | '.join(table['columns'])} |"]
    lines.append("|---" * (len(table["columns"]) + 1) + "|")
    for row, by_column in table["rows"].items():
        words = [_in_words(by_column[column]) if column in by_column else "" for column in table["columns"]]
        lines.append(f"| {row} | {' | '.join(words)} |")
    lines += ["", "In brackets: as printed in the paper. ± is our Monte Carlo standard error."]
    lines += ["", " ".join(describe_cells(spec, cells)), "", *(f"- {note}" for note in explanations(cells))]
    return "\n".join(lines).rstrip() + "\n"


def _grid(cells: tuple[Outcome, ...]) -> dict[str, Any]:
    """Rows and columns in the order in which they first occur."""
    rows: dict[str, dict[str, Outcome]] = {}
    for cell in cells:
        rows.setdefault(cell.entry.row, {})[cell.entry.column] = cell
    return {"columns": list(dict.fromkeys(cell.entry.column for cell in cells)), "rows": rows}


def _in_words(cell: Outcome) -> str:
    printed = paper_number(cell)
    return f"{our_number(cell)}{f' ({printed})' if printed else ''}{MARKS.get(cell.verdict, '')}"


def our_number(cell: Outcome) -> str:
    """Ours with its error, to as many digits as the error justifies."""
    return figure(cell.ours, cell.stderr, unit=cell.entry.unit)


def paper_number(cell: Outcome) -> str:
    """The printed number with the digits it was printed with."""
    if cell.entry.paper is None:
        return ""
    decimals = {1.0: 0, 0.1: 1, 0.01: 2, 0.001: 3}.get(cell.entry.digit, 0)
    return f"{cell.entry.paper:.{decimals}f}{cell.entry.unit}"


def explanations(cells: tuple[Outcome, ...]) -> list[str]:
    """Why cells differ, each reason once with the cells it is for; then those that should not, and those that cannot tell."""
    groups: dict[str, list[Outcome]] = {}
    for cell in cells:
        if cell.verdict == "differs":
            groups.setdefault(cell.entry.why, []).append(cell)
    notes = [f"† {why} ({_name_cells(differing)})" for why, differing in groups.items()]
    noisy = [cell for cell in cells if cell.verdict == NOISY]
    if noisy:
        worst = max(noisy, key=lambda cell: cell.resolution or 0.0)
        could = f"{number(worst.resolution, worst.stderr)}{' points' if worst.entry.unit == '%' else ''}"
        which = f"{worst.entry.row}, {worst.entry.column}: {our_number(worst)} beside the printed {paper_number(worst)}"
        notes.append(f"? Too noisy to tell ({_name_cells(noisy)}). In {which}, a difference of {could} could be chance.")
    return notes + [
        f"✗ {cell.entry.row}, {cell.entry.column}: {in_errors(cell.sigmas)} standard errors away; {given(FAR)} can be chance."
        for cell in cells
        if cell.verdict == "DISAGREES"
    ]


def _name_cells(cells: list[Outcome]) -> str:
    """By column, where they are many."""
    columns = list(dict.fromkeys(cell.entry.column for cell in cells))
    if len(cells) <= 3:
        return "; ".join(f"{cell.entry.row}: {cell.entry.column}" for cell in cells)
    return f"{len(cells)} cells of {', '.join(columns)}"


def count_verdicts(reproduction: Reproduction) -> dict[str, int]:
    """How many cells have each verdict."""
    verdicts = [cell.verdict for cells in reproduction.outcomes.values() for cell in cells]
    return {word: verdicts.count(word) for word in VERDICTS}


def describe_trials(cells: tuple[Outcome, ...]) -> str:
    """How many trials this run has."""
    trials = [cell.trials for cell in cells]
    if not trials:
        return ""
    fewest, most = min(trials), max(trials)
    said = count(fewest) if fewest == most else f"{count(fewest)} to {count(most)}"
    return f"This run: {said} {'trial' if most == 1 else 'trials'}{'' if fewest == most else ', by cell'}."


def describe_cells(spec: Spec, cells: tuple[Outcome, ...]) -> list[str]:
    """What this run shows: how many cells have each verdict, and what a run that can tell shows."""
    words = {
        "agrees": "agree with the paper or with what it says",
        "differs": "differ for a known reason (†)",
        "DISAGREES": "should agree and do not (✗)",
        NOISY: "are too noisy to tell (?)",
    }
    verdicts = [cell.verdict for cell in cells]
    parts = [f"{said}: {verdicts.count(word)}" for word, said in words.items() if word in verdicts]
    found = [f"Cells that {'; that '.join(parts)}."] if parts else []
    doubtful = NOISY in verdicts or "DISAGREES" in verdicts
    seen = f"With the trials of the default run, which shows more than this one: {spec.seen}" if doubtful else spec.seen
    return [*found, *([seen] if spec.seen else [])]


def render_page(reproduction: Reproduction, command: str | None) -> str:
    """The page as text."""
    from markupsafe import Markup

    sections = [
        {
            "spec": spec,
            "trials": describe_trials(reproduction.outcomes[spec.name]),
            "shown": describe_cells(spec, reproduction.outcomes[spec.name]),
            "table": _grid(reproduction.outcomes[spec.name]),
            "notes": explanations(reproduction.outcomes[spec.name]),
            "picture": spec.draw and Markup(to_svg(spec.draw(reproduction.results), title=spec.title, salt=spec.name)),
        }
        for spec in reproduction.specs
    ]
    return render_template(
        "paper.html",
        sections=sections,
        counts=count_verdicts(reproduction),
        failures=reproduction.failures,
        our_number=our_number,
        paper_number=paper_number,
        marks=MARKS,
        noisy=NOISY,
        repeat=_repeat(reproduction, command),
    )


def _repeat(reproduction: Reproduction, command: str | None) -> dict[str, str]:
    """What is needed to get the same figures again."""
    trials, in_paper = reproduction.trials, count(PAPER_TRIALS)
    said = "as in the paper" if trials is None else f"{count(trials)} where the paper has {in_paper}"
    return {**describe_run(command, reproduction.key_words), "trials": said, **describe_software()}
