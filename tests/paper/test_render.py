"""The page of a reproduction tells the run that it shows: its trials, and what they can tell."""

import html
import re

import pytest

from jaxbias.paper.experiments import Experiment
from jaxbias.paper.render import count_verdicts, describe_cells, describe_trials, render_page, to_markdown
from jaxbias.paper.run import Reproduction
from jaxbias.paper.spec import Entry, Outcome, Spec
from jaxbias.paper.terminal import print_reproduction, reproduction_document

EXPERIMENT = Experiment(policy="Greedy", mean=(1.0, 0.75), steps=8)
SEEN = "The original biases are as printed."


def outcome(row, column, ours, stderr, verdict, trials=50, resolution=1.0, **fields):
    entry = Entry(row=row, column=column, experiments=(EXPERIMENT,), read=lambda result: result, **fields)
    return Outcome(entry, ours, stderr, 1.0, verdict, trials, resolution)


AGREES = outcome("T = 8", "original", -0.25, 0.01, "agrees", paper=-0.26, trials=100_000)
NOISY = outcome("T = 8", "cMLE", -76.0, 29.0, "too noisy", paper=6.2, digit=0.1, unit="%", resolution=118.9)
DIFFERS = outcome("T = 16", "original", -0.5, 0.01, "differs", paper=-0.26, why="The caption says another mean.")
WRONG = outcome("T = 16", "cMLE", 90.0, 2.0, "DISAGREES", paper=6.2, digit=0.1, unit="%")


def reproduction(*cells):
    spec = Spec(name="table2", title="Table 2. Bias", setting="Sigma 1.", entries=(), seen=SEEN)
    return Reproduction(specs=(spec,), results={}, outcomes={"table2": cells}, key_words=(0, 0), trials=50)


def text_of(page):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page.split("</style>")[1])).split())


def test_the_counts_keep_what_cannot_be_told_apart():
    found = reproduction(AGREES, NOISY, DIFFERS, WRONG)
    assert count_verdicts(found) == {"agrees": 1, "differs": 1, "DISAGREES": 1, "too noisy": 1}
    assert reproduction_document(found)["verdicts"]["too noisy"] == 1
    assert [cell["verdict"] for cell in reproduction_document(found)["cells"]][1] == "too noisy"


def test_the_page_says_how_many_trials_were_run_and_what_they_cannot_tell():
    page = text_of(render_page(reproduction(AGREES, NOISY), None))
    assert "says: 1; that differ for a known reason (†): 0; that are too noisy to tell (?): 1; that should agree" in page
    assert "four combined standard errors are more than half of the figure that it is about" in page
    assert "below it, as printed in the paper. This run: 50 to 100,000 trials, by cell." in page
    assert "-76% ± 29 ?" in page
    assert "In T = 8, cMLE: -76% ± 29 beside the printed 6.2%, a difference of 119 points could be chance." in page


def test_the_prose_follows_the_numbers(capsys, tmp_path):
    spec = reproduction().specs[0]
    assert describe_cells(spec, (AGREES,)) == ["Cells that agree with the paper or with what it says: 1.", SEEN]
    for cells, said in (
        ((AGREES, NOISY), "agree with the paper or with what it says: 1; that are too noisy to tell (?): 1"),
        ((WRONG,), "should agree and do not (✗): 1"),
    ):
        first, second = describe_cells(spec, cells)
        assert said in first
        assert second == f"With the trials of the default run, which shows more than this one: {SEEN}"
        assert second in to_markdown(spec, cells)
    print_reproduction(reproduction(AGREES, NOISY), tmp_path)
    printed = capsys.readouterr().out
    assert "1 cells agree, 0 differ for a known reason, 1 are too noisy to tell with so few trials." in printed


@pytest.mark.parametrize(
    ("trials", "said"), [((50, 50), "This run: 50 trials."), ((50, 100_000), "This run: 50 to 100,000 trials, by cell.")]
)
def test_the_trials_in_words(trials, said):
    cells = tuple(outcome("a", str(place), 0.0, 1.0, "agrees", trials=number) for place, number in enumerate(trials))
    assert describe_trials(cells) == said


def test_a_screen_reader_finds_headings_and_captions():
    page = render_page(reproduction(AGREES, NOISY, DIFFERS, WRONG), None)
    assert page.count("<h1") == 1
    assert page.count("<table") == page.count("<caption")
    assert all("scope=" in head for head in re.findall(r"<th[ >][^>]*", page))
    assert "<script" not in page
    assert not re.search(r'(src|href)="(?!#)', page)
