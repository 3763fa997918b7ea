"""The chapters' own pictures show the data they are given, and explorers work without a kernel."""

import re

import drawings
import ipywidgets as widgets
import numpy as np
import pandas as pd
import pytest
from bs4 import BeautifulSoup

import dpbai
from dpbai.field import figures


def test_frames_share_their_axes_and_show_the_frame_before_as_a_ghost() -> None:
    drawn = []

    def draw(top: float) -> drawings.frames.Drawn:
        with figures.canvas() as (picture, axes):
            axes.plot([0, top], [0, top * 1000], label="seen")
        drawn.append(picture)
        return picture, f"up to {top}", f"top {top}"

    drawings.explorer("top", {"1": 1.0, "5": 5.0, "3": 3.0}, draw)
    axes = [picture.axes[0] for picture in drawn]
    assert len({(ax.get_xlim(), ax.get_ylim(), ax.get_position().bounds) for ax in axes}) == 1
    assert axes[0].get_xlim()[1] > 5
    ghosts = [[line for line in ax.get_lines() if line.get_label() == "_ghost"] for ax in axes]
    assert [len(lines) for lines in ghosts] == [0, 1, 1]
    assert list(ghosts[2][0].get_xdata()) == [0, 5]


def crossed(picture: figures.Picture) -> list[tuple[str, str]]:
    """Return the names of lines in a picture, each with that of a line that goes through it."""
    found = []
    for axes in picture.axes:
        for line in axes.get_lines():
            path = line.get_transform().transform_path(line.get_path())
            through = path.intersects_bbox
            found += [
                (text.get_text(), str(line.get_label()))
                for text in axes.texts
                if text.get_text() and through(text.get_window_extent(), filled=False)
            ]
    return found


def test_a_name_that_would_cross_lines_beside_its_own_stands_at_a_corner_of_it() -> None:
    losses = pd.DataFrame(
        {
            "DP-BAI": [0.595, 0.712, 0.777, 0.846, 0.913, 0.953],
            "scale too small by root 2": [0.879, 1.068, 1.157, 1.245, 1.323, 1.366],
            "scale halved": [1.307, 1.595, 1.712, 1.818, 1.905, 1.951],
            "DP-OD as printed": [1.189, 1.366, 1.403, 1.414, 1.414, 1.414],
        },
        index=[1, 2, 3, 5, 10, 20],
    )
    panels = {"one": losses, "other": losses[["DP-BAI"]]}
    assert crossed(drawings.privacy_losses(panels, stated=1.0)) == []


def test_frames_name_their_lines_within_the_limits_that_all_frames_share() -> None:
    drawn = []

    def draw(arms: int) -> drawings.frames.Drawn:
        pair = {c: dpbai.Schedule(arms, 16, 10**9, c) for c in ("printed", "proof")}
        drawn.append(drawings.sizes(pair))
        return drawn[-1], f"{arms} arms", "sizes"

    shown = drawings.explorer("arms", {str(K): K for K in (20, 1000, 100_000)}, draw)
    assert [crossed(picture) for picture in drawn] == [[], [], []]
    assert "Faint grey" in shown._repr_html_()


def test_sizes_and_estimates_show_what_they_are_given() -> None:
    schedule = dpbai.Schedule(10_000, 16, 10**6)
    (axes,) = drawings.sizes({"printed": schedule}).axes
    shown = axes.get_lines()[-1]
    assert tuple(shown.get_ydata()) == schedule.sizes


def test_a_funnel_shows_every_estimate_and_joins_those_of_survivors() -> None:
    policy = dpbai.DPBAI(np.eye(4), budget=100, epsilon=1)
    phases = [policy.phase(1, range(4)), policy.phase(2, (1, 2))]
    assert phases[0].keep == 2
    values = [[0.1, 0.5, 0.4, 0.2], [0.45, 0.55]]
    (axes,) = drawings.funnel(phases, values, 2, best=2).axes
    marked = [line for line in axes.get_lines() if line.get_linestyle() == "None"]
    assert sorted(y for line in marked for y in line.get_ydata()) == sorted(values[0] + values[1])
    told = {text.get_text() for text in axes.texts}
    assert {"4", "2", "$\\bullet$ kept", "arm 2", "2nd", "1st"} <= told
    joined = {tuple(line.get_ydata()) for line in axes.get_lines() if line.get_zorder() == 1.5}
    assert joined == {(0.5, 0.45), (0.4, 0.55)}


def drawn_by(arms: int, dimension: int = 2) -> drawings.frames.Drawn:
    """Picture of a schedule, what it was asked for, and how many phases there are."""
    schedule = dpbai.Schedule(arms, dimension, 10**6)
    alt = f"{arms} arms <in> {dimension} dimensions"
    return drawings.sizes({"printed": schedule}), alt, f"{schedule.M} phases"


