"""Pictures of the chapter on the problem: reward tables and their neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from dpbai.field.figures.canvas import BLACK, BLUE, ORANGE, WIDTH, Picture, canvas


def neighbouring_tables(table: ArrayLike, other: ArrayLike, *, read: ArrayLike) -> Picture:
    """Draw two reward tables side by side, the entries that differ framed.

    Parameters
    ----------
    table, other : array_like of shape (K, T)
        Rewards in [0, 1].
    read : array_like of bool, shape (K, T)
        Which entries a run reads; the others are greyed.

    Returns
    -------
    Picture

    Raises
    ------
    ValueError
        If the three do not have the same shape.
    """
    first, second, seen = np.asarray(table), np.asarray(other), np.asarray(read)
    if not first.shape == second.shape == seen.shape:
        raise ValueError("table, other and read must have the same shape")
    with canvas(1, 2, size=(WIDTH, 0.9 + 0.45 * first.shape[0])) as (figure, panels):
        for panel, values, title in zip(
            panels, (first, second), (r"$\mathbf{x}$", r"$\mathbf{x}'$"), strict=True
        ):
            _table(panel, values, first != second, seen)
            panel.set_title(title)
    return figure


def _table(panel: Axes, values: np.ndarray, changed: np.ndarray, read: np.ndarray) -> None:
    """Draw one table, arms from top to bottom and indices from left to right."""
    arms, indices = values.shape
    panel.imshow(np.where(read, 0.0, 0.12), cmap="Greys", vmin=0, vmax=1, aspect="auto")
    for arm in range(arms):
        for index in range(indices):
            panel.text(index, arm, f"{values[arm, index]:g}", ha="center", va="center", color=BLACK)
            if changed[arm, index]:
                corner = (index - 0.46, arm - 0.46)
                panel.add_patch(Rectangle(corner, 0.92, 0.92, fill=False, ec=ORANGE, lw=2.5))
    panel.set_xticks(range(indices), [str(index + 1) for index in range(indices)])
    panel.set_yticks(range(arms), [f"arm {arm}" for arm in range(arms)])
    panel.set_xlabel("pull of the arm")
    panel.grid(visible=False)


def paths_of_reads(path: Sequence[int], arms: int) -> Picture:
    """Draw in which order a run reads the entries of a table, by pulls and by time.

    Parameters
    ----------
    path : sequence of int
        The arms pulled, counted from 1.
    arms : int
        K.

    Returns
    -------
    Picture
        Left, the n-th pull of an arm reads its n-th entry; right, the pull at time t column t.
    """
    pulls = [path[: time + 1].count(arm) for time, arm in enumerate(path)]
    times = range(1, len(path) + 1)
    with canvas(1, 2, size=(WIDTH, 1.0 + 0.42 * arms), sharey=True) as (figure, panels):
        for panel, read, title, name in zip(
            panels,
            (pulls, list(times)),
            (r"$\pi$: indexed by pulls", r"$D(\pi)$: indexed by time"),
            ("pull of the arm", "time"),
            strict=True,
        ):
            panel.imshow(np.full((arms, len(path)), 0.12), cmap="Greys", vmin=0, vmax=1)
            places = np.array(
                [[column - 1, arm - 1] for column, arm in zip(read, path, strict=True)]
            )
            panel.plot(*places.T, color=BLUE, linewidth=1.5, zorder=2)
            panel.plot(*places.T, "o", color=BLUE, markersize=15, zorder=3)
            for time, (x, y) in zip(times, places, strict=True):
                panel.text(x, y, f"{time}", color="white", ha="center", va="center", zorder=4)
            panel.set_xticks(range(len(path)), [str(column) for column in times])
            panel.set_yticks(range(arms), [f"arm {arm + 1}" for arm in range(arms)])
            panel.set(title=title, xlabel=name)
            panel.grid(visible=False)
    return figure
