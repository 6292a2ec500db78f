"""The pictures: what is drawn is what was found, whatever the labels, the size of the log, or the numbers in it."""

import re
import sys
import time
import xml.etree.ElementTree as xml
from pathlib import Path

import numpy as np
import pytest

import jaxbias as jb
from jaxbias.bias.at_given_means import ArmBias
from jaxbias.estimators.compare import Comparison
from jaxbias.estimators.estimate import Estimate, Status
from jaxbias.estimators.registry import METHODS
from jaxbias.evaluation.figures import Evaluation, TrueLogs, summarise_estimates
from jaxbias.policy_fit.check import CalibrationRow, PolicyFit
from jaxbias.reporting.plots import (
    canvas,
    plot_bias,
    plot_estimates,
    plot_evaluation,
    plot_fit,
    plot_influence,
    plot_running_means,
    to_svg,
)
from jaxbias.reporting.plots.estimates import mark_of

HOSTILE = (
    "<script>alert(1)</script>",
    "a & b \"quoted\" 'twice'",
    "$x^2$ and $",
    "emoji 👩‍🔬 🦄",
    "two\nlines\tand tab",
    "עברית ثم عربي",
    "x" * 300,
    "turned \u202etxt.exe",
    "null \x00 bell \x07 \ufffe \ud800",
    "]]> <!-- &amp; -->",
    "\\frac{1}{2} _under_ %",
    "",
)


def make_estimate(method, mean, half, converged=None):
    mean, half = np.asarray(mean, float), np.asarray(half, float)
    converged = np.isfinite(mean) if converged is None else np.asarray(converged)
    return Estimate(
        method=method,
        mean=mean,
        stderr=half / 2,
        lower=mean - half,
        upper=mean + half,
        status=np.where(converged, Status.CONVERGED, Status.STILL_MOVING),
        diagnostics={},
    )


def make_comparison(num_arms=3, methods=("sample_mean", "mean_matching"), pulls=None, **changed):
    key = np.random.default_rng(0)
    estimates = {
        method: make_estimate(method, key.normal(size=num_arms), key.uniform(0.2, 1, size=num_arms)) for method in methods
    }
    estimates |= changed
    pulls = np.arange(10, 10 + num_arms) if pulls is None else np.asarray(pulls)
    return Comparison(estimates=estimates, reasons={}, pulls=pulls, level=0.95)


def make_evaluation(num_arms=3, methods=("sample_mean", "shrinkage")):
    random, trials = np.random.default_rng(0), 60
    draw = lambda: random.normal(size=(trials, num_arms))
    pulls, plain = random.integers(1, 9, (trials, num_arms)), draw()
    logs = TrueLogs(mean=np.zeros(num_arms), pulls=pulls, sample_mean=plain, point=np.zeros(trials, int))
    figures = {method: summarise_estimates(make_estimate(method, draw(), np.ones_like(plain)), logs) for method in methods}
    rest = dict(mean=logs.mean, pulls=pulls.mean(axis=0), num_trials=trials, level=0.95)
    return Evaluation(methods=figures, reasons={}, **rest)


def make_history(num_steps, num_arms, seed=0):
    random = np.random.default_rng(seed)
    arms = np.concatenate([np.arange(num_arms), random.integers(0, num_arms, num_steps - num_arms)]).astype(np.int32)
    return jb.History(arms=arms, rewards=random.normal(size=num_steps), num_arms=num_arms)


def make_fit(**changed):
    simulated = np.random.default_rng(0).normal(-100, 5, 4000)
    rows = (CalibrationRow(0.1, 0.2, 50, 0.15, 0.12, 0.05), CalibrationRow(0.8, 0.9, 50, 0.85, 0.9, 0.05))
    fields = dict(verdict="fits", log_prob=-98.0, expected=-100.0, deviation=5.0, simulated=simulated, p_value=0.7)
    fields |= dict(calibration=rows, calibration_p_value=0.5, choices=50, impossible=0, surprises=())
    return PolicyFit(**(fields | changed))


def artists(figure, gid):
    return figure.findobj(lambda part: part.get_gid() == gid)


def line(figure, gid):
    (found,) = artists(figure, gid)
    return np.asarray(found.get_xdata(), float), np.asarray(found.get_ydata(), float)


def svg_of(figure, salt="test"):
    text = to_svg(figure, title="A picture", salt=salt)
    return text, xml.fromstring(text)


def texts_of(root):
    return ["".join(part.itertext()) for part in root.iter() if part.tag.endswith("text")]


