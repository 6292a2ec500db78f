"""Whatever the labels are, the page runs no script and asks for nothing, in a real browser (hypothesis)."""

import dataclasses

import jax
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jaxbias as jb
from jaxbias.reporting.page import render_report
from tests.reporting.browser import BROWSER, Browser

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
QUICK = dict(derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
AWAY = "http://127.0.0.1:9/x"
TAKEN = "document.title='taken'"
PIECES = (
    "<script>",
    "</script>",
    TAKEN,
    f"<img src={AWAY} onerror={TAKEN}>",
    f"<svg onload={TAKEN}>",
    "</style>",
    "<style>",
    "-->",
)
PIECES += (f"@import url({AWAY});", f"<iframe src='javascript:{TAKEN}'>", f"<link rel=stylesheet href={AWAY}>", "</svg>", "]]>")
PIECES += (
    f'" onmouseover="{TAKEN}',
    f"' autofocus onfocus='{TAKEN}",
    f"<meta http-equiv=refresh content='0;url={AWAY}'>",
    "<!--",
)
PIECES += (
    "{{ 7 * 7 }}",
    "{% include '/etc/passwd' %}",
    "$x^2$",
    "\\",
    "&#60;script&#62;",
    "\u202e",
    "\u2028",
    "</title>",
    "<base href=//x>",
)
labels = st.lists(
    st.lists(st.sampled_from(PIECES) | st.text(max_size=6), min_size=1, max_size=5).map("".join), min_size=3, max_size=3
)


@pytest.fixture(scope="module")
def browser():
    with Browser() as found:
        yield found


@pytest.fixture(scope="module")
def analysis():
    frame = {"arm": ["a", "b", "c"] * 8, "reward": [0.5, 1.5, 0.25, 0.75] * 6}
    options = dict(methods=["sample_mean", "shrinkage"], evaluate=False, control="a")
    return jb.debias(jax.random.key(0), frame, jb.Greedy(tau=1.0), jb.Normal(), **options)


def check(browser, analysis, names, path):
    names = tuple(f"{name}{number}" for number, name in enumerate(names))  # all different
    page = render_report(
        dataclasses.replace(analysis, log=dataclasses.replace(analysis.log, labels=names, name=names[0])), names[1]
    )
    path.write_text(page, encoding="utf-8", errors="surrogatepass")
    browser.open(path.as_uri())
    assert browser.fetched == [path.as_uri()]
    assert browser.complaints == []
    assert browser.ask("document.title").startswith("jaxbias: ")
    assert browser.ask("document.querySelectorAll('script, iframe, img, link, meta[http-equiv=refresh], base').length") == 0
    assert browser.ask("document.querySelectorAll('#estimates tbody tr').length") == len(names)


@settings(max_examples=4, **QUICK)
@given(names=labels)
def test_any_labels_are_words(browser, analysis, names, tmp_path_factory):
    check(browser, analysis, names, tmp_path_factory.mktemp("labels") / "page.html")


@pytest.mark.slow
@settings(max_examples=80, **QUICK)
@given(names=labels)
def test_many_labels_are_words(browser, analysis, names, tmp_path_factory):
    check(browser, analysis, names, tmp_path_factory.mktemp("labels") / "page.html")
