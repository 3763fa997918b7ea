"""The shared plots show the data they are given, and a notebook can store them."""

import io
import re
from importlib import import_module
from xml.etree import ElementTree

import ipywidgets as widgets
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.markers import MarkerStyle

import dpbai
from dpbai import figures
from dpbai.figures.canvas import SERIES

canvas = import_module("dpbai.figures.canvas")  # the name `figures.canvas` is the function

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
    assert plt.get_fignums() == []


def test_the_slim_svg_looks_like_the_one_that_matplotlib_writes(table: pd.DataFrame) -> None:
    """The same shapes in order, each within a hundredth of a point, and no name that dangles."""
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


def test_frames_share_their_axes_and_show_the_frame_before_as_a_ghost() -> None:
    drawn = []

    def draw(top: float) -> tuple[figures.Picture, str]:
        with figures.canvas() as (picture, axes):
            axes.plot([0, top], [0, top * 1000], label="seen")
        drawn.append(picture)
        return picture, f"up to {top}"

    figures.explorer("top", {"1": 1.0, "5": 5.0, "3": 3.0}, draw)
    axes = [picture.axes[0] for picture in drawn]
    assert len({(ax.get_xlim(), ax.get_ylim(), ax.get_position().bounds) for ax in axes}) == 1
    assert axes[0].get_xlim()[1] > 5
    ghosts = [[line for line in ax.get_lines() if line.get_label() == "_ghost"] for ax in axes]
    assert [len(lines) for lines in ghosts] == [0, 1, 1]
    assert list(ghosts[2][0].get_xdata()) == [0, 5]


def test_success_curves_show_the_rates_of_each_policy_in_each_panel(table: pd.DataFrame) -> None:
    picture = figures.success_curves(table, along="budget")
    for axes, epsilon in zip(picture.axes, [0.5, 2], strict=True):
        for name in POLICIES:
            rows = table[(table["policy"] == name) & table["epsilon"].isin([epsilon, np.nan])]
            (line,) = [line for line in axes.get_lines() if line.get_label() == name]
            np.testing.assert_array_equal(line.get_xdata(), rows["budget"])
            np.testing.assert_array_equal(line.get_ydata(), rows["success_rate"])


def test_along_epsilon_a_policy_without_one_is_a_level_line(table: pd.DataFrame) -> None:
    picture = figures.success_curves(table, along="epsilon")
    for axes, budget in zip(picture.axes, [100, 400], strict=True):
        (line,) = [line for line in axes.get_lines() if line.get_label() == "OD-LinBAI"]
        rows = table[(table["policy"] == "OD-LinBAI") & (table["budget"] == budget)]
        assert set(line.get_ydata()) == set(rows["success_rate"])


def test_each_line_is_named_beside_it_where_no_other_line_runs(table: pd.DataFrame) -> None:
    picture = figures.success_curves(table, along="budget")
    for axes in picture.axes:
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


def test_series_differ_without_colour() -> None:
    markers = {MarkerStyle(look["marker"]).get_marker() for look in SERIES}
    lines = {str(look["linestyle"]) for look in SERIES}
    assert len(markers) == len(lines) == len(SERIES)
    # Contrast with white of at least 2.5, so that none fades in greyscale (WCAG's luminance).
    for look in SERIES:
        channels = np.array(to_rgb(look["color"]))
        linear = np.where(
            channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4
        )
        assert 1.05 / (linear @ [0.2126, 0.7152, 0.0722] + 0.05) > 2.5


def test_sizes_and_estimates_show_what_they_are_given() -> None:
    schedule = dpbai.Schedule(10_000, 16, 10**6)
    (axes,) = figures.sizes({"printed": schedule}).axes
    shown = axes.get_lines()[-1]
    assert tuple(shown.get_ydata()) == schedule.sizes


def test_a_funnel_shows_every_estimate_and_joins_those_of_survivors() -> None:
    policy = dpbai.DPBAI(np.eye(4), budget=100, epsilon=1)
    phases = [policy.phase(1, range(4)), policy.phase(2, (1, 2))]
    assert phases[0].keep == 2
    values = [[0.1, 0.5, 0.4, 0.2], [0.45, 0.55]]
    (axes,) = figures.funnel(phases, values, 2, best=2).axes
    points = [y for c in axes.containers for y in c.lines[0].get_ydata()]
    assert sorted(points) == sorted(values[0] + values[1])
    bars = {len(c.lines[0].get_ydata()): c for c in axes.containers}
    assert bars
    joined = {tuple(line.get_ydata()) for line in axes.get_lines() if line.get_zorder() == 1.5}
    assert joined == {(0.5, 0.45), (0.4, 0.55)}


def drawn_by(arms: int, dimension: int = 2) -> tuple[figures.Picture, str]:
    """Picture of a schedule, and what it was asked for."""
    picture = figures.sizes({"printed": dpbai.Schedule(arms, dimension, 10**6)})
    return picture, f"{arms} arms <in> {dimension} dimensions"


def alternative_text(shown: widgets.HTML) -> str:
    (alt,) = re.findall(
        r'^<img alt="([^"]*)" src="data:image/svg\+xml;base64,[\w+/=]+">$', shown.value
    )
    return str(alt)


