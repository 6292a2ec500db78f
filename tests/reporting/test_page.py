"""The report: one file that needs nothing else, says what the analysis says, and is at home on any screen and on paper."""

import dataclasses
import html
import itertools
import re
from html.parser import HTMLParser

import jax
import numpy as np
import pandas as pd
import pytest

import jaxbias as jb
from jaxbias.reporting.answer import answer_sentence
from jaxbias.reporting.formatting import p_value
from jaxbias.reporting.page import render_report, write_report
from jaxbias.reporting.sentences import sentences
from tests.reporting.browser import BROWSER, Browser

METHODS = ("sample_mean", "propensity_weighting", "mean_matching", "confidence_sequence")
POLICY, FAMILY = jb.LilUCB(tau=0.5), jb.Normal(sigma=1.0)
HOSTILE = (
    "<script>document.title = 'taken'</script>",
    '"><img src=https://example.org/x.png onerror="document.title = 1">',
    "</style><style>body { display: none }</style>",
    "{{ 7 * 7 }}{% raw %}",
    "<!-- ]]> &lt;b&gt; \u202e reversed",
)
PAGES = {}  # drawn once for all tests, by the analysis
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no browser is installed")


def analyse(labels, policy=POLICY, means=(1.0, 0.75, 0.5), num_steps=60, methods=METHODS, collected=None, **options):
    history = jb.simulate(jax.random.key(1), collected or policy, FAMILY, list(means), num_steps=num_steps)
    frame = pd.DataFrame({"arm": [labels[arm] for arm in np.asarray(history.arms)], "reward": np.asarray(history.rewards)})
    return jb.debias(jax.random.key(0), frame, policy, FAMILY, methods=methods, arms=list(labels), **options)


@pytest.fixture(scope="module")
def plain():
    return analyse(("A", "B", "C"))


@pytest.fixture(scope="module")
def controlled():
    """One arm that is much better than the control, and one that is like it; the control's mean is clear of 0."""
    options = {"control": "today", "evaluate": False}
    methods = ("sample_mean", "shrinkage", "test_inversion")  # the last simulates the tests
    return analyse(("today", "better", "alike"), jb.EpsilonGreedy(epsilon=0.4), (1.0, 2.0, 1.0), 120, methods, **options)


@pytest.fixture(scope="module")
def misfit():
    return analyse(("A", "B", "C"), jb.Greedy(), collected=jb.Uniform())


@pytest.fixture(scope="module")
def hostile():
    return analyse(HOSTILE, means=(1.0, 0.75, 0.5, 0.25, 0.0))


@pytest.fixture(scope="module")
def many():
    labels = [
        f"a label of thirty arms that is rather long, or without-any-blank-in-all-its-many-letters {arm}" for arm in range(30)
    ]
    return analyse(labels, jb.Uniform(), np.linspace(0, 1, 30), 400, ("sample_mean", "confidence_sequence"))


def page_of(analysis):
    """The page, drawn once for all tests."""
    if id(analysis) not in PAGES:
        PAGES[id(analysis)] = render_report(analysis, f"jaxbias debias {HOSTILE[0]}")
    return PAGES[id(analysis)]


class Reader(HTMLParser):
    """The tables by their name, the elements, and the words of a page."""

    def __init__(self, page):
        super().__init__()
        self.tables, self.tags, self.words, self.attributes = {}, [], [], []
        self.table, self.cell = None, None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(name, value) for name, value in attrs]
        if tag == "table":
            self.table = self.tables.setdefault(dict(attrs).get("id", f"table {len(self.tables)}"), [])
        elif tag == "tr":
            self.table.append([])
        elif tag in ("td", "th"):
            self.table[-1].append("")
            self.cell = self.table[-1]
        elif tag in ("span", "br") and self.cell is not None:
            self.cell[-1] += " "

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.cell = None

    def handle_data(self, data):
        self.words.append(data)
        if self.cell is not None:
            self.cell[-1] += data


# What it says


def figures_of(cell):
    return [float(figure) for figure in re.findall(r"-?[\d.]+", cell)]


def ends_of(estimate, arm):
    return [float(part[arm]) for part in (estimate.mean, estimate.lower, estimate.upper)]


def test_the_numbers_are_those_of_the_analysis(plain):
    rows = Reader(render_report(plain)).tables["estimates"]
    assert rows[0] == ["arm", "estimate", "raw mean"]
    raw = plain.comparison.estimates["sample_mean"].mean
    for arm, (label, cell, mean) in enumerate(rows[1:]):
        assert label == f"{plain.labels[arm]} {plain.comparison.pulls[arm]} pulls"
        assert figures_of(cell) == pytest.approx(ends_of(plain.estimate, arm), abs=0.00501)  # two decimals, as its error deserves
        assert float(mean) == pytest.approx(float(raw[arm]), abs=0.00501)


