"""The caption contests of notebook 8 on the public files: predicted against observed bias, and the corrected means.

    python benchmarks/captions.py FOLDER        # with 510_LilUCB.csv, 510_RoundRobin.csv, ...; the notebook says where they are

It runs the code of `notebooks/8_caption_contests.ipynb` on them, so that there is one copy of it, and prints its tables.
"""

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

import nbformat

NOTEBOOK = Path(__file__).parent.parent / "notebooks" / "8_caption_contests.ipynb"


def run_notebook(folder: str | None) -> dict:
    """The names that the notebook defines, after its code has run on a folder, or on contests that it makes up."""
    os.environ["MPLBACKEND"] = "agg"
    if folder is not None:
        os.environ["JAXBIAS_CAPTIONS"] = str(Path(folder).resolve(strict=True))
    names: dict = {}
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
        if cell.cell_type == "code":
            exec(cell.source, names)  # a file of this repository
    return names


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", help="the public summary files; without it, made-up contests")
    options = parser.parse_args(words)
    start = time.perf_counter()
    names = run_notebook(options.folder)
    print(names["table"].round(4).to_string())
    apart = names["table"]["apart"].abs()
    print(f"{int((apart < 3).sum())} of {len(apart)} within 3 combined standard errors")
    print(names["average"].round(4).to_string())
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