PICTURES = {
    "estimates": lambda labels: plot_estimates(
        make_comparison(len(labels)), labels, recommended="mean_matching", truth=np.zeros(len(labels))
    ),
    "running means": lambda labels: plot_running_means(
        make_history(100, len(labels)), labels, estimate=make_estimate("a", [0.1] * len(labels), [0.3] * len(labels))
    ),
    "long": lambda labels: plot_running_means(make_history(5000, len(labels)), labels),
    "bias": lambda labels: plot_bias(
        ArmBias(np.zeros(len(labels)), np.full(len(labels), -0.1), np.full(len(labels), 0.01), 2048), labels
    ),
    "fit": lambda labels: plot_fit(make_fit(), labels),
    "evaluation": lambda labels: plot_evaluation(make_evaluation(len(labels)), labels),
    "influence": lambda labels: draw_influence(make_history(100, len(labels)), labels)[0],
}


def draw_influence(history, labels=None):
    """The influence of sample means, and how far each row has moved its own arm's, by leaving it out."""
    pulls = np.bincount(history.arms, minlength=history.num_arms)
    moved = (history.arms[None] == np.arange(history.num_arms)[:, None]) / np.maximum(pulls, 1)[:, None]
    estimate = make_estimate("sample_mean", np.zeros(history.num_arms), np.full(history.num_arms, 0.5))
    return plot_influence(moved, history, estimate, labels), moved


@pytest.fixture(params=PICTURES)
def picture(request):
    return PICTURES[request.param]


# Estimates


def test_estimates_are_drawn_where_they_are():
    comparison = make_comparison()
    figure = plot_estimates(comparison, recommended="mean_matching", truth=[0.1, 0.2, 0.3])
    for method, estimate in comparison.estimates.items():
        np.testing.assert_array_equal(line(figure, f"believed {method}")[0], estimate.mean)
        ends = line(figure, f"interval {method}")[0].reshape(3, 3)
        np.testing.assert_allclose(ends[:, 0], estimate.lower)
        np.testing.assert_allclose(ends[:, 1], estimate.upper)
    np.testing.assert_array_equal(line(figure, "truth")[0].reshape(3, 3)[:, 0], [0.1, 0.2, 0.3])
    places = line(figure, "believed mean_matching")[1]
    assert np.all(places < line(figure, "believed sample_mean")[1])  # the recommended one is first, and the axis runs downwards
    assert np.all(np.diff(places) > 0)


def test_the_recommended_method_is_thick_and_named():
    figure = plot_estimates(make_comparison(), recommended="mean_matching")
    (thick,), (thin,) = artists(figure, "interval mean_matching"), artists(figure, "interval sample_mean")
    assert thick.get_linewidth() > 2 * thin.get_linewidth()
    assert "mean_matching (recommended)" in texts_of(svg_of(figure)[1])


def test_an_evaluation_is_drawn_where_its_figures_are():
    found = make_evaluation()
    figure = plot_evaluation(found)
    for method, figures in found.methods.items():
        np.testing.assert_array_equal(line(figure, f"bias {method}")[0], figures.bias)
        np.testing.assert_allclose(line(figure, f"error {method}")[0], 100 * figures.relative_rmse)
        np.testing.assert_allclose(line(figure, f"coverage {method}")[0], 100 * figures.average_coverage)
        np.testing.assert_allclose(line(figure, f"many {method}")[0], 100 * figures.relative_rmse_by_pulls[2])


def test_methods_differ_in_marker_and_in_colour():
    marks = [mark_of(method) for method in METHODS]
    assert len({marker for marker, _ in marks}) == len(METHODS)  # legible without colours, of which there are eight
    assert (mark_of("sample_mean"), mark_of("mean_matching")) == (("o", canvas.SERIES[1]), ("s", canvas.SERIES[0]))


def test_a_new_method_gets_a_mark(monkeypatch):
    marks = {method: mark_of(method) for method in METHODS}
    monkeypatch.setitem(METHODS, "new_method", METHODS["sample_mean"])
    assert mark_of("new_method") not in marks.values()
    assert {method: mark_of(method) for method in marks} == marks
    plot_estimates(make_comparison(methods=("sample_mean", "new_method")))


def test_what_has_not_converged_is_hollow():
    doubtful = make_estimate("sample_mean", [1.0, 2.0, 3.0], [1.0, 1.0, 1.0], [True, False, True])
    figure = plot_estimates(make_comparison(sample_mean=doubtful))
    np.testing.assert_array_equal(line(figure, "doubtful sample_mean")[0], [2.0])
    np.testing.assert_array_equal(line(figure, "believed sample_mean")[0], [1.0, 3.0])
    (hollow,) = artists(figure, "doubtful sample_mean")
    assert hollow.get_markerfacecolor() == canvas.PAPER
    assert "hollow: doubtful" in texts_of(svg_of(figure)[1])


