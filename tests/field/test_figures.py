"""Figures show the data that they are given, and a notebook can store them."""

import io
import re
from importlib import import_module
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.markers import MarkerStyle
from scipy import stats

import dpbai
from dpbai.field import figures
from dpbai.field.figures.canvas import SERIES

canvas = import_module("dpbai.field.figures.canvas")  # the name `figures.canvas` is the function

POLICIES = {"DP-BAI": dpbai.DPBAI, "OD-LinBAI": dpbai.ODLinBAI}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return dpbai.study(
        POLICIES, dpbai.synthetic(), budgets=[100, 400], epsilons=[0.5, 2], trials=50
    )


def test_a_picture_is_the_same_small_svg_each_time_and_leaves_no_figure_open(
    table: pd.DataFrame,
) -> None:
    first, second = (figures.success_curves(table, along="budget") for _ in range(2))
    assert first.svg() == first.svg() == second.svg()
    assert first.svg().startswith("<svg ")
    assert len(first.svg()) < 60_000
    assert (first.dpi, to_rgb(first.patch.get_facecolor())) == (120, to_rgb("white"))
    assert plt.get_fignums() == []


def test_a_long_log_axis_has_ticks_at_powers_only() -> None:
    for top, few in ((1e3, False), (1e8, True)):
        with figures.canvas() as (_, axes):
            axes.plot([1, 2], [1, top])
            axes.set(yscale="log", ylim=(1, top))
        assert (len(axes.yaxis.get_minorticklocs()) == 0) == few


def test_the_slim_svg_looks_like_the_one_that_matplotlib_writes(table: pd.DataFrame) -> None:
    """The same shapes in the same order, each within 0.01 points; every reference has a target."""
    picture = figures.success_curves(table, along="budget")
    whole = io.StringIO()
    with plt.rc_context(canvas._STYLE):
        picture.savefig(whole, format="svg", transparent=True)

    def shapes(text: str) -> list[tuple[str, list[float]]]:
        elements = list(ElementTree.fromstring(text).iter())
        names = {f"#{element.get('id')}" for element in elements}
        assert set(re.findall(r'(?:href="|url\()(#[\w-]+)', text)) <= names
        keys = ("d", "x", "y", "transform")
        numbers = [" ".join(element.get(key, "") for key in keys) for element in elements]
        return [
            (element.tag, [float(digits) for digits in re.findall(r"-?\d[\d.]*", text)])
            for element, text in zip(elements, numbers, strict=True)
            if element.tag.endswith(("}path", "}use", "}g"))
        ]

    ours, theirs = shapes(picture.svg()), shapes(whole.getvalue())
    assert [tag for tag, _ in ours] == [tag for tag, _ in theirs]
    for (_, mine), (_, given) in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, given, atol=0.0051)


def test_figures_of_one_page_share_no_identifier(table: pd.DataFrame) -> None:
    """Otherwise the second figure would use the shapes of the first."""
    names = [
        set(re.findall(r' id="([^"]+)"', figures.success_curves(table, along=along).svg()))
        for along in ("budget", "epsilon")
    ]
    assert all(names)
    assert names[0].isdisjoint(names[1])
    assert all(re.fullmatch(r"[a-z][\w-]*", name) for name in names[0] | names[1])


def test_names_with_control_characters_make_a_valid_svg(table: pd.DataFrame) -> None:
    odd = "a\x1b[1m\nb\x00\ud800--"
    picture = figures.success_curves(table.replace("DP-BAI", odd), along="budget")
    with figures.rows_of_arms([odd, "plain"]) as (rows, (panel,)):
        panel.barh([0, 1], [1, 2])
    for drawn in (picture, rows):
        saved = io.BytesIO()
        drawn.savefig(saved, format="svg")
        for text in (drawn.svg(), saved.getvalue().decode()):
            ElementTree.fromstring(text.encode())
    assert r"a\x1b[1m b\x00\xd800--" in panel.get_yticklabels()[0].get_text()


def test_rows_of_several_seeds_are_one_point(table: pd.DataFrame) -> None:
    again = dpbai.study(
        POLICIES, dpbai.synthetic(), budgets=[100, 400], epsilons=[0.5, 2], trials=30, seed=1
    )
    both = pd.concat([table, again])
    picture = figures.success_curves(both, along="budget")
    for axes, epsilon in zip(picture.axes, [0.5, 2], strict=True):
        for name in POLICIES:
            (line,) = [line for line in axes.get_lines() if line.get_label() == name]
            rows = both[(both["policy"] == name) & both["epsilon"].isin([epsilon, np.inf])]
            sums = rows.groupby("budget")[["successes", "trials"]].sum()
            np.testing.assert_array_equal(line.get_xdata(), [100, 400])
            np.testing.assert_allclose(line.get_ydata(), sums["successes"] / sums["trials"])
        band = axes.collections[0].get_paths()[0].get_extents()
        first = both[(both["policy"] == "DP-BAI") & (both["epsilon"] == epsilon)]
        limits = [
            stats.binomtest(int(group["successes"].sum()), int(group["trials"].sum()))
            .proportion_ci(0.95, method="wilson")
            for _, group in first.groupby("budget")
        ]  # fmt: skip
        assert (band.y0, band.y1) == pytest.approx(
            (min(limit.low for limit in limits), max(limit.high for limit in limits))
        )