def image(shown: widgets.HTML) -> tuple[str, str]:
    """Return what is told before an image, and its alternative text."""
    (found,) = re.findall(
        r'^(.*)<img alt="([^"]*)"[^>]* src="data:image/svg\+xml;base64,[\w+/=]+">$', shown.value
    )
    return found


def test_an_explorer_has_a_described_frame_for_each_option_and_shows_the_first() -> None:
    page = BeautifulSoup(
        drawings.explorer("arms", {"ten": 10, "fifty": 50}, drawn_by, start=1)._repr_html_(),
        "html.parser",
    )
    told = [f"{name}: {drawn_by(arms)[2]}" for name, arms in (("ten", 10), ("fifty", 50))]
    frames = page.select(".explorer img")
    assert [frame["alt"] for frame in frames] == [drawn_by(arms)[1] for arms in (10, 50)]
    assert [frame["data-told"] for frame in frames] == told
    assert [frame.has_attr("hidden") for frame in frames] == [True, False]
    assert all(int(frame["width"]) > int(frame["height"]) > 100 for frame in frames)
    assert page.output.text == told[1]
    slider = page.select_one("label input[type=range]")
    assert (slider["max"], slider["value"], slider["aria-valuetext"]) == ("1", "1", told[1])
    chooser = drawings.explorer("arms", {"a": 9, "b": 50}, drawn_by, control="dropdown")
    options = BeautifulSoup(chooser._repr_html_(), "html.parser").select("select option")
    assert [option["value"] for option in options if option.has_attr("selected")] == ["0"]


def test_an_explorer_of_runs_shows_the_first_of_each_option_and_a_button_the_next() -> None:
    def draw(arms: int, run: int) -> drawings.frames.Drawn:
        picture, *_ = drawn_by(arms)
        return picture, f"run {run} of {arms}", f"run {run}"

    shown = drawings.explorer("arms", {"ten": 10, "fifty": 50}, draw, start=1, runs=3)
    page = BeautifulSoup(shown._repr_html_(), "html.parser")
    frames = page.select(".explorer[data-runs='3'][data-run='0'] img")
    assert [frame["alt"] for frame in frames if not frame.has_attr("hidden")] == ["run 0 of 50"]
    assert [frame["data-told"] for frame in frames] == [
        f"{name}: run {run}" for name in ("ten", "fifty") for run in range(3)
    ]
    assert page.button.text == "Another run"
    assert page.output.text == "fifty: run 0"


def test_moving_a_live_control_draws_the_explorers_picture_for_its_new_value() -> None:
    made = drawings.live(drawn_by, arms=(3, 100), dimension=(1, 9))
    assert made.controls["dimension"].value == 2, "a control starts at the parameter's default"
    made.controls["arms"].value = 50
    assert image(made.shown) == (f"{drawn_by(50)[2]}<br>", "50 arms &lt;in&gt; 2 dimensions")
    made.controls["dimension"].value = 4
    assert image(made.shown)[1] == "50 arms &lt;in&gt; 4 dimensions"


def test_a_live_figure_stores_no_picture_before_a_control_is_moved() -> None:
    made = drawings.live(drawn_by, arms=(3, 100), dimension=(1, 9))
    stored = [widgets.Widget.get_state(w) for w in (made, made.shown, *made.controls.values())]
    assert "base64" not in str(stored)
    assert repr(made) == "Live(arms, dimension)"


def test_what_cannot_be_drawn_live_says_why_and_the_next_value_draws_again() -> None:
    made = drawings.live(drawn_by, arms=(0, 100), dimension=widgets.IntText(2))
    made.controls["arms"].value = 0
    assert made.shown.value.startswith("arms must be")
    made.controls["arms"].value = 20
    assert image(made.shown)[1] == "20 arms &lt;in&gt; 2 dimensions"


def test_lead_losses_are_the_distances_of_the_chances_with_a_mark_at_zero() -> None:
    threshold = np.linspace(-1, 1, 5)
    chances = {"one": [-threshold, -3 - threshold], "two": [-threshold, -1 - 2 * threshold]}
    left, right = drawings.lead_losses(threshold, chances, stated=2).axes
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
    picture = drawings.rival_errors(panels, crossovers, floor=1e-3)
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
    for axes, column in zip(drawings.design_errors([0.5, 1], errors).axes, (0, 1), strict=True):
        for name, values in errors.items():
            (line,) = [line for line in axes.get_lines() if line.get_label() == name]
            np.testing.assert_array_equal(line.get_ydata(), np.array(values)[:, column])


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="vectors must be K x 2"):
        drawings.arms_in_the_plane(np.eye(3), dpbai.max_det(np.eye(3)), names=["a", "b"])
    with pytest.raises(ValueError, match="controls must be at least one"):
        drawings.live(drawn_by)
    with pytest.raises(ValueError, match="draw has no parameter 'angle'"):
        drawings.live(drawn_by, angle=(0, 90))
    with pytest.raises(ValueError, match="arms must be what interact makes a control of"):
        drawings.live(drawn_by, arms=object())
    with pytest.raises(ValueError, match="options must be at least two"):
        drawings.explorer("arms", {"ten": 10}, drawn_by)
    with pytest.raises(ValueError, match=r"start must be a position of 0\.\.1"):
        drawings.explorer("arms", {"ten": 10, "fifty": 50}, drawn_by, start=2)
    with pytest.raises(ValueError, match="runs must be at least 1, got 0"):
        drawings.explorer("arms", {"ten": 10, "fifty": 50}, drawn_by, runs=0)