def test_infinite_ends_are_arrows_and_missing_estimates_are_left_out():
    wild = Estimate(
        method="sample_mean",
        mean=np.array([0.0, np.nan, 1.0]),
        stderr=np.array([1.0, np.nan, np.nan]),
        lower=np.array([-np.inf, np.nan, np.nan]),
        upper=np.array([1e9, np.nan, np.nan]),
        status=np.array([Status.CONVERGED, Status.STILL_MOVING, Status.CONVERGED]),
        diagnostics={},
    )
    other = make_estimate("mean_matching", [0.0, np.nan, 1.0], [0.5, np.nan, 0.5])
    figure = plot_estimates(make_comparison(sample_mean=wild, mean_matching=other), recommended="mean_matching")
    left, right = figure.axes[0].get_xlim()
    assert -5 < left < -0.5 < 1.5 < right < 5
    for gid, limit in (("< sample_mean", left), ("> sample_mean", right)):
        np.testing.assert_allclose(line(figure, gid)[0], [limit])
    assert texts_of(svg_of(figure)[1]).count("no estimate") == 1
    nothing = make_estimate("sample_mean", [np.nan], [np.nan])
    svg_of(plot_estimates(make_comparison(1, ("sample_mean",), sample_mean=nothing)))


def test_equal_estimates_without_spread_have_an_axis():
    same = make_estimate("sample_mean", [2.0], [0.0])
    left, right = plot_estimates(make_comparison(1, ("sample_mean",), sample_mean=same)).axes[0].get_xlim()
    assert left < 2 < right


def test_of_many_arms_the_most_pulled_are_drawn():
    pulls = np.arange(200) % 97
    figure = plot_estimates(make_comparison(200, pulls=pulls), [f"arm number {arm}" for arm in range(200)])
    drawn = np.sort(np.argsort(-pulls, kind="stable")[:30])
    comparison = make_comparison(200, pulls=pulls)
    np.testing.assert_array_equal(line(figure, "believed sample_mean")[0], comparison.estimates["sample_mean"].mean[drawn])
    text, root = svg_of(figure)
    assert any("170 more arms are left out" in words for words in texts_of(root))
    assert len(text) < 60_000
    shown = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert [int(re.match(r"arm number (\d+)", label)[1]) for label in shown] == drawn.tolist()


def test_one_arm_is_drawn(picture):
    svg_of(picture(["alone"]))


def test_a_batch_of_logs_is_refused(unchecked):
    comparison = make_comparison(pulls=np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"^comparison has pulls of shape \(2, 3\); it must be of one log"):
        plot_estimates(comparison)
    with pytest.raises(ValueError, match=r"^history has arms of shape \(2, 4\); it must be of one log"):
        plot_running_means(jb.History(arms=np.zeros((2, 4), int), rewards=np.zeros((2, 4)), num_arms=1))
    with pytest.raises(ValueError, match=r"^labels has 2 labels; give 3, one for each arm"):
        plot_estimates(make_comparison(), ["a", "b"])


# Running means


def test_running_means_are_those_of_the_log():
    history = make_history(120, 3)
    figure = plot_running_means(history)
    for arm in range(3):
        steps, means = line(figure, f"arm {arm}")
        pulled = np.flatnonzero(history.arms == arm)
        np.testing.assert_array_equal(steps[:-1], pulled + 1)  # counted from 1
        np.testing.assert_allclose(means[:-1], [history.rewards[pulled[: count + 1]].mean() for count in range(len(pulled))])
        assert (steps[-1], means[-1]) == (120, means[-2])
        np.testing.assert_array_equal(line(figure, f"choices {arm}")[0].reshape(-1, 3)[:, 0], pulled + 1)


def test_the_estimate_stands_at_the_right():
    estimate = make_estimate("mean_matching", [0.5, np.nan, -0.5], [0.2, np.nan, np.inf], [True, False, True])
    figure = plot_running_means(make_history(120, 3), estimate=estimate)
    steps, means = line(figure, "estimate 0")
    assert steps[0] > 120
    assert means[0] == 0.5
    np.testing.assert_allclose(line(figure, "interval 0")[1], [0.3, 0.7])
    assert np.all(np.isfinite(line(figure, "interval 2")[1]))
    svg_of(figure)