def test_an_explorer_ties_a_described_frame_for_each_option_to_its_control_in_the_browser(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    links: list[object] = []
    monkeypatch.setattr(widgets, "jslink", lambda *ends: links.append(ends))
    made = figures.explorer("arms", {"ten": 10, "fifty": 50}, drawn_by, start=1)
    control, stack = made.children
    assert [frame.alt for frame in stack.children] == [drawn_by(10)[1], drawn_by(50)[1]]
    assert alternative_text(stack.children[0]) == "10 arms &lt;in&gt; 2 dimensions"
    assert (control.options, control.index, stack.selected_index) == (("ten", "fifty"), 1, 1)
    assert links == [((control, "index"), (stack, "selected_index"))]


def test_moving_a_live_control_draws_the_explorers_picture_for_its_new_value() -> None:
    made = figures.live(drawn_by, arms=(3, 100), dimension=(1, 9))
    assert made.controls["dimension"].value == 2, "a control starts at the parameter's default"
    made.controls["arms"].value = 50
    assert alternative_text(made.shown) == "50 arms &lt;in&gt; 2 dimensions"
    assert made.shown.value == figures.Frame(*drawn_by(50)).value
    made.controls["dimension"].value = 4
    assert (
        made.shown.value
        == figures.Frame(*drawn_by(50, 4)).value
        != figures.Frame(*drawn_by(50)).value
    )


def test_a_live_figure_stores_no_picture_before_a_control_is_moved() -> None:
    made = figures.live(drawn_by, arms=(3, 100), dimension=(1, 9))
    stored = [widgets.Widget.get_state(w) for w in (made, made.shown, *made.controls.values())]
    assert "base64" not in str(stored)
    assert repr(made) == "Live(arms, dimension)"


def test_what_cannot_be_drawn_live_says_why_and_the_next_value_draws_again() -> None:
    made = figures.live(drawn_by, arms=(0, 100), dimension=widgets.IntText(2))
    made.controls["arms"].value = 0
    assert made.shown.value.startswith("arms must be")
    made.controls["arms"].value = 20
    assert alternative_text(made.shown) == "20 arms &lt;in&gt; 2 dimensions"


def test_lead_losses_are_the_distances_of_the_chances_with_a_mark_at_zero() -> None:
    threshold = np.linspace(-1, 1, 5)
    chances = {"one": [-threshold, -3 - threshold], "two": [-threshold, -1 - 2 * threshold]}
    left, right = figures.lead_losses(threshold, chances, promised=2).axes
    lines = {line.get_label(): line.get_ydata() for line in (*left.get_lines(), *right.get_lines())}
    np.testing.assert_allclose(lines["one table"], np.exp(-threshold))
    np.testing.assert_allclose(lines["one"], 3)
    np.testing.assert_allclose(lines["two"], 1 + threshold)
    marks = [line for line in right.get_lines() if list(line.get_xdata()) == [0]]
    assert [float(mark.get_ydata()[0]) for mark in marks] == [3, 1]


def test_rival_errors_shade_the_budgets_that_are_ticked() -> None:
    table = pd.DataFrame({"DP-BAI": [0.3, 0.1], "DP-BAI-Gauss": [0.4, 0.01]}, index=[100, 1000])
    panels = {"early": table, "inside": table, "late": table}
    crossovers = {"early": 5.0, "inside": 300.0, "late": 5000.0}
    picture = figures.rival_errors(panels, crossovers, floor=1e-3)
    spans = [
        axes.patches[0].get_extents().transformed(axes.transData.inverted())
        for axes in picture.axes
    ]
    np.testing.assert_allclose([span.x0 for span in spans], [100, 300, 1000])
    np.testing.assert_allclose([span.x1 for span in spans], 1000)
    for axes in picture.axes:
        for name, column in table.items():
            (line,) = [line for line in axes.get_lines() if line.get_label() == name]
            np.testing.assert_array_equal(line.get_ydata(), column)


def test_design_errors_show_each_error_in_its_own_panel() -> None:
    errors = {"G-optimal": [[1, 3], [1, 2]], "Max-Det": [[1, 3], [2, 4]]}
    for axes, column in zip(figures.design_errors([0.5, 1], errors).axes, (0, 1), strict=True):
        for name, values in errors.items():
            (line,) = [line for line in axes.get_lines() if line.get_label() == name]
            np.testing.assert_array_equal(line.get_ydata(), np.array(values)[:, column])


def test_bad_arguments_are_named(table: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="along must be one of 'budget', 'epsilon'"):
        figures.success_curves(table, along="trials")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="table must have rows with an epsilon"):
        figures.success_curves(table[table["epsilon"].isna()], along="budget")
    with pytest.raises(ValueError, match="vectors must be K x 2"):
        figures.arms_in_the_plane(np.eye(3), dpbai.max_det(np.eye(3)), names=["a", "b"])
    with pytest.raises(ValueError, match="controls must be at least one"):
        figures.live(drawn_by)
    with pytest.raises(ValueError, match="draw has no parameter 'angle'"):
        figures.live(drawn_by, angle=(0, 90))
    with pytest.raises(ValueError, match="arms must be what interact makes a control of"):
        figures.live(drawn_by, arms=object())
    with pytest.raises(ValueError, match="options must be at least two"):
        figures.explorer("arms", {"ten": 10}, drawn_by)
    with pytest.raises(ValueError, match=r"start must be a position of 0\.\.1"):
        figures.explorer("arms", {"ten": 10, "fifty": 50}, drawn_by, start=2)