def test_pictures_of_ideas_say_the_numbers_that_they_are_drawn_from() -> None:
    schedule = dpbai.Schedule(10_000, 16, 10**6)
    told = {text.get_text() for text in drawings.bars_of(schedule).axes[0].texts}
    assert {"10,000", "423", "77", "÷ 23.6", "÷ 2", "fast", "halve", "returned"} <= told
    (axes,) = drawings.turned_arm(45).axes
    assert "L1 norm 1.41:\nloss 1.41 ε" in {text.get_text() for text in axes.texts}
    totals = {}
    for reused in ("nothing", "rewards", "releases"):
        (axes,) = drawings.releases([290] * 5, 0.5, reused=reused).axes
        totals[reused] = [text.get_text() for text in axes.texts].count("loss 0.5")
    assert totals == {"nothing": 1, "rewards": 4, "releases": 1}


def test_an_ellipse_is_two_deviations_wide_to_each_side_along_the_axes_of_its_covariance() -> None:
    spread = {"DP-BAI": np.array([[0.01, 0.006], [0.006, 0.01]])}
    (axes,) = drawings.deciding_plane([0.5, 0.4], spread, {"DP-BAI": 0.25}).axes
    (ellipse,) = (patch for patch in axes.patches if hasattr(patch, "get_angle"))
    assert ellipse.get_center() == (0.5, 0.4)
    assert ellipse.get_angle() % 180 == pytest.approx(45)
    assert (ellipse.width, ellipse.height) == pytest.approx((4 * 0.016**0.5, 4 * 0.004**0.5))
    assert "DP-BAI\n25.0% outside" in {text.get_text() for text in axes.texts}


def test_an_explorer_with_a_second_control_has_a_frame_for_each_pair_of_options() -> None:
    shown = drawings.explorer(
        "arms",
        {"ten": 10, "fifty": 50},
        drawn_by,
        start=1,
        second=("dimension", {"2": 2, "4": 4, "8": 8}),
    )
    page = BeautifulSoup(shown._repr_html_(), "html.parser")
    frames = page.select(".explorer[data-runs='3'][data-run='0'] img")
    pairs = [(arms, d) for arms in (10, 50) for d in (2, 4, 8)]
    assert [frame["alt"] for frame in frames] == [drawn_by(*pair)[1] for pair in pairs]
    assert [frame["alt"] for frame in frames if not frame.has_attr("hidden")] == [
        drawn_by(50, 2)[1]
    ]
    assert [option.text for option in page.select("label select option")] == ["2", "4", "8"]


def test_timelines_have_a_square_for_each_pull_and_one_for_the_answer() -> None:
    rows = {"policy": (1, 0, 1, 0), "stopped": (1, 0, 2, 2)}
    (axes,) = drawings.timelines(rows, stopped=2, cut="here").axes
    assert len(axes.patches) == 8
    (line,) = axes.get_lines()
    right = max(patch.get_x() + patch.get_width() for patch in axes.patches if patch.get_x() < 2)
    left = min(patch.get_x() for patch in axes.patches if patch.get_x() >= 2)
    assert right < line.get_xdata()[0] < left
    assert [text.get_text() for text in axes.texts].count("here") == 1


def test_reads_are_in_the_columns_of_their_pulls_and_of_their_times() -> None:
    path = [1, 2, 1, 1, 2]
    by_pulls, by_time = drawings.paths_of_reads(path, 2).axes
    for axes, columns in ((by_pulls, [1, 1, 2, 3, 2]), (by_time, [1, 2, 3, 4, 5])):
        line = axes.get_lines()[0]
        assert [x + 1 for x in line.get_xdata()] == columns
        assert [y + 1 for y in line.get_ydata()] == path


def test_a_guess_grows_in_odds_by_e_to_the_epsilon() -> None:
    epsilons = np.array([0.1, 1.0])
    (axes,) = drawings.guesses(epsilons, (0.5, 0.1), marked=(1,)).axes
    for sure, line in zip((0.5, 0.1), axes.get_lines(), strict=False):
        after = line.get_ydata()
        np.testing.assert_allclose(after / (1 - after), np.exp(epsilons) * sure / (1 - sure))


def test_the_last_bar_of_a_waterfall_is_the_product_of_the_others() -> None:
    table = pd.DataFrame({"case": {"one": 4.0, "two": 2.5}})
    (axes,) = drawings.bound_losses(table).axes
    ends = [patch.get_x() + patch.get_width() for patch in axes.patches]
    assert ends == pytest.approx([4, 10, 10])