def test_a_million_steps_make_a_small_picture_at_once():
    history = make_history(10**6, 5)
    svg_of(plot_running_means(make_history(1000, 5)))  # what matplotlib does once
    start = time.perf_counter()
    figure = plot_running_means(history)
    text, _ = svg_of(figure)
    assert time.perf_counter() - start < 5  # one second on an idle machine
    assert len(text) < 80_000
    steps, means = line(figure, "arm 2")
    assert len(steps) <= 1000
    assert means[-1] == pytest.approx(history.rewards[history.arms == 2].mean())
    (share,) = artists(figure, "choices 2")
    values, edges, base = share.get_data()
    counts = np.histogram(np.flatnonzero(history.arms == 2), edges - 1)[0]
    np.testing.assert_allclose((base - values) / 0.84, counts / np.diff(edges))


def test_of_two_hundred_arms_thirty_are_drawn():
    figure = plot_running_means(make_history(3000, 200))
    assert len(figure.axes[1].get_yticks()) == 30
    assert len(svg_of(figure)[0]) < 250_000


def test_an_arm_that_was_never_pulled_has_no_line():
    history = jb.History(arms=np.array([0, 0, 2]), rewards=np.array([0.0, 1.0, 2.0]), num_arms=3)
    figure = plot_running_means(history, estimate=make_estimate("sample_mean", [0.5, np.nan, 2.0], [0.1, np.nan, 0.1]))
    assert not artists(figure, "arm 1")
    svg_of(figure)


# Bias and fit


def test_the_bias_is_drawn_with_its_error():
    bias, stderr = np.array([-0.2, np.nan, 0.1]), np.array([0.01, np.nan, 0.02])
    figure = plot_bias(ArmBias(np.zeros(3), bias, stderr, 2048), ["a", "b", "c"])
    np.testing.assert_array_equal(line(figure, "bias")[0], bias)
    for gid, count in (("one", 1), ("three", 3)):
        ends = line(figure, gid)[0].reshape(3, 3)
        np.testing.assert_allclose(ends[:, 0], bias - count * np.nan_to_num(stderr))
        np.testing.assert_allclose(ends[:, 1], bias + count * np.nan_to_num(stderr))
    assert texts_of(svg_of(figure)[1]).count("never pulled") == 1


def test_of_many_biases_the_largest_are_drawn():
    bias = np.linspace(0, -1, 200)
    figure = plot_bias(ArmBias(np.zeros(200), bias, np.full(200, 0.01), 2048))
    np.testing.assert_array_equal(line(figure, "bias")[0], bias[-30:])


def test_the_influence_is_drawn_in_standard_errors():
    """The estimate has a standard error of 1/4: a stroke is four times what leaving the row out changes."""
    history = make_history(12, 2)
    figure, moved = draw_influence(history)
    own = artists(figure, "own")
    for arm, strokes in enumerate(own):
        steps, ends = strokes.get_xdata()[1::3] - 1, strokes.get_ydata()[1::3]
        assert set(steps.astype(int)) == set(np.flatnonzero(history.arms == arm))
        for step, end in zip(steps.astype(int), ends, strict=True):
            others = (history.arms == arm) & (np.arange(12) != step)
            left_out = history.rewards[history.arms == arm].mean() - history.rewards[others].mean()
            assert end == pytest.approx(4 * left_out)
    with pytest.raises(jb.ArgumentError, match="influence has shape"):
        plot_influence(moved[:, :3], history, make_estimate("a", [0.0] * 2, [1.0] * 2))


def test_the_fit_shows_the_log_among_redraws():
    fit = make_fit()
    figure = plot_fit(fit)
    np.testing.assert_array_equal(line(figure, "log")[0], [-98.0, -98.0])
    counts = sum(bar.get_height() for bar in figure.axes[0].patches)
    assert counts == len(fit.simulated)
    predicted, chosen = line(figure, "calibration")
    np.testing.assert_array_equal(predicted, [0.15, 0.85])
    np.testing.assert_array_equal(chosen, [0.12, 0.9])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (dict(verdict="impossible", log_prob=-np.inf, impossible=3, p_value=0.0), "the log: -∞"),
        (
            dict(verdict="nothing to check", choices=0, calibration=(), simulated=np.zeros(200), deviation=0.0, log_prob=0.0),
            "nothing to check",
        ),
        (dict(deviation=0.0, expected=0.0, log_prob=0.0, simulated=np.zeros(200)), "the log"),
        (dict(deviation=0.0, expected=-0.0, log_prob=-np.inf, simulated=np.zeros(200), verdict="impossible"), "the log: -∞"),
    ],
)
def test_a_fit_at_its_edges_is_drawn(changed, words):
    assert words in texts_of(svg_of(plot_fit(make_fit(**changed)))[1])


# SVG