def test_every_method_is_in_the_evidence(plain):
    rows = Reader(render_report(plain)).tables["methods"]
    names = [name.replace("\u200b", "") for name in rows[0]]
    assert names[:2] == ["arm", plain.recommended.method]
    assert sorted(names[1:]) == sorted(METHODS)
    for arm, (label, *cells) in enumerate(rows[1:]):
        assert label == plain.labels[arm]
        for method, cell in zip(names[1:], cells, strict=True):
            assert figures_of(cell) == pytest.approx(ends_of(plain.comparison.estimates[method], arm), abs=0.00501)


def test_the_lift_over_the_control_is_in_the_table(controlled):
    rows = Reader(render_report(controlled)).tables["estimates"]
    assert rows[0] == ["arm", "estimate", "raw mean", "lift"]
    found = controlled.decisions.contrasts
    adjusted = np.asarray(found.p_adjusted).tolist()
    assert rows[1][3] == "control"
    for arm in (1, 2):
        lift, chance = rows[arm + 1][3].split(" p ")
        expected = [100 * float(np.asarray(part)[arm]) for part in (found.lift, found.lift_lower, found.lift_upper)]
        assert figures_of(lift) == pytest.approx(expected, abs=0.501)
        assert chance.split(",")[0] in p_value(adjusted[arm])
        assert ("better" in chance) == (adjusted[arm] < 0.05)
    assert adjusted[1] < 0.001 < 0.05 < adjusted[2]


def test_bias_calibration_and_surprises_are_those_of_the_analysis(plain):
    tables = Reader(render_report(plain)).tables
    for arm, (label, mean, bias) in enumerate(tables["bias"][1:]):
        assert label == plain.labels[arm]
        assert float(mean) == pytest.approx(float(plain.estimate.mean[arm]), abs=0.00501)
        value, stderr = map(float, bias.split(" ± "))
        assert (value, stderr) == pytest.approx((plain.bias.bias[arm], plain.bias.stderr[arm]), abs=6e-5)
    assert len(tables["calibration"]) == len(plain.fit.calibration) + 1
    for (span, cases, predicted, chosen), row in zip(tables["calibration"][1:], plain.fit.calibration, strict=True):
        assert (span, int(cases)) == (f"{row.low:g} to {row.high:g}", row.count)
        assert float(predicted) == pytest.approx(row.predicted, abs=row.stderr / 10 + 1e-12)
        assert float(chosen.split(" ± ")[0]) == pytest.approx(row.chosen, abs=row.stderr / 10 + 1e-12)
    steps = [(int(row[0]) - 1, row[1]) for row in tables["surprises"][1:]]
    assert steps == [(surprise.step, plain.labels[surprise.arm]) for surprise in plain.fit.surprises]


def test_the_rows_that_move_the_estimates_most(plain):
    rows = Reader(render_report(plain)).tables["moving"][1:]
    assert len(rows) == len(plain.influence.rows) > 0
    for (step, label, _, moved, weight, shift, errors), row in zip(rows, plain.influence.rows, strict=True):
        assert (int(step) - 1, label, moved) == (row.step, plain.labels[row.arm], plain.labels[row.estimate_of])
        expected = (row.weight, row.shift, row.errors)
        assert [float(part) for part in (weight, shift, errors)] == pytest.approx(expected, abs=0.0051)
    without = dataclasses.replace(plain, influence=None)
    assert "moving" not in Reader(render_report(without)).tables


def test_the_words_are_those_of_the_terminal(plain):
    page = html.unescape(render_report(plain, "jaxbias debias 'my log.csv' --seed 0"))
    for sentence in [answer_sentence(plain), *sentences(plain)]:
        assert sentence in page
    repeat = page.split('<dl id="repeat">')[1]
    for words in (
        "jaxbias debias 'my log.csv' --seed 0",
        "LilUCB(beta=1.0",
        "tau=0.5",
        "Normal(sigma=1.0)",
        jb.__version__,
        jax.__version__,
    ):
        assert words in repeat
    assert "<dt>random key</dt><dd>0 0</dd>" in repeat
    assert "not to be trusted" not in page


def test_what_is_not_to_be_trusted_says_so_first(misfit):
    page = html.unescape(render_report(misfit))
    banner = page.split('<section class="banner"')[1].split("</section>")[0]
    assert "Estimated, but not to be trusted" in banner
    assert "The log cannot come from Greedy" in banner
    assert page.index('class="banner"') < page.index("<table")
    assert page.count("The log cannot come from Greedy") == 1
    assert '<h1 class="alarm">Do not decide from these figures yet: ' in page
    rows = Reader(render_report(misfit)).tables["methods"]
    assert [name for name in rows[0] if "†" in name] == ["mean_matching\N{NO-BREAK SPACE}†"]
    assert "† Relies on the policy" in page


