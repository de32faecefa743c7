"""Figures: what they show, what they are called, and that they leave nothing behind."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib import rcParams
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hellinger import figures, simulate, theory
from hellinger.figures import _style
from hellinger.lab import Result

SPECS = ["hellinger-ucb", "kl-ucb", "ucb1"]


@pytest.fixture(scope="module")
def result() -> Result:
    return simulate(SPECS, means=[0.1, 0.05, 0.02], horizon=300, runs=6, init=3)


def lines(figure: Figure, style: str) -> list[Line2D]:
    return [line for line in figure.axes[0].lines if line.get_linestyle() == style]


def test_regret_has_means_bands_bounds_and_the_lower_line(result: Result) -> None:
    bound = figures.Line(
        "bound", result.checkpoints, theory.dashed_bound(result.means, horizon=result.checkpoints), of="kl-ucb"
    )
    figure = result.plot_regret(bounds=[bound])
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    assert [line.get_label() for line in lines(figure, "-")] == SPECS
    for i, line in enumerate(lines(figure, "-")):
        np.testing.assert_array_equal(line.get_ydata(), result.regret[i].mean(axis=0))
    bands = [artist for artist in axes.collections if isinstance(artist, PolyCollection)]
    assert len(bands) == len(SPECS)
    low, high = np.quantile(result.regret[0], [0.25, 0.75], axis=0)
    vertices = np.asarray(bands[0].get_paths()[0].vertices)
    assert vertices[:, 1].min() == low.min()
    assert vertices[:, 1].max() == high.max()
    (dashed,) = lines(figure, "--")
    assert dashed.get_color() == lines(figure, "-")[1].get_color()
    (dotted,) = lines(figure, ":")
    assert np.asarray(dotted.get_ydata())[-1] == pytest.approx(theory.lai_robbins(result.means) * np.log(300))
    assert "round t" in axes.get_xlabel()
    assert "reward units" in axes.get_ylabel()
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [*SPECS, "bound", "Lai–Robbins slope"]


def test_regret_without_the_lower_line(result: Result) -> None:
    assert not lines(result.plot_regret(lai_robbins=False), ":")


def test_focus_names_the_curve_that_leaves_the_frame() -> None:
    t = np.array([1, 10, 100])
    curves = [
        figures.Curve(name, t, end * t / 100.0, end * t / 100.0, end * t / 100.0)
        for name, end in (("kl-ucb", 10.0), ("ucb1", 99.0))
    ]
    (axes,) = figures.draw_regret(curves, focus=["kl-ucb"]).axes
    assert axes.get_ylim() == pytest.approx((0.0, 12.5))
    assert [text.get_text() for text in axes.texts] == ["ucb1: 99\nat t = 100"]
    (whole,) = figures.draw_regret(curves).axes
    assert whole.get_ylim()[1] > 99.0
    assert not whole.texts


def test_average_is_regret_over_time_from_the_first_choice_on(result: Result) -> None:
    figure = result.plot_average()
    (axes,) = figure.axes
    assert axes.get_xlim() == (9.0, 300.0)
    for i, line in enumerate(lines(figure, "-")):
        np.testing.assert_allclose(np.asarray(line.get_ydata()), result.regret[i].mean(axis=0) / result.checkpoints)
    assert "per round" in axes.get_ylabel()


def test_final_has_a_box_and_every_run(result: Result) -> None:
    (axes,) = result.plot_final().axes
    assert [label.get_text() for label in axes.get_yticklabels()] == SPECS
    boxes = [patch.get_window_extent().transformed(axes.transData.inverted()) for patch in axes.patches]
    for box, runs in zip(boxes, result.final, strict=True):
        assert [box.x0, box.x1] == pytest.approx(np.quantile(runs, [0.25, 0.75]).tolist())
    dots = [line for line in axes.lines if line.get_marker() == "."]
    for i, drawn in enumerate(dots):
        np.testing.assert_array_equal(drawn.get_xdata(), result.final[i])
    assert "last round" in axes.get_xlabel()


@pytest.mark.parametrize(("largest", "scale"), [(40.0, "linear"), (60.0, "log")])
def test_axis_is_logarithmic_where_values_spread(largest: float, scale: str) -> None:
    (axes,) = figures.draw_final({"a": np.array([10.0, 11.0]), "b": np.array([20.0, largest])}).axes
    assert axes.get_xscale() == scale
    assert ("log scale" in axes.get_xlabel()) == (scale == "log")


def test_zero_regret_is_drawn_on_a_linear_axis() -> None:
    (axes,) = figures.draw_final({"a": np.array([0.0, 100.0])}).axes
    assert axes.get_xscale() == "linear"


def test_latency_draws_the_limit_and_writes_times_at_the_mark() -> None:
    arms = np.array([100, 10_000])
    rows = [
        figures.Timing("ucb1", arms, arms / 1e4, arms / 2e4, arms / 5e3),
        figures.Timing("plain", arms, arms / 1e3, arms / 2e3, arms / 5e2, baseline=True),
    ]
    figure = figures.draw_latency(rows)
    (axes,) = figure.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert any(np.all(np.asarray(line.get_ydata()) == 10.0) for line in axes.lines)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ucb1: 1 ms", "plain: 10 ms"]
    assert [line.get_label() for line in lines(figure, "--")] == ["plain: 10 ms"]
    assert "ms" in axes.get_ylabel()
    assert "arms" in axes.get_xlabel()


def test_ranking_puts_the_best_on_top() -> None:
    places = [
        figures.Place("kl-ucb", 20.0, 18.0, 22.0, 30.0),
        figures.Place("hellinger-ucb", 10.0, 9.0, 11.0, 40.0),
    ]
    figure = figures.draw_ranking(places)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["hellinger-ucb", "kl-ucb"]
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [float(np.asarray(dot.get_xdata())[0]) for dot in dots] == [10.0, 20.0]
    (tails,) = [line for line in axes.lines if line.get_marker() == ">"]
    assert list(np.asarray(tails.get_xdata())) == [40.0, 30.0]
    without = figures.draw_ranking([place._replace(tail=None) for place in places])
    assert not without.legends


def test_a_policy_keeps_its_colour() -> None:
    alone, among = figures.colours(["kl-ucb"]), figures.colours(["uniform", "moss", "kl-ucb(c=3)", "kl-ucb"])
    assert alone["kl-ucb"] == among["kl-ucb(c=3)"]
    assert len(set(among.values())) == 4


@pytest.mark.parametrize(
    "draw", [figures.draw_regret, figures.draw_average, figures.draw_latency, figures.draw_ranking]
)
def test_nothing_to_draw(draw: object) -> None:
    assert callable(draw)
    with pytest.raises(ValueError, match="at least one"):
        draw([])


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_saving_is_repeatable(tmp_path: Path, result: Result, suffix: str) -> None:
    paths = [tmp_path / f"{name}.{suffix}" for name in ("a", "b")]
    for path in paths:
        result.plot_regret(path=path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert paths[0].read_bytes()[:5] in (b"\x89PNG\r", b"<?xml", b"%PDF-")


def test_saving_without_suffix_gives_pixels_and_vectors(tmp_path: Path, result: Result) -> None:
    assert figures.save(result.plot_final(), tmp_path / "f") == [tmp_path / "f.png", tmp_path / "f.svg"]
    width = int.from_bytes((tmp_path / "f.png").read_bytes()[16:20], "big")
    assert width == 3.5 * 200  # inches times dots an inch


def test_saving_refuses_other_formats(tmp_path: Path, result: Result) -> None:
    with pytest.raises(ValueError, match=r"\.png, \.svg or \.pdf"):
        result.plot_final(path=tmp_path / "f.bmp")
    assert not list(tmp_path.iterdir())


def test_style_does_not_leak(result: Result) -> None:
    before = dict(rcParams)
    figures.render(result.plot_regret(), "png")
    assert dict(rcParams) == before


def test_pyplot_is_never_loaded() -> None:
    code = (
        "import sys, hellinger; r = hellinger.simulate('ucb1', means=[0.1, 0.2], horizon=20, runs=2);"
        "assert 'matplotlib' not in sys.modules;"
        "r.plot_regret(); r.plot_average(); r.plot_final(); assert 'matplotlib' in sys.modules;"
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_the_page_has_the_colours_of_the_figures() -> None:
    text = (Path(_style.__file__).parents[1] / "serve" / "page" / "charts.js").read_text(encoding="utf-8")
    light = re.search(r"const LIGHT = (\[.*?\]);", text)
    habitual = re.search(r"const HABITUAL = \{(.*?)\};", text)
    assert light is not None
    assert habitual is not None
    assert json.loads(light[1]) == list(_style._PALETTE)
    pairs = dict(re.findall(r'"?([\w-]+)"?: (\d+)', habitual[1]))
    assert {name: int(place) for name, place in pairs.items()} == _style._HABITUAL


def test_shares_have_a_panel_for_each_setting_and_the_policies_colours() -> None:
    points = np.array([[10.0, 0.3], [100.0, 0.6]])
    panels = [figures.SharePanel(title, dict.fromkeys(SPECS, points)) for title in ("one", "two", "three")]
    figure = figures.draw_shares(panels, of="the oracle's", first="kl-ucb", columns=2)
    shown = [axes for axes in figure.axes if axes.get_title(loc="left")]
    assert [axes.get_title(loc="left") for axes in shown] == ["one", "two", "three"]
    for line in shown[2].lines:
        assert line.get_color() == figures.colours(SPECS)[str(line.get_label())]
    assert max(shown[0].lines, key=lambda line: line.get_linewidth()).get_label() == "kl-ucb"
    with pytest.raises(ValueError, match="at least one panel"):
        figures.draw_shares([], of="nobody's")


def test_growth_has_a_guide_and_a_panel_beside_and_its_title_is_free() -> None:
    points = {"rexp3": [[1, 20.0], [8, 44.0]], "kl-ucb": [[1, 5.0], [8, 90.0]], "uniform": [[1, 50.0], [8, 60.0]]}
    figure = figures.draw_growth(
        points,
        of="regret",
        against="arms",
        power=1 / 3,
        through="rexp3",
        beside={"kl-ucb": [[1, 2.0], [8, 16.0]]},
        beside_of="numbers kept",
        title="A title that is as long as the titles of these figures come to be, and a little longer",
    )
    left, right = figure.axes
    (guide,) = lines(figure, ":")
    np.testing.assert_allclose(np.asarray(guide.get_ydata(), float), np.array([20.0, 40.0]))
    assert [line.get_color() for line in right.lines] == [left.lines[1].get_color()]
    assert right.get_ylabel() == "numbers kept (log scale)"
    figure.canvas.draw()
    title = next(text for text in figure.texts if text.get_text().startswith("A title"))
    assert not any(legend.get_window_extent().overlaps(title.get_window_extent()) for legend in figure.legends)
    lowest = figures.draw_growth(points, of="regret", against="arms", power=1.0)
    np.testing.assert_allclose(np.asarray(lines(lowest, ":")[0].get_ydata(), float), np.array([5.0, 40.0]))
    with pytest.raises(ValueError, match="through is one of the lines"):
        figures.draw_growth(points, of="regret", against="arms", power=1.0, through="exp3")
