"""The shared plots show the data they are given, and a notebook can store them."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.markers import MarkerStyle

import dpbai
from dpbai import figures
from dpbai.figures.canvas import SERIES

POLICIES = {"DP-BAI": dpbai.DPBAI, "OD-LinBAI": dpbai.ODLinBAI}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return dpbai.study(
        POLICIES, dpbai.synthetic(), budgets=[100, 400], epsilons=[0.5, 2], trials=50
    )


def test_a_picture_is_the_same_small_png_each_time_and_leaves_no_figure_open(
    table: pd.DataFrame,
) -> None:
    first, second = (figures.success_curves(table, along="budget") for _ in range(2))
    assert first.png() == first.png() == second.png()
    assert first.png().startswith(b"\x89PNG")
    assert len(first.png()) < 60_000
    assert plt.get_fignums() == []


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

    instance = dpbai.synthetic()
    phase = dpbai.DPBAI(instance.features, budget=400, epsilon=1).phase(1, range(30))
    values = np.linspace(0, 1, 30)
    (axes,) = figures.estimates([phase], [values], instance.means).axes
    points = np.concatenate([c.lines[0].get_ydata() for c in axes.containers])
    np.testing.assert_array_equal(np.sort(points), values)


def test_bad_arguments_are_named(table: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="along must be one of 'budget', 'epsilon'"):
        figures.success_curves(table, along="trials")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="table must have rows with an epsilon"):
        figures.success_curves(table[table["epsilon"].isna()], along="budget")
    with pytest.raises(ValueError, match="vectors must be K x 2"):
        figures.arms_in_the_plane(np.eye(3), dpbai.max_det(np.eye(3)), names=["a", "b"])