def test_the_sample_mean_is_shown_even_if_it_was_not_asked_for(plain):
    alone = dataclasses.replace(plain.comparison, estimates={"mean_matching": plain.comparison.estimates["mean_matching"]})
    rows = Reader(render_report(dataclasses.replace(plain, comparison=alone))).tables["estimates"]
    history = plain.log.history
    means = [np.mean(np.asarray(history.rewards)[np.asarray(history.arms) == arm]) for arm in range(3)]
    assert [float(row[2]) for row in rows[1:]] == pytest.approx(means, abs=0.00501)


def test_an_analysis_without_a_policy_is_a_page_too(plain):
    found = analyse(("A", "B", "C"), None, methods=("sample_mean", "confidence_sequence"), collected=jb.Uniform())
    page = render_report(found)
    assert "The policy that chose the arms was not given" in page
    assert "Not known: no policy was given" in page
    assert "Not estimated: it needs a policy" in page
    assert "<dt>policy</dt><dd>not given</dd>" in page


def test_the_same_analysis_gives_the_same_text(plain):
    assert render_report(plain) == render_report(plain)


def test_a_policy_of_ones_own_has_no_address_in_it(plain):
    class Own:
        rate = 1

        def __init__(self):
            self.index, self.rate = lambda step: step, 0.5

    page = render_report(dataclasses.replace(plain, policy=Own()))
    assert " at 0x" not in page
    assert "rate=0.5" in page


# The order in which it says it, for eyes and for screen readers


@pytest.mark.parametrize("which", ["plain", "misfit", "controlled", "many"])
def test_the_answer_comes_first_and_the_diagnostics_last(request, which):
    analysis = request.getfixturevalue(which)
    page = page_of(analysis)
    parts = ["<h1", "<svg", '<table id="estimates"', ">Evidence</h2>", 'id="fit"', ">Diagnostics</h2>", 'id="repeat"']
    places = [page.index(part) for part in parts]
    assert places == sorted(places)
    headline = re.sub(r"</?span[^>]*>", "", re.search(r"<h1[^>]*>(.*?)</h1>", page)[1])  # around intervals and p-values
    assert html.unescape(headline) == " ".join(answer_sentence(analysis).split())
    assert page.count("<h1") == 1
    first_fold = page.index("<details")
    assert page.index('id="methods"') > first_fold
    assert page.index('id="diagnostics"') > page.index(">Diagnostics</h2>")
    assert re.search(r"<details[^>]*\bopen\b", page) is None


@pytest.mark.parametrize("which", ["plain", "misfit", "controlled", "many"])
def test_a_screen_reader_finds_headings_captions_and_pictures_with_words(request, which):
    page = page_of(request.getfixturevalue(which))
    levels = [int(level) for level in re.findall(r"<h([1-6])", page)]
    assert levels[0] == 1
    assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(levels))
    for table in re.findall(r"<table.*?</table>", page, re.DOTALL):
        assert re.search(r"<caption.*?>\s*\S", table)
        assert all("scope=" in head for head in re.findall(r"<th[ >][^>]*", table))
    pictures = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert pictures
    assert all('role="img"' in picture and re.search(r"<title>[^<]{20,}</title>", picture) for picture in pictures)
    assert all(re.search(r"<summary>.*\S.*</summary>", part) for part in page.split("<details")[1:])


# Nothing in it does anything


@pytest.mark.parametrize("which", ["plain", "misfit", "hostile"])
def test_nothing_is_fetched_or_run(request, which):
    reader = Reader(page_of(request.getfixturevalue(which)))
    assert not {"script", "img", "link", "iframe", "object", "embed", "base", "form", "a"} & set(reader.tags)
    assert not [name for name, _ in reader.attributes if name.startswith("on") or name == "src"]
    assert all(value.startswith("#") for name, value in reader.attributes if name == "href")
    assert reader.tags.count("style") == 1


def test_hostile_labels_are_words(hostile):
    page = render_report(hostile, f"jaxbias debias {HOSTILE[0]}")
    words = " ".join("".join(Reader(page).words).split())
    for label in HOSTILE:
        assert " ".join(label.replace("\u202e", "").split()) in words
    assert HOSTILE[0] not in page
    assert "\u202e" not in page
    assert "49" not in Reader(page).tables["estimates"][4][0]


# Writing