def test_hostile_labels_are_text_and_nothing_else(picture):
    text, root = svg_of(picture(HOSTILE))
    allowed = {"svg", "title", "g", "path", "text", "tspan", "use", "defs", "clipPath", "rect"}
    assert {part.tag.split("}")[-1] for part in root.iter()} <= allowed
    attributes = {name.split("}")[-1] for part in root.iter() for name in part.attrib}
    assert not {name for name in attributes if name.startswith("on")}
    assert "\x00" not in text
    assert "\u202e" not in text
    text.encode()


def test_labels_are_drawn_as_they_are_and_not_as_mathematics():
    texts = texts_of(svg_of(plot_bias(ArmBias(np.zeros(12), np.zeros(12), np.ones(12), 2048), HOSTILE))[1])
    for words in ("$x^2$ and $", "emoji 👩‍🔬 🦄", "two lines and tab", "<script>a…/script>", "עברית ثم عربي"):
        assert words in texts
    assert all(len(words) <= 60 for words in texts)


def test_an_svg_scales_and_says_what_it_is(picture):
    text, root = svg_of(picture(["a", "b"]))
    assert text.startswith("<svg ")
    assert {"width", "height"}.isdisjoint(root.attrib)
    assert root.attrib["viewBox"].startswith("0 0 ")
    assert root.attrib["role"] == "img"
    assert root[0].tag.endswith("title")
    assert root[0].text == "A picture"
    assert "<metadata" not in text
    assert "<style" not in text
    assert "font-family" not in text.split(">", 1)[1]
    assert text.count("http") == 1  # the namespace
    assert texts_of(root)


def test_every_colour_is_a_variable_of_the_page(picture):
    text, _ = svg_of(picture(["a", "b"]))
    without = re.sub(r"var\(--[a-z0-9]+, (#[0-9a-f]{6}|currentColor)\)", "", text)
    assert not re.search(r"(fill|stroke): (?!none)#?\w", without)
    assert "var(--ink, currentColor)" in text


def test_the_page_has_every_colour():
    template = (Path(jb.__file__).parent / "reporting" / "templates" / "style.css").read_text()
    for name in canvas.COLOURS.values():
        assert template.count(f"--{name}: #") == 2  # light and dark


def test_the_same_picture_is_the_same_text(picture):
    assert svg_of(picture(["a", "b"]))[0] == svg_of(picture(["a", "b"]))[0]


def test_names_do_not_collide_on_one_page():
    first, second = (svg_of(PICTURES["estimates"](["a", "b"]), salt)[1] for salt in ("first one", "second"))
    ids = [{part.get("id") for part in root.iter() if part.get("id")} for root in (first, second)]
    assert ids[0]
    assert ids[0].isdisjoint(ids[1])
    for root, names in zip((first, second), ids, strict=True):
        text = xml.tostring(root, encoding="unicode")
        targets = set(re.findall(r"url\(#([^)]+)\)", text)) | set(re.findall(r'href="#([^"]+)"', text))
        assert targets == names


def test_drawing_leaves_matplotlib_as_it_was(picture):
    import matplotlib

    def settings():  # to look at the backend is to choose one
        return {name: matplotlib.rcParams[name] for name in matplotlib.rcParams if name != "backend"}

    before, pyplot = settings(), "matplotlib.pyplot" in sys.modules
    svg_of(picture(["a", "b"]))
    assert settings() == before
    assert ("matplotlib.pyplot" in sys.modules) == pyplot


def test_a_notebook_shows_the_figure(picture):
    assert picture(["a", "b"])._repr_png_()[:4] == b"\x89PNG"


def test_matplotlib_is_behind_one_file():
    folder = Path(jb.__file__).parent
    users = [
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if re.search(r"^\s+(from|import) matplotlib(?!\.figure$)", path.read_text(), re.M)
    ]
    assert users == ["reporting/plots/canvas.py"]


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"^drawing needs matplotlib; it comes with pip install 'jaxbias\[cli\]'"):
        plot_fit(make_fit())


def contrast(first, second):
    def luminance(colour):
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_every_colour_can_be_read_on_its_paper():
    template = (Path(jb.__file__).parent / "reporting" / "templates" / "style.css").read_text()
    schemes = re.findall(r":root \{(.*?)\}", template, re.S)
    assert len(schemes) == 2
    for scheme in schemes:
        colours = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", scheme))
        for name, colour in colours.items():
            if name not in ("grid", "paper", "band", "alarm-paper"):
                for paper in ("paper", "band"):
                    assert contrast(colour, colours[paper]) >= 4.5, (name, paper)
        assert contrast(colours["alarm"], colours["alarm-paper"]) >= 4.5
        assert contrast(colours["ink"], colours["alarm-paper"]) >= 4.5