def test_success_curves_show_the_rates_of_each_policy_in_each_panel(table: pd.DataFrame) -> None:
    picture = figures.success_curves(table, along="budget")
    for axes, epsilon in zip(picture.axes, [0.5, 2], strict=True):
        for name in POLICIES:
            rows = table[(table["policy"] == name) & table["epsilon"].isin([epsilon, np.inf])]
            (line,) = [line for line in axes.get_lines() if line.get_label() == name]
            np.testing.assert_array_equal(line.get_xdata(), rows["budget"])
            np.testing.assert_array_equal(line.get_ydata(), rows["success_rate"])


def test_along_epsilon_a_policy_without_epsilon_is_a_horizontal_line(table: pd.DataFrame) -> None:
    picture = figures.success_curves(table, along="epsilon")
    for axes, budget in zip(picture.axes, [100, 400], strict=True):
        (line,) = [line for line in axes.get_lines() if line.get_label() == "OD-LinBAI"]
        rows = table[(table["policy"] == "OD-LinBAI") & (table["budget"] == budget)]
        assert set(line.get_ydata()) == set(rows["success_rate"])


def test_least_budgets_are_points_and_those_without_privacy_dashed_lines() -> None:
    found = [
        ("A", np.inf, 100), ("A", 0.5, 900), ("A", 2.0, 300), ("B", np.inf, 80), ("B", 2.0, 400),
    ]  # fmt: skip
    (axes,) = figures.least_budgets(found).axes
    drawn, free = axes.get_lines()[::2], axes.get_lines()[1::2]
    points = {line.get_label(): line.get_xydata().tolist() for line in drawn}
    assert points == {"A": [[0.5, 900], [2.0, 300]], "B": [[2.0, 400]]}
    for line, level, with_privacy in zip(free, (100, 80), drawn, strict=True):
        assert (set(line.get_ydata()), line.get_linestyle()) == ({level}, "--")
        assert line.get_color() == with_privacy.get_color()


def test_the_best_arm_and_those_recommended_most_often_have_bars() -> None:
    labels, counts = [f"arm {arm}" for arm in range(60)], list(range(60))
    (axes,) = figures.recommended_counts(labels, counts, best=3).axes
    arms = [3, *range(21, 60)]
    assert [text.get_text() for text in axes.get_yticklabels()] == [labels[arm] for arm in arms]
    assert [bar.get_width() for bar in axes.patches] == [counts[arm] for arm in arms]
    colours = {
        arm: to_rgb(bar.get_facecolor()) for arm, bar in zip(arms, axes.patches, strict=True)
    }
    assert [arm for arm, colour in colours.items() if colour == to_rgb(canvas.BLUE)] == [3]
    assert "recommended less often are left out" in axes.get_xlabel()


def test_each_line_is_named_once_beside_it_where_nothing_else_is_drawn(table: pd.DataFrame) -> None:
    """Of the panels that show the same policies, in the one with the most space."""
    picture = figures.success_curves(table, along="budget")
    (axes,) = [axes for axes in picture.axes if axes.texts]
    lines = {line.get_label(): line for line in axes.get_lines()}
    texts = {text.get_text(): text for text in axes.texts}
    assert set(texts) == set(POLICIES) <= set(lines)
    frame = axes.get_window_extent()
    for name, text in texts.items():
        assert text.get_color() == lines[name].get_color()
        box = text.get_window_extent()
        assert frame.contains(*box.p0)
        assert frame.contains(*box.p1)
        for line in lines.values():
            path = line.get_transform().transform_path(line.get_path())
            assert not path.intersects_bbox(box, filled=False)


def test_a_name_is_near_the_end_of_its_line_and_not_on_error_bars() -> None:
    """The bar of the second figure crosses the name of the first."""
    bars: list[float] = []
    for _ in range(2):
        with canvas.canvas() as (_, axes):
            axes.set(xlim=(0, 1), ylim=(0, 1))
            axes.plot([0, 1], [0.5, 0.5], label="level")
            axes.vlines(bars, 0, 1)
            canvas.name_lines(axes)
        (text,) = axes.texts
        box = text.get_window_extent().transformed(axes.transData.inverted())
        assert box.x0 > 0.6
        assert not any(box.x0 <= bar <= box.x1 for bar in bars)
        bars.append((box.x0 + box.x1) / 2)