def test_the_file_is_there_whole_or_not_at_all(plain, tmp_path, monkeypatch):
    out = tmp_path / "page.html"
    write_report(plain, out)
    before = out.read_bytes()
    assert before.decode() == render_report(plain)

    def stop(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(type(out), "replace", stop)
    with pytest.raises(OSError, match="the disk is full"):
        write_report(plain, out)
    assert out.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize("where", ["", "nowhere/page.html"])
def test_a_place_that_cannot_be_written_to(plain, tmp_path, where):
    with pytest.raises(ValueError, match=r"^out is '.*'; it must be a file in an existing folder with write permission$"):
        write_report(plain, tmp_path / where)


# In a browser


@pytest.fixture(scope="module")
def browser():
    with Browser() as found:
        yield found


@pytest.fixture(scope="module")
def pages(plain, misfit, hostile, many, controlled, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    found = {"plain": plain, "misfit": misfit, "hostile": hostile, "many": many, "controlled": controlled}
    for name, analysis in found.items():
        (folder / f"{name}.html").write_text(page_of(analysis), encoding="utf-8")
    return folder


OPEN = "document.querySelectorAll('details').forEach(part => part.open = true)"
NAMES = ("plain", "misfit", "hostile", "many", "controlled")


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", NAMES)
def test_a_page_fits_its_window_and_asks_for_nothing(browser, pages, name, width, scheme):
    url = (pages / f"{name}.html").as_uri()
    browser.open(url, width=width, scheme=scheme)
    assert browser.fetched == [url]
    assert browser.complaints == []
    assert browser.ask("document.title").startswith("jaxbias: ")
    assert browser.ask("document.documentElement.scrollWidth <= window.innerWidth")
    browser.ask(OPEN)
    assert browser.ask("document.documentElement.scrollWidth <= window.innerWidth")
    assert browser.ask("getComputedStyle(document.body).display") == "block"
    paper = "rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 27)"
    assert browser.ask("getComputedStyle(document.documentElement).backgroundColor") == paper
    beyond = """[...document.querySelectorAll("p, li, h1, h2, figure, svg, dl, .scroll")]
        .filter(part => part.getBoundingClientRect().right > window.innerWidth).length"""
    assert browser.ask(beyond) == 0


@needs_browser
@pytest.mark.parametrize("name", NAMES)
def test_the_recommended_column_is_whole_on_a_phone(browser, pages, name):
    browser.open((pages / f"{name}.html").as_uri(), width=390)
    assert browser.ask("document.documentElement.scrollWidth") <= 390
    ends = browser.ask("""[...document.querySelectorAll("#estimates .first")].flatMap(cell => {
        const box = cell.getBoundingClientRect();
        return [box.left, box.right];
    })""")
    assert len(ends) > 2
    assert min(ends) >= 0
    assert max(ends) <= 390
    cut = """(table => table.parentElement.scrollWidth > table.parentElement.clientWidth)(document.querySelector("#estimates"))"""
    assert not browser.ask(cut)  # nothing else of the table is cut off either


@needs_browser
@pytest.mark.parametrize("name", NAMES)
def test_no_letters_of_a_picture_are_cut_off(browser, pages, name):
    browser.open((pages / f"{name}.html").as_uri(), width=390)
    browser.ask(OPEN)
    outside = """[...document.querySelectorAll("svg text")].filter(text => {
        const [inner, outer] = [text.getBoundingClientRect(), text.closest("svg").getBoundingClientRect()];
        return inner.left < outer.left - 2 || inner.right > outer.right + 2 || inner.bottom > outer.bottom + 2;
    }).map(text => text.textContent)"""
    assert browser.ask(outside) == []


@needs_browser
def test_the_numbers_a_reader_sees(browser, pages, plain):
    browser.open((pages / "plain.html").as_uri())
    shown = browser.ask("[...document.querySelectorAll('#estimates td.first')].map(cell => cell.innerText)")
    means = [float(words.split()[0]) for words in shown]
    assert means == pytest.approx(np.asarray(plain.estimate.mean).tolist(), abs=0.00501)


@needs_browser
@pytest.mark.parametrize("name", ["plain", "many"])
def test_it_prints_on_a_few_pages(browser, pages, name):
    browser.open((pages / f"{name}.html").as_uri(), scheme="dark")
    paper = browser.print()
    assert paper.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", paper)) <= {"plain": 7, "many": 15}[name]  # with what is folded on a screen


@needs_browser
def test_the_browser_tells_what_a_page_asks_for(browser, tmp_path):
    """The checks above would notice."""
    page = tmp_path / "page.html"
    page.write_text("<img src='nowhere.png'><script>console.log('here'); document.title = 'taken'</script>")
    browser.open(page.as_uri())
    assert len(browser.fetched) == 2
    assert len(browser.complaints) >= 1
    assert browser.ask("document.title") == "taken"