def test_names_are_written_again_in_place_of_those_before() -> None:
    with canvas.canvas() as (figure, axes):
        axes.plot([0, 1], [0.5, 0.5], label="level")
        canvas.name_lines(axes)
    axes.set(xlim=(0, 10))
    before = axes.texts[0].get_position()
    figure.write_names()
    (text,) = axes.texts
    assert text.get_position() != before


def test_a_grid_has_no_more_columns_than_panels_and_hides_what_is_left_over() -> None:
    for count, shape in ((1, (1, 1)), (3, (2, 2))):
        with figures.panels_in_a_grid(count, 2, "x", "y") as (picture, panels):
            for panel in panels:
                panel.plot([0, 1], [0, 1], label="line")
        assert panels[0].get_gridspec().get_geometry() == shape
        assert [axes.axison for axes in picture.axes] == [True] * count + [False] * (
            len(picture.axes) - count
        )


@pytest.mark.parametrize("wide", [0, 1])
def test_of_panels_with_the_same_lines_the_one_where_they_are_farthest_apart_names_them(
    wide: int,
) -> None:
    with canvas.canvas(1, 2) as (_, panels):
        for place, panel in enumerate(panels):
            distance = 0.3 if place == wide else 0.1
            for name, level in (("low", 0.5 - distance), ("high", 0.5 + distance)):
                panel.plot([0, 1], [level, level], label=name)
            panel.set(ylim=(0, 1))
        canvas.name_lines(*panels)
    assert [len(panel.texts) for panel in panels] == [2 * (place == wide) for place in (0, 1)]


def test_a_name_may_be_between_markers_that_no_line_joins() -> None:
    places = []
    for marks in ([], [0, 1]):
        with canvas.canvas() as (_, axes):
            axes.set(xlim=(-0.1, 1.1), ylim=(-0.1, 1.1))
            axes.plot([0.45, 0.55], [0.5, 0.5], label="level")
            axes.plot(marks, marks, "o")
            canvas.name_lines(axes)
        places += [text.get_position() for text in axes.texts]
    assert places[0] == places[1]


def test_series_differ_without_colour() -> None:
    markers = {MarkerStyle(look["marker"]).get_marker() for look in SERIES}
    lines = {str(look["linestyle"]) for look in SERIES}
    assert len(markers) == len(lines) == len(SERIES)
    # At a contrast of 2.5 with white, every line is visible in greyscale.
    assert all(contrast_with_white(look["color"]) > 2.5 for look in SERIES)


def test_text_has_a_contrast_of_4_5_with_white_also_where_its_line_has_less() -> None:
    with canvas.canvas() as (picture, axes):
        for level, look in enumerate(SERIES):
            axes.plot([0, 1], [level, level], label=look["color"], **look)
        canvas.name_lines(axes)
    picture.svg()
    assert min(contrast_with_white(text.get_text()) for text in axes.texts) < 4.5
    assert min(contrast_with_white(text.get_color()) for text in axes.texts) >= 4.5


def contrast_with_white(color: str) -> float:
    """Return the contrast that WCAG defines."""
    channels = np.array(to_rgb(color))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return 1.05 / (linear @ [0.2126, 0.7152, 0.0722] + 0.05)


def test_bad_arguments_are_named(table: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="along must be one of 'budget', 'epsilon'"):
        figures.success_curves(table, along="trials")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="table must have finite epsilons"):
        figures.success_curves(table.replace(2.0, np.inf), along="epsilon")
    with pytest.raises(ValueError, match="table must have rows with a finite epsilon"):
        figures.success_curves(table[np.isinf(table["epsilon"])], along="budget")


def test_a_trace_has_no_row_for_arms_about_which_one_number_says_nothing() -> None:
    """Arm 3 is not on the line through arms 0 and 1, which alone can be the best."""
    features = [[0.9, 0.1], [0.1, 0.9], [0.7, 0.3], [0.3, 0.3]]
    policy = dpbai.DPDesign(features, budget=10**4, epsilon=1, misfit=0)
    with pytest.warns(dpbai.ReleaseWarning):
        session = dpbai.Session(policy, noise=dpbai.NumpyNoise(0))
    session.record_sums({arm: (n * 0.5, n) for arm, n in session.requests.items()})
    assert len(session.estimates) == 4
    picture = figures.run_trace(session)
    (panel,) = picture.axes
    rows = [label.get_text() for label in panel.get_yticklabels()]
    assert sorted(rows) == ["0", "1", "2"]
    points = [line for line in panel.lines if line.get_marker() in ("x", "o", "*")]
    assert sorted(y for line in points for y in line.get_ydata()) == [0, 1, 2]
    assert "not shown: 1 of 4 arms" in picture.get_supxlabel()
